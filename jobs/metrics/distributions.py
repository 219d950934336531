"""Distributions of raters' answers: counts by status, shares of answers, mean scores, coverage.

`Distributions` counts batches of the table `ratings` and does not keep them: its memory grows with the numbers of
raters, questions and answers, not with the number of rows. Arrow does the counting. `AnswerSpread` has how much the
answers of a rater vary between independent units, for the intervals.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.status import STATUSES, Status
from jobs.metrics.intervals import Interval, ShareSums, Units, estimate, no_interval
from jobs.metrics.metric import Metric, MetricKind, Quantity, estimated, undefined

BY = ("rater", "rubric", "question")
EXTRA = ("condition", "method", "order", "target")
# A question with more different answers is not closed (free text, a slider). Its answers are no longer counted one by
# one, which bounds the memory. The largest closed set of the papers has 22 answers (UN sub-regions).
MAX_ANSWERS = 512
# Arrow cannot group by lists: answers are joined by the ASCII unit separator, which no answer may contain.
_SEPARATOR = "\x1f"

_PLACE = "the distributions of ratings"
SHARE = MetricKind("share", Quantity.SHARE, place=_PLACE).defined_as(
    "Ok ratings that chose this answer / ok ratings; n counts ratings."
)
_MEAN_SCORE = MetricKind("mean_score", Quantity.SCORE, place=_PLACE).defined_as(
    "Mean of score over ok ratings that have one; n counts ratings."
)
_OUTSIDE_MASS = MetricKind("outside_mass_mean", Quantity.FRACTION, place=_PLACE).defined_as(
    "Mean over ok ratings of the probability that the rater gave to anything but the allowed answers; n counts ratings."
)
_MARKED = {
    "truncated": MetricKind("truncated_share", Quantity.SHARE, place=_PLACE).defined_as(
        "Ok ratings whose prompt had a context that was cut / ok ratings; n counts ratings."
    ),
    "empty_context": MetricKind("empty_context_share", Quantity.SHARE, place=_PLACE).defined_as(
        "Ok ratings of items without the text of their condition (column empty_context) / ok ratings; n counts ratings."
    ),
}
_COVERAGE = MetricKind("coverage", Quantity.SHARE, place=_PLACE).defined_as(
    "Ok ratings / requested ratings; n counts requested ratings."
)
Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.integer[Any]]
STUDENT = "Student's t 95% over {units}"
MARKS = ("truncated", "empty_context")  # columns that are null unless the context is not as it should be
UNKNOWN = no_interval("the units of the ratings are unknown")


@dataclass
class _Sums:
    n: int = 0
    total: float = 0.0

    def add(self, n: int, total: float | None) -> None:
        self.n += n
        self.total += total or 0.0  # Arrow's sum of no numbers is null

    @property
    def mean(self) -> float:
        return self.total / self.n if self.n else 0.0

    def metric(self, kind: MetricKind, asked: int, *, interval: Interval, empty: str | None, reason: str) -> Metric:
        """Return the mean with its interval; without numbers it is undefined, for the reason `empty` or else
        `reason`."""
        if not self.n:
            status = Status.MISSING_INPUT if empty else Status.SKIPPED
            return undefined(kind, empty or reason, coverage=0.0, status=status)
        return estimated(kind, self.mean, self.n, coverage=self.n / asked, interval=interval)


@dataclass(frozen=True)
class AnswersOfUnits:
    """Ratings of one question, all of them of each unit that occurs.

    Attributes:
        unit: uint64[n]; rater: int[n], index into `raters`; value: int[n], index into `answers`, -1 for none.
        score, outside: float[n], NaN for none; ok, by_people: bool[n].
        marks: column of `MARKS` -> bool[n].
        unit_name: what the units are, in the plural.
    """

    unit: NDArray[np.uint64]
    rater: Ints
    value: Ints
    score: Floats
    outside: Floats
    marks: Mapping[str, NDArray[np.bool_]]
    ok: NDArray[np.bool_]
    by_people: NDArray[np.bool_]
    raters: Sequence[str]
    answers: Sequence[str]
    unit_name: str

    def pooled(self, name: str) -> "AnswersOfUnits":
        """Return people's ratings as those of one rater."""
        rows = self.by_people
        columns = ("unit", "value", "score", "outside", "ok", "by_people")
        kept = {column: getattr(self, column)[rows] for column in columns}
        marks = {column: marked[rows] for column, marked in self.marks.items()}
        return replace(self, rater=np.zeros(int(rows.sum()), np.int64), raters=(name,), marks=marks, **kept)


