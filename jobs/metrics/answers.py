"""The ok answers to one question as arrays of codes: what every function about raters takes.

One row an answer, so that three of five hundred raters an item cost three rows and not five hundred cells.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]
MAX_LEVELS = 512  # more different answers than this are no closed set: see distributions.MAX_ANSWERS


@dataclass(frozen=True)
class Answers:
    """Rows sorted by item, then rater; at most one a pair of them.

    Attributes:
        item: int[n], 0 … items - 1.
        rater: int[n], index into `raters`.
        value: int[n], index into `values`; -1 if the answer is a number only.
        score: float64[n], NaN if the answer has none.
        items: how many items were asked about, answered or not.
        raters: names; `asked` is int64[raters], the ratings asked of each.
        values: the answers' codes, in the rubric's order.
    """

    item: Ints
    rater: Ints
    value: Ints
    score: Floats
    items: int
    raters: tuple[str, ...]
    values: tuple[str, ...]
    asked: Ints

    @classmethod
    def of(cls, matrix: ArrayLike, *, raters: Sequence[str] | None = None) -> "Answers":
        """From float64[items, raters] with NaN for what was not rated (asked and not answered)."""
        scores = np.asarray(matrix, np.float64)
        if scores.ndim != 2:
            raise ValueError(f"a matrix of items x raters is needed, not shape {scores.shape}")
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
        return len(self.item)

    @property
    def coverage(self) -> float | None:
        """Rated / asked, over all raters."""
        return self.n / int(self.asked.sum()) if self.asked.sum() else None

    @property
    def scored(self) -> bool:
        """Whether the answers lie on a scale."""
        return bool(self.n) and not np.isnan(self.score).all()

    def of_raters(self, names: Sequence[str]) -> "Answers":
        """The answers of some raters, all items kept. Names that are not there are left out."""
        kept = [i for i, name in enumerate(self.raters) if name in set(names)]
        code = np.full(len(self.raters) + 1, -1, np.int64)
        code[kept] = np.arange(len(kept))
        chosen = self.where(code[self.rater] >= 0)
        return replace(
            chosen, rater=code[chosen.rater], raters=tuple(self.raters[i] for i in kept), asked=self.asked[kept]
        )

    def where(self, rows: NDArray[np.bool_]) -> "Answers":
        """The answers of some rows; what was asked stays as it is."""
        return replace(
            self, item=self.item[rows], rater=self.rater[rows], value=self.value[rows], score=self.score[rows]
        )

    def of_items(self, chosen: NDArray[np.bool_]) -> "Answers":
        """The answers about the items where bool[items] is true, renumbered; asked in the same proportion."""
        code = np.cumsum(chosen) - 1
        part = self.where(chosen[self.item])
        count = int(chosen.sum())
        asked = np.round(self.asked * (count / self.items if self.items else 0)).astype(np.int64)
        answered = np.bincount(part.rater, minlength=len(self.raters))
        return replace(part, item=code[part.item], items=count, asked=np.maximum(asked, answered))

    def map_scores(self, change: Callable[[Floats], Floats]) -> "Answers":
        """The answers with other scores."""
        return replace(self, score=change(self.score))

    def per_item(self) -> Ints:
        """int64[items]: answers about each item."""
        return np.bincount(self.item, minlength=self.items)

    def levels(self) -> Floats:
        """The different scores, ascending."""
        return np.unique(self.score[~np.isnan(self.score)])

    def counts(self, *, by: str = "score") -> tuple[Ints, Floats]:
        """How many raters gave each answer to each item.

        Args:
            by: "score" (levels ascending; answers without a score are left out) or "value" (the values' order).

        Returns:
            int64[items, levels], and the levels' numbers (for values: 0, 1, …).

        Raises:
            ValueError: more than `MAX_LEVELS` levels.
        """
        if by == "value":
            rows = self.value >= 0
            code, numbers = self.value[rows], np.arange(len(self.values), dtype=np.float64)
        else:
            rows = ~np.isnan(self.score)
            numbers = self.levels()
            code = np.searchsorted(numbers, self.score[rows])
        if len(numbers) > MAX_LEVELS:
            raise ValueError(f"{len(numbers)} different answers: not a closed set")
        flat = np.bincount(self.item[rows].astype(np.int64) * len(numbers) + code, minlength=self.items * len(numbers))
        return flat.reshape(self.items, len(numbers)), numbers

    def means(self) -> tuple[Floats, Ints]:
        """The mean score of each item, NaN where nobody scored it, and the number of scores: float64, int64[items]."""
        rows = ~np.isnan(self.score)
        n = np.bincount(self.item[rows], minlength=self.items)
        total = np.bincount(self.item[rows], self.score[rows], minlength=self.items)
        return np.divide(total, n, out=np.full(self.items, np.nan), where=n > 0), n

    def matrix(self, *, of: str = "score") -> Floats:
        """float64[items, raters] of scores or value codes, NaN where there is none. For few raters only."""
        made = np.full((self.items, len(self.raters)), np.nan)
        made[self.item, self.rater] = self.score if of == "score" else np.where(self.value >= 0, self.value, np.nan)
        return made
