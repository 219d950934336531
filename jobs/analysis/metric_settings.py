"""Validation of the key `metrics`, and of the attributes of items in it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.errors import InputError, check_choice
from jobs.metrics import description_scores
from jobs.metrics.distributions import EXTRA
from jobs.metrics.multiple_comparisons import ADJUSTMENTS
from jobs.metrics.rated_question import MODELS, PEOPLE, MetricSettings, matching
from jobs.runtime.configuration.key_hints import of_name
from jobs.tables import CONDITION

TARGET = "target"  # the label that an item was rated against (CAIRE: a country); a column of the ratings
GROUP_BY = tuple(name for name in EXTRA if name not in (TARGET, CONDITION))


def check(settings: MetricSettings) -> None:
    """Validate settings without reading tables.

    Raises:
        InputError: a setting is out of range or names an unknown column, or weights are not a matrix of disagreement.
    """
    for name in settings.group_by:
        check_choice("metrics.group_by", name, GROUP_BY)
    for name, matrix in settings.weights.items():
        if any(len(line) != len(matrix) for line in matrix):
            raise InputError("must be a square matrix", key=f"metrics.weights.{name}", value=matrix)
        if any(matrix[i][i] != 0 for i in range(len(matrix))):
            why = "must be 0 on the diagonal, because equal answers do not disagree"
            raise InputError(why, key=f"metrics.weights.{name}", value=matrix)
    if wrong := [name for name in settings.ensembles if name in (PEOPLE, MODELS)]:
        raise InputError("this group exists already", key=f"metrics.ensembles.{wrong[0]}", remedy="choose another name")
    for key, setting in _of_raters(settings).items():
        lists = list(setting.values()) if isinstance(setting, Mapping) else [setting]
        if not all(isinstance(globs, list) and all(isinstance(glob, str) for glob in globs) for globs in lists):
            why = (
                "must be a list of raters (globs) for all rubrics, such as [qwen*], or a mapping of rubrics to "
                "lists, such as {century_labels: [qwen*]}"
            )
            raise InputError(why, key=key, value=setting)
    for contrast in settings.contrast:
        attribute, colon, values = contrast.partition(":")
        if not attribute or not colon or len(values.split("-")) != 2:
            raise InputError("must be attribute:first-second", key="metrics.contrast", value=contrast)
    _check_pooling(settings)
    check_choice("metrics.adjustment", settings.adjustment, ADJUSTMENTS)
    if wrong := [name for name in settings.text_overlap if name not in description_scores.OVERLAPS]:
        raise InputError(
            f"must be one of {', '.join(description_scores.OVERLAPS)}", key="metrics.text_overlap", value=wrong[0]
        )
    description_scores.require_overlap_packages(settings.text_overlap)
    for name, is_allowed, allowed in (
        ("stop", settings.stop > 0, "above 0"),
        ("overlap", 0 <= settings.overlap <= 1, "from 0 to 1"),
        ("tolerance", settings.tolerance >= 0, "at least 0"),
    ):
        if not is_allowed:
            raise InputError(f"must be {allowed}", key=f"metrics.{name}", value=getattr(settings, name))


def _check_pooling(settings: MetricSettings) -> None:
    if wrong := [name for name in settings.pooling if name not in settings.disaggregate]:
        raise InputError(
            "only the subgroups of metrics.disaggregate can be pooled",
            key="metrics.pooling",
            value=wrong[0],
            remedy=f"add {wrong[0]} to metrics.disaggregate",
        )


def _of_raters(settings: MetricSettings) -> dict[str, Any]:
    """Return the settings that are lists of raters, or mappings of rubrics to lists, by their key."""
    leave_out = {} if settings.leave_out is None else {"metrics.leave_out": settings.leave_out}
    return leave_out | {f"metrics.ensembles.{name}": raters for name, raters in settings.ensembles.items()}


def check_rubrics(settings: MetricSettings, available: Collection[str]) -> None:
    """Check that all rubrics in the settings are `available`.

    Raises:
        InputError: a mapping of rubrics to raters names another one.
    """
    for key, setting in _of_raters(settings).items():
        if isinstance(setting, Mapping) and (wrong := sorted(set(setting) - set(available))):
            raise InputError(f"no such rubric; must be one of {', '.join(sorted(available))}", key=f"{key}.{wrong[0]}")


def unmatched(settings: MetricSettings, raters_of: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield a sentence for each list of raters with a glob that no rater matches.

    Args:
        raters_of: rubric -> its raters; a rubric without ratings is not mentioned.
    """
    for key, setting in _of_raters(settings).items():
        by_place = {"": setting} if not isinstance(setting, Mapping) else setting
        for rubric, globs in by_place.items():
            raters = sorted({name for other in raters_of if rubric in ("", other) for name in raters_of[other]})
            if raters and (wrong := [glob for glob in globs if not matching(raters, glob)]):
                place = f"{key}.{rubric}" if rubric else key
                yield f"{place}: no rater is called {', '.join(wrong)}; there are {', '.join(raters)}"


