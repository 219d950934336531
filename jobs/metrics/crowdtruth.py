"""CrowdTruth 2.0 for closed tasks: quality of units, workers and annotations that depend on each other.

Dumitrache, Inel, Aroyo, Timmermans and Welty, "CrowdTruth 2.0: Quality Metrics for Crowdsourcing with Disagreement",
2018. Each measure is an agreement weighted by the two other measures, iterated until none changes. Each round computes
all measures from the values of the previous round (the order of the reference implementation, CrowdTruth-core).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import Units, share
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, exact, undefined

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
REFERENCE = 0.001  # the reference stops when no measure changes by this much or more
STRICT = 1e-10
MAX_ROUNDS = 2_000  # with little agreement the measures may oscillate between two states
ZERO = 1e-9  # a unit whose quality is below this has quality 0 up to rounding
FLOOR = 1e-8  # the reference's lower bound of denominators, cosines and annotation qualities

_DEPENDENT = "no interval: the qualities depend on each other"
_SOURCE = "CrowdTruth 2.0 (Dumitrache et al. 2018), closed task, iterated until no measure changes by {stop:g} or more"
_OF_TASK = (Topic.CROWDTRUTH,)
_UNITS_MEAN = MetricKind("unit_quality_mean", Quantity.FRACTION, _OF_TASK).defined_as(
    "Mean unit quality; n counts units. " + _SOURCE
)
_UNITS_ZERO = MetricKind("unit_quality_zero", Quantity.SHARE, _OF_TASK).defined_as(
    "Share of units with quality 0, where no two ratings are equal, among units with at least {needed} ratings "
    "(Century, appendix N); n counts units. " + _SOURCE
)
_WORKERS_MEAN = MetricKind("worker_quality_mean", Quantity.FRACTION, _OF_TASK).defined_as(
    "Mean worker quality; n counts workers. " + _SOURCE
)
_ANNOTATION = MetricKind("annotation_quality", Quantity.FRACTION, _OF_TASK).defined_as(
    "Probability that a worker picks an annotation that another picked; n counts all ratings. " + _SOURCE
)
_ROUNDS = MetricKind("crowdtruth_rounds", Quantity.COUNT, _OF_TASK).defined_as(
    "Number of iterations; n counts ratings. " + _SOURCE
)
_UNIT = MetricKind("unit_quality", Quantity.FRACTION, place="one for each item").defined_as(
    "Agreement of a unit's workers, weighted by quality; n counts its ratings. " + _SOURCE
)
_UNIT_ANNOTATION = MetricKind(
    "unit_annotation_score", Quantity.FRACTION, place="one for each item and answer"
).defined_as(
    "Share of a unit's workers who picked the annotation, weighted by quality; n counts its ratings. " + _SOURCE
)
_WORKER = MetricKind("worker_quality", Quantity.FRACTION, (Topic.WORKERS,)).defined_as(
    "Product of a worker's agreement with workers and with units; n counts the worker's ratings. " + _SOURCE
)
_WORKER_WORKER = MetricKind("worker_worker_agreement", Quantity.FRACTION, (Topic.WORKERS,)).defined_as(
    "A worker's agreement with the others on common units; n counts the worker's ratings. " + _SOURCE
)
_WORKER_UNIT = MetricKind("worker_unit_agreement", Quantity.FRACTION, (Topic.WORKERS,)).defined_as(
    "A worker's agreement with the rest of each unit; n counts the worker's ratings. " + _SOURCE
)


class ConvergenceError(ValueError):
    """The measures do not converge."""


@dataclass(frozen=True)
class CrowdTruth:
    """The measures; all in [0, 1].

    Attributes:
        unit: float64[units]; worker, worker_worker, worker_unit: float64[workers].
        annotation: float64[annotations].
        unit_annotation: float64[units, annotations]; with one annotation per judgement, each row sums to 1.
        rounds: number of iterations; `change`: the largest change in the last one.
    """

    unit: Floats
    worker: Floats
    worker_worker: Floats
    worker_unit: Floats
    annotation: Floats
    unit_annotation: Floats
    rounds: int
    change: float


def crowdtruth(unit: ArrayLike, worker: ArrayLike, vectors: ArrayLike, *, stop: float = REFERENCE) -> CrowdTruth:
    """Return the measures of CrowdTruth 2.0 for a closed task.

    Remove units with a single judgement first: agreement is not defined for them.

    Args:
        unit, worker: int64[judgements], codes from 0; each pair occurs at most once.
        vectors: float64[judgements, annotations], 1 where the worker picked the annotation, else 0; no row of zeros.
        stop: the iteration ends when no quality of a unit, worker or annotation changes by this much or more.

    Raises:
        ValueError: shapes that differ, a judgement without an annotation, or a unit with one judgement.
        ConvergenceError: no convergence within `MAX_ROUNDS` rounds.
    """
    units, workers = np.asarray(unit, np.int64), np.asarray(worker, np.int64)
    picked = np.asarray(vectors, np.float64)
    if picked.ndim != 2 or not len(units) == len(workers) == len(picked):
        raise ValueError(
            f"{len(units)} units, {len(workers)} workers and vectors of shape {picked.shape}: the lengths differ"
        )
    if not picked.any(1).all():
        raise ValueError("vectors: a judgement has no annotation")
    if len(units) and np.bincount(units)[units].min() < 2:
        raise ValueError("unit: a unit has a single judgement; remove it")
    judgements = _judgements(units, workers, picked)
    state = _State(np.ones(judgements.units), np.ones(judgements.workers), np.ones(picked.shape[1]))
    factors = (np.ones(judgements.workers), np.ones(judgements.workers))
    for rounds in range(1, MAX_ROUNDS + 1):
        after, factors = _round(judgements, state)
        change = max(
            float(np.abs(a - b).max(initial=0))
            for a, b in ((after.unit, state.unit), (after.worker, state.worker), (after.annotation, state.annotation))
        )
        state = after
        if change < stop:
            score = _unit_annotation(judgements, state.worker)
            return CrowdTruth(state.unit, state.worker, *factors, state.annotation, score, rounds, change)
    raise ConvergenceError(f"no convergence within {MAX_ROUNDS:,} rounds: the largest change is still {change:.2g}")


@dataclass(frozen=True)
class _Judgements:
    """The judgements, and every ordered pair of different judgements of one unit (`left`, `right`: rows)."""

    unit: Ints
    worker: Ints
    picked: Floats
    left: Ints
    right: Ints
    units: int
    workers: int


@dataclass(frozen=True)
class _State:
    unit: Floats
    worker: Floats
    annotation: Floats


def _judgements(units: Ints, workers: Ints, picked: Floats) -> _Judgements:
    left, right = _pairs_within(units)
    sizes = int(units.max(initial=-1)) + 1, int(workers.max(initial=-1)) + 1
    return _Judgements(units, workers, picked, left, right, *sizes)


def _pairs_within(groups: Ints) -> tuple[Ints, Ints]:
    """Return all ordered pairs of different positions in the same group, as two int64 [pairs]."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups) if len(groups) else np.zeros(0, np.int64)
    starts = np.cumsum(sizes) - sizes
    size = np.repeat(sizes, sizes)  # of the group of each sorted position
    left = np.repeat(np.arange(len(groups)), size)
    within = np.arange(len(left)) - np.repeat(np.cumsum(size) - size, size)
    right = np.repeat(starts, sizes)[left] + within
    apart = left != right
    return order[left[apart]], order[right[apart]]


