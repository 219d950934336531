"""What the jobs that ask a vision-language model share: the keys for the model and the items, and their checks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from jobs.runtime.config import Common


@dataclass
class ModelConfig:
    """Which model judges; `conf/model/` has named ones."""

    name: str = MISSING
    checkpoint: str = MISSING  # hub name, folder or local:NAME
    revision: str | None = None  # of the hub's repository: a branch, tag or commit
    dtype: str = "auto"  # auto: bfloat16 on a GPU, float32 on a CPU; or float32, bfloat16, float16
    device_map: str = "auto"  # accelerate's: auto spreads a model that is larger than one GPU
    # GB that an actor needs with the weights loaded in 16-bit numbers (float32: twice); plan=true compares it
    memory_gb: float | None = None
    licence: str | None = None  # of the weights; shown by plan=true and on the report's page, not checked
    max_pixels: int | None = 1_003_520  # width x height of a picture as the model sees it; null: the model's own bound
    min_pixels: int | None = None  # smaller pictures are enlarged to it; null: as the model's processor does

    @property
    def identity(self) -> dict[str, Any]:
        """What a run's identity says of the model."""
        return {"model": self.checkpoint, "revision": self.revision, "dtype": self.dtype, **self.pixels}

    @property
    def pixels(self) -> dict[str, int | None]:
        """What an actor needs that shows it pictures."""
        return {"max_pixels": self.max_pixels, "min_pixels": self.min_pixels}

    @property
    def processor(self) -> dict[str, Any]:
        """What an actor needs that loads no weights."""
        return {"model": self.checkpoint, "revision": self.revision}

    @property
    def weights(self) -> dict[str, Any]:
        """What an actor needs that loads the model."""
        return {**self.processor, "dtype": self.dtype, "device_map": self.device_map}

    @property
    def rater(self) -> str:
        """The model's name in the tables."""
        from actors.vlm.loading import rater_name

        return rater_name(self.checkpoint, revision=self.revision)


@dataclass
class AskingConfig(Common):
    """Keys of every job that asks a model about items."""

    input: str = MISSING  # a table of images, or of items
    images: str | None = None  # beside a table of items: their pictures
    texts: str | None = None  # beside a table of items: their texts
    records: str | None = None  # what is known about pictures, for the prompt's context
    model: ModelConfig = field(default_factory=ModelConfig)
    max_context_tokens: int = 8192  # a longer context is cut and its rows are truncated


def check(cfg: AskingConfig, *, empty_context: str = "answer", shows: str = "") -> bool | None:
    """Refuse a model that cannot be had or loaded, and context options that mean nothing.

    Args:
        shows: what shows it pictures ("prompt 'explicit'"), if anything does; a model that sees none is then refused.

    Returns:
        whether the model sees pictures; None with plan=true, where it is not looked for.

    Raises:
        ValueError: what is wrong, in a sentence.
    """
    from actors.vlm import context
    from actors.vlm.loading import check_dtype, check_vlm

    context.check_options(cfg.max_context_tokens, empty_context)
    check_dtype(cfg.model.dtype)
    check_bounds(cfg.model)
    if cfg.plan:
        return None
    sees = check_vlm(cfg.model.checkpoint, revision=cfg.model.revision)
    if shows and not sees:
        raise ValueError(
            f"model {cfg.model.checkpoint!r} takes no pictures and {shows} shows one; "
            "name a vision-language model, or a prompt whose order has no `picture`"
        )
    return sees


def check_bounds(model: ModelConfig) -> None:
    """Refuse bounds of a picture's pixels that mean nothing.

    Raises:
        ValueError: naming the key.
    """
    from actors.vlm.picture_size import PixelBounds

    try:
        PixelBounds(**model.pixels)
    except ValueError as error:
        raise ValueError(f"model.{error}") from None


def check_positive(cfg: Any, keys: Sequence[str]) -> None:
    """Refuse numbers of 0 or less; null stands for what is reckoned.

    Raises:
        ValueError: naming the key.
    """
    for key in keys:
        if (value := getattr(cfg, key)) is not None and not value > 0:
            raise ValueError(f"{key}={value:g}: more than 0")
