"""Rate labels by how likely a model is to name them, debiased -> table `ratings`.

    python -m jobs.loglik input=R/images records=R/records model=qwen2.5-vl-7b \\
        'targets=[Japan,Peru]' out=R/ratings/loglik

CAIRE, appendix B.1: score = log P(label | picture, text) - lambda x max(log P(label | nothing), T); higher is more
relevant. Every pair of `lambdas` and `thresholds` is stored, as its own `condition`. With `reference=` (ratings by
people, say) Pearson's correlation of each is told at the end and kept in `_run/sweep.json`.
"""

import itertools
import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import content_id
from actors.status import Status
from actors.vlm.debiasing import NO_THRESHOLD, DebiasSetting, Moments, check_settings
from actors.vlm.instructions import QUESTIONS_WORD, Instruction
from actors.vlm.instructions import identity as instruction_identity
from actors.vlm.templates import TARGET_WORD
from jobs.errors import InputError
from jobs.judging import kept_raters, kept_rubric, settings
from jobs.judging.items import ItemTables, reading, sources_of
from jobs.judging.rating_tables import open_ratings
from jobs.judging.settings import AskingConfig
from jobs.judging.targets import read_targets
from jobs.models import picture_tokens
from jobs.models.plan import plan_lines
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import plain
from jobs.runtime.console import say
from jobs.runtime.exclusions import Exclusions
from jobs.store.reading import open_table, read_unit
from jobs.store.run import TablePlan, TableRun

if TYPE_CHECKING:
    from jobs.runtime.stages import Stage


@dataclass
class LoglikConfig(AskingConfig):
    """Keys of `loglik`."""

    prompt: dict[str, Any] = field(default_factory=dict)  # what comes before the label
    targets: Any = None  # labels: a file with one a line, [a,b], or a list of conf/target_lists
    lambdas: list[float] = field(default_factory=lambda: [0.0, 0.25, 0.5, 0.75, 1.0])  # weights of the base rate
    thresholds: list[float] = field(default_factory=lambda: [NO_THRESHOLD])  # natural logarithms; -inf caps nothing
    reference: str | None = None  # ratings to compare with, a table or a glob
    empty_context: str = "answer"  # or skip: rows about which nothing is said become skipped


