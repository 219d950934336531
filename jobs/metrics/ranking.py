"""Mean reciprocal rank, accuracy at k and recall at k of ranked lists, with intervals over queries.

A rank is 1 for the first answer of a list; 0 means that the right answer is not in the list. Queries without a list,
such as unreadable pictures, have no rank: `asked` - n counts them, and they lower the coverage.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics.intervals import Units
from jobs.metrics.metric import Metric, MetricKind, Quantity, exact, mean_of, share_of, undefined

Ranks = NDArray[np.int64]
_PLACE = "the tables of metrics of rankings"
_MRR = MetricKind("mrr@k", Quantity.FRACTION, place=_PLACE).defined_as(
    "Mean of 1 / rank of the first right answer over ranked queries, 0 if it is not in the list{past} (TRIC, section "
    "IV.B); n counts ranked queries: those without a list are left out."
)
_MRR_CHANGE = MetricKind("mrr_change@k", Quantity.NUMBER, place=_PLACE).defined_as(
    "Mean of 1 / rank under the second ranking minus that under the first, over queries that both rank; the interval "
    "draws queries with both their ranks; n counts queries.{past}"
)
_ACCURACY = MetricKind("accuracy@k", Quantity.SHARE, place=_PLACE).defined_as(
    "Share of ranked queries with a right answer among the first k (CAIRE, table 3); n counts queries."
)
_RECALL = MetricKind("recall@k", Quantity.SHARE, place=_PLACE).defined_as(
    "Mean share of a query's right answers that are among the first k; n counts ranked queries."
)
_RANDOM = MetricKind("random_mrr@k", Quantity.FRACTION, place=_PLACE).defined_as(
    "Expected MRR of the captions in random order: sum of 1 / rank over the number of captions (TRIC, section VII); "
    "n counts captions."
)
_RIGHT = MetricKind("right_answers", Quantity.COUNT, place=_PLACE).defined_as(
    "Distinct right answers of the queries (CAIRE, table 4); n counts queries."
)


def reciprocal_ranks(ranks: ArrayLike, *, cut: int | None = None) -> NDArray[np.float64]:
    """Return float64[n], 1 / rank of each rank in int[n]; 0 for rank 0 and for ranks above `cut`."""
    ranks = np.asarray(ranks, np.int64)
    inside = (ranks > 0) & (ranks <= (cut or np.iinfo(np.int64).max))
    return np.asarray(np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=inside))


def mrr(ranks: ArrayLike, *, cut: int | None = None, asked: int | None = None) -> Metric:
    """Return the mean reciprocal rank (TRIC, section IV.B).

    Use it where each query has one right answer whose rank matters.

    Args:
        ranks: int[n], the rank of the first right answer of each ranked query.
        cut: the last rank that counts; None: all ranks count.
        asked: number of queries, ranked or not.
    """
    past = f" or its rank is above {cut}" if cut else ""
    return _mean(_at(_MRR, cut).worded(past=past), reciprocal_ranks(ranks, cut=cut), asked=asked)


def mrr_change(first: ArrayLike, second: ArrayLike, *, cut: int | None = None, asked: int | None = None) -> Metric:
    """Return the mean reciprocal rank of the second ranking minus that of the first, paired by query.

    Use it to see whether another prompt, encoder or re-ranking helps: the interval of a paired difference is narrower
    than those of both values, because the difficulty of the queries is the same.

    Args:
        first, second: int[n], the rank of the first right answer of each query under both rankings, in the same order.
        cut: the last rank that counts; None: all ranks count.
        asked: number of queries, ranked or not.

    Raises:
        ValueError: different numbers of ranks.
    """
    before, after = reciprocal_ranks(first, cut=cut), reciprocal_ranks(second, cut=cut)
    if len(before) != len(after):
        raise ValueError(f"{len(before)} ranks before, {len(after)} after; must be one of each per query")
    past = f" Ranks above {cut} count as 0." if cut else ""
    return _mean(_at(_MRR_CHANGE, cut).worded(past=past), after - before, asked=asked)


def accuracy_at(ranks: ArrayLike, k: int, *, asked: int | None = None) -> Metric:
    """Return the share of queries whose first right answer has a rank from 1 to k (hit rate).

    Use it for lists that people read.

    Args:
        ranks: int[n], the rank of the first right answer of each ranked query.
        k: the last rank that counts.
        asked: number of queries, ranked or not.
    """
    ranks = np.asarray(ranks, np.int64)
    hits, kind = (ranks > 0) & (ranks <= k), _at(_ACCURACY, k)
    if not len(hits):
        return _mean(kind, hits.astype(np.float64), asked=asked)
    coverage = len(hits) / asked if asked else None
    return share_of(kind, hits, coverage=coverage)


def recall_at(ranks: Sequence[Sequence[int]], right: Sequence[int], k: int, *, asked: int | None = None) -> Metric:
    """Return the mean share of the right answers that have a rank from 1 to k.

    Use it where queries have several right answers.

    Args:
        ranks: the ranks of each query's right answers that are in its list.
        right: number of right answers of each query, at least 1.
        k: the last rank that counts.
        asked: number of queries, ranked or not.

    Raises:
        ValueError: a query without right answers, or with more ranks than right answers.
    """
    if any(n < 1 or len(listed) > n for listed, n in zip(ranks, right, strict=True)):
        raise ValueError("every query needs at least one right answer and at most one rank per right answer")
    shares = [sum(0 < rank <= k for rank in listed) / n for listed, n in zip(ranks, right, strict=True)]
    return _mean(_at(_RECALL, k), np.array(shares, np.float64), asked=asked)


def right_answers(right: Sequence[Collection[str]]) -> Metric:
    """Return the number of distinct right answers of all queries.

    Use it to report how many categories a test set has (CAIRE, table 4).

    Args:
        right: the right answers of each query.
    """
    value = len({answer for answers in right for answer in answers})
    return exact(_RIGHT, value, len(right), coverage=1.0, reason="no interval: an exact count")


def random_mrr(answers: int, *, cut: int | None = None) -> Metric:
    """Return the expected MRR of answers in random order, one of which is right: (1 + 1/2 + … + 1/cut) / answers.

    Use it to see how much better than chance a ranking is.

    Raises:
        ValueError: `answers` is less than 1.
    """
    if answers < 1:
        raise ValueError(f"answers={answers}: must be at least 1")
    last = min(cut or answers, answers)
    value = float(np.sum(1.0 / np.arange(last, 0, -1)) / answers)
    return exact(_at(_RANDOM, cut), value, answers, coverage=1.0, reason="no interval: an exact value")


def by_group(ranks: ArrayLike, groups: Sequence[str]) -> dict[str, Ranks]:
    """Return the ranks of each group, with groups in the order of their names."""
    names = np.asarray(groups, object)
    return {name: np.asarray(ranks, np.int64)[names == name] for name in sorted(set(groups))}


def _at(kind: MetricKind, cut: int | None) -> MetricKind:
    """Return the kind of a metric of the ranks up to `cut`, or of all ranks."""
    return replace(kind, name=kind.name.replace("@k", f"@{cut}" if cut else ""))


def _mean(kind: MetricKind, values: NDArray[np.float64], *, asked: int | None) -> Metric:
    coverage = None if not asked else len(values) / asked
    if not len(values):
        return undefined(kind, "no query was ranked", coverage=coverage)
    return mean_of(kind, values, Units.single(len(values), "queries"), coverage=coverage)
