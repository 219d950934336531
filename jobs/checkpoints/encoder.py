"""The encoder of a job: its configuration, what identifies its vectors, the rows that it takes, and its stages."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.encoders.encoder_sources import EncoderSettings
from actors.errors import ModelError, SettingError, first_line
from jobs.checkpoints.placement import GB, ModelCard, check_device, check_dtype, model_line
from jobs.errors import InputError
from jobs.runtime.configuration.config import Common
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.planning.expected_pace import Passes
from jobs.store.identity import identity_of
from jobs.store.pieces import read_piece
from jobs.store.writer import UnitTask

if TYPE_CHECKING:
    from actors.encoders.encoder_sources import EncoderFacts
    from jobs.runtime.lifecycle import JobRun

SMALLEST_PATCH = 14  # pixels along an edge of what becomes one token
TEXT_TOKENS = 512  # longest text of the encoders of conf/embedder.yaml
_SIZE = re.compile(r"\bsize=(\d+)x(\d+)")
PICTURE_COLUMNS = ["image_id", "source_url", "bytes", "status", "error_kind", "error_message"]
TEXT_COLUMNS = ["text_id", "text"]
VECTOR_COLUMNS = ["item_id", "kind", "embedding", "status", "error_kind", "error_message"]


@dataclass
class EmbedderConfig(ModelCard, EncoderSettings):
    """The encoder; `conf/embedder.yaml` has named encoders."""


def encoder_lines(cfg: Common, embedder: EmbedderConfig, encoder: str) -> list[str]:
    """Return the plan's lines about an encoder, `encoder` in the tables; empty unless plan=true."""
    if not cfg.plan:
        return []
    memory = "not stated (embedder.memory_gb)" if embedder.memory_gb is None else f"{embedder.memory_gb:g} GB"
    return [model_line(embedder, encoder), f"memory {memory} for the weights in 16-bit numbers (float32: twice)"]


def encoder_passes(embedder: EmbedderConfig, facts: "EncoderFacts", *, texts: bool) -> Passes | None:
    """Return the passes per picture or text at most; None if the size is unknown, or for float32."""
    if embedder.memory_gb is None or embedder.dtype == "float32" or (size := _SIZE.search(facts.preprocessing)) is None:
        return None
    parameters = embedder.memory_gb * GB / 2
    tokens = TEXT_TOKENS if texts else int(size[1]) * int(size[2]) / SMALLEST_PATCH**2
    kind = "text" if texts else "picture"
    basis = f"{parameters / 1e9:,.3g} billion parameters (embedder.memory_gb), at most {tokens:,.0f} tokens per {kind}"
    return Passes(parameters, embedder.memory_gb, tokens, 0.0, False, basis)


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
        InputError: the model does not exist, its preprocessing is unknown, or it reads no instruction.
    """
    from actors.encoders import encoder_sources

    with _naming_checkpoint(cfg):
        return encoder_sources.encoder_facts(cfg.checkpoint, pretrained=cfg.pretrained, instruction=cfg.instruction)


def check_reads_texts(cfg: EmbedderConfig, facts: "EncoderFacts", use: str) -> None:
    """Check that an encoder has a tower for texts.

    Args:
        use: what the job needs texts for, as the second half of a sentence.

    Raises:
        InputError: it encodes pictures only.
    """
    if not facts.texts:
        raise InputError(
            f"encodes pictures only, but {use}",
            key=_CHECKPOINT,
            value=cfg.checkpoint,
            remedy="choose another embedder=, such as siglip-i18n-base",
        )


def encoder_identity(cfg: EmbedderConfig, facts: "EncoderFacts") -> dict[str, Any]:
    """Return the part of a table's identity that describes the encoder of its vectors."""
    entries = {"encoder": facts.encoder, "preprocessing": facts.preprocessing}
    unused = [] if cfg.instruction else ["instruction"]
    return identity_of(cfg, entries, instead_of=["checkpoint", "pretrained", *unused])


def check_available(cfg: EmbedderConfig) -> None:
    """Check, without downloading them, that the weights are available.

    Raises:
        InputError: the weights are not available.
    """
    from actors.encoders.encoder_sources import check_weights

    with _naming_checkpoint(cfg):
        check_weights(cfg.checkpoint, pretrained=cfg.pretrained)