def execute(cfg: LoglikConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    instruction, pairs, targets = _checked(cfg)
    fields, pictures = instruction.context_fields, instruction.shows_picture
    sources = sources_of(cfg, fields=fields, pictures=pictures)
    reference = _reference(cfg.reference)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = _plan(cfg, instruction, pairs, targets, sources=sources, excluded=excluded)
    note = f"scores {sources.items.rows * len(targets):,} labels under {len(pairs)} settings"
    if cfg.plan and pictures:
        note += picture_tokens.expected(cfg.model, sources.pictures)
    run = lifecycle.begin("loglik", cfg, plan, pools=["decode", "judge"], note=note, lines=plan_lines(cfg, cfg.model))
    if run is None:
        return None
    from jobs.runtime import stages

    read = reading(sources, fields=fields, pictures=pictures)
    stages.stream(
        run,
        name="loglik",
        read=stages.Read(read, item="item_id", output_item="item_id", excluded=exclusions.keep(run, excluded)),
        stages=_stages(cfg, pairs, targets),
        resources=cfg.resources,
    )
    manifest = lifecycle.end("loglik", run, excluded)
    picture_tokens.show_counted(cfg.model, manifest["counts"]["tallies"])
    kept_raters.keep(run, kept_raters.of_model(cfg.model, manifest["counts"]["tallies"]))
    if reference:
        show_sweep(run, reference, pairs)
    return manifest


def _plan(
    cfg: LoglikConfig,
    instruction: Instruction,
    pairs: list[DebiasSetting],
    targets: list[str],
    *,
    sources: ItemTables,
    excluded: Exclusions,
) -> TablePlan:
    from actors.loglik_rater import QUESTION

    kept = kept_rubric.of_prompt(instruction, QUESTION, cfg.prompt)
    return TablePlan(
        out=cfg.out,
        table="ratings",
        identity={
            "model": cfg.model.identity,
            "prompt": {"name": instruction.name, "hash": instruction_identity(instruction)},
            "targets": content_id(*targets),
            "settings": [setting.name for setting in pairs],
            "max_context_tokens": cfg.max_context_tokens,
            "empty_context": cfg.empty_context,
            **sources.identity,
            **exclusions.identity(excluded),
        },
        units=sources.units(),
        config=plain(cfg),
        metadata={**kept.metadata, "rater": cfg.model.rater},
        derived=True,
        models={cfg.model.name: cfg.model.rater},
        files=kept.files,
    )


def _stages(cfg: LoglikConfig, pairs: list[DebiasSetting], targets: list[str]) -> list["Stage"]:
    from actors.generator import PromptPreparer
    from actors.loglik_rater import LoglikRater
    from jobs.runtime.stages import Stage

    prepare = {
        **cfg.model.processor,
        **cfg.model.pixels,
        "instruction": cfg.prompt,
        "max_context_tokens": cfg.max_context_tokens,
        "empty_context": cfg.empty_context,
        "answer_tokens": max(len(target.encode()) + 1 for target in targets),  # a token is a byte at the least
    }
    rate = {
        **cfg.model.weights,
        "instruction": cfg.prompt,
        "targets": targets,
        "settings": [tuple(setting) for setting in pairs],
        "threads": cfg.resources.judge.threads,
    }
    rows_out = len(targets) * len(pairs)
    return [Stage("decode", PromptPreparer, prepare), Stage("judge", LoglikRater, rate, rows_out=rows_out)]


def show_sweep(run: TableRun, reference: dict[tuple[str, str], float], pairs: list[DebiasSetting]) -> None:
    """Pearson's correlation of each setting's scores with the reference, the best first; kept with the run."""
    moments = {setting.name: Moments() for setting in pairs}
    items = pa.array(sorted({item for item, _ in reference}), pa.string())
    for footer in open_table(run.target.out, "ratings").footers:
        rows = read_unit(footer.object.uri, columns=["item_id", "target", "condition", "score", "status"])
        for condition, (scores, right) in _pairs(rows.filter(pc.is_in(rows["item_id"], items)), reference).items():
            moments[condition].add(np.array(scores), np.array(right))
    best = sorted(moments.items(), key=lambda entry: (entry[1].pearson is None, -(entry[1].pearson or 0.0)))
    kept = [{"setting": name, "pearson": each.pearson, "n": each.n} for name, each in best]
    run.keep("sweep.json", json.dumps(kept, indent=1).encode())
    for name, each in best:
        figure = "undefined" if each.pearson is None else f"{each.pearson:.3f}"
        say(f"  {name:24} Pearson {figure} with the reference, {each.n:,} pairs")


def _pairs(rows: pa.Table, reference: dict[tuple[str, str], float]) -> dict[str, tuple[list[float], list[float]]]:
    made: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row in rows.to_pylist():
        right = reference.get((row["item_id"], row["target"]))
        if row["status"] == Status.OK and right is not None:
            scores, rights = made[row["condition"]]
            scores.append(row["score"])
            rights.append(right)
    return made


def _reference(pattern: str | None) -> dict[tuple[str, str], float]:
    """Mean score of each item and target over the raters of the reference.

    Raises:
        InputError: no such table, no score in it, or as `open_ratings`.
    """
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0])
    for source in open_ratings([pattern]) if pattern else ():
        for rows in source.batches(["item_id", "target", "score", "status"]):
            for row in rows.to_pylist():
                if row["status"] == Status.OK and row["score"] is not None:
                    entry = sums[row["item_id"], row["target"]]
                    entry[0] += row["score"]
                    entry[1] += 1
    if pattern and not sums:
        raise InputError(f"reference={pattern}: no rating in it has a score")
    return {key: total / n for key, (total, n) in sums.items()}


def _checked(cfg: LoglikConfig) -> tuple[Instruction, list[DebiasSetting], list[str]]:
    from actors.loglik_rater import check_start
    from actors.zero_shot_rater import check_targets

    targets = list(read_targets(cfg.targets) or ())
    try:
        instruction = Instruction.from_dict(cfg.prompt)
        check_start(instruction)
        if used := {TARGET_WORD, QUESTIONS_WORD} & instruction.words:
            raise ValueError(f"prompt {instruction.name!r} uses {sorted(used)[0]!r}; here the label follows its start")
        check_targets(targets)
        pairs = [DebiasSetting(*pair) for pair in itertools.product(cfg.lambdas, cfg.thresholds)]
        check_settings(pairs)
        shows = f"prompt {instruction.name!r}" if instruction.shows_picture else ""
        settings.check(cfg, empty_context=cfg.empty_context, shows=shows)
    except ValueError as error:
        raise InputError(f"loglik: {error}") from error
    return instruction, pairs, targets


JOB = cli.Job("loglik", LoglikConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("loglik"))
