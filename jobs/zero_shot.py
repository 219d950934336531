"""Let an image encoder rate pictures by the nearest of five sentences a label -> table `ratings`.

    python -m jobs.zero_shot input=R/embeddings embedder=siglip-i18n-base 'targets=[Japan,Brazil]' out=R/ratings/siglip

The baseline of CAIRE, section 5.1. `input` is a table of embeddings that the same encoder made (another one's is
refused), or of images, which are then encoded on the way.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from omegaconf import MISSING

from actors.errors import first_line
from actors.ids import content_id
from jobs.corpora.embeddings import Made, check_alike, made_by
from jobs.errors import InputError
from jobs.judging import kept_raters, kept_rubric
from jobs.judging.targets import read_targets
from jobs.judging.template_file import read_template
from jobs.models.devices import check_device, check_dtype
from jobs.models.encoder import EmbedderConfig, check_available, encoder_facts, read_pictures
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import Common, plain
from jobs.runtime.exclusions import Exclusions
from jobs.store.reading import TableSource, open_table, read_unit
from jobs.store.run import TablePlan
from jobs.store.writer import UnitTask

if TYPE_CHECKING:
    from actors.zero_shot_rater import ZeroShotTemplate

COLUMNS = ["item_id", "kind", "embedding", "status", "error_kind", "error_message"]


@dataclass
class ZeroShotConfig(Common):
    """Keys of `zero_shot`."""

    input: str = MISSING  # a table of embeddings, or of images
    embedder: EmbedderConfig = field(default_factory=EmbedderConfig)
    template: str = "culture_relevance"  # sentences: a file of conf/zero_shot_template, or a .yaml file of yours
    targets: Any = None  # labels: a file with one a line, [a,b], or a list of conf/labels


def execute(cfg: ZeroShotConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    from actors.embedder import PictureDecoder
    from actors.zero_shot_rater import ZeroShotRater, ZeroShotTemplate, check_targets

    targets = list(read_targets(cfg.targets) or ())
    sentences = read_template(cfg.template)
    try:
        template = ZeroShotTemplate.from_dict(sentences)
        check_targets(targets)
    except ValueError as error:
        raise InputError(f"zero_shot: {first_line(error)}") from error
    check_device(cfg, "embedder.device", cfg.embedder.device)
    check_dtype("embedder.dtype", cfg.embedder.dtype)
    facts = encoder_facts(cfg.embedder)
    if not cfg.plan:
        check_available(cfg.embedder)
    source = open_table(cfg.input, "embeddings", "images")
    if source.name == "embeddings":
        here = Made(facts.encoder, facts.preprocessing, facts.dim)
        check_alike((source.uri, made_by(source)), (f"embedder={cfg.embedder.name}", here))
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = _plan(cfg, template, sentences, targets=targets, source=source, excluded=excluded)
    from_images = source.name == "images"
    pools = ["decode", "embed"] if from_images else ["embed"]
    note = f"rates {source.rows * len(targets):,} ({source.rows:,} x {len(targets)})"
    run = lifecycle.begin("zero_shot", cfg, plan, pools=pools, note=note)
    if run is None:
        return None
    from jobs.runtime import stages

    model = {"model": cfg.embedder.checkpoint, "pretrained": cfg.embedder.pretrained}
    rate = {
        **model,
        "template": sentences,
        "targets": targets,
        "device": cfg.embedder.device,
        "dtype": cfg.embedder.dtype,
        "batch_size": cfg.resources.embed.batch_size,
        "threads": cfg.resources.embed.threads,
    }
    chain = [stages.Stage("decode", PictureDecoder, model)] if from_images else []
    chain.append(stages.Stage("embed", ZeroShotRater, rate, rows_out=len(targets)))
    read, item = (read_pictures, "image_id") if from_images else (vectors, "item_id")
    stages.stream(
        run,
        name="zero_shot",
        read=stages.Read(read, item=item, output_item="item_id", excluded=exclusions.keep(run, excluded)),
        stages=chain,
        resources=cfg.resources,
    )
    manifest = lifecycle.end("zero_shot", run, excluded)
    asked = {"rater": facts.encoder, "kind": "encoder", "dtype": cfg.embedder.dtype}
    kept_raters.keep(run, [asked | {"model": cfg.embedder.checkpoint, "revision": cfg.embedder.pretrained}])
    return manifest


def _plan(
    cfg: ZeroShotConfig,
    template: "ZeroShotTemplate",
    sentences: Mapping[str, Any],
    *,
    targets: list[str],
    source: TableSource,
    excluded: Exclusions,
) -> TablePlan:
    facts = encoder_facts(cfg.embedder)
    levels = [(level.value, level.phrase, level.score) for level in template.levels]
    kept = kept_rubric.of_levels(template.name, template.question, template.sentence, levels, sentences)
    return TablePlan(
        out=cfg.out,
        table="ratings",
        identity={
            "encoder": facts.encoder,
            "preprocessing": facts.preprocessing,
            "dtype": cfg.embedder.dtype,
            "template": {"name": template.name, "hash": content_id(repr(template))},
            "targets": content_id(*targets),
            "input": source.identity,
            **exclusions.identity(excluded),
        },
        units=source.units(),
        config=plain(cfg),
        metadata={**kept.metadata, "rater": facts.encoder},
        derived=True,
        models={cfg.embedder.name: facts.encoder},
        files=kept.files,
    )


def vectors(task: UnitTask) -> pa.Table:
    """A unit's vectors of pictures.

    Raises:
        InputError: vectors of texts, which say nothing about a picture.
    """
    uri = task.unit.inputs[0].uri
    rows = read_unit(uri, columns=COLUMNS)
    if not pc.all(pc.equal(rows["kind"], "image"), min_count=0).as_py():
        raise InputError(f"{uri}: embeddings of texts cannot be rated; input= needs those of pictures")
    return rows


JOB = cli.Job("zero_shot", ZeroShotConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("zero_shot"))
