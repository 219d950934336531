"""Metrics of models against gold answers, and against people answer by answer."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from actors.status import STATUSES, Status
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import OVER_RATERS, Interval, block_sums, bootstrap, no_interval, proportion, ratio, too_few
from jobs.metrics.metric import Metric, estimated, undefined

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Average = Literal["micro", "macro", "samples"]
AVERAGES: tuple[Average, ...] = ("micro", "macro", "samples")
EPSILON = 1e-9
WELCH_T = "welch t 95%"

_OVER = {
    "micro": "all pairs of item and label pooled",
    "macro": "mean over labels, those for which it is 0 / 0 left out",
    "samples": "mean over items, those for which it is 0 / 0 left out",
}
_OF = {
    "precision": "right positives / positives said",
    "recall": "right positives / positives in gold",
    "f1": "harmonic mean of precision and recall",
}
_LABELS = (
    "{name}: {of}; {over} (as scikit-learn with zero_division=nan; CAIRE, table 1); positive: {positive}; n counts "
    "{what}."
)
_ACCURACY = "Items whose answer is among the right ones / items answered; n counts items."
_WELCH = (
    "Two-sided p of Welch's t-test that the mean score of both parts is equal (Welch 1947; Rome, table 3); n counts "
    "items of both."
)
_WELCH_GAP = "Mean score of the first part minus the second, with Welch's t interval; n counts items of both."
_PART_MEAN = "Mean score of the part's items (Rome, table 3); n counts items."
_PART_SD = "Standard deviation (n - 1) of the part's scores (Rome, table 3); n counts items."
_PREFERENCE = (
    "Answers of people that the model gave too / answers of people to items the model answered (Rome, table 2); n "
    "counts people's answers."
)
_DEVIATION = (
    "Ratings of people from which the model's score deviates by this much / ratings of people of items the model "
    "scored (Rome, figure 3); n counts people's ratings."
)
_MEAN_DEVIATION = (
    "Mean of the model's score minus a person's, over ratings of people (Rome, figure 3); n counts people's ratings."
)
_ENDED = "Ratings of the group that ended with this status / all its ratings, of every status; n counts ratings."
_ACCOUNT = {
    "ratings_total": "Ratings asked for or given, of every status (Rome, table 1); n counts ratings.",
    "ratings_double": "Items with more than one rating, of every status (Rome, table 1); n counts ratings.",
    "ratings_repeated": "Ratings of an item by a rater who rated it before (samples, layouts), put together as one; n "
    "counts ratings.",
    "ratings_excluded": "Ratings whose status is not ok (Rome, table 1); n counts ratings.",
    "ratings_left": "Ratings whose status is ok (Rome, table 1); n counts ratings.",
}


def classification(
    gold: ArrayLike,
    said: ArrayLike,
    item: ArrayLike,
    label: ArrayLike,
    *,
    positive: str = "as given",
    asked: int | None = None,
) -> Iterator[Metric]:
    """Precision, recall and F1 of a multi-label task, micro, macro and by sample, with bootstrap intervals over items.

    Use for labels that hold or do not hold for an item. Macro averages weigh rare labels like frequent ones, micro
    averages weigh all pairs alike.

    Args:
        gold, said: bool[n], whether the label holds for the item, and whether the model says so.
        item, label: int64[n], codes of the pairs; a pair occurs once.
        positive: for the definition, when a label counts as predicted and as right.
        asked: pairs asked about, for the coverage.

    Undefined: nothing to divide by (no positive said, none in gold) in every label or item that is averaged over.
    """
    right, claimed = np.asarray(gold, bool), np.asarray(said, bool)
    items, labels = np.asarray(item, np.int64), np.asarray(label, np.int64)
    coverage = len(right) / asked if asked else None
    cells = np.stack([right & claimed, ~right & claimed, right & ~claimed], axis=1).astype(np.float64)
    for average in AVERAGES:
        rows, shape = _cells(cells, items, labels, average)
        for name in ("precision", "recall", "f1"):
            value, n, interval = _averaged(rows, shape, name, average)
            what = {"micro": "pairs", "macro": "labels", "samples": "items"}[average]
            definition = _LABELS.format(name=name, of=_OF[name], over=_OVER[average], what=what, positive=positive)
            count = len(right) if average == "micro" else n
            if value is None:
                reason = "no pair of item and label" if not len(right) else _nothing_to_divide(name)
                yield undefined(name, definition, reason, n=len(right), coverage=coverage, dims={"average": average})
                continue
            dims = {"average": average}
            yield estimated(name, definition, value, count, coverage=coverage, interval=interval, dims=dims)


def _nothing_to_divide(name: str) -> str:
    return {"precision": "nothing was called positive", "recall": "nothing is positive in gold"}.get(
        name, "nothing is positive, in gold or as said"
    )


def _cells(
    cells: Floats, items: NDArray[np.int64], labels: NDArray[np.int64], average: Average
) -> tuple[Floats, tuple[int, ...]]:
    """Right, wrong and missed positives: a row an item (micro, macro: a column a label and cell), for the bootstrap."""
    _, place = np.unique(items, return_inverse=True)
    n = int(place.max(initial=-1)) + 1
    if average == "macro":
        _, column = np.unique(labels, return_inverse=True)
        width = int(column.max(initial=-1)) + 1
        blocks = min(n, 1000)  # items x labels would be too wide: items are put into blocks at once
        block = np.random.default_rng(0).permutation(n)[place] % blocks if n > blocks else place
        made = np.zeros((blocks, width, 3))
        np.add.at(made, (block, column), cells)
        return made.reshape(blocks, width * 3), (-1, width, 3)
    made = np.zeros((n, 3))
    np.add.at(made, place, cells)
    return made, (-1, 3)


def _rate(cells: Floats, name: str) -> Floats:
    """float64[…, 3] of right, wrong, missed -> precision, recall or F1, NaN for 0 / 0."""
    right, wrong, missed = cells[..., 0], cells[..., 1], cells[..., 2]
    with np.errstate(divide="ignore", invalid="ignore"):
        if name == "precision":
            return np.asarray(right / (right + wrong))
        if name == "recall":
            return np.asarray(right / (right + missed))
        return np.asarray(2 * right / (2 * right + wrong + missed))


def _averaged(rows: Floats, shape: tuple[int, ...], name: str, average: Average) -> tuple[float | None, int, Interval]:
    """The value (None: undefined), over how many it is an average, and its interval."""
    undefined_value = None, 0, no_interval("no value")
    if not len(rows):
        return undefined_value
    if average == "samples":
        each = _rate(rows, name)
        known = each[~np.isnan(each)]
        if not len(known):
            return undefined_value
        return float(known.mean()), len(known), bootstrap(block_sums(np.stack([known, np.ones_like(known)], 1)), ratio)

    def statistic(sums: Floats) -> Floats:
        rates = _rate(sums.reshape(shape), name)
        if average == "micro":
            return rates
        known = ~np.isnan(rates)
        return np.asarray(np.where(known, rates, 0).sum(1) / known.sum(1))

    total = rows.sum(0)[None]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(statistic(total)[0])
    n = int((~np.isnan(_rate(total.reshape(shape), name))).sum())
    if np.isnan(value):
        return undefined_value
    return value, n, bootstrap(block_sums(rows), statistic)


def readings(threshold: float) -> dict[str, Callable[[ArrayLike], Bools]]:
    """Both readings of "scores greater than 4 (relevant, highly relevant)" (CAIRE, 5.4): name -> whether scores hold.

    The words ask for more than 4 and name the answer 4 as positive. Means and expected scores between 4 and 5 are
    positive in both readings. Gold of the paper is a label; gold that is scored is read as the answers are.
    """
    return {
        f">={threshold:g}": lambda scores: np.asarray(scores, np.float64) >= threshold - EPSILON,
        f">{threshold:g}": lambda scores: np.asarray(scores, np.float64) > threshold + EPSILON,
    }


def accuracy(right: ArrayLike, *, asked: int | None = None) -> Metric:
    """Share of bool[items] that are right. Use for categories with known right answers.

    Undefined: no item was answered.
    """
    given = np.asarray(right, bool)
    coverage = len(given) / asked if asked else None
    if not len(given):
        return undefined(
            "accuracy", _ACCURACY, "no item with a right answer was answered", coverage=coverage, status="missing_input"
        )
    n, hits = len(given), int(given.sum())
    return estimated("accuracy", _ACCURACY, hits / n, n, coverage=coverage, interval=proportion(hits, n))


def welch(first: ArrayLike, second: ArrayLike, *, asked: tuple[int, int] | None = None) -> Iterator[Metric]:
    """Compare two subgroups: means, standard deviations, their difference with its interval, Welch's p (Welch 1947).

    Use for two disjoint subgroups of items with possibly unequal variances.

    Args:
        first, second: float64 scores, one an item.
        asked: items of both parts, scored or not, for the coverage; None: those that are scored.

    Undefined: fewer than two items in a part; no variance in both.
    """
    from scipy.stats import ttest_ind

    parts = [np.asarray(part, np.float64) for part in (first, second)]
    n, whole = sum(map(len, parts)), asked or (len(parts[0]), len(parts[1]))
    coverage = n / sum(whole) if sum(whole) else None
    for place, part, of in zip(("first", "second"), parts, whole, strict=True):
        share = len(part) / of if of else None
        for metric, definition, enough in (("part_mean", _PART_MEAN, 1), ("part_sd", _PART_SD, 2)):
            if len(part) < enough:
                reason = f"{len(part)} of {enough} items needed"
                yield undefined(metric, definition, reason, n=len(part), coverage=share, dims={"part": place})
                continue
            value = part.mean() if metric == "part_mean" else part.std(ddof=1)
            yield Metric(
                name=metric,
                definition=definition,
                value=value,
                n=len(part),
                coverage=share,
                dims={"part": place},
                reason="no interval: see mean_difference",
            )
    few = any(len(part) < 2 for part in parts)
    if few or not any(np.ptp(part) for part in parts):
        reason = "fewer than two items in a part" if few else "no variance in either part"
        yield undefined("mean_difference", _WELCH_GAP, reason, n=n, coverage=coverage)
        yield undefined("welch_p", _WELCH, reason, n=n, coverage=coverage)
        return
    found = ttest_ind(*parts, equal_var=False)
    low, high = found.confidence_interval(0.95)
    interval = too_few(min(map(len, parts)), "items in a part") or Interval(float(low), float(high), WELCH_T)
    gap = parts[0].mean() - parts[1].mean()
    yield estimated("mean_difference", _WELCH_GAP, gap, n, coverage=coverage, interval=interval)
    yield Metric(
        name="welch_p",
        definition=_WELCH,
        value=found.pvalue,
        n=n,
        coverage=coverage,
        reason=f"no interval of a p; t = {found.statistic:.3f}, {found.df:.1f} degrees of freedom",
    )


def _pairs(model: RatingTable, people: RatingTable, of: str) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Each answer of people beside the model's answer to the same item: model, person, item."""
    own = np.full(people.items, np.nan)
    given = model.score if of == "score" else np.where(model.value >= 0, model.value, np.nan)
    own[model.item] = given
    theirs = people.score if of == "score" else np.where(people.value >= 0, people.value, np.nan)
    rows = ~np.isnan(own[people.item]) & ~np.isnan(theirs)
    return own[people.item[rows]], theirs[rows], people.item[rows]