@dataclass
class MeanSpread:
    """The variance of a mean between units: the sum over units of (sum of the unit's deviations from the mean)²."""

    units: int = 0
    n: int = 0
    squares: float = 0.0
    mean: float = 0.0

    def add(self, units: Units, deviation: Floats, mean: float) -> None:
        """Add the deviations of some rows from `mean`, of units that were not added before."""
        sums = deviation if units.are_rows else units.sums(deviation[:, None])[:, 0]
        self.units, self.n, self.mean = self.units + units.count, self.n + len(deviation), mean
        self.squares += float(sums @ sums)

    def interval(self, unit_name: str) -> Interval:
        """Return Student's t interval of the mean."""
        if not self.n:
            return UNKNOWN
        error = math.sqrt(self.squares * self.units / max(self.units - 1, 1)) / self.n
        method = STUDENT.format(units=unit_name)
        return estimate(self.mean, error, units=self.units, unit_name=unit_name, method=method)


@dataclass
class AnswerSpread:
    """What the intervals of a distribution need of the units of its ratings.

    Attributes:
        nobody: of an answer that nobody gave; asked: of the share of ok ratings; marked: of those of marked ones.
    """

    unit_name: str = "items"
    nobody: ShareSums = field(default_factory=ShareSums)
    asked: ShareSums = field(default_factory=ShareSums)
    marked: dict[str, ShareSums] = field(default_factory=lambda: dict.fromkeys(MARKS, ShareSums()))
    answers: dict[str, ShareSums] = field(default_factory=dict)
    score: MeanSpread = field(default_factory=MeanSpread)
    outside: MeanSpread = field(default_factory=MeanSpread)

    def add(self, part: AnswersOfUnits, rows: NDArray[np.bool_], *, score: float, outside: float) -> None:
        """Add one rater's rows of a part; `score` and `outside` are the means over all parts."""
        ok = rows & part.ok
        self.asked += ShareSums.of_trials(part.ok[rows], Units(part.unit[rows].view(np.int64)))
        if not ok.any():
            return
        units, value = Units(part.unit[ok].view(np.int64)), part.value[ok]
        for spread, numbers, mean in ((self.score, part.score[ok], score), (self.outside, part.outside[ok], outside)):
            has_number = ~np.isnan(numbers)
            if has_number.any():
                spread.add(units if has_number.all() else units.of(has_number), numbers[has_number] - mean, mean)
        before = self.nobody
        self.nobody = before + ShareSums.of_trials(np.zeros(len(value), bool), units)
        for name, marked in part.marks.items():
            self.marked[name] += ShareSums.of_trials(marked[ok], units)
        occur = {part.answers[code] for code in np.flatnonzero(np.bincount(value[value >= 0])).tolist()}
        for answer in occur | self.answers.keys():
            hit = value == part.answers.index(answer) if answer in occur else np.zeros(len(value), bool)
            self.answers[answer] = self.answers.get(answer, before) + ShareSums.of_trials(hit, units)

    def share_of(self, sums: ShareSums) -> Interval:
        """Return the interval of a share."""
        return sums.interval(self.unit_name) if sums.n else UNKNOWN


@dataclass(frozen=True)
class Share:
    """One answer and how often it was chosen; `share` is in [0, 1], None without an ok rating."""

    answer: str
    count: int
    share: float | None
    interval: Interval = UNKNOWN
    listed: bool = True  # False: chosen although the rubric does not allow it


