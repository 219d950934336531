"""Let an image encoder rate pictures by the nearest of five sentences a label -> table `ratings`.

    python -m jobs.probe input=R/embeddings embedder=siglip-i18n-base 'targets=[Japan,Brazil]' out=R/ratings/siglip

The baseline of CAIRE, section 5.1. `input` is a table of embeddings that the same encoder made (another one's is
refused), or of images, which are then encoded on the way.
"""

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.ids import content_id
from jobs import cli, exclusions, running
from jobs.config import Common, plain
from jobs.corpora.embeddings import Made, check_alike, made_by
from jobs.devices import check_device, check_dtype
from jobs.embed import EmbedderConfig, check_available, known, read_pictures
from jobs.errors import InputError
from jobs.store.reading import TableSource, open_table, read_unit
from jobs.store.run import Plan
from jobs.store.writer import Task
from jobs.targets import read_targets

if TYPE_CHECKING:
    from actors.encoder_rater import Probe

COLUMNS = ["item_id", "kind", "embedding", "status", "error_kind", "error_message"]


@dataclass
class ProbeConfig(Common):
    """Keys of `probe`."""

    input: str = MISSING  # a table of embeddings, or of images
    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    probe: dict[str, Any] = field(default_factory=dict)  # the sentences of each level
    targets: Any = None  # labels: a file with one a line, [a,b], or a list of conf/labels


def execute(cfg: ProbeConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    from actors.embedder import PictureDecoder
    from actors.encoder_rater import EncoderRater, Probe, check_targets

    targets = list(read_targets(cfg.targets) or ())
    try:
        probe = Probe.from_dict(cfg.probe)
        check_targets(targets)
    except ValueError as error:
        raise InputError(f"probe: {str(error).splitlines()[0]}") from error
    check_device(cfg, "embedder.device", cfg.embedder.device)
    check_dtype("embedder.dtype", cfg.embedder.dtype)
    facts = known(cfg.embedder)
    if not cfg.plan:
        check_available(cfg.embedder)
    source = open_table(cfg.input, "embeddings", "images")
    if source.name == "embeddings":
        here = Made(facts.encoder, facts.preprocessing, facts.dim)
        check_alike((source.uri, made_by(source)), (f"embedder={cfg.embedder.name}", here))
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = _plan(cfg, probe, targets, source, excluded)
    from_images = source.name == "images"
    pools = ["decode", "embed"] if from_images else ["embed"]
    note = f"rates {source.rows * len(targets):,} ({source.rows:,} x {len(targets)})"
    run = running.begin("probe", cfg, plan, pools=pools, note=note)
    if run is None:
        return None
    from jobs import flow

    model = {"model": cfg.embedder.model, "pretrained": cfg.embedder.pretrained}
    rate = {
        **model,
        "probe": cfg.probe,
        "targets": targets,
        "device": cfg.embedder.device,
        "dtype": cfg.embedder.dtype,
        "batch_size": cfg.resources.embed.batch_size,
        "threads": cfg.resources.embed.threads,
    }
    stages = [flow.Stage("decode", PictureDecoder, model)] if from_images else []
    stages.append(flow.Stage("embed", EncoderRater, rate, rows_out=len(targets)))
    read, item = (read_pictures, "image_id") if from_images else (vectors, "item_id")
    flow.stream(
        run,
        name="probe",
        read=flow.Read(read, item=item, output_item="item_id", excluded=exclusions.keep(run, excluded)),
        stages=stages,
        resources=cfg.resources,
    )
    return running.end("probe", run)


def _plan(cfg: ProbeConfig, probe: "Probe", targets: list[str], source: TableSource, excluded: frozenset[str]) -> Plan:
    facts = known(cfg.embedder)
    return Plan(
        out=cfg.out,
        table="ratings",
        identity={
            "encoder": facts.encoder,
            "preprocessing": facts.preprocessing,
            "dtype": cfg.embedder.dtype,
            "probe": {"name": probe.name, "hash": content_id(repr(probe))},
            "targets": content_id(*targets),
            "input": source.identity,
            **exclusions.identity(excluded),
        },
        units=source.units(),
        config=plain(cfg),
        metadata={"rubric": probe.name, "rater": facts.encoder},
        derived=True,
        models={cfg.embedder.name: facts.encoder},
    )


def vectors(task: Task) -> pa.Table:
    """A unit's vectors of pictures.

    Raises:
        InputError: vectors of texts, which say nothing about a picture.
    """
    uri = task.unit.inputs[0].uri
    rows = read_unit(uri, columns=COLUMNS)
    if not pc.all(pc.equal(rows["kind"], "image"), min_count=0).as_py():
        raise InputError(f"{uri}: embeddings of texts cannot be rated; input= needs those of pictures")
    return rows


JOB = cli.Job("probe", ProbeConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("probe"))