def preference_agreement(model: RatingTable, people: RatingTable) -> Metric:
    """How often a model chose what a person chose (Rome, table 2).

    Use for preferences, such as which of two pictures fits better.

    Args:
        model: answers of one rater; people: of any number, over the same items and values.

    Undefined: no item that both answered.
    """
    mine, theirs, items = _pairs(model, people, "value")
    coverage = len(theirs) / people.n if people.n else None
    if not len(theirs):
        return undefined(
            "preference_agreement", _PREFERENCE, "no item answered by the model and by a person", coverage=coverage
        )
    _, place = np.unique(items, return_inverse=True)
    rows = np.zeros((place.max() + 1, 2))
    np.add.at(rows, place, np.stack([mine == theirs, np.ones(len(mine))], 1))
    value = rows[:, 0].sum() / rows[:, 1].sum()
    return estimated(
        "preference_agreement",
        _PREFERENCE,
        value,
        len(theirs),
        coverage=coverage,
        interval=bootstrap(block_sums(rows), ratio),
    )


def deviations(model: RatingTable, people: RatingTable) -> Iterator[Metric]:
    """The histogram of a model's score minus a person's, and its mean (Rome, figure 3).

    Use to see in which direction and how far a model deviates. Undefined: no item that both scored.
    """
    mine, theirs, items = _pairs(model, people, "score")
    coverage = len(theirs) / people.n if people.n else None
    if not len(theirs):
        reason = "no item scored by the model and by a person"
        yield undefined("mean_deviation", _MEAN_DEVIATION, reason, coverage=coverage)
        return
    gaps = mine - theirs
    _, place = np.unique(items, return_inverse=True)
    rows = np.zeros((place.max() + 1, 2))
    np.add.at(rows, place, np.stack([gaps, np.ones(len(gaps))], 1))
    yield estimated(
        "mean_deviation",
        _MEAN_DEVIATION,
        gaps.mean(),
        len(gaps),
        coverage=coverage,
        interval=bootstrap(block_sums(rows), ratio),
    )
    steps = np.rint(gaps)
    if np.abs(gaps - steps).max() > EPSILON:
        return  # means and expected scores: a histogram of points says nothing
    widest = int(np.abs(steps).max())
    for step in range(-widest, widest + 1):
        count = int((steps == step).sum())
        yield estimated(
            "deviation_share",
            _DEVIATION,
            count / len(steps),
            len(steps),
            coverage=coverage,
            interval=proportion(count, len(steps)),
            dims={"deviation": f"{step:+d}" if step else "0"},
        )


