"""CrowdTruth 2.0 for closed tasks: quality of units, workers and annotations that depend on each other.

Dumitrache, Inel, Aroyo, Timmermans and Welty, "CrowdTruth 2.0: Quality Metrics for Crowdsourcing with Disagreement",
2018. Each measure is an agreement weighed by the two others, computed again until nothing changes. In each round all
are computed from the values of the round before (the order of the reference implementation, CrowdTruth-core).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import proportion
from jobs.metrics.metric import Metric, estimated, undefined

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]
REFERENCE = 0.001  # the reference stops when no measure changes by this much or more
STRICT = 1e-10
MAX_ROUNDS = 2_000  # with little agreement the measures may oscillate between two states
ZERO = 1e-9  # a lower quality of a unit is 0 except for rounding
FLOOR = 1e-8  # the reference's minimum of denominators, cosines and annotation qualities

_DEPENDENT = "no interval: the qualities depend on each other"
_SOURCE = "CrowdTruth 2.0 (Dumitrache et al. 2018), closed task, rounds until nothing changes by {stop:g} or more"
_DEFINITIONS = {
    "unit_quality": "Agreement of a unit's workers weighed by quality; n counts its ratings. ",
    "worker_quality": "Product of a worker's agreement with workers and with units; n counts the worker's ratings. ",
    "worker_worker_agreement": "A worker's agreement with the others on common units; n counts the worker's ratings. ",
    "worker_unit_agreement": "A worker's agreement with the rest of each unit; n counts the worker's ratings. ",
    "annotation_quality": "How likely a worker picks an annotation that another picked; n counts all ratings. ",
    "unit_annotation_score": "Share of a unit's workers who picked the annotation, weighed by quality; n counts its "
    "ratings. ",
}


class NoEndError(ValueError):
    """The measures do not converge."""


@dataclass(frozen=True)
class CrowdTruth:
    """The measures; all in [0, 1].

    Attributes:
        unit: float64[units]; worker, worker_worker, worker_unit: float64[workers].
        annotation: float64[annotations].
        unit_annotation: float64[units, annotations], rows summing to 1 where one answer a rating is allowed.
        rounds: how many were needed; `change` is the largest change of the last.
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
    """The measures of CrowdTruth 2.0 for a closed task.

    Units with a single judgement must have been left out: there is nothing to agree with.

    Args:
        unit, worker: int64[judgements], codes from 0; a pair stands once.
        vectors: float64[judgements, annotations], 1 where the worker picked the annotation, else 0; no row of zeros.
        stop: rounds end when the largest change of any unit's, worker's or annotation's quality is below it.

    Raises:
        ValueError: shapes that differ, a judgement without an annotation, or a unit with one judgement.
        NoEndError: no end within `MAX_ROUNDS` rounds.
    """
    units, workers = np.asarray(unit, np.int64), np.asarray(worker, np.int64)
    picked = np.asarray(vectors, np.float64)
    if picked.ndim != 2 or not len(units) == len(workers) == len(picked):
        raise ValueError(f"{len(units)} units, {len(workers)} workers and vectors of shape {picked.shape} differ")
    if not picked.any(1).all():
        raise ValueError("a judgement without an annotation")
    if len(units) and np.bincount(units)[units].min() < 2:
        raise ValueError("a unit with a single judgement: leave it out")
    tied = _tie(units, workers, picked)
    now = _State(np.ones(tied.units), np.ones(tied.workers), np.ones(picked.shape[1]))
    factors = (np.ones(tied.workers), np.ones(tied.workers))
    for rounds in range(1, MAX_ROUNDS + 1):
        after, factors = _round(tied, now)
        change = max(
            float(np.abs(a - b).max(initial=0))
            for a, b in ((after.unit, now.unit), (after.worker, now.worker), (after.annotation, now.annotation))
        )
        now = after
        if change < stop:
            score = _unit_annotation(tied, now.worker)
            return CrowdTruth(now.unit, now.worker, *factors, now.annotation, score, rounds, change)
    raise NoEndError(f"no end within {MAX_ROUNDS:,} rounds: the largest change is still {change:.2g}")


@dataclass(frozen=True)
class _Tied:
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


def _tie(units: Ints, workers: Ints, picked: Floats) -> _Tied:
    left, right = _pairs_within(units)
    sizes = int(units.max(initial=-1)) + 1, int(workers.max(initial=-1)) + 1
    return _Tied(units, workers, picked, left, right, *sizes)


def _pairs_within(groups: Ints) -> tuple[Ints, Ints]:
    """All ordered pairs of different positions whose group is the same."""
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups) if len(groups) else np.zeros(0, np.int64)
    starts = np.cumsum(sizes) - sizes
    own = np.repeat(sizes, sizes)  # size of the group of each sorted position
    left = np.repeat(np.arange(len(groups)), own)
    within = np.arange(len(left)) - np.repeat(np.cumsum(own) - own, own)
    right = np.repeat(starts, sizes)[left] + within
    apart = left != right
    return order[left[apart]], order[right[apart]]