def attributes(settings: MetricSettings) -> set[str]:
    """Return the attributes of items in the settings; crossed ones as a+b."""
    return {*compared_attributes(settings), settings.concept, "model"}


def check_groups(settings: MetricSettings, *, has_raters: bool) -> None:
    """Check that there is a table of raters if groups of people are set.

    Raises:
        InputError: groups are set, and there is no table of raters.
    """
    if not has_raters and settings.groups:
        why = "needs a table of raters with these columns"
        raise InputError(why, key="metrics.groups", value=settings.groups, remedy="set raters=")


def compared_attributes(settings: MetricSettings) -> set[str]:
    """Return the attributes whose values are reported separately or compared."""
    return {*settings.disaggregate, *settings.compare, *(c.partition(":")[0] for c in settings.contrast)}


def check_attributes(settings: MetricSettings, available: Collection[str]) -> None:
    """Check that all attributes in the settings are in `available`, the attributes of the items.

    Raises:
        InputError: an attribute is not available; the message has its key.
    """
    named = {
        "disaggregate": settings.disaggregate,
        "compare": settings.compare,
        "contrast": [contrast.partition(":")[0] for contrast in settings.contrast],
    }
    for key, names in named.items():
        wanted = {part for name in names for part in name.split("+")} - {TARGET}
        if wrong := sorted(wanted - set(available)):
            several = f" (several are [{wrong[0]}])" if "," in wrong[0] else ""
            hint = several or of_name(wrong[0], sorted(available))
            raise InputError(
                f"no item has this attribute{hint}; must be one of {', '.join([*sorted(available), TARGET])} "
                "(attributes come from the columns of a file that remine items reads: add its table with items=)",
                key=f"metrics.{key}",
                value=wrong[0],
            )


def check_of_items(cfg: Any, available: Collection[str]) -> None:
    """Do the same for the keys of a report before its items exist, unless responses add attributes to theirs."""
    if not cfg.responses:
        check_attributes(cfg.metrics, available)


def with_available(settings: MetricSettings, available: Collection[str], added: MetricSettings) -> MetricSettings:
    """Return the settings with those attributes of `added` to disaggregate by, compare and contrast that are
    `available`."""

    def new(names: Sequence[str], present: Sequence[str]) -> list[str]:
        parts = {name: set(name.partition(":")[0].split("+")) - {TARGET} for name in names}
        return [name for name in parts if name not in present and parts[name] <= set(available)]

    return replace(
        settings,
        disaggregate=[*settings.disaggregate, *new(added.disaggregate, settings.disaggregate)],
        compare=[*settings.compare, *new(added.compare, settings.compare)],
        contrast=[*settings.contrast, *new(added.contrast, settings.contrast)],
    )


def with_conditions(settings: MetricSettings, present: Collection[str], added: MetricSettings) -> MetricSettings:
    """Return the settings with the baseline and the reference condition of `added`, where they are unset.

    Args:
        present: the conditions of the ratings; others are not added, and none of a single one.
    """

    def chosen(configured: str | None, offered: str | None) -> str | None:
        return offered if configured is None and len(present) > 1 and offered in present else configured

    return replace(
        settings,
        baseline_condition=chosen(settings.baseline_condition, added.baseline_condition),
        reference_condition=chosen(settings.reference_condition, added.reference_condition),
    )
