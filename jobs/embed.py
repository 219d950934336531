"""Turn pictures or texts into vectors with a dual encoder -> table `embeddings`.

    python -m jobs.embed input=R/images embedder=siglip-i18n-base out=R/embeddings
    python -m jobs.embed input=R/prompts embedder=siglip-i18n-base out=R/prompt-embeddings

Pictures: a CPU pool decodes and resizes to the model's input, a second pool (on GPUs where resources say so)
encodes. Texts: cleaned, cut and padded as the model was trained. L2-normalised float16; encoder and preprocessing
stand in the table's metadata. A picture without bytes, or an empty text, keeps its row with its status and no vector.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from omegaconf import MISSING

from jobs import cli, exclusions, running
from jobs.config import Common, plain
from jobs.devices import check_device, check_dtype
from jobs.errors import InputError
from jobs.store.reading import open_table, read_unit
from jobs.store.run import Plan
from jobs.store.writer import Task

if TYPE_CHECKING:
    from actors.encoders import EncoderFacts

PICTURE_COLUMNS = ["image_id", "bytes", "status", "error_kind", "error_message"]
TEXT_COLUMNS = ["text_id", "text"]


@dataclass
class EmbedderConfig:
    """Which model; `conf/embedder/` has named ones."""

    name: str = MISSING  # what people call it
    model: str = MISSING  # open_clip name, hf-hub:org/name, local-dir:FOLDER, local:NAME or transformers:org/name
    pretrained: str | None = None  # of an open_clip name: a tag or a .safetensors file; of transformers: a revision
    device: str = "auto"  # auto: a GPU if there is one; else cpu, cuda, cuda:1
    dtype: str = "auto"  # bfloat16 on a GPU, float32 on a CPU (bfloat16 pays on CPUs that have avx512_bf16)


@dataclass
class EmbedConfig(Common):
    """Keys of `embed`."""

    input: str = MISSING  # a table of images, or of texts
    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)


def execute(cfg: EmbedConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    from actors.embedder import Embedder, PictureDecoder, TextEmbedder

    check_device(cfg, "embedder.device", cfg.embedder.device)
    check_dtype("embedder.dtype", cfg.embedder.dtype)
    source = open_table(cfg.input, "images", "texts")
    texts = source.name == "texts"
    pools = ["embed"] if texts else ["decode", "embed"]
    excluded = exclusions.read_exclusions(cfg.exclusions)
    facts = known(cfg.embedder)
    if texts and not facts.texts:
        raise InputError(
            f"embedder.model={cfg.embedder.model}: has no text tower, and {source.uri} is a table of texts"
        )
    if not cfg.plan:
        check_available(cfg.embedder)
    plan = Plan(
        out=cfg.out,
        table="embeddings",
        identity={
            "encoder": facts.encoder,
            "preprocessing": facts.preprocessing,
            "dtype": cfg.embedder.dtype,
            "input": source.identity,
            **exclusions.identity(excluded),
        },
        units=source.units(),
        config=plain(cfg),
        metadata={
            "encoder": facts.encoder,
            "preprocessing": facts.preprocessing,
            **({} if cfg.plan else _scalars(cfg.embedder)),
        },
        derived=True,
        dim=facts.dim,
        models={cfg.embedder.name: facts.encoder},
    )
    run = running.begin("embed", cfg, plan, pools=pools, note=f"{facts.dim} dimensions")
    if run is None:
        return None
    from jobs import flow

    model = {"model": cfg.embedder.model, "pretrained": cfg.embedder.pretrained}
    encode = {
        **model,
        "device": cfg.embedder.device,
        "dtype": cfg.embedder.dtype,
        "batch_size": cfg.resources.embed.batch_size,
        "threads": cfg.resources.embed.threads,
    }
    read = flow.Read(
        read_texts if texts else read_pictures,
        item="text_id" if texts else "image_id",
        output_item="item_id",
        excluded=exclusions.keep(run, excluded),
    )
    encoding = flow.Stage("embed", TextEmbedder if texts else Embedder, encode)
    stages = [encoding] if texts else [flow.Stage("decode", PictureDecoder, model), encoding]
    flow.stream(run, name="embed", read=read, stages=stages, resources=cfg.resources)
    return running.end("embed", run)


def known(cfg: EmbedderConfig) -> "EncoderFacts":
    """What identifies the vectors of an encoder, from its config alone.

    Raises:
        InputError: there is no such model, or its preprocessing is not known.
    """
    from actors.encoders import encoder_facts

    with _named(cfg):
        return encoder_facts(cfg.model, pretrained=cfg.pretrained)


def check_available(cfg: EmbedderConfig) -> None:
    """See, without a download, that the weights can be had. Raises InputError."""
    from actors.encoders import check_weights

    with _named(cfg):
        check_weights(cfg.model, pretrained=cfg.pretrained)


def _scalars(cfg: EmbedderConfig) -> dict[str, str]:
    """SigLIP's scale and bias for the table's metadata, from which `retrieve` gives probabilities."""
    from actors.calibration import logit_scalars

    with _named(cfg):
        found = logit_scalars(cfg.model, pretrained=cfg.pretrained)
    return {f"logit_{name}": repr(value) for name, value in found._asdict().items()} if found else {}


@contextmanager
def _named(cfg: EmbedderConfig) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError) as error:
        raise InputError(f"embedder.model={cfg.model}: {str(error).splitlines()[0]}") from error


def read_pictures(task: Task) -> pa.Table:
    """A unit's pictures as the decoder takes them."""
    return read_unit(task.unit.inputs[0].uri, columns=PICTURE_COLUMNS)


def read_texts(task: Task) -> pa.Table:
    """A unit's texts as the encoder takes them."""
    return read_unit(task.unit.inputs[0].uri, columns=TEXT_COLUMNS)


JOB = cli.Job("embed", EmbedConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("embed"))