def _round(tied: _Tied, at: _State) -> tuple[_State, tuple[Floats, Floats]]:
    left, right, quality = tied.left, tied.right, at.annotation
    cosine = _cosine(tied.picked[left], tied.picked[right], quality)
    both = at.worker[tied.worker[left]] * at.worker[tied.worker[right]]
    # each pair occurs twice here, once in the reference's minimum of denominators
    unit = _quotient(tied.unit[left], cosine * both / 2, both / 2, tied.units)

    weight = at.worker[tied.worker[right]] * at.unit[tied.unit[left]]
    worker_worker = _quotient(tied.worker[left], cosine * weight, weight, tied.workers)
    own = tied.picked * at.worker[tied.worker, None]
    total = np.zeros((tied.units, tied.picked.shape[1]))
    np.add.at(total, tied.unit, own)
    weight = at.unit[tied.unit]
    with_unit = _cosine(own, total[tied.unit] - own, quality, floor=FLOOR)  # with the rest of the unit
    worker_unit = _quotient(tied.worker, with_unit * weight, weight, tied.workers)

    annotation = _annotations(tied, at)
    return _State(unit, worker_worker * worker_unit, annotation), (worker_worker, worker_unit)


def _cosine(one: Floats, other: Floats, quality: Floats, *, floor: float = 0.0) -> Floats:
    product = (one * other) @ quality
    length = np.sqrt(((one * one) @ quality) * ((other * other) @ quality))
    return np.asarray(np.divide(product, length, out=np.full(len(product), floor), where=length >= max(floor, 1e-300)))


def _quotient(groups: Ints, over: Floats, under: Floats, size: int) -> Floats:
    return np.bincount(groups, over, size) / np.maximum(np.bincount(groups, under, size), FLOOR)


