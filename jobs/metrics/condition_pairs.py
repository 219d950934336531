"""Two conditions of one question, paired by item, target and rater."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jobs.metrics import model_scores
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import Units
from jobs.metrics.model_scores import RaterGroup
from jobs.metrics.question import PEOPLE, RatedQuestion

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NO_PAIR = "no pair of item and target is rated under both conditions"


@dataclass(frozen=True)
class ConditionRatings:
    """One question under one condition.

    Attributes:
        name: the condition.
        rated: its answers, including people's and gold's, which have no condition.
        item: uint64[items], the hash of the item of each pair of item and target; target: int[items], its code.
        shared: raters whose ratings count under every condition, so that they cannot change.
    """

    name: str
    rated: RatedQuestion
    item: NDArray[np.uint64]
    target: NDArray[np.int32]
    shared: Collection[str] = ()


class ConditionPairs(NamedTuple):
    """The pairs of item and target asked under both conditions.

    Attributes:
        first, second: int64[pairs], their positions among the items of the two questions.
        item, target: int64[pairs], codes.
        units: of the pairs.
        either: number of pairs asked under at least one condition.
        raters: raters who rated under both conditions and whose ratings are not shared.
    """

    first: Ints
    second: Ints
    item: Ints
    target: Ints
    units: Units
    either: int
    raters: tuple[str, ...]


def pairs_of(first: ConditionRatings, second: ConditionRatings) -> ConditionPairs:
    """Return the pairs of item and target that two conditions have in common."""
    _, item = np.unique(np.concatenate([first.item, second.item]), return_inverse=True)
    targets = np.concatenate([first.target, second.target]).astype(np.int64)
    pair = item.astype(np.int64) * (int(targets.max(initial=0)) + 1) + targets
    n = len(first.item)
    _, at_first, at_second = np.intersect1d(pair[:n], pair[n:], assume_unique=True, return_indices=True)
    raters = set(first.rated.answers.raters) & set(second.rated.answers.raters)
    either = len(pair) - len(at_first)
    moving = tuple(sorted(raters - {*first.shared, *second.shared}))
    units = first.rated.answers.units.of(at_first)
    return ConditionPairs(at_first, at_second, item[at_first], targets[at_first], units, either, moving)


class Sides(NamedTuple):
    """Both questions, and the answers that have a counterpart by the same rater under the other condition."""

    first: RatedQuestion
    second: RatedQuestion
    answers: tuple[RatingTable, RatingTable]
    pairs: ConditionPairs

    def means(self, group: RaterGroup) -> tuple[Floats, Floats]:
        """Return float64[pairs] mean scores of a group under both conditions, NaN without enough ratings."""
        a, b = (model_scores.means_of(answers, group) for answers in self.answers)
        return a[self.pairs.first], b[self.pairs.second]

    def nothing(self, group: RaterGroup, other: str = NO_PAIR) -> str:
        """Return why no pair counts: which ratings of the group are missing, or `other` if none are."""
        if not len(self.pairs.first):
            return NO_PAIR
        _, n = self.answers[0].of_raters(group.raters).means()  # as many as under the second condition
        most = int(n[self.pairs.first].max())
        if most >= group.at_least:
            return other
        return (
            f"needs {group.at_least} ratings of a pair of item and target by the same raters under both conditions, "
            f"and no pair has more than {most}; {len(group.raters)} of the group rated under both"
        )


def counterparts(first: RatedQuestion, second: RatedQuestion, pairs: ConditionPairs) -> Sides:
    """Return both questions with the answers that have a counterpart by the same rater under the other condition."""
    keys = [_keys(q.answers, at, pairs.raters) for q, at in ((first, pairs.first), (second, pairs.second))]
    answers = (
        first.answers.where((keys[0] >= 0) & np.isin(keys[0], keys[1])),
        second.answers.where((keys[1] >= 0) & np.isin(keys[1], keys[0])),
    )
    return Sides(first, second, answers, pairs)


def _keys(answers: RatingTable, at: Ints, raters: tuple[str, ...]) -> Ints:
    """Return int64[n], one code for each pair of item and target and rater; -1 for answers that are not compared."""
    pair_of = np.full(answers.items, -1, np.int64)
    pair_of[at] = np.arange(len(at))
    number_of = {name: number for number, name in enumerate(raters)}
    pair = pair_of[answers.item]
    rater = np.array([number_of.get(name, -1) for name in answers.raters], np.int64)[answers.rater]
    answered = ~np.isnan(answers.score) if answers.scored else answers.value >= 0
    return np.where((pair >= 0) & (rater >= 0) & answered, pair * max(len(raters), 1) + rater, -1)


def groups_of(first: RatedQuestion, second: RatedQuestion, raters: tuple[str, ...]) -> Iterator[RaterGroup]:
    """Yield each group, with only the raters who rated under both conditions; a single model is a separate group."""
    groups_of_second = {group.name: group for group in second.averaged_groups(second.answers)}
    for group in first.averaged_groups(first.answers):
        other = groups_of_second.get(group.name)
        members = tuple(name for name in group.raters if name in raters and other and name in other.raters)
        if other and members and (len(members) > 1 or group.name in (PEOPLE, *members)):
            yield RaterGroup(group.name, members, min(group.at_least, other.at_least))
