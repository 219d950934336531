"""Rome's tables about pictures by three invented models, which two people and a judge rate, compare and question."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import exp, nan
from statistics import mean, stdev

from tests.models.little_world import questions, studies
from tests.models.little_world.studies import DrawnPicture
from tests.models.little_world.table_statistics import krippendorff, pearson, ranks, welch
from tests.models.paper_tables import Tables

LEVELS = ("1", "2", "3", "4", "5")
STEPS = 20  # bins of the histogram of scores
PEOPLE = "People"
SCENARIOS = ("left", "right")
Cells = dict[tuple[str, ...], float | None]
Grades = Mapping[int, Mapping[str, float]]  # shares of pictures with each grade, by number of wrong facts
RIGHT: Grades = {wrong: {str(5 - wrong): 1.0} for wrong in studies.WRONG.values()}


def tables(
    drawn: Sequence[DrawnPicture],
    pairs: Sequence[tuple[DrawnPicture, DrawnPicture]],
    *,
    judge: str,
    grades: Grades = RIGHT,
) -> Tables:
    """Return the report's tables except figure 5, whose pictures are examples.

    Args:
        drawn: the pictures.
        pairs: the pairs that people compared, each in one order; the judge compared them in both.
        judge: the judge's name.
        grades: how the judge rates pictures, for figure 3 and the models' mean ratings; in other tables it makes no
            mistakes.
    """
    return {
        "table_1": _assessments(drawn, pairs),
        "table_2": _comparison(pairs, judge),
        "figure_3_left": _distributions(drawn, judge, grades),
        "figure_3_right": _deviations(drawn, judge, grades),
        "table_3": _by_scenario(drawn, judge),
        "table_4": _agreement(drawn, judge),
        "figure_4": _histogram(drawn, judge),
        "by_scenario": _scores_by_scenario(drawn, judge),
        "image_models": _of_models(drawn, judge, grades),
        "bradley_terry": _strengths(pairs, judge),
    }


def score(drawn: DrawnPicture) -> float:
    """Return the share of the questions about a picture that are answered yes."""
    return mean(drawn.has(fact) for fact in questions.ASKED)


def _ratings(drawn: DrawnPicture) -> list[int]:
    return [int(value) for value in studies.ratings_of_people(drawn).values()]


def _assessments(drawn: Sequence[DrawnPicture], pairs: Sequence[tuple[DrawnPicture, DrawnPicture]]) -> Cells:
    table: Cells = {}
    for label, items in (("Image comparison (IC)", len(pairs)), ("Image rating (IR)", len(drawn))):
        counts = {"Total assessments": 2 * items, "Multiple annotations": items, "Excluded": 0,
                  "After exclusions": 2 * items}  # fmt: skip
        table |= {(label, f"{header} · "): float(count) for header, count in counts.items()}
        table |= {(label, "Per person · mean"): float(items), (label, "Per person · SD"): 0.0}
    return table


def _comparison(pairs: Sequence[tuple[DrawnPicture, DrawnPicture]], judge: str) -> Cells:
    agrees = []
    for first, second in pairs:
        replies = studies.preferences_of_people(first, second)
        agrees += [value == replies["Ada"] for value in replies.values()]
    share = mean(agrees)
    of_people = ("same order", "both orders, by answer", "both orders, by probability")
    table: Cells = {(judge, f"Agreement with people · {header}"): share for header in of_people}
    return table | {(judge, "Position · bias"): 0.0, (judge, "Position · chose the first"): 0.5}


def _given(drawn: DrawnPicture, grades: Grades) -> list[float]:
    """Return the probability of each level as the judge's rating of a picture."""
    shares = grades[5 - studies.rating_of(drawn)]
    return [shares.get(level, 0.0) for level in LEVELS]


def _distributions(drawn: Sequence[DrawnPicture], judge: str, grades: Grades) -> Cells:
    people = [value for picture in drawn for value in _ratings(picture)]
    table: Cells = {(PEOPLE, level): people.count(int(level)) / len(people) for level in LEVELS}
    shares_of_all = zip(*(_given(picture, grades) for picture in drawn), strict=True)
    return table | {(judge, level): mean(shares) for level, shares in zip(LEVELS, shares_of_all, strict=True)}


def _deviations(drawn: Sequence[DrawnPicture], judge: str, grades: Grades) -> Cells:
    widest = len(LEVELS) - 1
    shares = dict.fromkeys(range(-widest, widest + 1), 0.0)
    for picture in drawn:
        for level, share in zip(LEVELS, _given(picture, grades), strict=True):
            for value in _ratings(picture):
                shares[int(level) - value] += share / len(_ratings(picture)) / len(drawn)
    table: Cells = {(judge, f"{step:+d}" if step else "0"): share for step, share in shares.items()}
    return table | {(judge, "mean"): sum(step * share for step, share in shares.items())}


