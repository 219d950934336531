"""The ok answers to one question as arrays of codes: the input of all functions that compare raters.

There is one row per answer: an item rated by three of five hundred raters takes three rows, not five hundred cells.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics.intervals import Units

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
ROWS_AT_A_TIME = 1 << 20  # rows per chunk when counting by item, so that only results need memory
POWERS = (0.25, 0.5, 1.0, 2.0)  # of probabilities: reciprocals of temperatures
MAX_LEVELS = 512  # a question with more different answers is not a closed set (see distributions.MAX_ANSWERS)


@dataclass(frozen=True)
class RatingTable:
    """Rows sorted by item, then rater; at most one row per item and rater.

    Attributes:
        item: int[n], 0 … items - 1.
        rater: int[n], index into `raters`.
        value: int[n], index into `values`; -1 if the answer has a score only.
        score: float64[n], NaN if the answer has none.
        items: how many items were asked about, answered or not.
        raters: names; `asked`: int64[raters], number of ratings requested of each.
        values: the answers' codes, in the rubric's order.
        units_of_items: the independent unit of each item, such as its picture; None: each item is one.
        others: float32[n, 4], the logarithm of the sum, over the answers that are not the rater's most probable one, of
            their probability / its probability to each of `POWERS`; NaN without probabilities; None: nobody gave any.
    """

    item: Ints
    rater: Ints
    value: Ints
    score: Floats
    items: int
    raters: tuple[str, ...]
    values: tuple[str, ...]
    asked: Ints
    units_of_items: Units | None = None
    others: NDArray[np.float32] | None = None

    @cached_property
    def units(self) -> Units:
        """The independent unit of each item."""
        return Units.single(self.items) if self.units_of_items is None else self.units_of_items

    @classmethod
    def from_matrix(cls, matrix: ArrayLike, *, raters: Sequence[str] | None = None) -> "RatingTable":
        """Return the table of scores float64[items, raters]; NaN means asked and not answered.

        Raises:
            ValueError: `matrix` is not two-dimensional.
        """
        scores = np.asarray(matrix, np.float64)
        if scores.ndim != 2:
            raise ValueError(f"shape {scores.shape}: must be a matrix of items x raters")
        item, rater = np.nonzero(~np.isnan(scores))
        score = scores[item, rater]
        levels, value = np.unique(score, return_inverse=True)
        return cls(
            item=item.astype(np.int64),
            rater=rater.astype(np.int64),
            value=value.astype(np.int64),
            score=score,
            items=scores.shape[0],
            raters=tuple(raters or (f"r{i}" for i in range(scores.shape[1]))),
            values=tuple(f"{level:g}" for level in levels),
            asked=np.full(scores.shape[1], scores.shape[0], np.int64),
        )

    @property
    def n(self) -> int:
        """Number of answers."""
        return len(self.item)

    @property
    def coverage(self) -> float | None:
        """Rated / asked, over all raters."""
        return self.n / int(self.asked.sum()) if self.asked.sum() else None

    @property
    def scored(self) -> bool:
        """Whether any answer has a score."""
        return bool(self.n) and not np.isnan(self.score).all()

    def of_raters(self, names: Sequence[str]) -> "RatingTable":
        """Return the answers of some raters, with all items. Names that are not in `raters` are ignored."""
        wanted = set(names)
        kept = [i for i, name in enumerate(self.raters) if name in wanted]
        if len(kept) == len(self.raters):
            return self
        code = np.full(len(self.raters) + 1, -1, self.rater.dtype)
        code[kept] = np.arange(len(kept))
        chosen = self.where(code[self.rater] >= 0)
        return replace(
            chosen, rater=code[chosen.rater], raters=tuple(self.raters[i] for i in kept), asked=self.asked[kept]
        )

    def where(self, rows: NDArray[np.bool_]) -> "RatingTable":
        """Return the answers where bool[n] `rows` is true; `asked` does not change."""
        return replace(
            self,
            item=self.item[rows],
            rater=self.rater[rows],
            value=self.value[rows],
            score=self.score[rows],
            others=None if self.others is None else self.others[rows],
        )

    def with_scores(self) -> "RatingTable":
        """Return the answers that have a score."""
        scored = ~np.isnan(self.score)
        return self if scored.all() else self.where(scored)

    def of_items(self, chosen: NDArray[np.bool_]) -> "RatingTable":
        """Return the answers about the items where bool[items] `chosen` is true, renumbered; `asked` shrinks in
        proportion."""
        code = np.cumsum(chosen) - 1
        part = self.where(chosen[self.item])
        count = int(chosen.sum())
        asked = np.round(self.asked * (count / self.items if self.items else 0)).astype(np.int64)
        answered = np.bincount(part.rater, minlength=len(self.raters))
        units = None if self.units_of_items is None else self.units_of_items.of(chosen)
        return replace(part, item=code[part.item], items=count, asked=np.maximum(asked, answered), units_of_items=units)

    def map_scores(self, change: Callable[[Floats], Floats]) -> "RatingTable":
        """Return the answers with each score replaced by `change` of it."""
        return replace(self, score=change(self.score))

    def item_ranges(self) -> Iterator[tuple[int, int, slice]]:
        """Yield ranges of items with their rows: first item, the item after the last, rows."""
        first = 0
        while first < self.items:
            start = int(np.searchsorted(self.item, first))
            end = start + ROWS_AT_A_TIME
            after = self.items if end >= self.n else max(int(self.item[end]), first + 1)
            yield first, after, slice(start, int(np.searchsorted(self.item, after)))
            first = after

    def per_item(self) -> Ints:
        """Return int64[items], the number of answers about each item."""
        counts = np.zeros(self.items, np.int64)
        for first, after, rows in self.item_ranges():
            counts[first:after] = np.bincount(self.item[rows] - first, minlength=after - first)
        return counts

    def columns(self, names: Sequence[str], *, by: str = "score") -> "RaterColumns":
        """Return the answers of some raters, all of which are in `raters`, as codes of their levels.

        Args:
            by: "score" (answers without a score are left out) or "value".
        """
        answered = (
            self.with_scores() if by == "score" else self if (self.value >= 0).all() else self.where(self.value >= 0)
        )
        levels = answered.levels() if by == "score" else np.arange(len(self.values), dtype=np.float64)
        order = np.argsort(answered.rater.astype(np.int16 if len(self.raters) < 1 << 15 else np.int32), kind="stable")
        position = np.searchsorted(levels, answered.score) if by == "score" else answered.value
        code: NDArray[Any] = position.astype(np.int16 if len(levels) <= MAX_LEVELS else np.int32)[order]
        ends = np.cumsum(np.bincount(answered.rater, minlength=len(self.raters)))
        item, place = answered.item[order], [self.raters.index(name) for name in names]
        rows = [slice(0 if not at else int(ends[at - 1]), int(ends[at])) for at in place]
        return RaterColumns(levels, [item[part] for part in rows], [code[part] for part in rows], self.items)

    def levels(self) -> Floats:
        """Return float64[levels], the different scores, ascending."""
        levels = np.zeros(0)
        for start in range(0, self.n, ROWS_AT_A_TIME):
            part = self.score[start : start + ROWS_AT_A_TIME]
            levels = np.union1d(levels, part[~np.isnan(part)])
        return levels

    def counts(self, *, by: str = "score") -> tuple[Ints, Floats]:
        """Return how many raters gave each answer to each item.

        Args:
            by: "score" (levels ascending; answers without a score are ignored) or "value" (in the order of `values`).

        Returns:
            int16 or int64[items, levels], and float64[levels]: the scores, or 0, 1, … for values.

        Raises:
            ValueError: more than `MAX_LEVELS` levels.
        """
        numbers = np.arange(len(self.values), dtype=np.float64) if by == "value" else self.levels()
        if (width := len(numbers)) > MAX_LEVELS:
            raise ValueError(f"{width} different answers: not a closed set")
        # twice a count must fit, too
        small = self.per_item().max(initial=0) < np.iinfo(np.int16).max // 2
        counts = np.zeros((self.items, width), np.int16 if small else np.int64)
        for first, after, rows in self.item_ranges():
            answers = self.value[rows] if by == "value" else self.score[rows]
            kept = answers >= 0 if by == "value" else ~np.isnan(answers)
            code = answers[kept] if by == "value" else np.searchsorted(numbers, answers[kept])
            cell = (self.item[rows][kept].astype(np.int64) - first) * width + code
            counts[first:after] = np.bincount(cell, minlength=(after - first) * width).reshape(after - first, width)
        return counts, numbers

    @cached_property
    def _latest(self) -> dict[tuple[str, ...], tuple[Floats, Ints]]:
        return {}

    def means_of(self, raters: tuple[str, ...]) -> tuple[Floats, Ints]:
        """Return `means` of some raters; those of the last call are kept, since a group has several metrics."""
        if raters not in self._latest:
            self._latest.clear()
            self._latest[raters] = self.of_raters(raters).means()
        return self._latest[raters]

    def means(self) -> tuple[Floats, Ints]:
        """Return float64[items] mean scores, NaN without a score, and int64[items] numbers of scores."""
        means, counts = np.full(self.items, np.nan), np.zeros(self.items, np.int64)
        for first, after, rows in self.item_ranges():
            score, item = self.score[rows], self.item[rows] - first
            scored = ~np.isnan(score)
            n = np.bincount(item[scored], minlength=after - first)
            total = np.bincount(item[scored], score[scored], minlength=after - first)
            np.divide(total, n, out=means[first:after], where=n > 0)
            counts[first:after] = n
        return means, counts

    def highest(self) -> Floats:
        """Return float64[items], the highest score of each item, minus infinity without a score."""
        highest, rows = np.full(self.items, -np.inf), self.with_scores()
        if rows.n:
            first = np.flatnonzero(np.diff(rows.item, prepend=-1))
            highest[rows.item[first]] = np.maximum.reduceat(rows.score, first)
        return highest

    def matrix(self) -> Floats:
        """Return float64[items, raters] of scores, NaN without a score. Use it for few raters only."""
        matrix = np.full((self.items, len(self.raters)), np.nan)
        matrix[self.item, self.rater] = self.score
        return matrix


@dataclass(frozen=True)
class RaterColumns:
    """Answers by rater, to compare many pairs of raters without selecting their rows from the table each time.

    Attributes:
        levels: float64[levels], the scores or numbers of values, ascending.
        item: for each rater int[n], ascending; code: for each rater int[n], index into `levels`.
        items: number of all items.
    """

    levels: Floats
    item: Sequence[Ints]
    code: Sequence[Ints]
    items: int

    def pair(self, one: int, other: int) -> tuple[Ints, Ints, Ints]:
        """Return int[n], the common items of two raters, ascending, and the codes of both."""
        first, second = self.item[one], self.item[other]
        if len(first) == len(second) and np.array_equal(first, second):
            return first, self.code[one], self.code[other]
        rows_1: NDArray[Any]
        if len(first) + len(second) > self.items // 8:  # a table of all items is faster than sorting
            row = np.full(self.items, -1, np.int32)
            row[first] = np.arange(len(first))
            at = row[second]
            rows_2 = np.flatnonzero(at >= 0)
            rows_1 = at[rows_2]
        else:
            _, rows_1, rows_2 = np.intersect1d(first, second, assume_unique=True, return_indices=True)
        return second[rows_2], self.code[one][rows_1], self.code[other][rows_2]
