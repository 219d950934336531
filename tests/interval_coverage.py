"""How often the 95 % intervals of metrics contain the true value, for pictures with three responses that are alike.

    python -m tests.interval_coverage --draws 2000 > coverage.md

prints the table of docs/metrics.md. A world with known truth draws pictures; each has three responses whose quality
correlates (0, 0.3 or 0.6) within the picture, a length, a right label and the scores of raters. The true value of a
metric is its value on 20,000 pictures.
"""

import argparse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jobs.metrics import agreement, correlation, gold, majority, model_scores, reliability
from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import Units
from jobs.metrics.metric import Metric
from jobs.metrics.model_scores import RaterGroup

Floats = NDArray[np.float64]
SAMPLES = 3  # responses of each picture
CORRELATIONS, PICTURES = (0.0, 0.3, 0.6), (20, 60, 500)
MANY = 20_000  # pictures of the true values
EDGES = np.array([-np.inf, -0.8, -0.2, 0.2533471, 1.6448536])  # of 1 to 5: P(score >= 4) = 0.4, P(score >= 5) = 0.05
JUDGE, PEOPLE = "judge", ("p1", "p2")


@dataclass(frozen=True)
class World:
    """Scores of responses, in the order of pictures.

    Attributes:
        answers: scores of the judge and two people; other: the judge's scores of responses to another prompt.
        lengths, right: of the responses; part: whether the picture belongs to the first of two subgroups.
        sample: the response's number within its picture.
    """

    answers: RatingTable
    other: RatingTable
    lengths: Floats
    right: NDArray[np.bool_]
    part: NDArray[np.bool_]
    sample: NDArray[np.int64]


def draw(pictures: int, rho: float, random: np.random.Generator) -> World:
    """Return a world whose responses correlate with `rho` within a picture."""
    picture = np.repeat(np.arange(pictures), SAMPLES)

    def alike() -> Floats:
        """Return standard normal numbers that correlate within a picture."""
        shared, alone = random.normal(size=pictures)[picture], random.normal(size=len(picture))
        return np.sqrt(rho) * shared + np.sqrt(1 - rho) * alone

    def score(quality: Floats) -> Floats:
        noisy = np.sqrt(0.7) * quality + np.sqrt(0.3) * random.normal(size=len(quality))
        return np.searchsorted(EDGES, noisy, side="right").astype(float)

    quality, units = alike(), Units(picture, "pictures")
    scores = np.stack([score(quality) for _ in (JUDGE, *PEOPLE)], axis=1)
    other = score(np.sqrt(0.5) * quality + np.sqrt(0.5) * alike() + 0.4)
    return World(
        answers=replace(RatingTable.from_matrix(scores, raters=[JUDGE, *PEOPLE]), units_of_items=units),
        other=replace(RatingTable.from_matrix(other[:, None], raters=[JUDGE]), units_of_items=units),
        lengths=100 + 30 * alike() + 10 * quality,
        right=quality + 0.5 * random.normal(size=len(quality)) > 0.2,
        part=picture % 2 == 0,
        sample=np.tile(np.arange(SAMPLES), pictures),
    )