def _by_scenario(drawn: Sequence[DrawnPicture], judge: str) -> Cells:
    table: Cells = {}
    scores_of: dict[str, Callable[[DrawnPicture], list[float]]] = {
        f"{PEOPLE}, single ratings": lambda picture: [float(value) for value in _ratings(picture)],
        PEOPLE: lambda picture: [mean(_ratings(picture))],
        judge: lambda picture: [float(studies.rating_of(picture))],
    }
    for label, scores in scores_of.items():
        parts = [
            [score for picture in drawn if picture.asked.side == side for score in scores(picture)]
            for side in SCENARIOS
        ]  # fmt: skip
        for side, values in zip(SCENARIOS, parts, strict=True):
            column = f"{label} · {side}"
            table |= {("Samples", column): float(len(values)), ("Average score", column): mean(values),
                      ("SD", column): stdev(values)}  # fmt: skip
        table["p-value", f"{label} · {SCENARIOS[0]} and {SCENARIOS[1]}"] = welch(*parts)
    return table


def _agreement(drawn: Sequence[DrawnPicture], judge: str) -> Cells:
    table: Cells = {}
    for side in SCENARIOS:
        rows = [
            (float(studies.rating_of(picture)), mean(_ratings(picture)))
            for picture in drawn
            if picture.asked.side == side
        ]
        for level in ("nominal", "ordinal", "interval", "ratio"):
            table[f"{judge} and people", level, side] = krippendorff(rows, level)
    return table


def _histogram(drawn: Sequence[DrawnPicture], judge: str) -> Cells:
    bins = Counter(int(score(picture) * STEPS + 1e-9) for picture in drawn)
    return {(judge, f"{step / STEPS:.2f}"): float(bins[step]) for step in range(STEPS + 1)}


def _scores_by_scenario(drawn: Sequence[DrawnPicture], judge: str) -> Cells:
    parts = [[score(picture) for picture in drawn if picture.asked.side == side] for side in SCENARIOS]
    scores, people = [score(picture) for picture in drawn], [mean(_ratings(picture)) for picture in drawn]
    key = (judge, *SCENARIOS)
    return {
        (*key, "Mean · first"): mean(parts[0]),
        (*key, "Mean · second"): mean(parts[1]),
        (*key, "Welch · p-value"): welch(*parts),
        (*key, "With people · Spearman"): pearson(ranks(scores), ranks(people)),
        (*key, "With people · Kendall"): 1.0,  # each wrong fact costs a point of people's rating, and a question
    }


def _of_models(drawn: Sequence[DrawnPicture], judge: str, grades: Grades) -> Cells:
    table: Cells = {}
    for model, wrong in studies.WRONG.items():
        pictures = [picture for picture in drawn if 5 - studies.rating_of(picture) == wrong]
        table |= {
            (model, f"Mean rating · {PEOPLE}"): mean(value for picture in pictures for value in _ratings(picture)),
            (model, f"Mean rating · {judge}"): sum(int(level) * share for level, share in grades[wrong].items()),
            (model, f"Mean score by questions · {judge}"): 1 - wrong / len(questions.ASKED),
        }
    return table


def _strengths(pairs: Sequence[tuple[DrawnPicture, DrawnPicture]], judge: str) -> Cells:
    """Return how often each model wins, and people's strengths; the judge's are not finite because it never errs.

    According to people, the best model always beats the second, and both win half of the time against the third: its
    strength is 0, and the others' are x and -x, for which the best model's expected wins are the observed 1.5 of 2.
    """
    wins: dict[str, dict[str, list[float]]] = {}
    for pair in pairs:
        replies = studies.preferences_of_people(*pair)
        first = mean(value == "first" for value in replies.values())
        for place, picture in enumerate(pair):
            (model,) = (model for model, wrong in studies.WRONG.items() if wrong == 5 - studies.rating_of(picture))
            best = studies.rating_of(picture) > studies.rating_of(pair[1 - place])
            won = wins.setdefault(model, {judge: [], "people": []})
            won[judge].append(float(best))
            won["people"].append(1 - first if place else first)
    low, high = 0.0, 9.0
    for _ in range(60):
        middle = (low + high) / 2
        expected = 1 / (1 + exp(-2 * middle)) + 1 / (1 + exp(-middle))
        low, high = (middle, high) if expected < 1.5 else (low, middle)
    strengths = dict(zip(studies.WRONG, (low, -low, 0.0), strict=True))
    table: Cells = {}
    for model, won in wins.items():
        table |= {(model, f"{rater} · win rate"): mean(values) for rater, values in won.items()}
        table |= {(model, f"{judge} · strength"): nan, (model, "people · strength"): strengths[model]}
    return table
