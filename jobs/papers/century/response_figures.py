"""Figures 9, 11, 12 and 13: ratings of responses by judge, writer, length and sub-region."""

from collections.abc import Iterator, Mapping

import numpy as np

from jobs.metrics import model_scores
from jobs.metrics.intervals import Units
from jobs.metrics.metric import MetricKind, undefined
from jobs.metrics.model_scores import PER, LengthFit, RaterGroup, length_fit, scored_lengths
from jobs.metrics.question import MODELS, PEOPLE
from jobs.papers.century.responses import AGREE, ROLE, no_share, prompt_note, share_dims, writers, written_by
from jobs.papers.century.words import ALL_MODELS, ELEMENTS, PEOPLES, REGIONS, short, titled
from jobs.papers.metric_index import ABSENT
from jobs.papers.model import PaperCell, PaperFigure, PaperRow, PaperTable, Printed
from jobs.papers.study import Study
from jobs.plots.figures import small_multiples
from jobs.plots.panels import Estimate, Fit, HeatMap, Intervals, Panel, Scatter, StackedBars
from jobs.store.hashing import Hashes

LEVELS = tuple(f"{level}" for level in range(1, 6))
MOST_POINTS = 200  # of a scatter plot, those with the smallest hashes of their ids; the line is fitted to all responses
REGION = "sub_region"
TWO_COLUMNS = 32  # characters of the longest label that leaves room for two plots in a row


def figure_9(study: Study) -> Iterator[PaperFigure]:
    """Yield the shares of responses scored "agree" or higher by each judge, by element and writer."""
    models, judges = writers(study), study.raters(study.rubric(ROLE))
    parts = {writer: written_by(study, writer) for writer in models}
    panels: list[tuple[str, Panel]] = []
    rows = []
    for judge in judges:
        estimates = []
        for element in ELEMENTS:
            cells = tuple(
                study.cell(
                    "share_at_least",
                    share_dims(study, element, judge, parts[writer]),
                    reason=no_share(study, element, judge, parts[writer]),
                )
                for writer in models
            )
            rows.append(PaperRow((short(judge), titled(element)), cells))
            estimates += [_estimate(cell, titled(element), short(w)) for cell, w in zip(cells, models, strict=True)]
        panels.append((short(judge), Intervals(estimates, bounds=(0, 1), percent=True, width=2.9)))
    if not panels:
        return
    title = "Responses scored “agree” or higher by judge and writer"
    text = "One plot per judge: share of responses with 95 % interval by element, one colour per model that wrote them."
    svg = small_multiples(panels, title=title, description=text, columns=2)
    columns = tuple((short(writer),) for writer in models)
    numbers = PaperTable("figure_9", title, "Century, figure 9", ("Judge", "Element"), columns, tuple(rows),
                         (prompt_note(study), "n counts responses."))  # fmt: skip
    yield PaperFigure("figure_9", title, "Century, figure 9 (drawn without numbers in the paper)", svg, numbers)


def _estimate(cell: PaperCell, label: str, series: str) -> Estimate:
    metric = cell.metric
    assert metric is not None
    return Estimate(label, metric.value, metric.low, metric.high, series)


def figure_11(study: Study) -> Iterator[PaperFigure]:
    """Yield the distributions of scores by judge and writer."""
    rubric, models = study.rubric(ROLE), writers(study)
    judges = [(judge, short(judge)) for judge in study.raters(rubric)]
    if study.raters(rubric, kinds=("human",)):
        judges.append((PEOPLE, PEOPLES))
    panels: list[tuple[str, Panel]] = []
    rows = []
    longest = max((len(f"{label} of {short(writer)}") for _, label in judges for writer in models), default=0)
    for element in ELEMENTS:
        shares, labels = [], []
        for judge, label in judges:
            for writer in models:
                part = written_by(study, writer)
                dims = {"rubric": rubric, "question": element, "group": judge, **part}
                answered = study.metrics.find("answer_share", **dims)
                reason = "nobody gave this answer" if answered else _unanswered(study, element, judge, part)
                cells = tuple(study.cell("answer_share", dims | {"answer": level}, reason=reason) for level in LEVELS)
                shares.append([cell.metric.value if cell.metric else None for cell in cells])
                labels.append(f"{label} of {short(writer)}")
                rows.append(PaperRow((titled(element), label, short(writer)), cells))
        bars = StackedBars(shares, labels, LEVELS, legend=not panels, width=3.2)
        panels.append((titled(element).removesuffix(" (inverted)"), bars))
    if not models or not judges:
        return
    title = "Distribution of the scores of responses by judge and writer"
    text = "One plot per element: share of ratings with each score from 1 (strongly disagree) to 5 (strongly agree)."
    svg = small_multiples(panels, title=title, description=text, columns=2 if longest <= TWO_COLUMNS else 1)
    columns = tuple((level,) for level in LEVELS)
    numbers = PaperTable("figure_11", title, "Century, figure 11", ("Element", "Judge", "Writer"), columns, tuple(rows),
                         (prompt_note(study), "n counts ok ratings. Factuality errors are not inverted."))  # fmt: skip
    yield PaperFigure("figure_11", title, "Century, figure 11 (drawn without numbers in the paper)", svg, numbers)


