"""Comparisons of two pictures: preferences over both orders, position bias, agreement with people, Bradley-Terry.

A pair has two items, 0 and 1, and is shown in up to two orders: order 0 shows item 0 first, order 1 shows item 1 first.
A rater's preference is the share of answers for item 0, averaged within each order and then over the orders, so that a
rater who always chooses the first picture prefers neither (0.5).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.intervals import Units, block_sums, bootstrap_blocks
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, mean_of, share_of, undefined

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ANSWERS, PROBABILITIES = "answer", "probability"  # what is averaged over the orders
TIE = 1e-9  # differences from 0.5 below this are rounding of mean probabilities: a tie
_STEPS, _CONVERGED = 100, 1e-10  # most steps of Newton's method, and the change that ends it
_BIAS = MetricKind("position_bias", Quantity.SHARE, (Topic.COMPARISONS,)).defined_as(
    "Pairs answered in both orders for which the answers name the same position (first twice, or second twice) / such "
    "pairs; a rater who always chooses one position scores 1; n counts pairs."
)
_FIRST = MetricKind("first_position_share", Quantity.SHARE, (Topic.COMPARISONS,)).defined_as(
    "Answers that choose the picture shown first, ties as one half / answers; 0.5 without a bias; n counts answers."
)
_AGREEMENT = MetricKind("pair_agreement", Quantity.SHARE, (Topic.COMPARISONS,)).defined_as(
    "People's answers that choose the item which the model prefers, its {what} averaged over both orders; one half if "
    "either prefers neither / people's answers to pairs that the model answered (Rome, table 2); n counts people's "
    "answers."
)
_WIN_RATE = MetricKind("win_rate", Quantity.SHARE, (Topic.COMPETITORS,)).defined_as(
    "Mean preference for the items of this {competitors} over those of others, averaged over both orders; n counts "
    "pairs; the bootstrap draws prompts."
)
_STRENGTH = MetricKind("bradley_terry", Quantity.NUMBER, (Topic.COMPETITORS,), label="Bradley-Terry").defined_as(
    "Bradley-Terry strength (log-odds, mean 0 over all {competitors}s; Bradley and Terry 1952), fitted to the "
    "preferences of pairs of different {competitors}s; a difference d means that the stronger wins with odds exp(d), "
    "or 173.7 d points of Elo; n counts pairs; the bootstrap draws prompts."
)


class _Memo:
    """Computes a function of an array once for arrays of the same content."""

    def __init__(self, function: Callable[[Floats], Floats]) -> None:
        self._function = lru_cache(maxsize=2)(lambda shape, data: function(np.frombuffer(data).reshape(shape)))

    def __call__(self, values: Floats) -> Floats:
        return self._function(values.shape, values.tobytes())


@dataclass(frozen=True)
class PairTable:
    """The pairs that were compared.

    Attributes:
        group: int64[pairs], code of the prompt.
        competitors: int64[pairs, 2], which model made item 0 and item 1; -1 unknown.
        names: of the competitors.
        kind: what a competitor is, such as model.
    """

    group: Ints
    competitors: Ints
    names: tuple[str, ...] = ()
    kind: str = "model"


@dataclass(frozen=True)
class Comparisons:
    """Answers about pairs, by one rater or by several.

    Attributes:
        pair: int64[n], index into the pairs.
        order: int64[n], 0 or 1, which item was shown first.
        first: float64[n], 1 if the picture shown first was chosen, 0 if the second, 0.5 for a tie.
        asked: the number of answers requested.
    """

    pair: Ints
    order: Ints
    first: Floats
    asked: int

    @property
    def n(self) -> int:
        """Number of answers."""
        return len(self.pair)

    @property
    def coverage(self) -> float | None:
        """The share of requested answers that were given, n / asked; None if none were requested."""
        return self.n / self.asked if self.asked else None

    def where(self, rows: NDArray[np.bool_]) -> "Comparisons":
        """Return the answers where bool[n] `rows` is true."""
        return replace(self, pair=self.pair[rows], order=self.order[rows], first=self.first[rows])

    def by_order(self, pairs: int) -> Floats:
        """Return float64[pairs, 2], the mean of `first` in each order; NaN without an answer."""
        cell = self.pair * 2 + self.order
        count = np.bincount(cell, minlength=2 * pairs)
        total = np.bincount(cell, self.first, minlength=2 * pairs)
        with np.errstate(invalid="ignore"):
            return (total / count).reshape(pairs, 2)

    def preference(self, pairs: int) -> Floats:
        """Return float64[pairs] in [0, 1], the preference for item 0 over item 1; NaN without an answer."""
        means = self.by_order(pairs)
        for_item_0 = np.stack([means[:, 0], 1 - means[:, 1]], axis=1)
        answered = ~np.isnan(for_item_0)
        with np.errstate(invalid="ignore"):
            mean: Floats = np.where(answered, for_item_0, 0).sum(1) / answered.sum(1)
        return mean


def side(preference: Floats) -> Floats:
    """Return 1 where item 0 is preferred, -1 where item 1 is, 0 for neither; NaN stays."""
    centred = preference - 0.5
    return np.where(np.abs(centred) <= TIE, 0.0, np.sign(centred))


def position_metrics(comparisons: Comparisons, pairs: int, group: Ints | None = None) -> Iterator[Metric]:
    """Yield the position bias and the share of answers that choose the first picture.

    Use them for a rater who saw pairs in both orders. The position bias is 0 for a rater who always prefers the same
    item of a pair, and 0.5 for random answers.

    Args:
        pairs: number of pairs.
        group: int64[pairs], code of the prompt, whose pairs share pictures; None: each pair has its own.

    Undefined: no pair was answered in both orders (position bias), or no pair was answered (share).
    """
    means = comparisons.by_order(pairs)
    in_both = np.asarray(~np.isnan(means).any(1), bool)
    both, units = means[in_both], _units(group, pairs)
    coverage = comparisons.coverage
    if len(both):
        positions = side(both)
        same = (positions[:, 0] == positions[:, 1]) & (positions[:, 0] != 0)
        yield share_of(_BIAS, same, units.of(in_both), coverage=coverage)
    else:
        reason = "no pair was answered in both orders"
        yield undefined(_BIAS, reason, coverage=coverage)
    if not comparisons.n:
        yield undefined(_FIRST, "no answer", coverage=coverage, status="missing_input")
        return
    yield mean_of(_FIRST, comparisons.first, units.of(comparisons.pair), coverage=coverage)


def pair_agreement(preference: Floats, people: Comparisons, *, by: str, group: Ints | None = None) -> Metric:
    """Return the share of people's answers that agree with a model's preference over both orders (Rome, table 2).

    Use it to compare a model with people who saw the same pairs in any order. A model that always chooses one position
    prefers neither picture of any pair and scores 0.5.

    Args:
        preference: float64[pairs] of the model, from `Comparisons.preference`.
        people: answers of any number of people.
        by: `answer` or `probability`, what the preference averages.
        group: int64[pairs], code of the prompt, whose pairs share pictures; None: each pair has its own.

    Undefined: the model and people answered no common pair.
    """
    averaged = "answers" if by == ANSWERS else "probabilities of the answers"
    kind, dims = _AGREEMENT.worded(what=averaged), {"by": by}
    used = people.where(~np.isnan(preference[people.pair]))
    coverage = used.n / people.n if people.n else None
    if not used.n:
        reason = "the model and people answered no common pair"
        return undefined(kind, reason, coverage=coverage, dims=dims)
    of_model = side(preference)[used.pair]
    of_people = side(used.first) * np.where(used.order == 0, 1, -1)
    agrees = (1 + of_model * of_people) / 2
    units = _units(group, len(preference)).of(used.pair)
    return mean_of(kind, agrees, units, coverage=coverage, dims=dims)


def _units(group: Ints | None, pairs: int) -> Units:
    return Units.single(pairs, "pairs") if group is None else Units(group, "prompts")


def competitor_metrics(preference: Floats, pairs: PairTable) -> Iterator[Metric]:
    """Yield the win rate and the Bradley-Terry strength of each competitor, such as the models that drew pictures.

    Use them to rank several models by comparisons of their pictures. A strength needs no complete design: models that
    were never compared with each other are ranked through others.

    Args:
        preference: float64[pairs], from `Comparisons.preference`; NaN without an answer.
        pairs: the competitors of each pair; pairs of one competitor are left out.

    Undefined: a competitor, or a set of them, won or lost all comparisons with the others, so that the strengths have
    no finite maximum of the likelihood.
    """
    one, other = pairs.competitors.T
    differ = (one >= 0) & (other >= 0) & (one != other)
    used = differ & ~np.isnan(preference)
    codes = np.unique(pairs.competitors[used])
    if len(codes) < 2:
        return
    size, coverage = len(codes), float(used.sum() / differ.sum())
    first, second = (np.searchsorted(codes, side_[used]) for side_ in (one, other))
    _, group = np.unique(pairs.group[used], return_inverse=True)
    rows = np.zeros((group.max() + 1, size * size))  # of each prompt, wins of one competitor over another
    np.add.at(rows, (group, first * size + second), preference[used])
    np.add.at(rows, (group, second * size + first), 1 - preference[used])
    sums, total, prompts = block_sums(rows), rows.sum(0), len(rows)
    fitted = _Memo(lambda drawn: strengths(drawn.reshape(-1, size, size)))
    strength = fitted(total[None])[0]
    for place, code in enumerate(codes.tolist()):
        n = int(((first == place) | (second == place)).sum())
        dims = {"competitor": pairs.names[code]}
        rate = _WIN_RATE.worded(competitors=pairs.kind)

        def win_rate(drawn: Floats, place: int = place) -> Floats:
            wins = drawn.reshape(-1, size, size)
            won = wins[:, place].sum(1)
            result: Floats = won / (won + wins[:, :, place].sum(1))
            return result

        def fit(drawn: Floats, place: int = place) -> Floats:
            return fitted(drawn)[:, place]

        value = float(win_rate(total[None])[0])
        interval = bootstrap_blocks(sums, win_rate, units=prompts, unit_name="prompts")
        yield estimated(rate, value, n, coverage=coverage, interval=interval, dims=dims)
        kind = _STRENGTH.worded(competitors=pairs.kind)
        if np.isnan(strength[place]):
            reason = "a competitor, or a set of them, won or lost all comparisons with the others"
            yield undefined(kind, reason, n=n, coverage=coverage, dims=dims)
            continue
        interval = bootstrap_blocks(sums, fit, units=prompts, unit_name="prompts")
        yield estimated(kind, float(strength[place]), n, coverage=coverage, interval=interval, dims=dims)


def strengths(wins: Floats) -> Floats:
    """Return the maximum-likelihood strengths of the Bradley-Terry model, by Newton's method.

    Args:
        wins: float64[fits, k, k], how often each competitor beat each other one; a tie counts one half for both.

    Returns:
        float64[fits, k], log-strengths with mean 0; NaN where no finite maximum exists, because the graph of wins is
        not strongly connected (Ford 1957).
    """
    count, size, _ = wins.shape
    games = wins + wins.transpose(0, 2, 1)
    theta = np.zeros((count, size))
    finite = _is_connected(wins)
    ones = np.full((size, size), 1 / size)  # fixes the mean, along which the likelihood is flat
    for _ in range(_STEPS):
        probability = 1 / (1 + np.exp(theta[:, None, :] - theta[:, :, None]))  # that the row's competitor wins
        gradient = (wins - games * probability).sum(2)
        weight = games * probability * (1 - probability)
        hessian = -weight
        hessian[:, np.arange(size), np.arange(size)] += weight.sum(2)
        step = np.zeros_like(theta)
        step[finite] = np.linalg.solve(hessian[finite] + ones, gradient[finite][..., None])[..., 0]
        theta += step / np.maximum(1, np.abs(step).max(1, keepdims=True))  # at most 1, far from the maximum
        if np.abs(step).max(initial=0) < _CONVERGED:
            break
    theta -= theta.mean(1, keepdims=True)
    return np.where(finite[:, None], theta, np.nan)


def _is_connected(wins: Floats) -> NDArray[np.bool_]:
    """Return bool[fits], whether wins lead from each competitor to each other one."""
    reached = wins > 0
    for middle in range(wins.shape[1]):
        reached |= reached[:, :, middle, None] & reached[:, None, middle, :]
    reached[:, np.arange(wins.shape[1]), np.arange(wins.shape[1])] = True
    return np.asarray(reached.all((1, 2)), np.bool_)


def pooled(answers: Sequence[Comparisons]) -> Comparisons:
    """Return the answers of several raters as if one rater had given them."""
    return Comparisons(
        pair=np.concatenate([of_rater.pair for of_rater in answers] or [np.zeros(0, np.int64)]),
        order=np.concatenate([of_rater.order for of_rater in answers] or [np.zeros(0, np.int64)]),
        first=np.concatenate([of_rater.first for of_rater in answers] or [np.zeros(0)]),
        asked=sum(of_rater.asked for of_rater in answers),
    )
