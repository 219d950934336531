"""How often intervals of estimates for a whole set contain its mean, and how wide they are against people alone.

    python -m tests.estimate_coverage                 # simulated judges
    python -m tests.estimate_coverage ratings=FOLDER  # real ratings: the files of DSG's study of TIFA's pictures

Simulated sets have a known mean. Of the real ones, a random part of the ratings is taken as people's, and the others
as the truth.
"""

import csv
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from jobs.metrics.intervals import Interval, Units
from jobs.metrics.prediction_powered import RandomPart, SetEstimate, combined, estimate_f1, estimate_mean
from jobs.runtime.selection.draws import WeightedDrawConfig, draw_probabilities, with_floor

Floats = NDArray[np.float64]
JUDGES = {"useless": 0.0, "weak": 0.4, "good": 0.8, "perfect": 1.0}  # name -> correlation with what people answer
# Of a normal variable above which people say yes: 31 %, 4 %.
LEVELS = {"score": 0.0, "share": 0.5, "rare": 1.75, "accuracy": 0.5, "f1": 0.5}
OF_JUDGE = ("accuracy", "f1")  # what is estimated is about the judge


@dataclass(frozen=True)
class Case:
    """A simulated study: `n` of `items` are rated, in clusters of `together` that are alike.

    `drawn` is random or uncertain; `noise`: judges that know nothing, next to the one.
    """

    kind: str = "score"
    judge: str = "good"
    n: int = 100
    items: int = 1500
    together: int = 1
    drawn: str = "random"
    noise: int = 0


@dataclass(frozen=True)
class CoverageOutcome:
    """Shares of draws whose interval contains the mean, and the mean width divided by that of people alone."""

    people: float
    both: float
    width: float


def simulate(case: Case, draws: int, *, seed: int = 0) -> CoverageOutcome:
    """Return the coverage of the intervals of `draws` studies, each of a new set of items."""
    rng = np.random.default_rng(seed)
    inside, widths, defined = np.zeros(2), np.zeros(2), 0
    for _ in range(draws):
        truth, judge, group = world(case, rng)
        probability, rated = drawn(case, judge, group, rng)
        part = RandomPart(probability, Units(group, "pictures"))
        of_people, mean = np.where(rated, truth, np.nan), float(truth.mean())
        if case.kind in OF_JUDGE:
            about_judge, mean = of_judge(case, truth, judge, rated, part)
            if about_judge is None or about_judge.interval.low is None or about_judge.people_interval.low is None:
                continue  # F1 is 0 or 0 / 0 among the rated: it has no interval
            estimate, predicted = about_judge, None
        elif case.noise:
            others = rng.normal(size=(len(truth), case.noise))
            predicted = combined(of_people, np.column_stack([judge, others]), part)
        else:
            predicted = judge
        if case.kind not in OF_JUDGE:
            estimate = estimate_mean(of_people, predicted, part, is_share=case.kind != "score")
        for place, interval in enumerate((estimate.people_interval, estimate.interval)):
            contains, width = _inside(interval, mean)
            inside[place] += contains
            widths[place] += width
        defined += 1
    people, both = (inside / defined).tolist()
    return CoverageOutcome(people, both, widths[1] / widths[0])


def of_judge(
    case: Case, truth: Floats, judge: Floats, rated: NDArray[np.bool_], part: RandomPart
) -> tuple[SetEstimate | None, float]:
    """Return the estimate of the judge's accuracy or F1, as `jobs.metrics.estimates` makes it, and its true value."""
    claims = (judge > LEVELS[case.kind]).astype(np.float64)
    features = np.column_stack([judge, claims])
    if case.kind == "accuracy":
        right = (claims == truth).astype(np.float64)
        rated_right = np.where(rated, right, np.nan)
        return estimate_mean(rated_right, combined(rated_right, features, part), part, is_share=True), float(
            right.mean()
        )
    of_people = np.where(rated, truth, np.nan)
    estimate = estimate_f1(claims, of_people, lambda linear: combined(linear, features, part), part)
    return estimate, float(2 * (claims @ truth) / (claims + truth).sum())


def world(case: Case, rng: np.random.Generator) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return people's answers, the judge's, which is half a point too kind, and the cluster of each item."""
    group = np.arange(case.items) // case.together
    alike = 0.6 if case.together > 1 else 0.0
    base = np.sqrt(alike) * rng.normal(size=group[-1] + 1)[group]
    base = base + np.sqrt(1 - alike) * rng.normal(size=case.items)
    rho = JUDGES[case.judge]
    judge = rho * base + np.sqrt(1 - rho**2) * rng.normal(size=case.items) + 0.5
    if case.kind == "score":
        truth = np.clip(np.rint(3 + 1.1 * base), 1, 5)
        return truth, truth + 0.5 if rho == 1 else judge, group
    level = LEVELS[case.kind]
    if case.kind in OF_JUDGE:
        return (base > level).astype(np.float64), judge - 0.5, group
    return (base > level).astype(np.float64), (judge - 0.5 > level).astype(np.float64), group


def drawn(
    case: Case, judge: Floats, group: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the probability of each item, and which items are drawn."""
    if case.drawn == "uncertain":
        uncertainty = 1 / (1 + np.abs(judge - np.median(judge)))
        probability = draw_probabilities(with_floor(uncertainty, WeightedDrawConfig.floor), case.n)
        chosen = np.argsort(rng.random(case.items) / probability)[: case.n]
        return probability, np.isin(np.arange(case.items), chosen)
    clusters, m = int(group[-1]) + 1, case.n // case.together
    rated = np.isin(group, rng.choice(clusters, m, replace=False))
    return np.full(case.items, m / clusters), rated