@dataclass(frozen=True)
class Distribution:
    """The answers of one rater to one question.

    Attributes:
        extra: additional grouping columns and their values, e.g. (("condition", "explicit"),).
        asked: number of requested ratings, that is rows of any status.
        statuses: status -> rows, for statuses that occur, in the order of `actors.status.Status`; the sum is `asked`.
        coverage: statuses["ok"] / asked, in [0, 1].
        answers: in the rubric's order, including those that nobody chose; unlisted answers last. Empty if the question
            is not closed.
        ordinal: whether the answers are on a scale: an answer of any rater has a score. None if no rating of any
            rater is ok.
        reason: why the shares are undefined; None if they are defined.
        truncated: number of ok ratings whose context was cut (column `truncated`); `empty_context`: number of those
            whose item has no text of its condition.
        coverage_interval: of the coverage; mark_intervals: column of `MARKS` -> that of the share of marked ratings.
    """

    rater: str
    rubric: str
    question: str
    extra: tuple[tuple[str, str], ...]
    asked: int
    statuses: dict[str, int]
    coverage: float
    answers: tuple[Share, ...]
    ordinal: bool | None
    mean_score: Metric
    outside_mass: Metric
    reason: str | None = None
    truncated: int = 0
    empty_context: int = 0
    coverage_interval: Interval = UNKNOWN
    mark_intervals: Mapping[str, Interval] = field(default_factory=dict)

    @property
    def ok(self) -> int:
        """Number of ratings with status ok."""
        return self.statuses.get(Status.OK, 0)

    @property
    def with_input(self) -> int:
        """Number of requested ratings whose input, such as the picture, was there."""
        return self.asked - self.statuses.get(Status.MISSING_INPUT, 0)

    @property
    def not_ok(self) -> dict[str, int]:
        """Number of ratings by status, without ok."""
        return {status: count for status, count in self.statuses.items() if status != Status.OK}