def figure_12(study: Study) -> Iterator[PaperFigure]:
    """Yield the mean score of all models by length of the response, with a line for each element and writer."""
    rubric, models = study.rubric(ROLE), writers(study)
    if not models or not study.raters(rubric):
        return
    panels: list[tuple[str, Panel]] = []
    rows = []
    parts: list[dict[str, str]] = [{}, *(written_by(study, writer) for writer in models)]
    for element in ELEMENTS:
        points = _points(study, element)
        for writer in models:
            x, y, units = points.get(writer, (np.zeros(0), np.zeros(0), Units.single(0)))
            fit = length_fit(x, y, units)
            scatter = Scatter(
                x[:MOST_POINTS].tolist(), y[:MOST_POINTS].tolist(), _fit(fit),
                x_label="characters" if element == list(ELEMENTS)[-1] else "",
                y_label="mean score" if writer == models[0] else "",
                bounds=(0.8, 5.2),
            )  # fmt: skip
            panels.append((f"{titled(element)}\n{short(writer)}", scatter))
        for group, label in study.groups(rubric, people="", models=ALL_MODELS):
            if group == PEOPLE:  # the paper shows all models
                continue
            dims = {"rubric": rubric, "question": element, "group": group}
            cells = (
                study.cell("length_slope", dims | part, unit="number", reason=_unanswered(study, element, group, part))
                for part in parts
            )
            rows.append(PaperRow((titled(element), label), tuple(cells)))
    title = "Length of responses and their mean score"
    text = (
        "Scatter plots of the mean score of all models on the length in characters, with the least-squares line and "
        "its 95 % interval: one row of plots per element, one column per model that wrote the responses."
    )
    svg = small_multiples(panels, title=title, description=text, columns=len(models))
    numbers = PaperTable(
        name="figure_12",
        title=f"Slope: points of the scale per {PER} characters",
        citation="Century, figure 12",
        row_headers=("Element", "Judges"),
        columns=(("All writers",), *((short(writer),) for writer in models)),
        rows=tuple(rows),
        notes=(
            f"{prompt_note(study)} The first column includes all responses.",
            "Least-squares slopes of the mean rating of the judges (in plots: of all models), with 95 % intervals over "
            f"pictures; n counts responses. A plot shows up to {MOST_POINTS} of them.",
        ),
    )
    yield PaperFigure("figure_12", title, "Century, figure 12 (drawn without numbers in the paper)", svg, numbers)


def _unanswered(study: Study, element: str, group: str, part: Mapping[str, str]) -> str:
    """Return why the report has no metric of a group's answers on an element that needs lengths of responses."""
    if study.items.lengths is None:
        return "the responses are not known; set responses="
    dims = {"rubric": study.rubric(ROLE), "question": element, "group": group}
    if not any(study.metrics.find(name, **dims) for name in ("answer_share", "length_slope")):
        return study.no_rating(study.rubric(ROLE), element, group)
    return f"no response of {part.get('part', 'any writer')} was rated on {element}"


def _points(study: Study, element: str) -> dict[str, tuple[np.ndarray, np.ndarray, Units]]:
    """Return the lengths of each writer's responses, their mean scores by all models, and their units."""
    rated = study.rated(study.rubric(ROLE), element)
    if rated is None or study.items.lengths is None:
        return {}
    answers, items = rated
    scale, _ = study.rubrics.scale(study.rubric(ROLE), element)
    if element in study.metric_settings.inverted and scale:
        answers = model_scores.inverted(answers, low=scale[0], high=scale[1])
    group = RaterGroup(MODELS, study.model_group(study.rubric(ROLE)))
    rows = study.items.rows(items)
    lengths = np.where(rows >= 0, study.items.lengths[rows], np.nan)
    return {
        writer: scored_lengths(answers.of_items(wrote), group, lengths[wrote])
        for writer, wrote in _responses_of(study, items).items()
    }


