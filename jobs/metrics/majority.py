"""Shares of answers: of majorities, in subgroups of items, and of answers on which a rater agrees with the others."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, no_rated_item, share_of, undefined

NONE, NO_MAJORITY = "none of the above", "(no majority)"
NONE_WORDS = frozenset({"unsure", "none", "none of the above", "none (other)", "none of these", "other", "not sure"})
_SHARE = MetricKind(
    "majority_share", Quantity.SHARE, (Topic.MAJORITIES, Topic.MAJORITIES_BY_SUBGROUP), label="share"
).defined_as(
    "Items for which a majority of the group gave this answer / items with at least {at_least} ratings of the group; a "
    f"majority is more than half of an item's ratings, {NO_MAJORITY} means that there is none, and unsure and none "
    f"count as {NONE!r} (Century, tables 1 and 8); n counts items."
)
_WITH_MAJORITY = MetricKind("agreement_with_majority", Quantity.SHARE, (Topic.OTHERS,)).defined_as(
    "Items on which the rater gave the majority's answer (more than half of all ratings, the rater's included) / items "
    "with at least {at_least} ratings and a majority that the rater rated (Century, figure 7); n counts items."
)
_WITH_MEAN = MetricKind("agreement_with_mean", Quantity.SHARE, (Topic.OTHERS,)).defined_as(
    "Items on which the rater's score lies within half a point of the mean of all ratings, the rater's included / "
    "items with at least {at_least} ratings that the rater rated (Century, appendix N); n counts items."
)
_ANSWER_SHARE = MetricKind("answer_share", Quantity.SHARE, (Topic.ANSWERS_BY_SUBGROUP,), label="share").defined_as(
    "Ratings with this answer / the rater's or group's ok ratings of the items of the subgroup (Century, figure 11); "
    "n counts ratings."
)


def pooled(values: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the values, with those that mean "none" merged into a last one, and int64[values], their new positions."""
    none = [value.strip().lower() in NONE_WORDS for value in values]
    kept = [value for value, is_none in zip(values, none, strict=True) if not is_none]
    names = (*kept, NONE) if any(none) else tuple(kept)
    return names, np.array([names.index(NONE if n else v) for v, n in zip(values, none, strict=True)], np.int64)


