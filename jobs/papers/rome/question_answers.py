"""Figures 4 and 5 and section 4.2.2: the scores of pictures by the answers to their questions."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from jobs.analysis.question_scores import BINS, STEPS
from jobs.analysis.rater_attributes import HUMAN
from jobs.analysis.rating_codes import Reduced
from jobs.metrics.metric import Metric
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable
from jobs.papers.rome.scenarios import dims_of, reduced_question, scenario_attribute, scenario_pairs
from jobs.papers.study import Study
from jobs.plots.figures import small_multiples
from jobs.plots.panels import Histogram
from jobs.store.hashing import hash_texts

ROLE = "scores"
PLACES = ("lowest", "middle", "highest")
SHORT = 160  # characters of a prompt


def figure_4(study: Study) -> Iterator[PaperFigure]:
    """Yield the histogram of the scores of all pictures, one plot per model."""
    dims = dims_of(study, ROLE)
    panels, rows = [], []
    for rater in study.raters(study.rubric(ROLE)):
        shares = [study.metrics.get("share", dims | {"rater": rater, "answer": step}) for step in BINS]
        counts = [round((share.value or 0) * share.n) for share in shares]
        edges = [step / STEPS for step in range(STEPS + 2)]  # the score 1 is a bar of its own
        panels.append((rater, Histogram(counts, edges, "score; the last bar is 1", "pictures")))
        cells = [
            replace(share, name="pictures", value=float(count), low=None, high=None, interval_method=None,
                    reason="a count: no interval")
            if share.value is not None
            else share
            for share, count in zip(shares, counts, strict=True)
        ]  # fmt: skip
        rows.append(PaperRow((rater,), tuple(PaperCell(cell, unit="count") for cell in cells)))
    if not panels:
        return
    title = "Pictures by the share of their questions that are answered yes"
    yield PaperFigure(
        name="figure_4",
        title=title,
        citation="Rome, figure 4",
        svg=small_multiples(panels, title=title, description="One histogram per model, in steps of 0.05."),
        numbers=PaperTable(
            name="figure_4",
            title=title,
            citation="",
            row_headers=("Model",),
            columns=tuple((step,) for step in BINS),
            rows=tuple(rows),
            notes=("The paper: most scores are between 0.5 and 0.9, and over 60 of 600 pictures have 1.",),
        ),
    )


def by_scenario(study: Study) -> PaperTable:
    """Return the scores by scenario, Welch's p, and the correlation of the scores with people's ratings."""
    dims, attribute = dims_of(study, ROLE), scenario_attribute(study)
    printed = study.printed("by_scenario")
    rows = []
    for rater in study.raters(study.rubric(ROLE)):
        in_paper = study.name_in_paper(rater) or ""
        of_dsg = {
            "rater": rater,
            "rubric": study.rubric("answers"),
            "reading": "with dependencies",
            "convention": "answered",
        }
        correlations = [
            study.cell(name, of_dsg, unit="number", reason="set questions= and likert=, and add ratings of people")
            for name in ("dsg_spearman", "dsg_kendall")
        ]
        for first, second in scenario_pairs(study, ROLE) or [("", "")]:
            of = dims | {"attribute": attribute, "group": rater, "first": first, "second": second}
            reason = f"no item has the attribute {attribute!r} with two values"
            means = [
                study.cell("part_mean", of | {"part": part}, unit="number", reason=reason)
                for part in ("first", "second")
            ]
            p = study.cell("welch_p", of, unit="number", printed=printed.at(in_paper, "p-value"), reason=reason)
            rows.append(PaperRow((rater, first, second), (*means, p, *correlations)))
    rows += [
        PaperRow((f"{name} (paper)", "", ""),
                 (PaperCell(), PaperCell(), PaperCell(printed=printed.at(name, "p-value"), unit="number"), PaperCell(),
                  PaperCell()))
        for name in printed.rows
        if name not in {study.name_in_paper(row.headers[0]) for row in rows}
    ]  # fmt: skip
    return PaperTable(
        name="by_scenario",
        title="Scores by questions: scenarios, and correlation with people’s ratings",
        citation="Rome, section 4.2.2",
        row_headers=("Model", "First scenario", "Second scenario"),
        columns=(("Mean", "first"), ("Mean", "second"), ("Welch", "p-value"), ("With people", "Spearman"),
                 ("With people", "Kendall")),
        rows=tuple(rows),
    )  # fmt: skip


@dataclass(frozen=True)
class _Example:
    """A picture of figure 5: its place among the scores, the hash of its item, its score."""

    place: str
    item: int
    score: float


def figure_5(study: Study) -> Iterator[PaperTable]:
    """Yield, per model, the pictures with the lowest, a middle and the highest score, with the ratings of people."""
    reduced, printed = reduced_question(study, ROLE), study.printed("figure_5")
    rating = reduced_question(study, "rating")
    if reduced is None:
        return
    for number, rater in enumerate(study.raters(study.rubric(ROLE)), 1):
        examples = _examples(reduced, rater)
        names = _names(study, {example.item for example in examples})
        rows = []
        for example in examples:
            people = _rated(rating, example.item, study.raters(study.rubric("rating"), kinds=(HUMAN,)))
            own = _rated(rating, example.item, [rater])
            cells = (
                PaperCell(_metric("score", example.score, 1), printed.at(example.place, "score"), "number"),
                PaperCell(people, printed.at(example.place, "people"), "number"),
                PaperCell(own, printed.at(example.place, "GPT"), "number"),
            )
            rows.append(PaperRow((example.place, names.get(example.item, "")), cells))
        yield PaperTable(
            name="figure_5" if number == 1 else f"figure_5_{number}",
            title=f"Examples: pictures with a low, a middle and a high score by {rater}",
            citation="Rome, figure 5",
            row_headers=("Score", "Picture and prompt"),
            columns=(("Score by questions",), ("Rating by people",), ("Rating by the model",)),
            rows=tuple(rows),
            notes=("The printed numbers are those of the paper's own three pictures, of GPT-4o.",),
        )


def _examples(reduced: Reduced, rater: str) -> list[_Example]:
    """Return the items with the lowest, the median and the highest score; of equal scores the lowest hash."""
    answers = reduced.answers.of_raters([rater])
    if not answers.n:
        return []
    hashes = reduced.item[answers.item]
    order = np.lexsort((hashes, answers.score))
    places: list[int] = [0, len(order) // 2, len(order) - 1]
    return [
        _Example(name, int(hashes[order[place]]), float(answers.score[order[place]]))
        for name, place in zip(PLACES, places, strict=True)
    ]


def _rated(reduced: Reduced | None, item: int, raters: list[str]) -> Metric | None:
    """Return the mean rating of one item by some raters; None without any."""
    if reduced is None or not raters:
        return None
    members: NDArray[np.bool_] = reduced.item == np.uint64(item)
    scores = reduced.answers.of_raters(raters).of_items(members).score
    scores = scores[~np.isnan(scores)]
    return _metric("rating", float(scores.mean()), len(scores)) if len(scores) else None


def _metric(name: str, value: float, n: int) -> Metric:
    definition = "Of one picture; n counts its ratings."
    return Metric(name=name, definition=definition, value=value, n=n, reason="one picture: no interval")


def _names(study: Study, wanted: set[int]) -> dict[int, str]:
    """Return hash -> id of the item and the beginning of its prompt."""
    names: dict[int, str] = {}
    texts_of: dict[int, list[str]] = {}
    for source in study.tables.items:
        for batch in source.batches(["item_id", "text_ids"]):
            for row, number in zip(batch.to_pylist(), hash_texts(batch["item_id"]).tolist(), strict=True):
                if number in wanted:
                    names[number], texts_of[number] = row["item_id"], row["text_ids"] or []
    prompts = {text_id: "" for ids in texts_of.values() for text_id in ids}
    for source in study.tables.texts:
        for batch in source.batches(["text_id", "role", "text"]):
            for row in batch.to_pylist():
                if row["text_id"] in prompts and row["role"] == "prompt":
                    text = " ".join((row["text"] or "").split())
                    prompts[row["text_id"]] = text if len(text) <= SHORT else text[:SHORT] + "…"
    return {
        number: ": ".join(filter(None, [name, *(prompts[text_id] for text_id in texts_of[number])]))
        for number, name in names.items()
    }