def logit_scalars(cfg: EmbedderConfig) -> dict[str, str]:
    """Return SigLIP's scale and bias for a table's metadata, from which `retrieve` computes probabilities.

    Returns:
        `logit_scale` and `logit_bias`; empty for an encoder without them.
    """
    from actors.encoders import encoder_sources

    with _naming_checkpoint(cfg):
        scalars = encoder_sources.logit_scalars(cfg.checkpoint, pretrained=cfg.pretrained)
    return {f"logit_{name}": repr(value) for name, value in scalars._asdict().items()} if scalars else {}


_CHECKPOINT = "embedder.checkpoint"


@contextmanager
def _naming_checkpoint(cfg: EmbedderConfig) -> Iterator[None]:
    try:
        yield
    except SettingError as error:
        raise InputError(error.why, key=f"embedder.{error.key}", value=error.value) from error
    except ModelError as error:
        place = None if error.place == cfg.checkpoint else error.place
        raise InputError(error.why, key=_CHECKPOINT, value=cfg.checkpoint, place=place) from error
    except (ValueError, OSError) as error:
        raise InputError(first_line(error), key=_CHECKPOINT, value=cfg.checkpoint) from error


class EncoderInput(NamedTuple):
    """The way in which the rows of a table are read for an encoder.

    Attributes:
        read: returns the rows of a unit.
        item: the column with the ids of the rows.
        decodes: whether the rows are bytes of pictures, which another stage decodes first.
    """

    read: Callable[[UnitTask], pa.Table]
    item: str
    decodes: bool = False

    @property
    def pools(self) -> list[str]:
        """Return the pools of the stages, in their order."""
        return ["decode", "embed"] if self.decodes else ["embed"]


def read_pictures(task: UnitTask) -> pa.Table:
    """Read the columns of a unit's pictures that the decoder needs."""
    return read_piece(task.unit, PICTURE_COLUMNS)


def read_texts(task: UnitTask) -> pa.Table:
    """Read the columns of a unit's texts that the encoder needs."""
    return read_piece(task.unit, TEXT_COLUMNS)


def read_vectors(task: UnitTask) -> pa.Table:
    """Read a unit's vectors of pictures.

    Raises:
        InputError: some of the vectors are of texts.
    """
    uri = task.unit.inputs[0].uri
    rows = read_piece(task.unit, VECTOR_COLUMNS)
    if not pc.all(pc.equal(rows["kind"], "image"), min_count=0).as_py():
        raise InputError(
            "embeddings of texts, but zero_shot rates pictures; use embeddings of images", key="input", place=uri
        )
    return rows


PICTURES = EncoderInput(read_pictures, "image_id", decodes=True)
TEXTS = EncoderInput(read_texts, "text_id")
VECTORS = EncoderInput(read_vectors, "item_id")


def stream_encoded(
    run: "JobRun",
    embedder: EmbedderConfig,
    rows: EncoderInput,
    actor: type,
    arguments: Mapping[str, Any] | None = None,
    *,
    resources: Resources,
    rows_out: int | Callable[[pa.Table], list[int]] = 1,
) -> None:
    """Pass the rows of the remaining units through an actor that has the encoder; pictures are decoded first.

    Args:
        actor: a class such as `actors.embedder.Embedder`; `arguments` are its arguments besides the encoder's.
        rows_out: the number of output rows per row (`jobs.runtime.stage_contract.Stage.rows_out`).
    """
    from actors.embedder import BATCHES_PER_CALL, PictureDecoder
    from jobs.runtime import stages

    pool = resources.embed
    encoder = {"settings": embedder, "batch_size": pool.batch_size, "threads": pool.threads, **(arguments or {})}
    batches = BATCHES_PER_CALL if pool.num_gpus else 1
    chain = [stages.Stage("embed", actor, encoder, rows_out=rows_out, batches=batches)]
    if rows.decodes:
        chain.insert(0, stages.Stage("decode", PictureDecoder, {"settings": embedder}))
    read = stages.Read(rows.read, item=rows.item, output_item="item_id", excluded=run.excluded)
    stages.stream(run.table, name=run.name, read=read, stages=chain, resources=resources)