class Distributions:
    """Accumulates batches of `ratings`; neither their order nor their size changes the result.

    (Sums of integer scores are exact; sums of fractions agree to rounding.) Intervals need a second pass over the
    ratings, `add_units`.

    Args:
        extra: additional columns to group by, from `EXTRA`. List condition, method or order here if a table has several
            values of it; otherwise they are pooled.

    Raises:
        ValueError: `extra` has a column that is not in `EXTRA`.
    """

    def __init__(self, *, extra: Sequence[str] = ()) -> None:
        if wrong := [name for name in extra if name not in EXTRA]:
            raise ValueError(f"extra={list(extra)}: unknown {', '.join(wrong)}; must be one of {', '.join(EXTRA)}")
        self._by = (*BY, *extra)
        self._statuses: dict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        # In the next two, None means that more than MAX_ANSWERS answers or lists occurred and are no longer
        # distinguished.
        self._values: dict[tuple[str, ...], Counter[str] | None] = {}
        self._lists: dict[tuple[str, str], set[tuple[str, ...]] | None] = {}
        self._marked: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in MARKS}
        self._score: dict[tuple[str, ...], _Sums] = defaultdict(_Sums)
        self._outside: dict[tuple[str, ...], _Sums] = defaultdict(_Sums)
        self._spreads: dict[tuple[str, ...], AnswerSpread] = {}

    @property
    def extra(self) -> tuple[str, ...]:
        """The additional columns that are distinguished."""
        return self._by[len(BY) :]

    @property
    def columns(self) -> list[str]:
        """The columns of `ratings` that `add` needs."""
        return [*self._by, "status", "value", "score", "answers", "outside_mass", *MARKS]

    def add(self, batch: pa.Table) -> None:
        """Count a batch of any number of rows; it may have other columns and dictionary-encoded strings.

        Raises:
            ValueError: a missing column, a null in a grouping column, an unknown status, an ok row without value or
                with a score or outside mass that is not finite, or an answer with U+001F. The batch is then not
                counted.
        """
        if missing := [name for name in self.columns if name not in batch.column_names]:
            raise ValueError(f"ratings: missing columns {', '.join(missing)}; required are {', '.join(self.columns)}")
        rows = batch.select(self.columns).unify_dictionaries()
        ok = rows.filter(pc.equal(rows["status"], Status.OK.value))
        lists = _joined(rows["answers"])
        self._check(rows, ok)
        for *by, status, count in _grouped(rows, [*self._by, "status"], [([], "count_all")]):
            self._statuses[tuple(by)][status] += count
        for *by, value, count in _grouped(ok, [*self._by, "value"], [([], "count_all")]):
            self._add_value(tuple(by), value, count)
        for name, marked in self._marked.items():
            not_whole = ok.filter(pc.is_valid(ok[name])).select(list(self._by))
            for *by, count in _grouped(not_whole, list(self._by), [([], "count_all")]):
                marked[tuple(by)] += count
        for name, into in (("score", self._score), ("outside_mass", self._outside)):
            numbers = ok[name].cast(pa.float64())
            scored = ok.select(list(self._by)).append_column("x", numbers)
            for *by, n, total in _grouped(scored, self._by, [("x", "count"), ("x", "sum")]):
                into[tuple(by)].add(n, total)
        stated = rows.select(["rubric", "question"]).append_column("list", lists)
        for rubric, question, joined, _ in _grouped(stated, stated.column_names, [([], "count_all")]):
            if joined:
                self._add_list((rubric, question), tuple(joined.split(_SEPARATOR)))

    def add_units(self, key: tuple[str, ...], part: AnswersOfUnits) -> None:
        """Add what intervals need of ratings that `add` has counted, after all batches.

        Args:
            key: rubric, question and the values of the extra columns.
            part: ratings of this question; each unit is in one part.
        """
        # Small numbers of units need sorting once, not once for each rater and answer.
        part = replace(part, unit=np.unique(part.unit, return_inverse=True)[1].astype(np.uint64))
        for code in np.flatnonzero(np.bincount(part.rater)).tolist():
            of_rater = part.rater == code
            full = (part.raters[code], *key)
            spread = self._spreads.setdefault(full, AnswerSpread(part.unit_name))
            spread.add(part, of_rater, score=self._score[full].mean, outside=self._outside[full].mean)

    def of_question(self, key: tuple[str, ...], raters: Iterable[str]) -> "Distributions":
        """Return what `add_units` needs of a question, of the ratings so far; its result is for `join_units`.

        Args:
            key: rubric, question and the values of the extra columns.
        """
        question = Distributions(extra=self.extra)
        for name in [(rater, *key) for rater in raters]:
            question._score[name], question._outside[name] = self._score[name], self._outside[name]
        return question

    def join_units(self, question: "Distributions") -> None:
        """Add what `add_units` has added to a question of `of_question`."""
        self._spreads.update(question._spreads)

    def join(self, part: "Distributions") -> None:
        """Add the counts of other ratings, with the same extra columns."""
        for question, lists in part._lists.items():
            for answers in lists if lists is not None else ():
                self._add_list(question, answers)
            if lists is None:
                self._lists[question] = None
        self._add_counts(part, lambda key: key)

    def without(self, column: str) -> "Distributions":
        """Return the same counts without distinguishing the values of `column`, one of the extra columns."""
        merged = Distributions(extra=[name for name in self._by[len(BY) :] if name != column])
        merged._lists = self._lists
        position = self._by.index(column)
        merged._add_counts(self, lambda key: key[:position] + key[position + 1 :])
        return merged

    def _add_counts(self, other: "Distributions", group_of: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        """Add the counts of each group of `other` to the group of this name."""
        for key, statuses in other._statuses.items():
            self._statuses[group_of(key)].update(statuses)
        for name, marked in other._marked.items():
            for key, count in marked.items():
                self._marked[name][group_of(key)] += count
        for key, counts in other._values.items():
            if counts is None:
                self._values[group_of(key)] = None
            else:
                for value, count in counts.items():
                    self._add_value(group_of(key), value, count)
        for sums_of, into in ((other._score, self._score), (other._outside, self._outside)):
            for key, sums in sums_of.items():
                into[group_of(key)].add(sums.n, sums.total)

    def result(self) -> list[Distribution]:
        """Return the distributions of all batches so far, sorted by rater, rubric, question and the extra columns."""
        scored = {key[1:3] for key, sums in self._score.items() if sums.n}
        answered = {key[1:3] for key, statuses in self._statuses.items() if statuses[Status.OK]}
        return [self._one(key, scored=scored, answered=answered) for key in sorted(self._statuses)]

    def _one(self, key: tuple[str, ...], *, scored: set[Any], answered: set[Any]) -> Distribution:
        question = key[1:3]
        ordinal = True if question in scored else (False if question in answered else None)
        statuses = {status: self._statuses[key][status] for status in STATUSES if self._statuses[key][status]}
        asked, ok = sum(statuses.values()), statuses.get(Status.OK, 0)
        answers, reason = self._shares(key, ok)
        empty = None if ok else _none_ok(asked)
        spread = self._spreads.get(key, AnswerSpread())
        return Distribution(
            rater=key[0],
            rubric=key[1],
            question=key[2],
            extra=tuple(zip(self._by[len(BY) :], key[len(BY) :], strict=True)),
            asked=asked,
            statuses=statuses,
            coverage=ok / asked,
            answers=answers,
            ordinal=ordinal,
            mean_score=self._score[key].metric(
                _MEAN_SCORE,
                asked,
                interval=spread.score.interval(spread.unit_name),
                empty=empty,
                reason="the rater gave no scores" if ordinal else "categories have no mean",
            ),
            outside_mass=self._outside[key].metric(
                _OUTSIDE_MASS,
                asked,
                interval=spread.outside.interval(spread.unit_name),
                empty=empty,
                reason="the rater gave no probabilities",
            ),
            reason=reason,
            truncated=self._marked["truncated"][key],
            empty_context=self._marked["empty_context"][key],
            coverage_interval=spread.share_of(spread.asked),
            mark_intervals={name: spread.share_of(spread.marked[name]) for name in MARKS},
        )

    def _shares(self, key: tuple[str, ...], ok: int) -> tuple[tuple[Share, ...], str | None]:
        allowed, counts = self._allowed((key[1], key[2])), self._values.get(key, Counter())
        if allowed is None or counts is None:
            return (), f"more than {MAX_ANSWERS} different answers: not a closed question"
        listed = [(answer, counts[answer], True) for answer in allowed]
        unlisted = [(answer, counts[answer], False) for answer in sorted(set(counts) - set(allowed))]
        shares, spread = [], self._spreads.get(key, AnswerSpread())
        for answer, count, is_listed in listed + unlisted:
            interval = spread.share_of(spread.answers.get(answer) or spread.nobody) if ok else UNKNOWN
            shares.append(Share(answer, count, count / ok if ok else None, interval, is_listed))
        return tuple(shares), None if ok else _none_ok(sum(self._statuses[key].values()))

    def _allowed(self, question: tuple[str, str]) -> tuple[str, ...] | None:
        lists = self._lists.get(question, set())
        if lists is None:
            return None
        # With several lists (a rubric that changed), the longest one gives the order and the others append what it
        # lacks. Sorting makes the result independent of the order of the batches.
        ordered = sorted(lists, key=lambda answers: (-len(answers), answers))
        return tuple(dict.fromkeys(answer for answers in ordered for answer in answers))

    def _add_value(self, key: tuple[str, ...], value: str, count: int) -> None:
        counts = self._values.setdefault(key, Counter())
        if counts is not None:
            counts[value] += count
            if len(counts) > MAX_ANSWERS:
                self._values[key] = None

    def _add_list(self, question: tuple[str, str], answers: tuple[str, ...]) -> None:
        lists = self._lists.setdefault(question, set())
        if lists is not None:
            lists.add(answers)
            if len(lists) > MAX_ANSWERS or len(answers) > MAX_ANSWERS:
                self._lists[question] = None

    def _check(self, rows: pa.Table, ok: pa.Table) -> None:
        if nulls := [name for name in (*self._by, "status") if rows[name].null_count]:
            raise ValueError(f"ratings have a null in {', '.join(nulls)}")
        if unknown := sorted(set(_plain(rows["status"]).unique().to_pylist()) - set(STATUSES)):
            raise ValueError(f"unknown status {', '.join(unknown)}; must be one of {', '.join(STATUSES)}")
        if ok["value"].null_count:
            raise ValueError(f"{ok['value'].null_count} ratings are ok but have no value")
        for name in ("score", "outside_mass"):
            if not pc.all(pc.is_finite(ok[name]), min_count=0).as_py():
                raise ValueError(f"a rating is ok but its {name} is not a finite number")


def metrics_of(distribution: Distribution) -> Iterator[Metric]:
    """Yield the metrics of a distribution: share (one per answer), mean_score, outside_mass_mean, coverage.

    A distribution with truncated ratings has a truncated_share as well, one with ratings of items without the text of
    their condition an empty_context_share. Dims are rater, rubric, question, the extra
    columns and, for a share, the answer. A metric that is undefined for lack of ok ratings has the status
    `missing_input`; a metric that does not apply (the mean of categories) has `skipped`.
    """
    dims = {
        "rater": distribution.rater,
        "rubric": distribution.rubric,
        "question": distribution.question,
        **dict(distribution.extra),
    }
    for share in distribution.answers:
        if share.share is None:
            reason = distribution.reason or _none_ok(distribution.asked)
            ok, coverage, status = distribution.ok, distribution.coverage, Status.MISSING_INPUT
            metric = undefined(SHARE, reason, n=ok, coverage=coverage, status=status)
        else:
            ok, coverage, interval = distribution.ok, distribution.coverage, share.interval
            metric = estimated(SHARE, share.share, ok, coverage=coverage, interval=interval)
        yield metric.at(**dims, answer=share.answer)
    yield distribution.mean_score.at(**dims)
    yield distribution.outside_mass.at(**dims)
    for name, count in (("truncated", distribution.truncated), ("empty_context", distribution.empty_context)):
        if count:
            ok, interval = distribution.ok, distribution.mark_intervals.get(name, UNKNOWN)
            coverage = distribution.coverage
            yield estimated(_MARKED[name], count / ok, ok, coverage=coverage, interval=interval, dims=dims)
    interval = distribution.coverage_interval
    coverage, asked = distribution.coverage, distribution.asked
    yield estimated(_COVERAGE, coverage, asked, coverage=coverage, interval=interval, dims=dims)


def _grouped(rows: pa.Table, by: Sequence[str], aggregations: list[Any]) -> Iterable[tuple[Any, ...]]:
    """Return the groups of `rows` as tuples: the keys, then the aggregates in their order."""
    groups = rows.group_by(list(by)).aggregate(aggregations)
    names = [f"{column}_{function}" if column else function for column, function in aggregations]
    return zip(*(groups[name].to_pylist() for name in [*by, *names]), strict=True)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _joined(answers: pa.ChunkedArray) -> pa.ChunkedArray:
    flat = pc.list_flatten(answers)
    if pc.any(pc.match_substring(_plain(flat), _SEPARATOR), min_count=0).as_py():
        raise ValueError("an answer contains U+001F (unit separator)")
    return pc.binary_join(answers.cast(pa.list_(pa.string())), _SEPARATOR)


def _none_ok(asked: int) -> str:
    return f"none of the {asked:,} ratings is ok"
