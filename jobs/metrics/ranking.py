"""Mean reciprocal rank, accuracy at k and recall at k of ranked lists, with intervals over queries.

A rank is 1 for the first answer of a list; 0 means that the right answer is not in the list. Queries without a list,
such as unreadable pictures, have no rank: `asked` - n counts them, and they lower the coverage.
"""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics.intervals import bootstrap, ratio, share
from jobs.metrics.metric import Metric, estimated, undefined

Ranks = NDArray[np.int64]
_MRR = "Mean of 1 / rank of the first right answer over ranked queries, 0 if it is not in the list"
_MRR_CHANGE = (
    "Mean of 1 / rank under the second ranking minus that under the first, over queries that both rank; the interval "
    "draws queries with both their ranks; n counts queries."
)
_ACCURACY = "Share of ranked queries with a right answer among the first k (CAIRE, table 3); n counts queries."
_RIGHT = "Distinct right answers of the queries (CAIRE, table 4); n counts queries."
_RECALL = "Mean share of a query's right answers that are among the first k; n counts ranked queries."


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
    definition = f"{_MRR}{past} (TRIC, section IV.B); n counts ranked queries: those without a list are left out."
    return _mean(f"mrr@{cut}" if cut else "mrr", definition, reciprocal_ranks(ranks, cut=cut), asked=asked)


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
    name = f"mrr_change@{cut}" if cut else "mrr_change"
    return _mean(name, _MRR_CHANGE + past, after - before, asked=asked)


def accuracy_at(ranks: ArrayLike, k: int, *, asked: int | None = None) -> Metric:
    """Return the share of queries whose first right answer has a rank from 1 to k (hit rate).

    Use it for lists that people read.

    Args:
        ranks: int[n], the rank of the first right answer of each ranked query.
        k: the last rank that counts.
        asked: number of queries, ranked or not.
    """
    ranks = np.asarray(ranks, np.int64)
    hits, name = (ranks > 0) & (ranks <= k), f"accuracy@{k}"
    if not len(hits):
        return _mean(name, _ACCURACY, hits.astype(np.float64), asked=asked)
    coverage = len(hits) / asked if asked else None
    return estimated(name, _ACCURACY, float(hits.mean()), len(hits), coverage=coverage, interval=share(hits))


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
    return _mean(f"recall@{k}", _RECALL, np.array(shares, np.float64), asked=asked)


def right_answers(right: Sequence[Collection[str]]) -> Metric:
    """Return the number of distinct right answers of all queries.

    Use it to report how many categories a test set has (CAIRE, table 4).

    Args:
        right: the right answers of each query.
    """
    value = len({answer for answers in right for answer in answers})
    reason = "no interval: an exact count"
    return Metric(name="right_answers", definition=_RIGHT, value=value, n=len(right), coverage=1.0, reason=reason)


def random_mrr(answers: int, *, cut: int | None = None) -> float:
    """Return the expected MRR of answers in random order, one of which is right: (1 + 1/2 + … + 1/cut) / answers.

    Raises:
        ValueError: `answers` is less than 1.
    """
    if answers < 1:
        raise ValueError(f"answers={answers}: must be at least 1")
    last = min(cut or answers, answers)
    return float(np.sum(1.0 / np.arange(last, 0, -1)) / answers)


def by_group(ranks: ArrayLike, groups: Sequence[str]) -> dict[str, Ranks]:
    """Return the ranks of each group, with groups in the order of their names."""
    names = np.asarray(groups, object)
    return {name: np.asarray(ranks, np.int64)[names == name] for name in sorted(set(groups))}


def _mean(name: str, definition: str, values: NDArray[np.float64], *, asked: int | None) -> Metric:
    coverage = None if not asked else len(values) / asked
    if not len(values):
        return undefined(name, definition, "no query was ranked", coverage=coverage)
    interval = bootstrap(np.stack([values, np.ones(len(values))], 1), ratio, unit_name="queries")
    return estimated(name, definition, float(values.mean()), len(values), coverage=coverage, interval=interval)
