"""The distributions of the answers in a file of ratings by people."""

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from jobs.analysis.rating_codes import Reduction
from jobs.analysis.report_tables import ALL_PEOPLE, MAX_PEOPLE_SHOWN
from jobs.metrics.distributions import Distribution, Distributions

NULLS = {
    "answers": pa.list_(pa.string()),
    "outside_mass": pa.float64(),
    "truncated": pa.list_(pa.string()),
    "empty_context": pa.string(),
}


class PeoplesDistributions:
    """Counts batches of ratings without a list of allowed answers: each answer that occurs is allowed."""

    def __init__(self) -> None:
        self._of_each, self._pooled = Distributions(), Distributions()

    def add(self, ratings: pa.Table) -> None:
        """Count a batch of ratings by people."""
        n = ratings.num_rows
        for name, kind in NULLS.items():
            ratings = ratings.append_column(name, pa.nulls(n, kind))
        self._of_each.add(ratings)
        column = ratings.column_names.index("rater")
        self._pooled.add(ratings.set_column(column, "rater", pa.array([ALL_PEOPLE] * n, pa.string())))

    def add_units(self, reduction: Reduction) -> None:
        """Add the units of all ratings, for intervals; see `Distributions.add_units`."""
        for key in reduction.keys:
            for part in reduction.by_units(key):
                self._of_each.add_units(key, part)
                self._pooled.add_units(key, part.pooled(ALL_PEOPLE))

    def shown(self) -> list[Distribution]:
        """Return the distributions of each rater, or of all together if there are more than `MAX_PEOPLE_SHOWN`."""
        pooled, per_rater = self._pooled.result(), self._of_each.result()
        shown = per_rater if len({d.rater for d in per_rater}) <= MAX_PEOPLE_SHOWN else pooled
        answers = {(d.rubric, d.question): sorted((a.answer for a in d.answers), key=_order) for d in pooled}
        return [_in_order(d, answers[d.rubric, d.question]) for d in shown]


def _order(answer: str) -> tuple[float, str]:
    try:
        return float(answer), answer
    except ValueError:
        return float("inf"), answer


def _in_order(distribution: Distribution, answers: Sequence[str]) -> Distribution:
    place = {answer: number for number, answer in enumerate(answers)}
    shares = sorted(distribution.answers, key=lambda share: place[share.answer])
    return replace(distribution, answers=tuple(replace(share, listed=True) for share in shares))