def _round(judgements: _Judgements, state: _State) -> tuple[_State, tuple[Floats, Floats]]:
    left, right, quality = judgements.left, judgements.right, state.annotation
    cosine = _cosine(judgements.picked[left], judgements.picked[right], quality)
    both = state.worker[judgements.worker[left]] * state.worker[judgements.worker[right]]
    # each pair occurs twice here but once in the reference, whose denominators have a lower bound
    unit = _quotient(judgements.unit[left], cosine * both / 2, both / 2, judgements.units)

    weight = state.worker[judgements.worker[right]] * state.unit[judgements.unit[left]]
    worker_worker = _quotient(judgements.worker[left], cosine * weight, weight, judgements.workers)
    weighted = judgements.picked * state.worker[judgements.worker, None]
    total = np.zeros((judgements.units, judgements.picked.shape[1]))
    np.add.at(total, judgements.unit, weighted)
    weight = state.unit[judgements.unit]
    with_unit = _cosine(weighted, total[judgements.unit] - weighted, quality)  # with the rest of the unit
    worker_unit = _quotient(judgements.worker, with_unit * weight, weight, judgements.workers)

    annotation = _annotations(judgements, state)
    return _State(unit, worker_worker * worker_unit, annotation), (worker_worker, worker_unit)


def _cosine(one: Floats, other: Floats, quality: Floats) -> Floats:
    product = (one * other) @ quality
    length = np.sqrt(((one * one) @ quality) * ((other * other) @ quality))
    return np.asarray(np.divide(product, length, out=np.full(len(product), FLOOR), where=length >= FLOOR))


