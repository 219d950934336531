"""Turn pictures or texts into vectors with a dual encoder -> table `embeddings`.

    remine embed input=R/images embedder=siglip-i18n-base out=R/embeddings
    remine embed input=R/prompts embedder=siglip-i18n-base out=R/prompt-embeddings

A CPU pool decodes pictures and resizes them to the model's input size; a second pool, on GPUs if `resources` gives it
any, encodes them. Texts are cleaned, truncated and padded as in training. Vectors are L2-normalised float16; the
table's metadata record the encoder and its preprocessing. A picture without bytes, or an empty text, keeps its row,
with a status and no vector.
"""

import sys
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from jobs.checkpoints.encoder import (
    PICTURES,
    TEXTS,
    EmbedderConfig,
    check_available,
    check_placement,
    check_reads_texts,
    encoder_facts,
    encoder_identity,
    encoder_lines,
    encoder_passes,
    logit_scalars,
    stream_encoded,
)
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import FailingRows
from jobs.runtime.configuration.key_types import MISSING, conf_group
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning.expected_pace import cut_for
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.files.objects import CompactList
from jobs.store.pieces import in_pieces
from jobs.store.reading import TableSource, open_table
from jobs.store.table_plan import TablePlan

if TYPE_CHECKING:
    from actors.encoders.encoder_sources import EncoderFacts


@dataclass
class EmbedConfig(FailingRows):
    """Keys of `embed`."""

    input: str = MISSING  # a table of images, or of texts
    embedder: EmbedderConfig = conf_group("siglip-i18n-base", lambda: MISSING)


def execute(cfg: EmbedConfig) -> Plan | Manifest:
    """Run the job; see the module's docstring.

    Returns:
        The manifest; with plan=true the plan.
    """
    check_placement(cfg, cfg.embedder)
    source = open_table(cfg.input, "images", "texts", key="input")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    facts = encoder_facts(cfg.embedder)
    if source.name == "texts":
        check_reads_texts(cfg.embedder, facts, f"input={source.uri} is a table of texts")
    if not cfg.only_plans:
        check_available(cfg.embedder)
    plan = _plan(cfg, source, facts, excluded)
    lines = encoder_lines(cfg, cfg.embedder, facts.encoder)
    rows = TEXTS if source.name == "texts" else PICTURES
    passes = partial(encoder_passes, cfg.embedder, facts, texts=not rows.decodes)
    note = f"{facts.dim} dimensions"
    run = lifecycle.begin("embed", cfg, plan, excluded, pools=rows.pools, note=note, lines=lines, passes=passes)
    if isinstance(run, Plan):
        return run
    from actors.embedder import Embedder, TextEmbedder

    actor = Embedder if rows.decodes else TextEmbedder
    stream_encoded(run, cfg.embedder, rows, actor, resources=cfg.resources)
    return run.end()


def _plan(cfg: EmbedConfig, source: TableSource, facts: "EncoderFacts", excluded: Exclusions) -> TablePlan:
    vectors = {"encoder": facts.encoder, "preprocessing": facts.preprocessing}
    cut = cut_for("embed", cfg, ("decode", "embed"))
    return plan_table(
        cfg,
        "embeddings",
        CompactList(in_pieces(source.units(), cut)),
        {**encoder_identity(cfg.embedder, facts), "input": source.identity},
        instead_of=["embedder"],
        excluded=excluded,
        metadata=vectors if cfg.only_plans else vectors | logit_scalars(cfg.embedder),
        dim=facts.dim,
        models={cfg.embedder.name: facts.encoder},
    )


JOB = cli.Job("embed", EmbedConfig, execute, pools=("decode", "embed"))

if __name__ == "__main__":
    sys.exit(cli.main("embed"))
