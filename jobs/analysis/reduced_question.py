"""The ratings of one question, and their accumulation while they are read in chunks.

Rating codes are arrays: several ratings of a pair of item and target by one rater are merged.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actors.status import STATUSES, Status
from jobs.metrics.answers import POWERS, RatingTable
from jobs.metrics.intervals import Units
from jobs.store.hashing import Hashes, places_in

Key = tuple[str, ...]  # rubric, question, and the values of the `by` columns
STATUS_CODES = {status: code for code, status in enumerate(STATUSES)}
PROMPTS = "prompts"  # the units of pairs
DENSE = 16  # with fewer cells of units x raters per row, a table of all cells is faster than sorting
_OK, _REPORTED = STATUS_CODES[Status.OK], STATUS_CODES[Status.REPORTED]


@dataclass(frozen=True)
class IndependentUnits:
    """The unit of each item that is not its own.

    Attributes:
        items: uint64[n], hashes of item ids, ascending; units: uint64[n], the hash of each item's unit.
        name: what the units are, in the plural.
        pairs: hashes of the ids of pairs whose units are prompts.
    """

    items: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    units: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))
    name: str = "items"
    pairs: Hashes = field(default_factory=lambda: np.zeros(0, np.uint64))

    def of(self, items: Hashes) -> Hashes:
        """Return uint64[items], the unit of each item; an unknown item is its own unit."""
        if not len(self.items):
            return items
        place = places_in(self.items, items)
        return np.where(place >= 0, self.units[place], items)

    def name_of(self, items: Hashes) -> str:
        """Return what the units of some items are, in the plural."""
        return PROMPTS if len(self.pairs) and len(items) and np.isin(items, self.pairs).all() else self.name


class Growing:
    """Arrays of a maximum length, filled from the front; unused memory pages take no memory."""

    def __init__(self, most: int, **kinds: str) -> None:
        self._arrays = {name: np.empty(most, kind) for name, kind in kinds.items()}
        self.n = 0

    def add(self, **parts: NDArray[Any]) -> None:
        """Append a part to each array; all parts have the same length."""
        length = {len(part) for part in parts.values()}.pop()
        for name, part in parts.items():
            self._arrays[name][self.n : self.n + length] = part
        self.n += length

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The filled part of each array, by name."""
        return {name: array[: self.n] for name, array in self._arrays.items()}


@dataclass(frozen=True)
class Reduced:
    """The ratings of one question.

    Attributes:
        answers: the ok ratings; their items are pairs of item and target that were asked about.
        item: uint64[items], the hash of each pair's item; target: int32[items], index into `targets`.
        ended: rater -> status -> number of ratings; `double`: number of pairs with several ratings of any status;
            `double_by_people`: the same for people's ratings alone.
        asked_people, reported: bool[items], whether a person was asked about the pair, and whether a person reported
            it.
    """

    key: Key
    answers: RatingTable
    item: Hashes
    target: NDArray[np.int32]
    targets: tuple[str, ...]
    ended: Mapping[str, Counter[str]]
    double: int
    asked_people: NDArray[np.bool_]
    reported: NDArray[np.bool_]
    double_by_people: int = 0

    @property
    def statuses(self) -> Counter[str]:
        """Number of ratings by status."""
        return sum(self.ended.values(), start=Counter())


