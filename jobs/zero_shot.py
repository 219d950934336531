"""Rate pictures with an image encoder: the nearest of five sentences per label -> table `ratings`.

    python -m jobs.zero_shot input=R/embeddings embedder=siglip-i18n-base 'targets=[Japan,Brazil]' out=R/ratings/siglip

The baseline of CAIRE, section 5.1. `input` is a table of embeddings that the same encoder made (those of another
encoder are refused), or a table of images, which are then encoded first.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omegaconf import MISSING

from actors.conditions import ConditionSettings
from actors.errors import first_line
from actors.ids import content_id
from jobs.corpora.vector_space import VectorSpace, check_same_space, space_of
from jobs.errors import InputError
from jobs.judging import kept_raters, kept_rubric
from jobs.judging.targets import read_targets
from jobs.judging.template_file import read_template
from jobs.models.devices import check_device, check_dtype
from jobs.models.encoder import EmbedderConfig, check_available, encoder_facts
from jobs.models.encoder_inputs import read_pictures, read_vectors
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import Common, plain
from jobs.store.reading import TableSource, open_table
from jobs.store.run import TablePlan, TableRun

if TYPE_CHECKING:
    from actors.encoders.facts import EncoderFacts
    from actors.zero_shot_rater import ZeroShotTemplate


@dataclass
class ZeroShotConfig(ConditionSettings, Common):
    """Keys of `zero_shot`."""

    input: str = MISSING  # a table of embeddings, or of images
    embedder: EmbedderConfig = MISSING
    template: str = "culture_relevance"  # the sentences: a file of conf/zero_shot_template, or your own .yaml file
    targets: Any = None  # labels: a file with one per line, [a,b], or a list of conf/target_lists


@dataclass(frozen=True)
class _Sentences:
    """The sentences with which pictures are compared; `data` is the content of the template's file."""

    template: "ZeroShotTemplate"
    data: Mapping[str, Any]
    targets: tuple[str, ...]


def execute(cfg: ZeroShotConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring.

    Returns:
        The manifest; None with plan=true.
    """
    sentences = _sentences(cfg)
    check_device(cfg, "embedder.device", cfg.embedder.device)
    check_dtype("embedder.dtype", cfg.embedder.dtype)
    facts = encoder_facts(cfg.embedder)
    if not cfg.plan:
        check_available(cfg.embedder)
    source = open_table(cfg.input, "embeddings", "images")
    if source.name == "embeddings":
        space = VectorSpace(facts.encoder, facts.preprocessing, facts.dim)
        check_same_space((source.uri, space_of(source)), (f"embedder={cfg.embedder.name}", space))
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = _plan(cfg, facts, sentences, source=source, excluded=exclusions.identity(excluded))
    pools = ["decode", "embed"] if source.name == "images" else ["embed"]
    targets = len(sentences.targets)
    note = f"rates {source.rows * targets:,} ({source.rows:,} x {targets})"
    run = lifecycle.begin("zero_shot", cfg, plan, pools=pools, note=note)
    if run is None:
        return None
    _rate(cfg, run, sentences, source=source, excluded=exclusions.keep(run, excluded))
    manifest = lifecycle.end("zero_shot", run, excluded)
    rater = {"rater": facts.encoder, "kind": "encoder", "dtype": cfg.embedder.dtype}
    kept_raters.keep(run, [rater | {"model": cfg.embedder.checkpoint, "revision": cfg.embedder.pretrained}])
    return manifest


def _sentences(cfg: ZeroShotConfig) -> _Sentences:
    from actors.zero_shot_rater import ZeroShotTemplate, check_targets

    targets = read_targets(cfg.targets) or ()
    data = read_template(cfg.template)
    try:
        check_targets(targets)
        return _Sentences(ZeroShotTemplate.from_dict(data), data, targets)
    except ValueError as error:
        raise InputError(f"zero_shot: {first_line(error)}") from error


def _plan(
    cfg: ZeroShotConfig,
    facts: "EncoderFacts",
    sentences: _Sentences,
    *,
    source: TableSource,
    excluded: dict[str, str],
) -> TablePlan:
    template = sentences.template
    levels = [(level.value, level.phrase, level.score) for level in template.levels]
    rubric = kept_rubric.of_levels(template.name, template.question, template.sentence, levels, sentences.data)
    return TablePlan(
        out=cfg.out,
        table="ratings",
        identity={
            "encoder": facts.encoder,
            "preprocessing": facts.preprocessing,
            "dtype": cfg.embedder.dtype,
            "template": {"name": template.name, "hash": content_id(repr(template))},
            "targets": content_id(*sentences.targets),
            "condition": cfg.condition,
            "input": source.identity,
            **excluded,
        },
        units=source.units(),
        config=plain(cfg),
        metadata={**rubric.metadata, "rater": facts.encoder},
        derived=True,
        models={cfg.embedder.name: facts.encoder},
        files=rubric.files,
    )


def _rate(
    cfg: ZeroShotConfig, run: TableRun, sentences: _Sentences, *, source: TableSource, excluded: str | None
) -> None:
    """Read and rate the units of `run`; pictures are decoded first."""
    from actors.embedder import PictureDecoder
    from actors.zero_shot_rater import ZeroShotRater
    from jobs.runtime import stages

    pool = cfg.resources.embed
    encoder = {"settings": cfg.embedder, "batch_size": pool.batch_size, "threads": pool.threads}
    labels = {"template": sentences.data, "targets": sentences.targets, "condition": cfg.condition}
    chain = [stages.Stage("embed", ZeroShotRater, encoder | labels, rows_out=len(sentences.targets))]
    read = stages.Read(read_vectors, item="item_id", output_item="item_id", excluded=excluded)
    if source.name == "images":
        chain.insert(0, stages.Stage("decode", PictureDecoder, {"settings": cfg.embedder}))
        read = stages.Read(read_pictures, item="image_id", output_item="item_id", excluded=excluded)
    stages.stream(run, name="zero_shot", read=read, stages=chain, resources=cfg.resources)


JOB = cli.Job("zero_shot", ZeroShotConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("zero_shot"))
