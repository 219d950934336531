"""Turn pictures or texts into vectors with a dual encoder -> table `embeddings`.

    python -m jobs.embed input=R/images embedder=siglip-i18n-base out=R/embeddings
    python -m jobs.embed input=R/prompts embedder=siglip-i18n-base out=R/prompt-embeddings

Pictures: a CPU pool decodes and resizes to the model's input size; a second pool (on GPUs if the resources say so)
encodes. Texts are cleaned, truncated and padded as in training. Vectors are L2-normalised float16; the table's metadata
name the encoder and its preprocessing. A picture without bytes, or an empty text, keeps its row, with a status and no
vector.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from omegaconf import MISSING

from jobs.errors import InputError
from jobs.models.devices import check_device, check_dtype
from jobs.models.encoder import EmbedderConfig, check_available, encoder_facts, logit_scalars, read_pictures
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import Common, plain
from jobs.store.reading import open_table, read_unit
from jobs.store.run import TablePlan
from jobs.store.writer import UnitTask

TEXT_COLUMNS = ["text_id", "text"]


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
    facts = encoder_facts(cfg.embedder)
    if texts and not facts.texts:
        raise InputError(
            f"embedder.checkpoint={cfg.embedder.checkpoint}: has no text tower, and {source.uri} is a table of texts"
        )
    if not cfg.plan:
        check_available(cfg.embedder)
    plan = TablePlan(
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
            **({} if cfg.plan else logit_scalars(cfg.embedder)),
        },
        derived=True,
        dim=facts.dim,
        models={cfg.embedder.name: facts.encoder},
    )
    run = lifecycle.begin("embed", cfg, plan, pools=pools, note=f"{facts.dim} dimensions")
    if run is None:
        return None
    from jobs.runtime import stages

    model = {"model": cfg.embedder.checkpoint, "pretrained": cfg.embedder.pretrained}
    encode = {
        **model,
        "device": cfg.embedder.device,
        "dtype": cfg.embedder.dtype,
        "batch_size": cfg.resources.embed.batch_size,
        "threads": cfg.resources.embed.threads,
    }
    read = stages.Read(
        read_texts if texts else read_pictures,
        item="text_id" if texts else "image_id",
        output_item="item_id",
        excluded=exclusions.keep(run, excluded),
    )
    encoding = stages.Stage("embed", TextEmbedder if texts else Embedder, encode)
    chain = [encoding] if texts else [stages.Stage("decode", PictureDecoder, model), encoding]
    stages.stream(run, name="embed", read=read, stages=chain, resources=cfg.resources)
    return lifecycle.end("embed", run, excluded)


def read_texts(task: UnitTask) -> pa.Table:
    """A unit's texts as the encoder takes them."""
    return read_unit(task.unit.inputs[0].uri, columns=TEXT_COLUMNS)


JOB = cli.Job("embed", EmbedConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("embed"))