def _annotations(tied: _Tied, at: _State) -> Floats:
    """Of the units where one worker picked it, weighed, how many another did too: the mean over pairs of workers."""
    first, second = tied.worker[tied.left], tied.worker[tied.right]
    pairs, pair = np.unique(first * tied.workers + second, return_inverse=True)
    weight = at.unit[tied.unit[tied.left]]
    both = at.worker[pairs // tied.workers] * at.worker[pairs % tied.workers]
    found = np.full(tied.picked.shape[1], FLOOR)
    for k in range(len(found)):
        over = np.bincount(pair, weight * tied.picked[tied.left, k] * tied.picked[tied.right, k], len(pairs))
        under = np.bincount(pair, weight * tied.picked[tied.right, k], len(pairs))
        met = under > 0
        if (total := both[met].sum()) > FLOOR:
            found[k] = max((both[met] * over[met] / under[met]).sum() / total, FLOOR)
    return found


def _unit_annotation(tied: _Tied, worker: Floats) -> Floats:
    weight = worker[tied.worker]
    total = np.bincount(tied.unit, weight, tied.units)
    picked = np.zeros((tied.units, tied.picked.shape[1]))
    np.add.at(picked, tied.unit, tied.picked * weight[:, None])
    return picked / np.maximum(total, FLOOR)[:, None]


def binned(scores: Floats, low: float, high: float) -> Ints:
    """Scores as 0 disagree (below the middle), 1 neutral (the middle), 2 agree (above)."""
    return (np.sign(np.asarray(scores, np.float64) - (low + high) / 2) + 1).astype(np.int64)


BINS = ("disagree", "neutral", "agree")


def without_bins(reason: str, *, stop: float = REFERENCE) -> Metric:
    """The mean unit quality of scores that cannot be binned, undefined: `reason` says why."""
    return undefined("unit_quality_mean", f"Mean unit quality; n counts units. {_SOURCE.format(stop=stop)}", reason)


@dataclass(frozen=True)
class CrowdTruthTask:
    """Judgements of a closed task, as `crowdtruth` takes them, with the names that metrics carry.

    Units with a single judgement are left out (as in the reference) and show in the coverage.

    Attributes:
        asked_of_worker: int64[workers], judgements asked for, answered or not.
        asked_of_unit: int64[units], the same; None: not known, and units have the coverage of the whole task.
    """

    unit: Ints
    worker: Ints
    vectors: Floats
    units: Sequence[str]
    workers: Sequence[str]
    annotations: Sequence[str]
    asked_of_worker: Ints
    asked_of_unit: Ints | None = None

    def metrics(self, *, stop: float = REFERENCE, dims: Mapping[str, str] | None = None) -> Iterator[Metric]:
        """The measures of every unit, worker and annotation, and what sums the task up.

        Undefined: no unit with two judgements, or measures that do not settle.
        """
        source = _SOURCE.format(stop=stop)
        mean = f"Mean unit quality; n counts units. {source}"
        pair = np.bincount(self.unit, minlength=len(self.units)) >= 2
        rows = pair[self.unit] if len(self.unit) else np.zeros(0, bool)
        asked = int(self.asked_of_worker.sum())
        share = float(rows.sum() / asked) if asked else 0.0
        if not rows.any():
            reason = "no unit was rated by two raters"
            yield undefined("unit_quality_mean", mean, reason, coverage=share, dims=dims)
            return
        used_units, unit = np.unique(self.unit[rows], return_inverse=True)
        used_workers, worker = np.unique(self.worker[rows], return_inverse=True)
        try:
            at = crowdtruth(unit, worker, self.vectors[rows], stop=stop)
        except NoEndError as error:
            yield undefined("unit_quality_mean", mean, str(error), n=len(used_units), coverage=share, dims=dims)
            return
        n_units, n_workers = np.bincount(unit), np.bincount(worker)
        own = np.full(len(n_units), share) if self.asked_of_unit is None else n_units / self.asked_of_unit[used_units]
        of_units = _Counted([self.units[u] for u in used_units], n_units, own)
        own = n_workers / self.asked_of_worker[used_workers]
        of_workers = _Counted([self.workers[w] for w in used_workers], n_workers, own)
        made = [*_of_units(at, of_units, self.annotations, source), *_of_workers(at, of_workers, source)]
        n = int(rows.sum())
        made += [
            _measure("annotation_quality", at.annotation[k], n, share, source, annotation=label)
            for k, label in enumerate(self.annotations)
        ]
        made += _summary(at, source, share, n)
        for metric in made:
            yield metric.at(**(dims or {}))


def task_of(answers: RatingTable, names: Sequence[str], *, bins: tuple[float, float] | None = None) -> CrowdTruthTask:
    """The task of one question with one answer per rating.

    Args:
        names: str[items], how the units are called in dims.
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
    )


class _Counted(NamedTuple):
    """Units or workers that take part: names, judgements that count, and their share of those asked for."""

    names: Sequence[str]
    n: Ints
    coverage: Floats

    def each(self) -> Iterator[tuple[int, str, int, float]]:
        """Position, name, judgements and coverage of each."""
        rows = zip(self.names, self.n.tolist(), self.coverage.tolist(), strict=True)
        yield from ((place, *row) for place, row in enumerate(rows))


def _measure(metric: str, value: float, n: int, coverage: float, source: str, **dims: str) -> Metric:
    said = _DEFINITIONS[metric] + source
    return Metric(name=metric, definition=said, value=value, n=n, coverage=coverage, reason=_DEPENDENT, dims=dims)


def _of_units(at: CrowdTruth, units: _Counted, annotations: Sequence[str], source: str) -> Iterator[Metric]:
    for place, name, n, share in units.each():
        yield _measure("unit_quality", at.unit[place], n, share, source, unit=name)
        for k, label in enumerate(annotations):
            score = at.unit_annotation[place, k]
            yield _measure("unit_annotation_score", score, n, share, source, unit=name, annotation=label)


def _of_workers(at: CrowdTruth, workers: _Counted, source: str) -> Iterator[Metric]:
    for place, name, n, share in workers.each():
        yield _measure("worker_quality", at.worker[place], n, share, source, rater=name)
        yield _measure("worker_worker_agreement", at.worker_worker[place], n, share, source, rater=name)
        yield _measure("worker_unit_agreement", at.worker_unit[place], n, share, source, rater=name)


def _summary(at: CrowdTruth, source: str, coverage: float, n: int) -> Iterator[Metric]:
    units = len(at.unit)
    yield Metric(
        name="unit_quality_mean",
        definition=f"Mean unit quality; n counts units. {source}",
        value=at.unit.mean(),
        n=units,
        coverage=coverage,
        reason=_DEPENDENT,
    )
    none = int((at.unit < ZERO).sum())
    yield estimated(
        "unit_quality_zero",
        f"Share of units of quality 0: no two ratings are equal (Century, appendix N); n counts units. {source}",
        none / units,
        units,
        coverage=coverage,
        interval=proportion(none, units),
    )
    yield Metric(
        name="worker_quality_mean",
        definition=f"Mean worker quality; n counts workers. {source}",
        value=at.worker.mean(),
        n=len(at.worker),
        coverage=coverage,
        reason=_DEPENDENT,
    )
    yield Metric(
        name="crowdtruth_rounds",
        definition=f"Rounds until the end; n counts ratings. {source}",
        value=at.rounds,
        n=n,
        coverage=coverage,
        reason="a count: no interval",
    )