def pooled_counts(answers: RatingTable) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Return the `pooled` answers, and int64[items, answers], the number of raters per item and answer."""
    names, position = pooled(answers.values)
    counts = np.zeros((answers.items, len(names)), np.int64)
    rows = answers.value >= 0
    np.add.at(counts, (answers.item[rows], position[answers.value[rows]]), 1)
    return names, counts


def majority(counts: NDArray[Any], *, at_least: int = 1) -> NDArray[np.int64]:
    """Return int64[items], the position of the answer that more than half of an item's ratings give; -1 without one.

    Args:
        counts: int64[items, answers].
        at_least: ratings that an item needs.
    """
    total = counts.sum(1)
    first = counts.argmax(1) if counts.shape[1] else np.zeros(len(counts), np.int64)
    most = counts.max(1, initial=0)
    return np.where((2 * most > total) & (total >= max(at_least, 1)), first, -1)


def majority_shares(answers: RatingTable, *, group: str, at_least: int = 1) -> Iterator[Metric]:
    """Yield the distribution of majority answers, one metric per answer, `(no majority)` last (Century, tables 1 and
    8).

    Use it to describe a corpus by categories that several people assigned.

    Args:
        answers: of one group of raters.
        group: the group's name in dims.
        at_least: ratings that an item needs to count.

    Undefined: no item has that many ratings.
    """
    names, counts = pooled_counts(answers)
    needed = max(at_least, 1)
    kind = _SHARE.worded(at_least=needed)
    enough = counts.sum(1) >= needed
    n, coverage = int(enough.sum()), int(enough.sum()) / answers.items if answers.items else None
    if not n:
        reason = no_rated_item(group, at_least=needed)
        dims = {"group": group, "answer": "all"}
        yield undefined(kind, reason, coverage=coverage, status="missing_input", dims=dims)
        return
    chosen = majority(counts[enough])
    for code, name in [*enumerate(names), (-1, NO_MAJORITY)]:
        hit = chosen == code
        dims = {"group": group, "answer": name}
        yield share_of(kind, hit, answers.units.of(enough), coverage=coverage, dims=dims)


def rater_unit_agreement(answers: RatingTable, *, at_least: int = 2) -> Iterator[Metric]:
    """Yield each rater's share of items with the majority's answer and, on a scale, with a score near the mean.

    Use it to find raters whose answers differ from the others' (Century, figure 7 and appendix N).

    Args:
        at_least: ratings that an item needs, two or more.

    Undefined: none of the rater's items has enough ratings, or none of these has a majority.
    """
    needed = max(at_least, 2)  # of a single rating nothing can be said
    counts, _ = answers.counts(by="value")
    chosen = majority(counts, at_least=needed)
    rows = (answers.value >= 0) & (chosen[answers.item] >= 0)
    same = answers.value == chosen[answers.item]
    kind = _WITH_MAJORITY.worded(at_least=needed)
    reason = f"no item of the rater has {needed} ratings and a majority"
    yield from _by_rater(kind, answers, rows, same, reason=reason)
    if answers.scored:
        means, scores = answers.means()
        rows = ~np.isnan(answers.score) & (scores[answers.item] >= needed)
        # 1e-9: rounding must not exclude a mean half a point away
        near = np.abs(np.nan_to_num(answers.score) - np.nan_to_num(means[answers.item])) <= 0.5 + 1e-9
        kind, reason = _WITH_MEAN.worded(at_least=needed), f"no item of the rater has {needed} ratings"
        yield from _by_rater(kind, answers, rows, near, reason=reason)


def _by_rater(
    kind: MetricKind, answers: RatingTable, rows: NDArray[np.bool_], hit: NDArray[np.bool_], *, reason: str
) -> Iterator[Metric]:
    n = np.bincount(answers.rater[rows], minlength=len(answers.raters))
    for code, name in enumerate(answers.raters):
        coverage = n[code] / answers.asked[code] if answers.asked[code] else None
        if not n[code]:
            yield undefined(kind, reason, coverage=coverage, dims={"rater": name})
            continue
        of_rater = rows & (answers.rater == code)
        units = answers.units.of(answers.item[of_rater])
        yield share_of(kind, hit[of_rater], units, coverage=coverage, dims={"rater": name})


def answer_shares(
    answers: RatingTable, raters: tuple[str, ...], parts: Mapping[str, NDArray[np.bool_]], *, group: str, attribute: str
) -> Iterator[Metric]:
    """Yield the share of each answer in each subgroup of items.

    Use it to see whether raters treat the subgroups differently, such as the responses of two models.

    Args:
        raters: counted together as `group`.
        parts: value of `attribute` -> bool[items].

    Undefined: none of them rated an item of the subgroup.
    """
    chosen = answers.of_raters(raters)
    for part, members in parts.items():
        inside = members[chosen.item] & (chosen.value >= 0)
        n, asked = int(inside.sum()), int(members.sum()) * len(chosen.raters)
        coverage = n / asked if asked else None
        dims = {"group": group, "attribute": attribute, "part": part}
        units = chosen.units.of(chosen.item[inside])
        for code, value in enumerate(chosen.values):
            of_answer = {**dims, "answer": value}
            if n:
                hit = chosen.value[inside] == code
                yield share_of(_ANSWER_SHARE, hit, units, coverage=coverage, dims=of_answer)
            else:
                reason = f"no ok rating of {group} in this subgroup"
                yield undefined(_ANSWER_SHARE, reason, coverage=coverage, status="missing_input", dims=of_answer)
