"""Choose lambda, T and threshold of likelihoods on one half of the items and apply them to the other -> `ratings`.

    remine calibrate input=R/loglik 'items=[R/items]' out=R/ratings/loglik
    remine calibrate input=R/loglik criterion=pearson reference=R/people out=R/ratings/loglik

`input` is a table that remine loglik wrote with several lambdas and thresholds. CAIRE (appendix B.1) publishes neither
them nor the log-likelihood from which a label counts as relevant. criterion=f1 chooses all three by the gold labels of
`items=`, and each label becomes the highest or the lowest answer of `rubric=`; criterion=pearson chooses lambda and T
by people's ratings, and the scores stay log-likelihoods. The choice and its value on both halves are printed, stored in
`_run/choice.json`, and shown with the model on the report's page.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import Question
from jobs.judging import calibration, kept_rubric, rating_tables
from jobs.judging.calibration import (
    CalibrateConfig,
    SettingChoice,
    attribute_values,
    halves,
    other_half,
    read_reference,
)
from jobs.runtime.command_line import cli
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource, open_table, open_tables
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter

CONDITION = "log-likelihood"


def execute(cfg: CalibrateConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed, the tables do not fit, or nothing can be chosen; nothing was
            written.
    """
    question = calibration.checked_question(cfg)
    source, items = open_table(cfg.input, "ratings", key="input"), open_tables(cfg.items, "items", key="items")
    base, raters = calibration.facts(source)
    cfg = replace(cfg, condition=cfg.condition or (f"{base}; {CONDITION}" if base else CONDITION))
    excluded = exclusions.read_exclusions(cfg.exclusions)
    inputs = (source, *items, *open_tables([cfg.reference] if cfg.reference else [], "ratings"))
    plan = _plan(cfg, inputs, question, rater=", ".join(raters), excluded=excluded)
    planned = summary.plan_of("calibrate", plan)
    parts = _halves(cfg, source, items)
    choices = _choices(cfg, source, items, parts)
    if cfg.plan:
        return planned
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    for task in run.todo:
        rows = read_unit(task.unit.inputs[0].uri)
        kept = calibration.calibrated(
            rows, parts, choices, (cfg.rubric["name"], question) if question else None, cfg.condition
        )
        is_excluded = pa.array(exclusion_filter.mask(kept["item_id"]))
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = rows.num_rows
            writer.counts.filtered["other settings and half"] = rows.num_rows - kept.num_rows
            if excluded:
                writer.counts.filtered["excluded"] = pc.sum(is_excluded).as_py() or 0
            writer.write(kept.filter(pc.invert(is_excluded)))
    run.keep("choice.json", json.dumps([choice.to_json() for choice in choices.values()], indent=1).encode())
    rating_tables.keep_raters(run, calibration.with_choices(rating_tables.read_raters([source]), choices.values()))
    manifest = summary.closed("calibrate", run)
    counted = "pairs of item and label with " + ("gold" if cfg.criterion == "f1" else "people's ratings")
    for choice in choices.values():
        other_value = "undefined" if choice.value_of_other is None else f"{choice.value_of_other:.3f}"
        manifest.lines.append(
            f"  {choice.text}: {cfg.criterion} {choice.value:.3f} there (n {choice.pairs:,}), {other_value} on the "
            f"other half (n {choice.pairs_of_other:,}); n counts {counted}"
        )
    manifest.lines += summary.exclusion_lines(excluded, exclusion_filter.matched)
    return manifest


def _halves(cfg: CalibrateConfig, source: TableSource, items: Sequence[TableSource]) -> dict[str, str]:
    ids = {item for batch in source.batches(["item_id"]) for item in pc.unique(batch["item_id"]).to_pylist()}
    return halves(ids, cfg.seed, attribute_values(items, cfg.split_by) if cfg.split_by else None)


def _choices(
    cfg: CalibrateConfig, source: TableSource, items: Sequence[TableSource], parts: Mapping[str, str]
) -> dict[str, SettingChoice]:
    """Return the choice that rates each half, by half."""
    expected: Any = read_reference(cfg.reference) if cfg.criterion == "pearson" else calibration.gold_labels(items)
    scores = calibration.read_scores(source, parts, expected)
    chosen_on = [cfg.choose_on, *([other_half(cfg.choose_on)] if cfg.cross else [])]
    return {
        other_half(half): calibration.choose(
            scores, half=half, other=other_half(half), criterion=cfg.criterion, threshold=cfg.threshold
        )
        for half in chosen_on
    }


def _plan(
    cfg: CalibrateConfig,
    inputs: Sequence[TableSource],
    question: Question | None,
    *,
    rater: str,
    excluded: Exclusions,
) -> TablePlan:
    """Return the plan of the ratings; `inputs` are the table of loglik and the tables that it is compared with."""
    source = inputs[0]
    if question is None:
        kept = kept_rubric.read_kept(source)
    else:
        kept = kept_rubric.of_rubric(Rubric.from_dict(cfg.rubric), cfg.rubric)
    wholes = [table.whole() for table in inputs]
    return plan_table(
        cfg,
        "ratings",
        [Unit(unit.name, (*unit.inputs, *wholes), rows=unit.rows) for unit in source.units()],
        {"rubric": kept.sha256 if kept else None, "inputs": [table.identity for table in inputs]},
        excluded=excluded,
        metadata={**(kept.metadata if kept else {}), "rater": rater},
        files=kept.files if kept else {},
    )


JOB = cli.Job("calibrate", CalibrateConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("calibrate"))