def _inside(interval: Interval, mean: float) -> tuple[bool, float]:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low <= mean <= interval.high, interval.high - interval.low


@dataclass(frozen=True)
class RealRatings:
    """Real ratings: float64[pictures, 5] people's scores, float64[pictures] a model's, and the prompt of each."""

    people: Floats
    judge: Floats
    prompt: NDArray[np.int64]


def read_pictures(folder: Path) -> RealRatings:
    """Return the pictures that five people scored and whose questions (DSG) a VQA model answered."""
    people: dict[tuple[str, str], list[float]] = defaultdict(list)
    answers: dict[tuple[str, str], list[bool]] = defaultdict(list)
    with (folder / "tifa160-likert-anns.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            people[row["t2i_model"], row["item_id"]].append(float(row["answer"]))
    with (folder / "mplug_dsg.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            answers[row["t2i_model"], row["item_id"]].append(row["answer"].strip().lower() == "yes")
    keys = sorted(key for key in people.keys() & answers.keys() if len(people[key]) >= 5)
    return RealRatings(
        np.array([people[key][:5] for key in keys]),
        np.array([np.mean(answers[key]) for key in keys]),
        np.unique([key[1] for key in keys], return_inverse=True)[1].astype(np.int64),
    )


def of_pictures(pictures: RealRatings, prompts: int, draws: int, *, raters: int = 1, seed: int = 0) -> CoverageOutcome:
    """Return the coverage where `raters` of the five rate the pictures of `prompts` prompts, and the truth is the mean
    of the other raters over all pictures."""
    rng = np.random.default_rng(seed)
    inside, widths = np.zeros(2), np.zeros(2)
    count = int(pictures.prompt.max()) + 1
    for _ in range(draws):
        shuffled = rng.permuted(pictures.people, axis=1)
        rated = np.isin(pictures.prompt, rng.choice(count, prompts, replace=False))
        scores = np.where(rated, shuffled[:, :raters].mean(1), np.nan)
        part = RandomPart(np.full(len(scores), prompts / count), Units(pictures.prompt, "prompts"))
        estimate = estimate_mean(scores, pictures.judge, part, bounds=(1.0, 5.0))
        for place, interval in enumerate((estimate.people_interval, estimate.interval)):
            contains, width = _inside(interval, float(shuffled[:, raters:].mean()))
            inside[place] += contains
            widths[place] += width
    people, both = (inside / draws).tolist()
    return CoverageOutcome(people, both, widths[1] / widths[0])


def cases(ns: tuple[int, ...] = (30, 100, 400)) -> list[Case]:
    """Return the studies that the documentation lists."""
    plain = [Case(kind, judge, n) for kind in LEVELS if kind not in OF_JUDGE for judge in JUDGES for n in ns]
    plain += [Case(kind, judge, n) for kind in OF_JUDGE for judge in ("useless", "weak", "good") for n in ns]
    harder = [Case(kind, judge, n, together=3) for kind in ("score", "share", "rare", *OF_JUDGE)
              for judge in ("useless", "good") for n in (30, 99, 399)]  # fmt: skip
    harder += [Case(kind, judge, n, drawn="uncertain") for kind in ("score", "share", "rare")
               for judge in ("useless", "good") for n in ns]  # fmt: skip
    return [
        *plain,
        *harder,
        *(Case(judge="good", n=n, noise=4) for n in ns),
        *(Case(kind, judge, n, 200) for kind in ("score", "share") for judge in ("useless", "good") for n in (10, 120)),
        *(Case(kind, judge, 1000, 5000) for kind in ("score", "share", "rare") for judge in ("useless", "good")),
    ]


def main() -> None:
    """Print a line per study."""
    folder = next((word.partition("=")[2] for word in sys.argv[1:] if word.startswith("ratings=")), "")
    print("coverage of people alone, of people and judge; width / people alone; worth of 100 ratings")
    if folder:
        pictures = read_pictures(Path(folder))
        of_people = pictures.people.mean(1)
        r = np.corrcoef(of_people, pictures.judge)[0, 1]
        print(f"{len(pictures.judge)} pictures, {pictures.prompt.max() + 1} prompts, correlation {r:.2f}")
        for prompts in (8, 16, 20, 32, 64):
            for raters in (1, 2):
                _print(f"{5 * prompts} pictures, raters {raters}", of_pictures(pictures, prompts, 4000, raters=raters))
        return
    for case in cases():
        _print(str(case), simulate(case, 2000))


def _print(name: str, outcome: CoverageOutcome) -> None:
    worth = 100 / outcome.width**2
    print(f"{name}: {outcome.people:.3f} {outcome.both:.3f} {outcome.width:.2f} {worth:.0f}", flush=True)


if __name__ == "__main__":
    main()