class QuestionTally:
    """Accumulates the chunks of a question's rows.

    Args:
        n: number of all rows.
        raters: int32[raters], the sorted codes of the raters that occur.
        is_person: bool[raters].
        recode: int32[codes + 1], the position of each answer's code in the numbering of `RatingTable`; the last one is
            for no answer.
    """

    def __init__(
        self, n: int, raters: NDArray[np.int32], *, is_person: NDArray[np.bool_], recode: NDArray[np.int32]
    ) -> None:
        self._raters, self._is_person, self._recode = raters, is_person, recode
        self._ended = np.zeros((len(raters), len(STATUSES)), np.int64)
        self._asked = np.zeros(len(raters), np.int64)
        self._double = self._double_by_people = 0
        of_rater = "i2" if len(raters) < 1 << 15 else "i4"
        self._answers = Growing(n, item="i4", rater=of_rater, value="i2", score="f8", others=f"{len(POWERS)}f4")
        self._units = Growing(n, item="u8", target="i4", asked="?", reported="?")

    def add(self, rows: NDArray[Any]) -> None:
        """Add a chunk that has all rows of each of its pairs of item and target."""
        rater = np.searchsorted(self._raters, rows["rater"])
        unit, first = units_of(rows)
        self._count(rows, unit, rater)
        ok = rows["status"] == _OK
        item, by_rater, first_row, score = merged(unit[ok], rater[ok], rows["sample"][ok], rows["score"][ok])
        of_sample = rows[ok][first_row]
        value = self._recode[of_sample["value"]]
        others = of_sample["others"]
        self._answers.add(item=item + self._units.n, rater=by_rater, value=value, score=score, others=others)
        by_person = self._is_person[rater]
        self._units.add(
            item=rows["item"][first],
            target=rows["target"][first],
            asked=np.bincount(unit[by_person], minlength=len(first)) > 0,
            reported=np.bincount(unit[by_person & (rows["status"] == _REPORTED)], minlength=len(first)) > 0,
        )

    def _count(self, rows: NDArray[Any], unit: NDArray[np.int64], rater: NDArray[np.int64]) -> None:
        """Count a chunk's ratings by rater and status, the pairs of each rater, and pairs with several ratings."""
        cell = rater * len(STATUSES) + rows["status"]
        self._ended += np.bincount(cell, minlength=self._ended.size).reshape(self._ended.shape)
        self._asked += distinct_pairs(unit, rater, len(self._raters))
        self._double += int((np.bincount(unit) > 1).sum())
        self._double_by_people += int((np.bincount(unit[self._is_person[rater]]) > 1).sum())

    def result(
        self,
        key: Key,
        *,
        names: Sequence[str],
        values: tuple[str, ...],
        targets: tuple[str, ...],
        units: IndependentUnits,
    ) -> Reduced:
        """Return the ratings of all chunks.

        Args:
            names: code -> rater; values: the answers, in the positions of `recode`; targets: code -> target.
            units: of the items.
        """
        raters = tuple(names[code] for code in self._raters)
        pairs = self._units.arrays
        _, code = np.unique(units.of(pairs["item"]), return_inverse=True)
        of_items = Units(code.astype(np.int64), units.name_of(pairs["item"]))
        answers = RatingTable(
            **self._answers.arrays,
            items=self._units.n,
            raters=raters,
            values=values,
            asked=self._asked,
            units_of_items=of_items,
        )
        return Reduced(
            key=key,
            answers=answers,
            item=pairs["item"],
            target=pairs["target"],
            targets=targets,
            ended={
                rater: Counter({status: k for status, k in zip(STATUSES, counts.tolist(), strict=True) if k})
                for rater, counts in zip(raters, self._ended, strict=True)
            },
            double=self._double,
            asked_people=pairs["asked"],
            reported=pairs["reported"],
            double_by_people=self._double_by_people,
        )


def units_of(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each row's pair of item and target, numbered in the order of hashes, and one row of each pair."""
    _, first, unit = np.unique(pair_hashes(rows["item"], rows["target"]), return_index=True, return_inverse=True)
    return unit, first


def pair_hashes(item: Hashes, target: NDArray[np.int32]) -> Hashes:
    """Return the hash of each pair of item and target."""
    mixed: Hashes = item + target.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed


def distinct_pairs(unit: NDArray[np.int64], rater: NDArray[np.int64], raters: int) -> NDArray[np.int64]:
    """Return int64[raters], the number of distinct pairs that each rater was asked about."""
    width, units = max(raters, 1), int(unit.max(initial=-1)) + 1
    cells = unit * np.int64(width) + rater
    if units * width > DENSE * len(cells):
        return np.bincount(np.unique(cells) % width, minlength=raters)
    occur = np.zeros(units * width, bool)
    occur[cells] = True
    return np.asarray(occur.reshape(units, width).sum(0)[:raters], np.int64)


def merged(
    unit: NDArray[np.int64],
    rater: NDArray[np.int64],
    sample: NDArray[np.int32],
    score: NDArray[np.float64],
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64], NDArray[np.float64]]:
    """Return one row per unit and rater, sorted: unit, rater, the row of the lowest sample, mean score."""
    order = np.lexsort((sample, rater, unit))
    unit, rater, score = unit[order], rater[order], score[order]
    new = np.ones(len(unit), bool)
    new[1:] = (unit[1:] != unit[:-1]) | (rater[1:] != rater[:-1])
    starts = np.flatnonzero(new)
    if len(starts) < len(unit):
        scored = ~np.isnan(score)
        total = np.add.reduceat(np.where(scored, score, 0.0), starts)
        n = np.add.reduceat(scored.astype(np.int64), starts)
        score = np.divide(total, n, out=np.full(len(starts), np.nan), where=n > 0)
    return unit[starts].astype(np.int32), rater[starts].astype(np.int32), order[starts], score
