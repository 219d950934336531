"""Plots of all raters together: pairwise agreement, and their mean scores by question."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from jobs.metrics.kinds import Topic
from jobs.metrics.metric import Metric
from jobs.metrics.question import MODELS, PEOPLE
from jobs.metrics.suite import ACROSS
from jobs.page.anchors import anchor
from jobs.page.card_links import pair_anchor
from jobs.page.family_figures import question_title
from jobs.page.metric_families import MetricBlock
from jobs.page.model import PageFigure, Wording
from jobs.page.short_names import not_drawn, rater_colour, short_names, shortened
from jobs.plots.figures import plot
from jobs.plots.panels import HeatMap

Words = Mapping[tuple[str, str], Wording]
Question = tuple[str, ...]
EACH_TWO = "Pairwise agreement of raters"
MAX_RATERS = 42  # raters in a heat map: at most 14 of each of people, models and both have kappas
MAX_MAPS = 11  # heat maps of single questions
MAX_QUESTIONS = 24  # columns of the map of scores
MAX_SCORED = 202  # rows of the map of scores: people, models, and all that are reported one by one (`MAX_LINES`)


def rater_figures(
    metrics: Sequence[Metric],
    blocks: Sequence[MetricBlock],
    wording: Words,
    places: Container[str] = (),
    letters: Mapping[str, str] = MappingProxyType({}),
    *,
    hues: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[PageFigure]:
    """Yield the heat maps of agreement and of mean scores that the metrics allow.

    Args:
        places: anchors of the pairs of raters who differ on a card.
        letters: rater -> its letter on the page; if a rater of a map has none, all its raters are numbered.
        hues: rater -> the hue of its colour on the page.
    """
    yield from agreement_map(metrics, blocks, wording, places, letters, hues=hues)
    yield from score_map(metrics, blocks, wording, hues)


def agreement_map(
    metrics: Sequence[Metric],
    blocks: Sequence[MetricBlock],
    wording: Words,
    places: Container[str] = (),
    letters: Mapping[str, str] = MappingProxyType({}),
    *,
    hues: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[PageFigure]:
    """Yield heat maps of the kappas of all pairs of raters: their mean over all questions, and each question's."""
    kappas: dict[Question, dict[frozenset[str], float]] = {}
    for metric in metrics:
        dims = metric.dims
        if metric.name == "kappa" and dims.get("group") in (PEOPLE, MODELS, ACROSS) and metric.value is not None:
            pair = frozenset((dims["rater_a"], dims["rater_b"]))
            key = (dims.get("rubric", ""), dims.get("question", ""), dims.get("condition", ""))
            kappas.setdefault(key, {})[pair] = metric.value
    raters = _order(metrics, {rater for pairs in kappas.values() for pair in pairs for rater in pair})
    if len(raters) < 3:
        return
    shown = raters[:MAX_RATERS]
    names = short_names(raters)
    numbers = {rater: str(place) for place, rater in enumerate(shown, start=1)}
    marks = letters if set(shown) <= letters.keys() else numbers
    maps = [(_title(key, wording), pairs) for key, pairs in kappas.items()]
    notes = []
    if len(maps) > 1:
        every = {pair for pairs in kappas.values() for pair in pairs}
        values = {pair: [pairs[pair] for pairs in kappas.values() if pair in pairs] for pair in every}
        mean = {pair: sum(pair_kappas) / len(pair_kappas) for pair, pair_kappas in values.items()}
        maps.insert(0, (f"Mean of {len(maps)} questions", mean))
    if len(maps) > MAX_MAPS + 1:
        notes += not_drawn([title for title, _ in maps[MAX_MAPS + 1 :]])
    if len(raters) > MAX_RATERS:
        notes += not_drawn([names[rater] for rater in raters[MAX_RATERS:]])
    yield PageFigure(
        name=anchor("figure", EACH_TWO),
        title=EACH_TWO,
        about="Cohen’s κ of every pair of raters, people and models together: quadratic weights on scales, unweighted "
        "for categories. 1 is perfect agreement, 0 agreement by chance, and colours diverge from it; a dash "
        "means no common items, or undefined. A cell links to the cards on which the two differ, if there are any.",
        plots=[
            plot(
                replace(
                    _kappa_map(pairs, in_map, names, marks, places),
                    row_colours=[rater_colour(rater, hues) for rater in in_map],
                ),
                title=f"{EACH_TWO}: {title}",
                description=f"Heat map of Cohen's kappa of every pair of {', '.join(names[r] for r in shown)}.",
                heading=title,
            )
            for title, pairs in maps[: MAX_MAPS + 1]
            for in_map in [[rater for rater in shown if any(rater in pair for pair in pairs)]]
        ],
        numbers=tables_of(blocks, wording, Topic.TWO_RATERS),
        notes=notes,
    )


