"""Plots of raters' answers to the same items: confusion matrices, and points with a line."""

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np

from jobs.metrics.confusion import GOLD, Confusion
from jobs.metrics.kinds import Topic
from jobs.metrics.observations import Observations
from jobs.metrics.paired_scores import LENGTH, WITH_PEOPLE, PairedScores
from jobs.page.anchors import anchor
from jobs.page.card_links import cell_anchor, drawn_matrices
from jobs.page.family_figures import question_title
from jobs.page.metric_families import MetricBlock
from jobs.page.model import PageFigure, Wording
from jobs.page.rater_figures import tables_of
from jobs.page.short_names import not_drawn, short_names, shortened
from jobs.plots.counts import CountMatrix
from jobs.plots.figures import label_width, plot
from jobs.plots.panels import Fit, Scatter

Words = Mapping[tuple[str, str], Wording]
MAX_SCATTERS = 48  # scatter plots in a figure
AXIS_LABEL = 0.25  # inches of the label of a vertical axis
TABLES = {"people": Topic.WITH_PEOPLE, "gold": Topic.GOLD}  # families with the numbers of the matrices


def observed_figures(
    observations: Observations, blocks: Sequence[MetricBlock], wording: Words, places: Container[str]
) -> Iterator[PageFigure]:
    """Yield the confusion matrices against people and against gold, and the scatter plots, if there are data for them.

    Args:
        places: anchors of the cells that have cards.
    """
    of_reference: dict[str, list[tuple[Mapping[str, str], Confusion]]] = defaultdict(list)
    for dims, confusion in drawn_matrices(observations.confusions, wording):
        of_reference[confusion.reference].append((dims, confusion))
    for reference, matrices in of_reference.items():
        left = [pair for pair in observations.confusions if pair[1].reference == reference and pair not in matrices]
        yield _confusion_figure(reference, matrices, blocks, wording, places, left=left)
    of_kind: dict[str, list[tuple[Mapping[str, str], PairedScores]]] = defaultdict(list)
    for dims, pairs in observations.pairs:
        of_kind[pairs.kind].append((dims, pairs))
    for kind, points in of_kind.items():
        yield _scatter_figure(kind, points, blocks, wording)


def _confusion_figure(
    reference: str,
    matrices: Sequence[tuple[Mapping[str, str], Confusion]],
    blocks: Sequence[MetricBlock],
    wording: Words,
    places: Container[str],
    *,
    left: Sequence[tuple[Mapping[str, str], Confusion]],
) -> PageFigure:
    names = short_names(sorted({confusion.rater for _, confusion in (*matrices, *left)}))
    panels = [
        (
            f"{_question(dims, wording)}: {names[confusion.rater]} (n {confusion.n:,})",
            _matrix(dims, confusion, names, wording, places),
        )
        for dims, confusion in matrices
    ]
    title = f"Answers against {reference}"
    definition = (
        "People’s answer to an item is the level nearest to the mean of their scores, or the category that more than "
        "half of them chose. " if "people" in (reference, *(confusion.rater for _, confusion in matrices)) else ""
    )  # fmt: skip
    return PageFigure(
        name=anchor("figure", title),
        title=title,
        about=f"Rows are the answers of {reference}, columns are those of the rater; each cell counts items, and its "
        f"colour is its share of the row. {definition}Outlined cells are equal answers. A cell links to its cards in "
        "the gallery, if there are any.",
        plots=[
            plot(
                panel,
                title=f"{title}: {name}",
                description=f"Confusion matrix of {name}.",
                heading=name,
                labels=label_width(panel.rows) + AXIS_LABEL,
            )
            for name, panel in panels
        ],
        numbers=tables_of(blocks, wording, TABLES[reference]),
        notes=not_drawn([f"{_question(dims, wording)}: {names[confusion.rater]}" for dims, confusion in left]),
    )


