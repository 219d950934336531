"""Figure 5: the pictures with the lowest, a middle and the highest score, next to their ratings."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from jobs.analysis.attributes import HUMAN
from jobs.metrics.metric import Metric, MetricKind, exact
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable
from jobs.papers.rome.scenarios import PEOPLE_LABEL, QUESTIONS, RATING, SCORES, Rated, rated
from jobs.papers.study import Study
from jobs.plots.figures import small_multiples
from jobs.plots.panels import Estimate, Intervals
from jobs.store.hashing import hash_texts

PLACES = ("lowest", "middle", "highest")
SHORT = 160  # characters of a prompt


@dataclass(frozen=True)
class _Example:
    """A picture of figure 5: its place among the scores, the hash of its item, its score and its ratings."""

    place: str
    item: int
    score: float
    people: Metric | None
    model: Metric | None


@dataclass(frozen=True)
class _Labelled:
    """The label of an item, which is its id with the beginning of its prompt, and its picture, if it has one."""

    name: str = ""
    image_id: str | None = None


def figure_5(study: Study) -> Iterator[PaperFigure]:
    """Yield, per model, the pictures with the lowest, a middle and the highest score, with the ratings of people."""
    scores, ratings = rated(study, SCORES), rated(study, RATING)
    if scores is None:
        return
    people = study.raters(study.rubric(RATING), kinds=(HUMAN,))
    for number, rater in enumerate(study.raters(study.rubric(SCORES)), 1):
        examples = [
            _Example(place, item, score, _mean(ratings, item, people), _mean(ratings, item, [rater]))
            for place, item, score in _chosen(scores, rater)
        ]
        yield _figure(study, "figure_5" if number == 1 else f"figure_5_{number}", rater, examples)


def _figure(study: Study, name: str, rater: str, examples: Sequence[_Example]) -> PaperFigure:
    title = f"Examples: pictures with a low, a middle and a high score by {rater}"
    printed, shown = study.printed("figure_5"), _shown(study, {example.item for example in examples})
    rows = [
        PaperRow((example.place, shown[example.item].name), (
            PaperCell(_of_one("score", example.score, 1), printed.at(example.place, "score"), "number"),
            PaperCell(example.people, printed.at(example.place, "people"), "number"),
            PaperCell(example.model, printed.at(example.place, "GPT"), "number"),
        ))
        for example in examples
    ]  # fmt: skip
    pictures = [(picture, f"{e.place}: {e.score:.2f}") for e in examples if (picture := shown[e.item].image_id)]
    return PaperFigure(
        name=name,
        title=title,
        citation="Rome, figure 5",
        svg=_drawing(study, title, rater, rows),
        numbers=PaperTable(
            name=name,
            title=title,
            citation="",
            row_headers=("Score", "Picture and prompt"),
            columns=(("Score by questions",), ("Rating by people",), ("Rating by the model",)),
            rows=tuple(rows),
            notes=("The printed numbers are GPT-4o's for the paper's own three pictures.",),
        ),
        pictures=tuple(pictures),
    )


def _drawing(study: Study, title: str, rater: str, rows: Sequence[PaperRow]) -> str:
    """Return the scores and, below them, the ratings of the pictures; the paper's numbers are hollow diamonds."""
    scale, _ = study.rubrics.scale(study.rubric(RATING), QUESTIONS[RATING])
    series = ("", PEOPLE_LABEL, rater)
    scores, *ratings = [
        [_estimate(row.headers[0], row.cells[column], name) for row in rows] for column, name in enumerate(series)
    ]
    panels = [
        ("Score by questions", Intervals(scores, bounds=(0, 1))),
        ("Rating", Intervals([row for of_rater in ratings for row in of_rater], bounds=scale)),
    ]
    text = "One row per picture: the share of its questions answered yes, and its rating by people and by the model."
    return small_multiples(panels, title=title, description=text, columns=1)


def _estimate(label: str, cell: PaperCell, series: str) -> Estimate:
    return Estimate(
        label,
        cell.metric.value if cell.metric else None,
        series=series,
        printed=cell.printed.value if cell.printed else None,
    )


def _chosen(scores: Rated, rater: str) -> list[tuple[str, int, float]]:
    """Return place, item and score of the lowest, median and highest score; the lowest hash breaks ties."""
    table, items = scores
    answers = table.of_raters([rater])
    if not answers.n:
        return []
    hashes = items[answers.item]
    order = np.lexsort((hashes, answers.score))
    places = (0, len(order) // 2, len(order) - 1)
    return [
        (name, int(hashes[order[place]]), float(answers.score[order[place]]))
        for name, place in zip(PLACES, places, strict=True)
    ]


def _mean(ratings: Rated | None, item: int, raters: Sequence[str]) -> Metric | None:
    """Return the mean rating of one item by some raters; None without ratings."""
    if ratings is None or not raters:
        return None
    table, items = ratings
    scores = table.of_raters(raters).of_items(items == np.uint64(item)).score
    scores = scores[~np.isnan(scores)]
    return _of_one("rating", float(scores.mean()), len(scores)) if len(scores) else None


def _of_one(name: str, value: float, n: int) -> Metric:
    kind = MetricKind(name, definition="Of one picture; n counts its ratings.")
    return exact(kind, value, n, reason="one picture: no interval")


def _shown(study: Study, wanted: set[int]) -> dict[int, _Labelled]:
    """Return the label and picture of each item, by its hash."""
    items: dict[int, dict[str, object]] = {}
    for source in study.tables.items:
        for batch in source.batches(["item_id", "text_ids", "image_ids"]):
            hashes = hash_texts(batch["item_id"])
            for place in np.flatnonzero(np.isin(hashes, np.array(sorted(wanted), np.uint64))):
                items[int(hashes[place])] = batch.slice(place, 1).to_pylist()[0]
    prompts = _prompts(study, {text_id for item in items.values() for text_id in _ids(item["text_ids"])})
    shown = dict.fromkeys(wanted, _Labelled())
    for number, item in items.items():
        texts = [prompts.get(text_id) for text_id in _ids(item["text_ids"])]
        name = ": ".join(filter(None, [str(item["item_id"]), *texts]))
        shown[number] = _Labelled(name, next(iter(_ids(item["image_ids"])), None))
    return shown


def _ids(listed: object) -> list[str]:
    return list(listed) if isinstance(listed, list) else []


def _prompts(study: Study, wanted: set[str]) -> dict[str, str]:
    """Return the beginning of each prompt, by text_id."""
    prompts = {}
    for source in study.tables.texts:
        for batch in source.batches(["text_id", "role", "text"]):
            for row in batch.to_pylist():
                if row["text_id"] in wanted and row["role"] == "prompt":
                    text = " ".join((row["text"] or "").split())
                    prompts[row["text_id"]] = text if len(text) <= SHORT else text[:SHORT] + "…"
    return prompts
