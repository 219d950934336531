"""How high the right answers stand: mean reciprocal rank, accuracy at k, recall at k, with bootstrap intervals.

A rank is 1 for the first; 0 says that the right answer does not stand in the list. Queries that were never
ranked (a broken picture) are not among the ranks: they are `asked` - n, and show in the coverage.
"""

from collections.abc import Sequence

import numpy as np

from jobs.metrics.intervals import Interval, percentiles, too_few
from jobs.metrics.metric import Metric, estimated, undefined

RESAMPLES = 2000
BOOTSTRAP = f"percentile bootstrap over queries 95%, {RESAMPLES} resamples"
_AT_ONCE = 5_000_000  # numbers of a block of resamples
_MRR = "Mean of 1 / rank of the first right answer over ranked queries, 0 where it stands in no list"
_ACCURACY = "Share of ranked queries with a right answer among the first k (CAIRE, table 3); n counts queries."
_RECALL = "Mean share of a query's right answers that stand among the first k; n counts ranked queries."


def reciprocal_ranks(ranks: np.ndarray, *, cut: int | None = None) -> np.ndarray:
    """[n] float64 of ranks [n] int: 1 / rank; 0 for rank 0, and past `cut`."""
    ranks = np.asarray(ranks, np.int64)
    inside = (ranks > 0) & (ranks <= (cut or np.iinfo(np.int64).max))
    return np.divide(1.0, ranks, out=np.zeros(len(ranks)), where=inside)


def mrr(ranks: np.ndarray, *, cut: int | None = None, asked: int | None = None, seed: int = 0) -> Metric:
    """Mean reciprocal rank (TRIC, section IV.B) of ranks [n], counted to rank `cut` only if given."""
    definition = f"{_MRR}{f' or past rank {cut}' if cut else ''} (TRIC, section IV.B); n counts queries."
    name = f"mrr@{cut}" if cut else "mrr"
    return _mean(name, definition, reciprocal_ranks(ranks, cut=cut), asked=asked, seed=seed)


def accuracy_at(ranks: np.ndarray, k: int, *, asked: int | None = None, seed: int = 0) -> Metric:
    """Share of ranks [n] that are 1 to k; `ranks` are those of the first right answer."""
    ranks = np.asarray(ranks)
    hit = ((ranks > 0) & (ranks <= k)).astype(float)
    return _mean(f"accuracy@{k}", _ACCURACY, hit, asked=asked, seed=seed)


def recall_at(
    found: Sequence[Sequence[int]], right: Sequence[int], k: int, *, asked: int | None = None, seed: int = 0
) -> Metric:
    """Mean share of the right answers found at ranks 1 to k.

    Args:
        found: a query's ranks at which right answers stand.
        right: how many right answers each query has, at least 1.

    Raises:
        ValueError: a query without right answers, or with more found than there are.
    """
    if any(n < 1 or len(ranks) > n for ranks, n in zip(found, right, strict=True)):
        raise ValueError("every query has at least one right answer, and none is found twice")
    shares = [sum(0 < rank <= k for rank in ranks) / n for ranks, n in zip(found, right, strict=True)]
    return _mean(f"recall@{k}", _RECALL, np.array(shares, float), asked=asked, seed=seed)


def random_mrr(answers: int, *, cut: int | None = None) -> float:
    """The expected MRR of answers in random order, one of which is right: (1 + 1/2 + … + 1/cut) / answers.

    Raises:
        ValueError: no answers.
    """
    if answers < 1:
        raise ValueError("random_mrr: at least one answer")
    last = min(cut or answers, answers)
    return float(np.sum(1.0 / np.arange(last, 0, -1)) / answers)


def by_group(ranks: np.ndarray, groups: Sequence[str]) -> dict[str, np.ndarray]:
    """The ranks of each group, groups in order of name."""
    names = np.asarray(groups, object)
    return {name: np.asarray(ranks)[names == name] for name in sorted(set(groups))}


def bootstrap(values: np.ndarray, *, seed: int = 0, resamples: int = RESAMPLES) -> Interval:
    """95 % percentile interval of the mean of values [n]; the same seed gives the same interval."""
    if none := too_few(len(values), "queries"):
        return none
    draw = np.random.default_rng(seed)
    means: list[np.ndarray] = []
    block = max(1, _AT_ONCE // len(values))
    for first in range(0, resamples, block):
        picked = draw.integers(0, len(values), (min(block, resamples - first), len(values)))
        means.append(np.asarray(values, float)[picked].mean(axis=1))
    return percentiles(np.concatenate(means), method=BOOTSTRAP)


def _mean(metric: str, definition: str, values: np.ndarray, *, asked: int | None, seed: int) -> Metric:
    coverage = None if not asked else len(values) / asked
    if not len(values):
        return undefined(metric, definition, "no query was ranked", coverage=coverage)
    mean, interval = float(np.mean(values)), bootstrap(values, seed=seed)
    return estimated(metric, definition, mean, len(values), coverage=coverage, interval=interval)
