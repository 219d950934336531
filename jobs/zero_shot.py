"""Rate pictures with an image encoder: the nearest of five sentences per label -> table `ratings`.

    remine zero_shot input=R/embeddings embedder=siglip-i18n-base 'targets=[Japan,Brazil]' out=R/ratings/siglip
    remine zero_shot input=R/items embeddings=R/embeddings targets=caire_countries out=R/ratings/siglip

The baseline of CAIRE, section 5.1. `input` is a table of embeddings by the same encoder (others are refused); a table
of images, which are then encoded first; or a table of items, whose pictures' vectors are in `embeddings=` and whose own
targets take precedence over `targets=`.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.settings import ConditionSettings, Location
from jobs.checkpoints.encoder import (
    EmbedderConfig,
    check_available,
    check_placement,
    check_reads_texts,
    encoder_facts,
    encoder_identity,
    stream_encoded,
)
from jobs.corpora.embeddings import VectorSpace, check_same_space, space_of
from jobs.judging import rating_tables
from jobs.judging.items import ItemTables
from jobs.judging.model_config import with_condition
from jobs.judging.targets import count_labels
from jobs.judging.zero_shot_inputs import INPUTS, Sentences, open_vectors, read_sentences
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import FailingRows
from jobs.runtime.configuration.key_types import MISSING, conf_group
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning.expected_pace import cut_for
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.reading import refuse_absent
from jobs.store.table_plan import TablePlan

if TYPE_CHECKING:
    from actors.encoders.encoder_sources import EncoderFacts


@dataclass
class ZeroShotConfig(ConditionSettings, FailingRows):
    """Keys of `zero_shot`."""

    input: Location[str] = MISSING  # a table of embeddings, of images, or of items
    embeddings: Location[str | None] = None  # for a table of items: the embeddings of their pictures
    embedder: EmbedderConfig = conf_group("siglip-i18n-base", lambda: MISSING)
    template: str = "cultural_relevance"  # the sentences: a file of conf/zero_shot_template, or your own .yaml file
    # labels of items without their own: a file with one per line, [a,b], or a list of conf/target_lists
    targets: Any = None


def execute(cfg: ZeroShotConfig) -> Plan | Manifest:
    """Run the job; see the module's docstring.

    Returns:
        The manifest; with plan=true the plan.
    """
    sentences = read_sentences(cfg.template, cfg.targets)
    refuse_absent(cfg.input, cfg.embeddings)
    check_placement(cfg, cfg.embedder)
    facts = encoder_facts(cfg.embedder)
    check_reads_texts(cfg.embedder, facts, "zero_shot compares pictures with sentences")
    if not cfg.only_plans:
        check_available(cfg.embedder)
    tables = open_vectors(cfg.input, cfg.embeddings)
    cfg = with_condition(cfg, tables.items)
    if (encoded := tables.vectors or tables.items).name == "embeddings":
        space = VectorSpace(facts.encoder, facts.preprocessing, facts.dim)
        check_same_space((encoded.uri, space_of(encoded)), (f"embedder={cfg.embedder.name}", space))
    excluded = exclusions.read_exclusions(cfg.exclusions)
    ratings = count_labels(tables.items, sentences.targets, per_label=1, asker="zero_shot rates against labels")
    plan = _plan(cfg, facts, sentences, tables=tables, excluded=excluded)
    rows = INPUTS[tables.items.name]
    note = f"rates {ratings.total:,} pairs of {tables.items.name} and label"
    if cfg.limit:
        note = f"rates the first {cfg.limit:,} {tables.items.name} against each of their labels"
    run = lifecycle.begin("zero_shot", cfg, plan, excluded, pools=rows.pools, note=note)
    if isinstance(run, Plan):
        return run
    from actors.zero_shot_rater import ZeroShotRater

    stream_encoded(
        run,
        cfg.embedder,
        rows,
        ZeroShotRater,
        {"template": sentences.data, "targets": sentences.targets, "condition": cfg.condition},
        resources=cfg.resources,
        rows_out=ratings.rows_out,
    )
    manifest = run.end()
    rater = {"rater": facts.encoder, "kind": "encoder", "dtype": cfg.embedder.dtype}
    rating_tables.keep_raters(
        run.table, [rater | {"model": cfg.embedder.checkpoint, "revision": cfg.embedder.pretrained}]
    )
    return manifest


def _plan(
    cfg: ZeroShotConfig,
    facts: "EncoderFacts",
    sentences: Sentences,
    *,
    tables: ItemTables,
    excluded: Exclusions,
) -> TablePlan:
    rubric = sentences.kept
    return plan_table(
        cfg,
        "ratings",
        tables.units(cut_for("zero_shot", cfg, ("decode", "embed"))),
        {**encoder_identity(cfg.embedder, facts), **sentences.identity, **tables.identity},
        instead_of=["embedder"],
        excluded=excluded,
        metadata={**rubric.metadata, "rater": facts.encoder},
        models={cfg.embedder.name: facts.encoder},
        files=rubric.files,
    )


JOB = cli.Job("zero_shot", ZeroShotConfig, execute, pools=("decode", "embed"))

if __name__ == "__main__":
    sys.exit(cli.main("zero_shot"))
