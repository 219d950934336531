"""The encoder of a job: its configuration, what identifies its vectors, and checks before a run."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omegaconf import MISSING

from actors.encoders.settings import EncoderSettings
from actors.errors import first_line
from jobs.errors import InputError
from jobs.models.devices import check_device, check_dtype
from jobs.runtime.configuration.config import Common

if TYPE_CHECKING:
    from actors.encoders.facts import EncoderFacts


@dataclass
class EmbedderConfig(EncoderSettings):
    """The encoder; `conf/embedder/` has named encoders."""

    name: str = MISSING  # display name


def check_placement(cfg: Common, embedder: EmbedderConfig) -> None:
    """Check device and dtype of the encoder of the job's configuration `cfg`.

    Raises:
        InputError: the device does not exist, or the dtype is unknown.
    """
    check_device(cfg, embedder.device, prefix="embedder.")
    check_dtype(embedder.dtype, prefix="embedder.")


def encoder_facts(cfg: EmbedderConfig) -> "EncoderFacts":
    """Return what identifies an encoder's vectors, from its configuration alone.

    Raises:
        InputError: the model does not exist, or its preprocessing is unknown.
    """
    from actors.encoders import facts

    with _naming_checkpoint(cfg):
        return facts.encoder_facts(cfg.checkpoint, pretrained=cfg.pretrained)


def check_available(cfg: EmbedderConfig) -> None:
    """Check, without downloading them, that the weights are available.

    Raises:
        InputError: the weights are not available.
    """
    from actors.encoders.facts import check_weights

    with _naming_checkpoint(cfg):
        check_weights(cfg.checkpoint, pretrained=cfg.pretrained)


def logit_scalars(cfg: EmbedderConfig) -> dict[str, str]:
    """Return SigLIP's scale and bias for a table's metadata, from which `retrieve` computes probabilities.

    Returns:
        `logit_scale` and `logit_bias`; empty for an encoder without them.
    """
    from actors.encoders import calibration

    with _naming_checkpoint(cfg):
        scalars = calibration.logit_scalars(cfg.checkpoint, pretrained=cfg.pretrained)
    return {f"logit_{name}": repr(value) for name, value in scalars._asdict().items()} if scalars else {}


@contextmanager
def _naming_checkpoint(cfg: EmbedderConfig) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        text = first_line(error)
        key = "" if text.startswith("pretrained=") else "checkpoint="
        place = f"{cfg.checkpoint}: " if key and not text.startswith(cfg.checkpoint) else ""
        raise InputError(f"embedder.{key}{place}{text}") from error