def score_map(
    metrics: Sequence[Metric],
    blocks: Sequence[MetricBlock],
    wording: Words,
    hues: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[PageFigure]:
    """Yield a heat map of the mean scores of models and groups by question, if there are at least two of each."""
    scores: dict[str, dict[Question, float]] = {}
    for metric in metrics:
        dims = metric.dims
        if (
            metric.name == "group_mean_score"
            and not {"versions", "attribute"} & dims.keys()
            and metric.value is not None
        ):
            key = (dims.get("rubric", ""), dims.get("question", ""), dims.get("condition", ""))
            scores.setdefault(dims["group"], {})[key] = metric.value
    questions = list(dict.fromkeys(key for values in scores.values() for key in values))
    groups = [group for group in scores if group not in (MODELS, PEOPLE)]
    rows = [group for group in (PEOPLE, MODELS) if group in scores and (group == PEOPLE or len(groups) > 1)] + groups
    if len(rows) < 2 or len(questions) < 2:
        return
    shown, columns, names = rows[:MAX_SCORED], questions[:MAX_QUESTIONS], short_names(rows)
    values = [[scores[row].get(key) for key in columns] for row in shown]
    ends = [
        (wording[asked].scale if (asked := (key[0], key[1])) in wording else None)
        or _range(line[place] for line in values)
        for place, key in enumerate(columns)
    ]
    notes = []
    if len(rows) > len(shown) or len(questions) > len(columns):
        left = [
            *(names[row] for row in rows[MAX_SCORED:]),
            *(_title(key, wording) for key in questions[MAX_QUESTIONS:]),
        ]
        notes = not_drawn(left)
    yield PageFigure(
        name=anchor("figure", "mean scores by question"),
        title="Mean scores by question",
        about="Mean over items of the mean score of each rater or group; colours go from the lowest to the highest "
        "score of each question’s scale, or of its means if the scale is unknown.",
        plots=[
            plot(
                HeatMap(
                    values,
                    [names[row] for row in shown],
                    [_title(key, wording) for key in columns],
                    percent=False,
                    ends=ends,
                    row_colours=[rater_colour(row, hues) for row in shown],
                ),
                title="Mean scores by question",
                description=f"Heat map of mean scores: {len(shown)} raters and groups by {len(columns)} questions.",
            )
        ],
        numbers=tables_of(blocks, wording, Topic.SCORES),
        notes=notes,
    )


def _range(values: Iterable[float | None]) -> tuple[float, float]:
    defined = [value for value in values if value is not None]
    return min(defined), max(defined)


def tables_of(blocks: Sequence[MetricBlock], wording: Words, topic: Topic) -> list[tuple[str, str]]:
    """Return (question, anchor) of the tables of a topic."""
    return [
        (", ".join(filter(None, (question_title((b.rubric, b.question), wording) or "all", b.about))), table.name)
        for b in blocks
        for table in b.tables
        if table.title == topic
    ]


def _order(metrics: Sequence[Metric], raters: set[str]) -> list[str]:
    """Return the raters, people first."""
    people = {
        metric.dims[name]
        for metric in metrics
        if metric.name == "kappa" and metric.dims.get("group") == PEOPLE
        for name in ("rater_a", "rater_b")
    }
    return sorted(raters, key=lambda rater: (rater not in people, rater))


def _kappa_map(
    pairs: Mapping[frozenset[str], float],
    raters: Sequence[str],
    names: Mapping[str, str],
    marks: Mapping[str, str],
    places: Container[str],
) -> HeatMap:
    """Return the map of the raters; `marks` has each rater's letter or number."""
    values = [[None if a == b else pairs.get(frozenset((a, b))) for b in raters] for a in raters]
    links = {
        (row, column): (name, f"Cards on which {names[a]} and {names[b]} differ")
        for row, a in enumerate(raters)
        for column, b in enumerate(raters)
        if a != b and (name := pair_anchor(a, b)) in places
    }
    rows, columns = [f"{names[r]}  {marks[r]}" for r in raters], [marks[r] for r in raters]
    return HeatMap(values, rows, columns, low=-1.0, percent=False, links=links)


def _title(key: Question, wording: Words) -> str:
    return shortened(", ".join(filter(None, (question_title((key[0], key[1]), wording), *key[2:]))))