def _responses_of(study: Study, items: Hashes) -> dict[str, np.ndarray]:
    """Return bool[items] by writer: the responses that count for it (see `written_by`)."""
    chosen = {}
    for writer in writers(study):
        part = written_by(study, writer)
        subgroups = study.items.subgroups(part["attribute"], items)
        chosen[writer] = subgroups.get(part["part"], np.zeros(len(items), bool))
    return chosen


def _fit(fit: LengthFit | None) -> Fit | None:
    if fit is None:
        return None
    return Fit(fit.intercept, fit.slope, fit.x.tolist(), fit.band_low.tolist(), fit.band_high.tolist())


def figure_13(study: Study) -> Iterator[PaperFigure]:
    """Yield heat maps of the shares scored "agree" or higher by sub-region and element, one per writer.

    Yield nothing if the items have no sub-region.
    """
    models = writers(study)
    by_writer = {writer: _regions(study, writer) for writer in models}
    all_regions = {region for regions in by_writer.values() for region in regions}
    if not all_regions:
        return
    printed = study.printed("figure_13")
    elements = [element for element in ELEMENTS if not printed.table.columns or element in printed.table.columns]
    regions = [*(region for region in REGIONS if region in all_regions), *sorted(all_regions - set(REGIONS))]
    panels: list[tuple[str, Panel]] = []
    rows = []
    for writer in models:
        values = []
        for region in regions:
            row = f"{study.name_in_paper(writer) or ''} / {region}"
            cells = [_average(study, element, writer, region, printed.at(row, element)) for element in elements]
            values.append([cell.metric.value if cell.metric else None for cell in cells])
            rows.append(PaperRow((short(writer), region), tuple(cells)))
        panels.append((short(writer), HeatMap(values, regions, [titled(element) for element in elements])))
    matched = {study.name_in_paper(writer) for writer in models}
    for other in dict.fromkeys(row.partition(" / ")[0] for row in printed.rows):
        if other not in matched:
            rows += printed.rows_alone(printed.table.columns, headers=_of_paper, part=other)
    title = "Responses scored “agree” or higher by sub-region and writer"
    text = "One heat map per model that wrote the responses: rows are sub-regions, columns elements of quality."
    svg = small_multiples(panels, title=title, description=text, columns=2, shared_rows=True)
    numbers = PaperTable(
        "figure_13", title, "Century, figure 13", ("Writer", "Sub-region"),
        tuple((titled(element),) for element in elements), tuple(rows),
        (prompt_note(study), "Average over raters, where people count as one; n counts responses.",
         *filter(None, [study.people_needed(study.rubric(ROLE), elements, items="responses")])),
    )  # fmt: skip
    yield PaperFigure("figure_13", title, "Century, figure 13", svg, numbers)


def _of_paper(row: str) -> tuple[str, str]:
    writer, _, region = row.partition(" / ")
    return f"{writer} (paper)", region


def _regions(study: Study, writer: str) -> dict[str, dict[str, str]]:
    """Return the dims of the writer's responses about the pictures of each sub-region."""
    part = written_by(study, writer)
    attribute, suffix = f"{REGION}+{part['attribute']}", f" + {part['part']}"
    parts = study.metrics.values("part", "share_at_least", rubric=study.rubric(ROLE), attribute=attribute)
    return {
        name.removesuffix(suffix): {"attribute": attribute, "part": name} for name in parts if name.endswith(suffix)
    }


def _average(study: Study, element: str, writer: str, region: str, printed: Printed | None) -> PaperCell:
    """Return the average of shares over raters, or the share of the only rater."""
    if (subgroup := _regions(study, writer).get(region)) is None:
        return PaperCell(
            undefined(
                MetricKind("average_of_shares", definition=ABSENT), f"no response of {short(writer)} about {region}"
            ),
            printed,
        )
    dims = {"rubric": study.rubric(ROLE), "question": element, "threshold": AGREE, **subgroup}
    if study.metrics.find("average_of_shares", **dims):
        return PaperCell(study.metrics.first("average_of_shares", dims), printed)
    group = PEOPLE if not study.raters(study.rubric(ROLE)) else MODELS
    dims = share_dims(study, element, group, subgroup)
    return study.cell("share_at_least", dims, printed=printed, reason=no_share(study, element, group, subgroup))
