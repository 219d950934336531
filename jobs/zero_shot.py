"""Rate pictures with an image encoder: the nearest of five sentences per label -> table `ratings`.

    remine zero_shot input=R/embeddings embedder=siglip-i18n-base 'targets=[Japan,Brazil]' out=R/ratings/siglip
    remine zero_shot input=R/items embeddings=R/embeddings targets=caire_countries out=R/ratings/siglip

The baseline of CAIRE, section 5.1. `input` is a table of embeddings that the same encoder made (those of another
encoder are refused); a table of images, which are then encoded first; or a table of items, whose pictures' vectors are
in `embeddings=` and whose own targets take precedence over `targets=`.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from omegaconf import MISSING

from actors.conditions import ConditionSettings
from actors.errors import first_line
from actors.ids import content_id
from jobs.corpora.vector_space import VectorSpace, check_same_space, space_of
from jobs.errors import InputError
from jobs.judging import kept_raters, kept_rubric
from jobs.judging.condition import with_condition
from jobs.judging.items import ItemTables, read_item_vectors
from jobs.judging.targets import count_labels, read_targets
from jobs.judging.template_file import read_template
from jobs.models.devices import check_device, check_dtype
from jobs.models.encoder import EmbedderConfig, check_available, encoder_facts
from jobs.models.encoder_inputs import read_pictures, read_vectors
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import FailingRows
from jobs.runtime.named_keys import with_option
from jobs.store.pieces import cut_of
from jobs.store.reading import TableSource, open_table, refuse_absent
from jobs.store.run import TablePlan, TableRun

if TYPE_CHECKING:
    from actors.encoders.facts import EncoderFacts
    from actors.zero_shot_rater import ZeroShotTemplate


@dataclass
class ZeroShotConfig(ConditionSettings, FailingRows):
    """Keys of `zero_shot`."""

    input: str = MISSING  # a table of embeddings, of images, or of items
    embeddings: str | None = None  # for a table of items: the embeddings of their pictures
    embedder: EmbedderConfig = MISSING
    template: str = "cultural_relevance"  # the sentences: a file of conf/zero_shot_template, or your own .yaml file
    targets: Any = (
        None  # labels of items without their own: a file with one per line, [a,b], or a list of conf/target_lists
    )


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
    refuse_absent(cfg.input, cfg.embeddings)
    check_device(cfg, cfg.embedder.device, prefix="embedder.")
    check_dtype(cfg.embedder.dtype, prefix="embedder.")
    facts = encoder_facts(cfg.embedder)
    if not cfg.only_plans:
        check_available(cfg.embedder)
    source, vectors = _open(cfg)
    cfg = with_condition(cfg, source)
    if (encoded := vectors or source).name == "embeddings":
        space = VectorSpace(facts.encoder, facts.preprocessing, facts.dim)
        check_same_space((encoded.uri, space_of(encoded)), (f"embedder={cfg.embedder.name}", space))
    excluded = exclusions.read_exclusions(cfg.exclusions)
    ratings = count_labels(source, sentences.targets, per_label=1, asker="zero_shot rates against labels")
    tables = ItemTables(source, vectors=vectors)
    plan = _plan(cfg, facts, sentences, tables=tables, excluded=exclusions.identity(excluded))
    pools = ["decode", "embed"] if source.name == "images" else ["embed"]
    note = f"rates {ratings.total:,} pairs of {source.name} and label"
    run = lifecycle.begin("zero_shot", cfg, plan, pools=pools, note=note)
    if run is None:
        return None
    kept = exclusions.keep(run, excluded)
    _rate(cfg, run, sentences, kind=source.name, rows_out=ratings.rows_out, excluded=kept)
    manifest = lifecycle.end("zero_shot", run, excluded)
    rater = {"rater": facts.encoder, "kind": "encoder", "dtype": cfg.embedder.dtype}
    kept_raters.keep(run, [rater | {"model": cfg.embedder.checkpoint, "revision": cfg.embedder.pretrained}])
    return manifest


def _open(cfg: ZeroShotConfig) -> tuple[TableSource, TableSource | None]:
    """Open the table of the pictures or items, and for items that of the vectors."""
    source = open_table(cfg.input, "embeddings", "images", "items")
    if source.name != "items":
        if cfg.embeddings:
            raise InputError(
                f"embeddings={cfg.embeddings}: allowed only for a table of items, and input={cfg.input} is a table of "
                f"{source.name}; omit it"
            )
        return source, None
    if not cfg.embeddings:
        raise InputError(f"input={cfg.input}: a table of items; set embeddings= to the vectors of their pictures")
    return source, open_table(cfg.embeddings, "embeddings")


def _sentences(cfg: ZeroShotConfig) -> _Sentences:
    from actors.zero_shot_rater import ZeroShotTemplate

    targets = read_targets(cfg.targets) or ()
    data = read_template(cfg.template)
    try:
        return _Sentences(ZeroShotTemplate.from_dict(data), data, targets)
    except ValueError as error:
        raise InputError(with_option(first_line(error), "zero_shot", {"template": cfg.template})) from error


def _plan(
    cfg: ZeroShotConfig,
    facts: "EncoderFacts",
    sentences: _Sentences,
    *,
    tables: ItemTables,
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
            **tables.identity,
            **excluded,
        },
        units=tables.units(cut_of(cfg.out, actors=cfg.resources.embed.most_actors, overwrite=cfg.overwrite)),
        config=asdict(cfg),
        metadata={**rubric.metadata, "rater": facts.encoder},
        derived=True,
        models={cfg.embedder.name: facts.encoder},
        files=rubric.files,
    )


def _rate(
    cfg: ZeroShotConfig,
    run: TableRun,
    sentences: _Sentences,
    *,
    kind: str,
    rows_out: int | Callable[[pa.Table], list[int]],
    excluded: str | None,
) -> None:
    """Read and rate the units of `run`, of a table `kind`; pictures are decoded first."""
    from actors.embedder import BATCHES_PER_CALL, PictureDecoder
    from actors.zero_shot_rater import ZeroShotRater
    from jobs.runtime import stages

    pool = cfg.resources.embed
    encoder = {"settings": cfg.embedder, "batch_size": pool.batch_size, "threads": pool.threads}
    labels = {"template": sentences.data, "targets": sentences.targets, "condition": cfg.condition}
    batches = BATCHES_PER_CALL if pool.num_gpus else 1
    chain = [stages.Stage("embed", ZeroShotRater, encoder | labels, rows_out=rows_out, batches=batches)]
    reader = read_item_vectors if kind == "items" else read_vectors
    read = stages.Read(reader, item="item_id", output_item="item_id", excluded=excluded)
    if kind == "images":
        chain.insert(0, stages.Stage("decode", PictureDecoder, {"settings": cfg.embedder}))
        read = stages.Read(read_pictures, item="image_id", output_item="item_id", excluded=excluded)
    stages.stream(run, name="zero_shot", read=read, stages=chain, resources=cfg.resources)


JOB = cli.Job("zero_shot", ZeroShotConfig, execute, pools=("decode", "embed"))

if __name__ == "__main__":
    sys.exit(cli.main("zero_shot"))