def endings(ended: Sequence[Mapping[str, int]], *, group: str) -> Iterator[Metric]:
    """Shares of a group's ratings that ended without an answer: reported, skipped, refused, …

    Reports and skips are given even if there are none (Century, appendices L, T and X). A few raters may make most
    of them (two made 137 of Century's 147 reports), so that the interval draws raters; where it cannot, ratings count
    as independent.

    Args:
        ended: each rater's ratings by status.
    """
    total = sum(sum(of.values()) for of in ended)
    if not total:
        return
    occur = {status for of in ended for status, n in of.items() if n} - {Status.OK}
    for status in (s for s in STATUSES if s in occur | {Status.REPORTED, Status.SKIPPED}):
        rows = np.array([[of.get(status, 0), sum(of.values())] for of in ended], np.float64)
        hits = int(rows[:, 0].sum())
        drawn = bootstrap(block_sums(rows), ratio, unit_name="raters", method=OVER_RATERS)
        yield estimated(
            "status_share",
            _ENDED,
            hits / total,
            total,
            coverage=1.0,
            interval=proportion(hits, total) if drawn.reason else drawn,
            dims={"group": group, "status": str(status)},
        )


def accounting(statuses: Counter[str], double: int, repeated: int = 0) -> Iterator[Metric]:
    """Ratings in total, items with several, excluded and left (Rome, table 1).

    Args:
        statuses: ratings by status.
        double: items with more than one rating.
        repeated: ratings by a rater who rated the item before.
    """
    total, ok = statuses.total(), statuses["ok"]
    counts = {"ratings_total": total, "ratings_double": double, "ratings_repeated": repeated}
    counts |= {"ratings_excluded": total - ok, "ratings_left": ok}
    for metric, value in counts.items():
        yield Metric(
            name=metric,
            definition=_ACCOUNT[metric],
            value=value,
            n=total,
            reason="a count: no interval",
            coverage=ok / total if total else None,
        )