def _quotient(groups: Ints, over: Floats, under: Floats, size: int) -> Floats:
    return np.bincount(groups, over, size) / np.maximum(np.bincount(groups, under, size), FLOOR)


def _annotations(judgements: _Judgements, state: _State) -> Floats:
    """Return float64[annotations]: the mean over ordered pairs of workers, weighted by their qualities, of the weighted
    share of the units where one picked the annotation that the other picked it too."""
    first, second = judgements.worker[judgements.left], judgements.worker[judgements.right]
    pairs, pair = np.unique(first * judgements.workers + second, return_inverse=True)
    weight = state.unit[judgements.unit[judgements.left]]
    both = state.worker[pairs // judgements.workers] * state.worker[pairs % judgements.workers]
    quality = np.full(judgements.picked.shape[1], FLOOR)
    for k in range(len(quality)):
        over = np.bincount(
            pair, weight * judgements.picked[judgements.left, k] * judgements.picked[judgements.right, k], len(pairs)
        )
        under = np.bincount(pair, weight * judgements.picked[judgements.right, k], len(pairs))
        shared = under > 0
        if (total := both[shared].sum()) > FLOOR:
            quality[k] = max((both[shared] * over[shared] / under[shared]).sum() / total, FLOOR)
    return quality


def _unit_annotation(judgements: _Judgements, worker: Floats) -> Floats:
    weight = worker[judgements.worker]
    total = np.bincount(judgements.unit, weight, judgements.units)
    picked = np.zeros((judgements.units, judgements.picked.shape[1]))
    np.add.at(picked, judgements.unit, judgements.picked * weight[:, None])
    return picked / np.maximum(total, FLOOR)[:, None]


def binned(scores: Floats, low: float, high: float) -> Ints:
    """Return each score's bin: 0 disagree (below the middle of the scale), 1 neutral (the middle), 2 agree (above)."""
    return (np.sign(np.asarray(scores, np.float64) - (low + high) / 2) + 1).astype(np.int64)


BINS = ("disagree", "neutral", "agree")


def without_bins(reason: str, *, stop: float = REFERENCE) -> Metric:
    """Return an undefined mean unit quality, for scores that cannot be binned because of `reason`."""
    return undefined(_UNITS_MEAN.worded(stop=stop), reason)


@dataclass(frozen=True)
class CrowdTruthTask:
    """Judgements of a closed task, in the form that `crowdtruth` needs, with the names that appear in dims.

    Units with a single judgement are left out, as in the reference, and lower the coverage.

    Attributes:
        asked_of_worker: int64[workers], judgements requested of each worker, answered or not.
        asked_of_unit: int64[units], judgements requested about each unit; None: unknown, and each unit has the coverage
            of the whole task.
        independent: the unit of the interval of each CrowdTruth unit, such as its picture; None: each is one.
    """

    unit: Ints
    worker: Ints
    vectors: Floats
    units: Sequence[str]
    workers: Sequence[str]
    annotations: Sequence[str]
    asked_of_worker: Ints
    asked_of_unit: Ints | None = None
    independent: Units | None = None

    def metrics(
        self, *, stop: float = REFERENCE, dims: Mapping[str, str] | None = None, at_least: int = 2
    ) -> Iterator[Metric]:
        """Yield the measures of every unit, worker and annotation, and summaries of the task.

        Args:
            at_least: judgements that a unit needs to count in the share of units with quality 0: of two judgements,
                both differ more often than all of three do.

        Undefined: no unit has two judgements, or the measures do not converge.
        """
        mean = _UNITS_MEAN.worded(stop=stop)
        pair = np.bincount(self.unit, minlength=len(self.units)) >= 2
        rows = pair[self.unit] if len(self.unit) else np.zeros(0, bool)
        asked = int(self.asked_of_worker.sum())
        coverage_of_all = float(rows.sum() / asked) if asked else 0.0
        if not rows.any():
            reason = "no unit was rated by two raters"
            yield undefined(mean, reason, coverage=coverage_of_all, dims=dims)
            return
        used_units, unit = np.unique(self.unit[rows], return_inverse=True)
        used_workers, worker = np.unique(self.worker[rows], return_inverse=True)
        try:
            measures = crowdtruth(unit, worker, self.vectors[rows], stop=stop)
        except ConvergenceError as error:
            yield undefined(mean, str(error), n=len(used_units), coverage=coverage_of_all, dims=dims)
            return
        n_units, n_workers = np.bincount(unit), np.bincount(worker)
        coverage = (
            np.full(len(n_units), coverage_of_all)
            if self.asked_of_unit is None
            else n_units / self.asked_of_unit[used_units]
        )
        of_units = _Counted([self.units[u] for u in used_units], n_units, coverage)
        coverage = n_workers / self.asked_of_worker[used_workers]
        of_workers = _Counted([self.workers[w] for w in used_workers], n_workers, coverage)
        metrics = [*_of_units(measures, of_units, self.annotations, stop), *_of_workers(measures, of_workers, stop)]
        n = int(rows.sum())
        metrics += [
            _measure(_ANNOTATION, measures.annotation[k], n, coverage_of_all, stop, annotation=label)
            for k, label in enumerate(self.annotations)
        ]
        metrics += [
            _measure(_UNITS_MEAN, measures.unit.mean(), len(measures.unit), coverage_of_all, stop),
            _measure(_WORKERS_MEAN, measures.worker.mean(), len(measures.worker), coverage_of_all, stop),
            exact(_ROUNDS.worded(stop=stop), measures.rounds, n, coverage=coverage_of_all),
        ]
        enough = n_units >= at_least
        independent = None if self.independent is None else self.independent.of(used_units[enough])
        metrics.append(_zero(measures.unit[enough], at_least, len(self.units), stop, independent))
        for metric in metrics:
            yield metric.at(**(dims or {}))


def task_of(answers: RatingTable, names: Sequence[str], *, bins: tuple[float, float] | None = None) -> CrowdTruthTask:
    """Return the task of one question with one answer per rating.

    Args:
        names: str[items], the units' names in dims.
        bins: (lowest, highest) score of the scale, to bin scores into disagree, neutral, agree; None: the values are
            the annotations.
    """
    rows = answers.where(~np.isnan(answers.score) if bins else answers.value >= 0)
    labels = BINS if bins else answers.values
    code = binned(rows.score, *bins) if bins else rows.value
    return CrowdTruthTask(
        unit=rows.item,
        worker=rows.rater,
        vectors=np.eye(len(labels))[code],
        units=names,
        workers=answers.raters,
        annotations=labels,
        asked_of_worker=answers.asked,
        independent=answers.units,
    )


class _Counted(NamedTuple):
    """The units or workers that count: names, numbers of judgements, and their share of the requested judgements."""

    names: Sequence[str]
    n: Ints
    coverage: Floats

    def rows(self) -> Iterator[tuple[int, str, int, float]]:
        """Yield position, name, number of judgements and coverage."""
        rows = zip(self.names, self.n.tolist(), self.coverage.tolist(), strict=True)
        yield from ((position, *row) for position, row in enumerate(rows))


def _measure(kind: MetricKind, value: float, n: int, coverage: float, stop: float, **dims: str) -> Metric:
    return exact(kind.worded(stop=stop), value, n, coverage=coverage, reason=_DEPENDENT, dims=dims)


def _of_units(measures: CrowdTruth, units: _Counted, annotations: Sequence[str], stop: float) -> Iterator[Metric]:
    for position, name, n, coverage in units.rows():
        yield _measure(_UNIT, measures.unit[position], n, coverage, stop, unit=name)
        for k, label in enumerate(annotations):
            score = measures.unit_annotation[position, k]
            yield _measure(_UNIT_ANNOTATION, score, n, coverage, stop, unit=name, annotation=label)


def _of_workers(measures: CrowdTruth, workers: _Counted, stop: float) -> Iterator[Metric]:
    for position, name, n, coverage in workers.rows():
        yield _measure(_WORKER, measures.worker[position], n, coverage, stop, rater=name)
        yield _measure(_WORKER_WORKER, measures.worker_worker[position], n, coverage, stop, rater=name)
        yield _measure(_WORKER_UNIT, measures.worker_unit[position], n, coverage, stop, rater=name)


def _zero(quality: Floats, at_least: int, asked: int, stop: float, independent: Units | None) -> Metric:
    """Return the share of units with quality 0 among float64[units] qualities of units with enough judgements."""
    needed, n = max(at_least, 2), len(quality)
    kind = _UNITS_ZERO.worded(needed=needed, stop=stop)
    coverage = n / asked if asked else None
    if not n:
        reason = f"no unit has {needed} ratings"
        return undefined(kind, reason, coverage=coverage, status="missing_input")
    zero = quality < ZERO
    interval = share(zero, independent)
    return estimated(kind, zero.mean(), n, coverage=coverage, interval=interval)
