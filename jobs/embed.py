"""Turn pictures into vectors with open_clip -> table `embeddings`.

    python -m jobs.embed input=R/images embedder=siglip-i18n-base out=R/embeddings

A CPU pool decodes and resizes to the model's input, a second pool (on GPUs where resources say so) encodes.
L2-normalised float16; encoder and preprocessing stand in the table's metadata. A picture without bytes keeps
its row with its status and no vector.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from omegaconf import MISSING

from jobs import cli, exclusions, screen
from jobs.config import Common, plain
from jobs.errors import InputError
from jobs.store.reading import open_table, read_unit
from jobs.store.run import Plan, open_run
from jobs.store.writer import Task

COLUMNS = ["image_id", "bytes", "status", "error_kind", "error_message"]


@dataclass
class EmbedderConfig:
    """Which model; `conf/embedder/` has named ones."""

    name: str = MISSING
    model: str = MISSING  # open_clip name, hf-hub:org/name, local-dir:FOLDER or local:NAME
    pretrained: str | None = None  # open_clip's tag of the weights, for a name
    device: str = "auto"
    dtype: str = "auto"  # bfloat16 on a GPU, float32 on a CPU


@dataclass
class EmbedConfig(Common):
    """Keys of `embed`."""

    input: str = MISSING
    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)


def execute(cfg: EmbedConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    from actors.embedder import Embedder, PictureDecoder
    from actors.encoders import check_weights, encoder_facts

    source = open_table(cfg.input, "images")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    try:
        facts = encoder_facts(cfg.embedder.model, pretrained=cfg.embedder.pretrained)
        if not cfg.plan:
            check_weights(cfg.embedder.model, pretrained=cfg.embedder.pretrained)
    except (ValueError, OSError) as error:
        raise InputError(f"embedder.model={cfg.embedder.model}: {str(error).splitlines()[0]}") from error
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
        metadata={"encoder": facts.encoder, "preprocessing": facts.preprocessing},
        derived=True,
        dim=facts.dim,
        models={cfg.embedder.name: facts.encoder},
    )
    if cfg.plan:
        screen.show_plan("embed", plan, cfg.resources, ["decode", "embed"], note=f"{facts.dim} dimensions")
        return None
    from jobs import flow, session

    session.start(cfg.ray, cfg.resources)
    flow.check(cfg.resources, ["decode", "embed"])
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    model = {"model": cfg.embedder.model, "pretrained": cfg.embedder.pretrained}
    encode = {
        **model,
        "device": cfg.embedder.device,
        "dtype": cfg.embedder.dtype,
        "batch_size": cfg.resources.embed.batch_size,
        "threads": cfg.resources.embed.threads,
    }
    flow.stream(
        run,
        name="embed",
        read=flow.Read(pictures, item="image_id", output_item="item_id", excluded=exclusions.keep(run, excluded)),
        stages=[flow.Stage("decode", PictureDecoder, model), flow.Stage("embed", Embedder, encode)],
        resources=cfg.resources,
    )
    manifest = run.finish()
    screen.show_result("embed", manifest, run)
    return manifest


def pictures(task: Task) -> pa.Table:
    """A unit's pictures as the decoder takes them."""
    return read_unit(task.unit.inputs[0].uri, columns=COLUMNS)


JOB = cli.Job("embed", EmbedConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("embed"))