def metrics(world: World) -> dict[str, Metric]:
    """Return one metric of each family that has an interval."""
    answers, units = world.answers, world.answers.units
    judge, people = answers.of_raters([JUDGE]), answers.of_raters(PEOPLE)
    group, crowd = RaterGroup(JUDGE, (JUDGE,)), RaterGroup("people", PEOPLE)
    x, y = judge.means()[0], people.means()[0]
    with_people = list(correlation.correlations(x, y, units=units))
    with_length = list(model_scores.length_bias(judge, group, world.lengths))
    both = stacked(judge, world.other)
    first = np.arange(both.items) < judge.items
    parts = [np.flatnonzero(side) for side in (world.part, ~world.part)]
    computed = {
        **{f"share of {share:g}": model_scores.share_at_least(judge, group, threshold)
           for share, threshold in ((0.05, 5), (0.4, 4), (1.0, 1))},
        "share of an answer": first_of(majority.answer_shares(
            judge, (JUDGE,), {"all": np.ones(judge.items, bool)}, group=JUDGE, attribute="a"), answer="4"),
        "share of majorities": first_of(majority.majority_shares(answers, group="all"), answer="3"),
        "mean": model_scores.mean_score(judge, group),
        "average of shares": model_scores.average_of_shares(answers, [group, crowd], 4),
        "difference of shares, same pictures": model_scores.difference(both, group, 4, first, ~first),
        "difference of shares, other pictures": model_scores.difference(judge, group, 4, world.part, ~world.part),
        "difference of means": first_of(gold.welch(
            *(x[rows] for rows in parts), units=units.of(np.concatenate(parts))), name="mean_difference"),
        "percent agreement": agreement.percent_agreement(answers),
        "alpha": agreement.krippendorff_alpha(answers, "ordinal"),
        "weighted kappa": agreement.cohen_kappa(answers.of_raters([JUDGE, "p1"]), weights="quadratic", by="score"),
        "ICC(2,k)": first_of(reliability.icc(answers), name="icc2k"),
        **{f"{kind.capitalize()} with people": first_of(with_people, name=f"{kind}_with_people")
           for kind in correlation.KINDS},
        "Pearson within targets": correlation.within(x, y, world.sample, group_name="target", units=units),
        "F1, micro": f1(world, x, "micro"),
        "F1, macro": f1(world, x, "macro"),
        "accuracy": gold.accuracy((x >= 4) == world.right, units=units),
        "Pearson with length": first_of(with_length, name="length_bias"),
        "slope on length": first_of(with_length, name="length_slope"),
    }  # fmt: skip
    return computed


def stacked(one: RatingTable, other: RatingTable) -> RatingTable:
    """Return the responses to two prompts as items of one table; both are about the same pictures."""
    scores = np.concatenate([one.matrix(), other.matrix()])
    units = Units(np.concatenate([one.units.code, other.units.code]), one.units.name)
    return replace(RatingTable.from_matrix(scores, raters=[JUDGE]), units_of_items=units)


def f1(world: World, scores: Floats, average: str) -> Metric:
    units = world.answers.units
    computed = gold.classification(world.right, scores >= 4, units.code, world.sample, units=units)
    return first_of(computed, name="f1", average=average)


def first_of(computed: Iterable[Metric], *, name: str | None = None, **dims: str) -> Metric:
    return next(m for m in computed if name in (None, m.name) and dims.items() <= dict(m.dims).items())


def coverage(draws: int, pictures: int, rho: float, truth: Mapping[str, float], *, seed: int = 1) -> dict[str, float]:
    """Return the share of drawn worlds whose interval contains the true value, of those that have an interval."""
    hits = {name: [0, 0] for name in truth}
    for number in range(draws):
        for name, metric in metrics(draw(pictures, rho, np.random.default_rng([seed, number]))).items():
            if metric.low is not None and metric.high is not None:
                hits[name][0] += metric.low - 1e-9 <= truth[name] <= metric.high + 1e-9
                hits[name][1] += 1
    return {name: count / n if n else float("nan") for name, (count, n) in hits.items()}


def true_values(rho: float) -> dict[str, float]:
    """Return the metrics of a very large world."""
    computed = metrics(draw(MANY, rho, np.random.default_rng(0)))
    return {name: float("nan") if metric.value is None else metric.value for name, metric in computed.items()}


def table(draws: int, report: Callable[[str], None] = print) -> None:
    """Print the coverage of each family by correlation and number of pictures as a Markdown table."""
    settings = [(rho, pictures) for rho in CORRELATIONS for pictures in PICTURES]
    truth = {rho: true_values(rho) for rho in CORRELATIONS}
    columns = [coverage(draws, pictures, rho, truth[rho]) for rho, pictures in settings]
    report("| metric | " + " | ".join(f"{rho:g}: {pictures}" for rho, pictures in settings) + " |")
    report("|---|" + "---:|" * len(settings))
    for name in columns[0]:
        report(f"| {name} | " + " | ".join(f"{100 * column[name]:.1f}" for column in columns) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=2000, help="worlds of each setting")
    table(parser.parse_args().draws)
