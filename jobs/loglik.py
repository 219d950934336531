"""Rate labels by their likelihood under a model, corrected for base rates -> table `ratings`.

    remine loglik input=R/images records=R/records model=qwen2.5-vl-7b \\
        'targets=[Japan,Peru]' out=R/ratings/loglik

CAIRE, appendix B.1: score = log P(label | picture, text) - lambda x max(log P(label | nothing), T); higher is more
relevant. An item's own targets take precedence over `targets=`. Every pair of `lambdas` and `thresholds` is stored as a
`condition`, after `condition=` if that is set; remine calibrate chooses among them on half of the items. With
`reference=` (for example, people's ratings) the job prints the Pearson correlation of each pair with the reference and
stores it in `_run/sweep.json`.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from actors.ids import content_id
from actors.loglik_rater import QUESTION, LoglikRater, LoglikSettings, condition_of
from actors.settings import Location
from actors.vlm.settings import ModelSettings
from jobs.checkpoints.placement import plan_lines
from jobs.errors import as_input_error
from jobs.judging import kept_rubric, prompt_trial
from jobs.judging.asked_prompt import AskedPrompt, prompt_for_labels
from jobs.judging.calibration import keep_sweep, read_reference
from jobs.judging.items import ItemTables
from jobs.judging.model_config import ModelsConfig, check_early, check_start, run_each, with_condition
from jobs.judging.model_run import engine_lines, expected_passes, model_plan, prompt_lines, stream_items
from jobs.judging.targets import count_labels, own_labels, read_targets
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import conf_group
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning.expected_pace import cut_for
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.runtime.stage_contract import Stage
from jobs.store.table_plan import TablePlan


@dataclass
class LoglikConfig(LoglikSettings, ModelsConfig):
    """Keys of `loglik`."""

    prompt: dict[str, Any] = conf_group("relevant_to")
    # labels of items without their own: a file with one per line, [a,b], or a list of conf/target_lists
    targets: Any = None
    reference: Location[str | None] = None  # ratings to compare with: a table or a glob


def execute(cfg: LoglikConfig) -> Plan | Manifest:
    """Run the job and return the last model's manifest, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed; nothing was written.
        RunError: the run failed. With several models it is raised after all have run, and names those that failed.
    """
    return run_each("loglik", cfg, _checked, _rate)


def _rate(cfg: LoglikConfig, checked: tuple[AskedPrompt, list[str]]) -> Plan | Manifest:
    prompt, targets = checked
    per_label = len(cfg.pairs)
    sources = prompt.open_sources(cfg)
    cfg = with_condition(cfg, sources.items)
    reference = read_reference(cfg.reference)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    ratings = count_labels(sources.items, targets, per_label=per_label, asker="loglik scores labels")
    plan = _plan(cfg, prompt, targets, sources, excluded)
    labels = f"{(ratings.total or 0) // per_label:,} labels under {per_label} settings"
    if cfg.limit:
        labels = f"labels under {per_label} settings of the first {cfg.limit:,} {sources.items.name}"
    note = f"scores {labels}{prompt.expected_tokens(cfg, sources)}"
    pools, lines = ["decode", "judge"], plan_lines(cfg, cfg.model, fields=prompt.instruction.context_fields)
    reader = prompt.reader(sources)
    longest = _longest([*targets, *own_labels(sources.items)])
    rate = {
        "settings": LoglikSettings.part_of(cfg),
        "model": ModelSettings.part_of(cfg.model),
        "targets": targets,
        "threads": cfg.resources.judge.threads,
    }
    stages = [
        prompt.stage(cfg, answer_tokens=longest),
        Stage("judge", LoglikRater, rate, rows_out=ratings.rows_out),
    ]
    per_item = len(targets) or -(-(ratings.total or 0) // (per_label * max(sources.items.rows, 1)))
    counted = prompt_trial.prompt_counts(plan.units, reader, stages[0])
    lines += engine_lines(cfg, counted, job="loglik", times=per_item, appended=longest)
    # A label after the prompt, and by itself.
    passes = partial(expected_passes, cfg, counted, times=2 * per_item, appended=longest)
    run = lifecycle.begin("loglik", cfg, plan, excluded, pools=pools, note=note, lines=lines, passes=passes)
    if isinstance(run, Plan):
        return run + Plan(list(prompt_trial.lines(cfg, plan.units, reader, stages)))
    manifest = stream_items(run, cfg, reader=reader, stages=stages)
    manifest.lines += prompt_lines(manifest["counts"]["tallies"])
    if reference:
        manifest.lines += keep_sweep(run.table, reference, [condition_of(pair, cfg.condition) for pair in cfg.pairs])
    return manifest


def _plan(
    cfg: LoglikConfig, prompt: AskedPrompt, targets: list[str], sources: ItemTables, excluded: Exclusions
) -> TablePlan:
    kept = kept_rubric.of_prompt(prompt.instruction, QUESTION, cfg.prompt)
    entries = {
        "prompt": prompt.identity,
        "targets": content_id(*targets),
        "settings": [pair.name for pair in cfg.pairs],
        **sources.identity,
    }
    units = sources.units(cut_for("loglik", cfg, ("decode", "judge")))
    metadata = {**kept.metadata, "rater": cfg.model.rater}
    return model_plan(
        cfg,
        "ratings",
        entries,
        instead_of=["lambdas", "thresholds"],
        excluded=excluded,
        units=units,
        metadata=metadata,
        files=kept.files,
    )


def _longest(labels: Iterable[str]) -> int:
    """Return the largest number of tokens of a label with the space before it; a token has at least one byte."""
    return max((len(label.encode()) + 1 for label in labels), default=1)


def _checked(cfg: LoglikConfig) -> tuple[AskedPrompt, list[str]]:
    """Return the prompt and the labels, after validating all other keys.

    Raises:
        InputError: the value of a key is not allowed.
    """
    targets = list(read_targets(cfg.targets) or ())
    try:
        prompt_trial.check(cfg)
        prompt = prompt_for_labels(cfg.prompt)
        prompt.check_model(cfg)
        check_start(cfg, prompt.start, f"prompt={prompt.instruction.name}: start")
    except ValueError as error:
        raise as_input_error(error) from error
    return prompt, targets


JOB = cli.Job("loglik", LoglikConfig, execute, check=check_early(_checked), pools=("decode", "judge"))

if __name__ == "__main__":
    sys.exit(cli.main("loglik"))