def _matrix(
    dims: Mapping[str, str],
    confusion: Confusion,
    names: Mapping[str, str],
    wording: Words,
    places: Container[str],
) -> CountMatrix:
    key = (dims.get("rubric", ""), dims.get("question", ""))
    labels = wording[key].labels if key in wording else {}
    used = [
        place
        for place, answer in enumerate(confusion.answers)
        if _is_number(answer) or confusion.counts[place].any() or confusion.counts[:, place].any()
    ]
    names_of = [shortened(labels.get(answer) or answer) for answer in confusion.answers]
    short = [confusion.answers[place] if _is_number(confusion.answers[place]) else names_of[place] for place in used]
    counts = confusion.counts[np.ix_(used, used)].tolist()
    rater = names[confusion.rater]
    links = {
        (row, column): (name, f"Cards: {confusion.reference} {short[row]}, {rater} {short[column]}")
        for row, right in enumerate(used)
        for column, answer in enumerate(used)
        if (name := cell_anchor(dims, confusion, right, answer)) in places
    }
    of_reference = "gold" if confusion.reference == GOLD else f"by {confusion.reference}"
    return CountMatrix(counts, short, short, of_reference, f"by {rater}", links)


def _scatter_figure(
    kind: str, plots: Sequence[tuple[Mapping[str, str], PairedScores]], blocks: Sequence[MetricBlock], wording: Words
) -> PageFigure:
    names = short_names(sorted({pairs.rater for _, pairs in plots}))
    titles = {LENGTH: "Length of responses and scores", WITH_PEOPLE: "Encoders’ and people’s scores"}
    x_label = {LENGTH: "characters", WITH_PEOPLE: "score of the rater"}[kind]
    y_label = {LENGTH: "score", WITH_PEOPLE: "mean of people"}[kind]
    panels = [
        (
            f"{_question(dims, wording)}: {names[pairs.rater]} (n {pairs.n:,})",
            Scatter(pairs.x.tolist(), pairs.y.tolist(), _fit(pairs), x_label, y_label, _bounds(dims, wording)),
        )
        for dims, pairs in plots[:MAX_SCATTERS]
    ]
    notes = not_drawn([f"{_question(dims, wording)}: {names[pairs.rater]}" for dims, pairs in plots[MAX_SCATTERS:]])
    if any(len(pairs.x) < pairs.n for _, pairs in plots[:MAX_SCATTERS]):
        notes.append("Not all points are drawn; the lines are fitted to all.")
    family = {LENGTH: Topic.BIASES, WITH_PEOPLE: Topic.WITH_PEOPLE}[kind]
    return PageFigure(
        name=anchor("figure", kind),
        title=titles[kind],
        about="Each point is an item; the line is the least-squares fit to all items, with the 95% interval of its "
        "mean.",
        plots=[
            plot(
                panel,
                title=f"{titles[kind]}: {name}",
                description=f"Points of {x_label} and {y_label} of {name}.",
                heading=name,
            )
            for name, panel in panels
        ],
        numbers=tables_of(blocks, wording, family),
        notes=notes,
    )


def _bounds(dims: Mapping[str, str], wording: Words) -> tuple[float, float] | None:
    """Return the ends of an axis of scores, with room for points at the ends of the scale; None if it is unknown."""
    words = wording.get((dims.get("rubric", ""), dims.get("question", "")))
    if words is None or words.scale is None:
        return None
    room = 0.06 * (words.scale[1] - words.scale[0])
    return words.scale[0] - room, words.scale[1] + room


def _fit(pairs: PairedScores) -> Fit | None:
    fit = pairs.fit
    return Fit(fit.intercept, fit.slope, fit.x.tolist(), fit.band_low.tolist(), fit.band_high.tolist()) if fit else None


def _question(dims: Mapping[str, str], wording: Words) -> str:
    title = question_title((dims.get("rubric", ""), dims.get("question", "")), wording)
    rest = (value for name, value in dims.items() if name not in ("rubric", "question") and value)
    return shortened(" · ".join((f"“{title}”", *rest)))


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit()
