"""A study's plan: rows of the table `assignments`, and a summary in words."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from actors.ids import content_id
from actors.quantities import quantity
from actors.rubrics.rubric import Rubric
from jobs.annotation import assignment
from jobs.annotation.annotate_config import AnnotateConfig
from jobs.annotation.assignment import Assignment, PlanError, Rater
from jobs.annotation.own_questions import OwnSet
from jobs.annotation.study_form import asks_targets
from jobs.errors import InputError

QUOTA, SHARED, AUDITOR = "quota", "shared", "auditor"  # values of column `role`
_SEPARATOR = "\x1f"  # between an item and its target


def assign_items(
    cfg: AnnotateConfig,
    items: Mapping[str, str],
    raters: Sequence[Rater],
    rubric: Rubric | None,
    own_sets: Mapping[str, OwnSet],
) -> list[Assignment]:
    """Return the plan. An item rated against several targets is assigned once per target; the target of an item with
    its own questions is the id of their set, as in ratings by `judge`.

    With `together=`, all items and targets of a set go to the same raters.

    Args:
        items: the set of each item, by item_id.
        own_sets: the item's own questions, by item_id.

    Raises:
        InputError: quotas for an unknown group, an auditor who is a rater or whose file would be that of a group, or an
            infeasible plan.
    """
    targets = rubric.targets if rubric and cfg.target == "rubric" and asks_targets(cfg, rubric) else ("",)
    groups = sorted({rater.group for rater in raters})
    quotas = dict(cfg.quotas or {}) if cfg.per_group is None else dict.fromkeys(groups, cfg.per_group)
    if unknown := next((name for name in quotas if name not in groups), None):
        raise InputError(
            f"quotas.{unknown}={quotas[unknown]}: no rater has this {cfg.group}; must be one of {', '.join(groups)}"
        )
    if cfg.auditor in {rater.name for rater in raters}:
        raise InputError(f"auditor={cfg.auditor}: is one of the raters; name a person who has not seen the items")
    if cfg.files == "group" and cfg.auditor and _stem(cfg.auditor) in map(_stem_of_group, groups):
        raise InputError(
            f"auditor={cfg.auditor}: files=group gives the tasks of a group a file of this name; write the auditor's "
            "name differently"
        )
    sets = {
        _SEPARATOR.join([item, target]): label
        for item, label in items.items()
        for target in ((own_sets[item].set_id,) if item in own_sets else targets)
    }
    try:
        return assignment.assign(
            list(sets),
            raters,
            seed=cfg.seed,
            per_item=cfg.per_item,
            quotas=quotas or None,
            shared=cfg.shared,
            audit=cfg.audit,
            together=sets if cfg.together else None,
        )
    except PlanError as error:
        raise InputError(f"annotate: {error}") from error


def assignment_rows(cfg: AnnotateConfig, tasks: Sequence[Assignment]) -> list[dict[str, Any]]:
    """Return rows of `assignments`: the raters' tasks, then the auditor's, each once and in random order."""
    rows = [_row(cfg, task, role=SHARED if task.shared else QUOTA) for task in tasks]
    audited: dict[str, list[tuple[str, str]]] = defaultdict(list)
    drawn = {(task.together, task.item, task.group if cfg.target == "group" else "") for task in tasks if task.audit}
    for label, item, group in sorted(drawn):
        audited[label].append((item, group))
    if cfg.auditor and audited:
        order = assignment.in_random_order(audited, seed=cfg.seed, name=cfg.auditor)
        rows += [
            _row(
                cfg,
                Assignment(cfg.auditor, group, place, item, shared=False, audit=False, together=label),
                role=AUDITOR,
            )
            for place, (label, (item, group)) in enumerate(order, start=1)
        ]
    return rows


def _row(cfg: AnnotateConfig, task: Assignment, *, role: str) -> dict[str, Any]:
    item_id, _, target = task.item.partition(_SEPARATOR)
    by_group = cfg.files == "group" and role != AUDITOR
    return {
        "rater": task.rater,
        "place": task.place,
        "item_id": item_id,
        "target": task.group if cfg.target == "group" else target,
        "group": task.group,
        "role": role,
        "audited": task.audit,
        "file": _stem_of_group(task.group) if by_group else _stem(task.rater),
    }


def _stem_of_group(group: str) -> str:
    return _stem(group or "all")


def _stem(name: str) -> str:
    """Return a safe file name for `name`; if it differs, it ends in a hash that keeps names apart."""
    safe = re.sub(r"[^A-Za-z0-9._@-]+", "_", name).lstrip(".")[:80]
    return safe if safe == name else f"{safe or 'rater'}-{content_id(name)[:8]}"


def describe(cfg: AnnotateConfig, tasks: Sequence[Assignment]) -> str:
    """Return the numbers of a plan in a sentence: tasks, items, raters, loads, overlaps and audits."""
    by_group = cfg.per_item is None
    numbers = assignment.summary(tasks, by_group=by_group)
    overlaps = ""
    if numbers.overlap_least is not None:
        shared = quantity(numbers.overlap_least, "item")
        if numbers.overlap_most != numbers.overlap_least:
            shared = f"{numbers.overlap_least:,} to {numbers.overlap_most:,} (median {numbers.overlap_median:g}) items"
        overlaps = f"; any two raters{' of a group' if by_group else ''} share {shared}"
    loads = f"{numbers.least:,}" + (f" to {numbers.most:,}" if numbers.most != numbers.least else "")
    audits = f"; {numbers.audits:,} drawn for the audit" if numbers.audits else ""
    tasks_of_items = f"{quantity(numbers.tasks, 'task')} of {quantity(numbers.items, 'item')}"
    return f"{tasks_of_items} for {quantity(numbers.raters, 'rater')}, {loads} each{overlaps}{audits}"
