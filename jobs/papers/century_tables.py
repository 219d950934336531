"""The tables and figures of Century (Akbulut et al., 2025), in the order of the paper.

Here are those of models' historical contextualisation of pictures: tables 3 and 12, figures 9, 11, 12 and 13, and
self-preference. The others are in `jobs.papers.century_pictures`.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jobs.metrics import model_scores
from jobs.metrics.intervals import Units
from jobs.metrics.metric import MetricKind, undefined
from jobs.metrics.model_scores import PER, LengthFit, RaterGroup, length_fit, scored_lengths
from jobs.metrics.rated_question import MODELS, PEOPLE
from jobs.metrics.rating_plans import BOTH, PEOPLE_ALONE
from jobs.papers import century_pictures
from jobs.papers.century_pictures import ALL_MODELS, ELEMENTS, LEVELS, PEOPLES, short, titled
from jobs.papers.paper_tables import (
    PaperCell,
    PaperFigure,
    PaperPart,
    PaperRow,
    PaperTable,
    Printed,
    estimate,
    figure,
    values,
)
from jobs.papers.study import ABSENT, ColumnSpec, RowSpec, Study
from jobs.plots.panels import Fit, HeatMap, Intervals, Panel, Scatter, StackedBars
from jobs.store.hashing import Hashes

METHODS = {"people": "Human", "models": "Automated"}  # group -> method of table 3
AGREE = "4"  # "agree" or higher
WRITER = "model"  # attribute of a response
MOST_POINTS = 200  # of a scatter plot, those with the smallest hashes of their ids; the line is fitted to all responses
REGION = "sub_region"
REGIONS = (  # in the order of figure 13
    "Northern Europe", "Eastern Europe", "Southern Europe", "Western Europe", "North America", "Central America",
    "Caribbean", "South America", "Central Asia", "Eastern Asia", "Southern Asia", "South-eastern Asia", "Western Asia",
    "Melanesia", "Micronesia", "Polynesia", "Australia and New Zealand", "Northern Africa", "Central Africa",
    "Eastern Africa", "Southern Africa", "Western Africa",
)  # fmt: skip
TWO_COLUMNS = 32  # characters of the longest label that leaves room for two plots in a row


def arrange(study: Study) -> Iterator[PaperPart]:
    """Yield the tables and figures that the report's tables allow."""
    rates_images, rates_responses = (study.has_ratings(study.rubric(role)) for role in ("images", "responses"))
    if rates_images:
        yield from (century_pictures.table_1(study), century_pictures.table_2(study))
        yield from century_pictures.estimates(study)
    if rates_responses:
        yield table_3(study)
        yield from table_3_estimates(study)
    yield from century_pictures.terms(study)
    if rates_images:
        yield from (century_pictures.figure_6(study), century_pictures.table_8(study))
        yield from century_pictures.reliability(study, "images")
        yield from century_pictures.rater_agreement(study)
    if rates_responses:
        yield from figure_9(study)
        yield from table_12(study)
        yield from figure_11(study)
        yield from figure_12(study)
        yield from self_preference(study)
        yield from century_pictures.reliability(study, "responses")
        yield from figure_13(study)
    yield from century_pictures.participation(study)


def _rubric(study: Study) -> str:
    return study.rubric("responses")


def writers(study: Study) -> list[str]:
    """Return the models that wrote the rated responses."""
    return sorted(study.metrics.values("part", "share_at_least", rubric=_rubric(study), attribute=WRITER))


def prompts(study: Study) -> tuple[str, str] | None:
    """Return the names of the explicit and the minimal prompt; None if no prompts are contrasted.

    They are the first pair in `paper.contrast` and then `metrics.contrast` for which the responses have both prompts;
    else the first pair whose explicit prompt they have, or the first pair.
    """
    parts = study.metrics.values("part", "share_at_least", rubric=_rubric(study), attribute=f"{WRITER}+prompt")
    present = {part.rpartition(" + ")[2] for part in parts}
    contrasts = [*study.settings.contrast, *study.metric_settings.contrast]
    of_prompts = (contrast.partition(":")[2] for contrast in contrasts if contrast.startswith("prompt:"))
    pairs = [(first, second) for first, _, second in (names.partition("-") for names in of_prompts)]
    return max(pairs, key=lambda pair: (pair[0] in present, pair[1] in present), default=None)


def written_by(study: Study, writer: str) -> dict[str, str]:
    """Return the dims of a writer's responses to the explicit prompt, or of all its responses if there are none.

    Except for table 12, the paper's results are for the explicit prompt.
    """
    both = prompts(study)
    part = f"{writer} + {both[0]}" if both else ""
    attribute = f"{WRITER}+prompt"
    if study.metrics.find("share_at_least", rubric=_rubric(study), attribute=attribute, part=part):
        return {"attribute": attribute, "part": part}
    return {"attribute": WRITER, "part": writer}


def prompt_note(study: Study) -> str:
    """Return a sentence about the responses that count."""
    parts = [written_by(study, writer)["attribute"] for writer in writers(study)]
    both = prompts(study)
    if both and parts and all(attribute != WRITER for attribute in parts):
        return f"Responses to the prompt {both[0]} count."
    return "Responses to all prompts count."


def _share_dims(study: Study, element: str, group: str) -> dict[str, str]:
    """Return the dims of the share of responses that a group scores at "agree" or higher."""
    return {"rubric": _rubric(study), "question": element, "group": group, "threshold": AGREE, "rule": "mean"}


def _columns_of(study: Study, models: Sequence[str], metric: str) -> list[ColumnSpec]:
    """Return a column of a metric per model, of the responses that count for it."""
    return [
        ColumnSpec((short(writer),), metric, written_by(study, writer), study.name_in_paper(writer) or "")
        for writer in models
    ]


def no_share(study: Study, element: str, group: str, part: Mapping[str, str]) -> str:
    """Return why the report has no share of responses that a group scores at "agree" or higher.

    Args:
        part: dims of the subgroup of responses.
    """
    dims = {"rubric": _rubric(study), "question": element, "group": group}
    if not study.metrics.find("group_mean_score", **dims):
        return study.no_rating(_rubric(study), element, group)
    if part and not study.metrics.find("group_mean_score", **dims, **part):
        return f"no response of {part['part']} was rated on {element}"
    return f"{AGREE} is not the highest of metrics.at_least that is on the scale"


def table_3(study: Study) -> PaperTable:
    """Return the shares of responses scored "agree" or higher by element, method and the model that wrote them."""
    models = writers(study)
    others = study.unmatched(study.printed("table_3").table.columns, models)
    groups = study.groups(_rubric(study), people=METHODS[PEOPLE], models=METHODS[MODELS])
    groups.sort(key=lambda group: group[0] == PEOPLE)  # automated before human, as in the paper
    methods = {group: next((m for name, m in METHODS.items() if study.stands_for(group, name)), "")
               for group, _ in groups}  # fmt: skip
    return study.table(
        "table_3",
        "Historical contextualisation: responses scored “agree” (4) or higher",
        "Century, table 3",
        row_headers=("Dimension", "Element", "Method"),
        rows=[
            RowSpec((dimension, titled(element), label), _share_dims(study, element, group),
                    f"{element} / {methods[group]}")
            for element, dimension in ELEMENTS.items()
            for group, label in groups
        ],
        columns=[
            *_columns_of(study, models, "share_at_least"),
            *(ColumnSpec((other,), printed=other) for other in others),
        ],
        reason=lambda row, column: no_share(study, row.dims["question"], row.dims["group"], column.dims),
        notes=(
            prompt_note(study),
            study.people_needed(_rubric(study), ELEMENTS, items="responses"),
            "n counts responses rated by the group; the mean of the ratings is used. In the paper n is 1,500 for "
            "automated ratings; for people it states 378, but its percentages are multiples of 1/189.",
        ),
    )  # fmt: skip


def table_3_estimates(study: Study) -> Iterator[PaperTable]:
    """Yield people's rows of table 3 for all responses, if people rated a random part of them."""
    name, sources = "estimated_share_at_least", {BOTH: "People and models", PEOPLE_ALONE: "People alone"}
    if study.metrics.find(name, rubric=_rubric(study), source=BOTH, threshold=AGREE):
        yield study.table(
            "table_3_estimates",
            "Table 3 for all responses, estimated from those that people rated",
            "not in the paper; prediction-powered inference (docs/estimates.md)",
            row_headers=("Dimension", "Element", "From"),
            rows=[
                RowSpec((dimension, titled(element), label),
                        {"rubric": _rubric(study), "question": element, "threshold": AGREE, "source": source})
                for element, dimension in ELEMENTS.items()
                for source, label in sources.items()
            ],
            columns=_columns_of(study, writers(study), name),
            reason=lambda row, column: "people’s part has no estimate",
            notes=(prompt_note(study), "n counts responses rated by people."),
        )  # fmt: skip


def table_12(study: Study) -> Iterator[PaperTable]:
    """Yield the shares under two prompts and their difference, if the responses have two prompts to contrast."""
    if (both := prompts(study)) is None:
        return
    first, second = both
    models, printed = writers(study), study.printed("table_12")
    paper_writers = dict.fromkeys(column.rpartition(" ")[0] for column in printed.table.columns)
    others = study.unmatched(list(paper_writers), models)
    groups = study.groups(_rubric(study), people="", models=ALL_MODELS) or [(MODELS, ALL_MODELS)]
    rows = [
        PaperRow((dimension, titled(element), label), (
            *(cell for writer in models for cell in _under_both(study, element, group, writer, both)),
            *(PaperCell(printed=printed.at(element, f"{other} {column}"))
              for other in others for column in ("explicit", "minimal", "delta")),
        ))
        for element, dimension in ELEMENTS.items()
        for group, label in groups
        if group != PEOPLE  # whom the paper shows responses to one prompt
    ]  # fmt: skip
    names = [*map(short, models), *others]
    yield PaperTable(
        name="table_12",
        title=f"Responses scored “agree” or higher with the prompts {first} and {second}",
        citation="Century, table 12",
        row_headers=("Dimension", "Element", "Judges"),
        columns=tuple((name, column) for name in names for column in (titled(first), titled(second), "Delta")),
        rows=tuple(rows),
        notes=(f"Delta is {first} minus {second}, by the mean rating of the judges; n counts responses.",),
    )


def _under_both(study: Study, element: str, group: str, writer: str, both: tuple[str, str]) -> Iterator[PaperCell]:
    """Yield the share of a writer's responses to each of two prompts, and the first minus the second."""
    printed, in_paper = study.printed("table_12"), study.name_in_paper(writer) or ""
    if not study.stands_for(group, MODELS):
        in_paper = ""  # the paper's numbers are of all models
    dims = _share_dims(study, element, group)
    for prompt, name in zip(both, ("explicit", "minimal"), strict=True):
        part = {"attribute": f"{WRITER}+prompt", "part": f"{writer} + {prompt}"}
        number, reason = printed.at(element, f"{in_paper} {name}"), no_share(study, element, group, part)
        yield study.cell("share_at_least", dims | part, printed=number, reason=reason)
    del dims["rule"]
    dims |= {WRITER: writer, "attribute": "prompt", "first": both[0], "second": both[1]}
    number = printed.at(element, f"{in_paper} delta")
    reason = no_share(study, element, group, {"attribute": WRITER, "part": writer})
    yield study.cell("share_difference", dims, printed=number, reason=reason)


def self_preference(study: Study) -> Iterator[PaperTable]:
    """Yield how much more each judge prefers responses of its family than raters without a stake, if it has one."""
    rubric, both = _rubric(study), prompts(study)
    judges = study.metrics.values("rater", "self_preference", rubric=rubric)
    if not judges:
        return
    prompt = {"attribute": "prompt", "part": both[0] if both else ""}
    if not study.metrics.find("self_preference", rubric=rubric, **prompt):
        prompt = {}
    yield study.table(
        "self_preference",
        "Self-preference of judges",
        "Century, section 4.2 and appendix S (no numbers in the paper)",
        row_headers=("Judge",),
        rows=[RowSpec((short(judge),), {"rubric": rubric, "rater": judge, **prompt}) for judge in judges],
        columns=[
            ColumnSpec((titled(element),), "self_preference", {"question": element}, unit="number")
            for element in ELEMENTS
        ],
        reason=lambda row, column: f"no ok rating of {column.dims['question']} by {row.headers[0]}",
        notes=(
            f"Responses to the prompt {prompt['part']} count." if prompt else "Responses to all prompts count.",
            "Points of the scale by which a judge scores responses of its family higher than raters without a stake in "
            "them do (people, and judges of neither its nor the writer’s family), minus the same for other families; n "
            "counts responses.",
        ),
    )


def figure_9(study: Study) -> Iterator[PaperFigure]:
    """Yield the shares of responses scored "agree" or higher by each judge, by element and writer."""
    models, judges = writers(study), study.raters(_rubric(study))
    if not judges:
        return
    numbers = study.table(
        "figure_9",
        "Responses scored “agree” or higher by judge and writer",
        "Century, figure 9 (drawn without numbers in the paper)",
        row_headers=("Judge", "Element"),
        rows=[
            RowSpec((short(judge), titled(element)), _share_dims(study, element, judge))
            for judge in judges
            for element in ELEMENTS
        ],
        columns=_columns_of(study, models, "share_at_least"),
        reason=lambda row, column: no_share(study, row.dims["question"], row.dims["group"], column.dims),
        notes=(prompt_note(study), "n counts responses."),
    )
    panels: list[tuple[str, Panel]] = []
    for place, judge in enumerate(judges):
        estimates = [
            estimate(row.headers[1], cell, writer)
            for row in numbers.rows[place * len(ELEMENTS) : (place + 1) * len(ELEMENTS)]
            for (writer,), cell in zip(numbers.columns, row.cells, strict=True)
        ]
        panels.append((short(judge), Intervals(estimates, bounds=(0, 1), percent=True, width=2.9)))
    text = "One plot per judge: share of responses with 95 % interval by element, one colour per model that wrote them."
    yield figure(numbers, panels, description=text, columns=2)


def figure_11(study: Study) -> Iterator[PaperFigure]:
    """Yield the distributions of scores by judge and writer."""
    rubric, models = _rubric(study), writers(study)
    judges = [(judge, short(judge)) for judge in study.raters(rubric)]
    if study.raters(rubric, kinds=("human",)):
        judges.append((PEOPLE, PEOPLES))
    if not models or not judges:
        return
    rows = []
    for element in ELEMENTS:
        for judge, label in judges:
            for writer in models:
                part = written_by(study, writer)
                dims = {"rubric": rubric, "question": element, "group": judge, **part}
                answered = study.metrics.find("answer_share", **dims)
                reason = "nobody gave this answer" if answered else _unanswered(study, element, judge, part)
                rows.append(RowSpec((titled(element), label, short(writer)), dims, reason=reason))
    numbers = study.table(
        "figure_11",
        "Distribution of the scores of responses by judge and writer",
        "Century, figure 11 (drawn without numbers in the paper)",
        row_headers=("Element", "Judge", "Writer"),
        rows=rows,
        columns=[ColumnSpec((level,), "answer_share", {"answer": level}) for level in LEVELS],
        notes=(prompt_note(study), "n counts ok ratings. Factuality errors are not inverted."),
    )
    panels: list[tuple[str, Panel]] = []
    labels = [f"{label} of {short(writer)}" for _, label in judges for writer in models]
    for place, element in enumerate(ELEMENTS):
        of_element = numbers.rows[place * len(labels) : (place + 1) * len(labels)]
        bars = StackedBars(values(of_element), labels, LEVELS, legend=not panels, width=3.2)
        panels.append((titled(element).removesuffix(" (inverted)"), bars))
    text = "One plot per element: share of ratings with each score from 1 (strongly disagree) to 5 (strongly agree)."
    columns = 2 if max(map(len, labels)) <= TWO_COLUMNS else 1
    yield figure(numbers, panels, description=text, columns=columns)


def figure_12(study: Study) -> Iterator[PaperFigure]:
    """Yield the mean score of all models by length of the response, with a line for each element and writer."""
    rubric, models = _rubric(study), writers(study)
    if not models or not study.raters(rubric):
        return
    groups = study.groups(rubric, people="", models=ALL_MODELS)
    numbers = study.table(
        "figure_12",
        f"Slope: points of the scale per {PER} characters",
        "Century, figure 12 (drawn without numbers in the paper)",
        row_headers=("Element", "Judges"),
        rows=[
            RowSpec((titled(element), label), {"rubric": rubric, "question": element, "group": group})
            for element in ELEMENTS
            for group, label in groups
            if group != PEOPLE  # the paper shows all models
        ],
        columns=[
            ColumnSpec(("All writers",), "length_slope", unit="number"),
            *(ColumnSpec((short(writer),), "length_slope", written_by(study, writer), unit="number")
              for writer in models),
        ],
        reason=lambda row, column: _unanswered(study, row.dims["question"], row.dims["group"], column.dims),
        notes=(
            f"{prompt_note(study)} The first column includes all responses.",
            "Least-squares slopes of the mean rating of the judges (in plots: of all models), with 95 % intervals over "
            f"pictures; n counts responses. A plot shows up to {MOST_POINTS} of them.",
        ),
    )  # fmt: skip
    text = (
        "Scatter plots of the mean score of all models on the length in characters, with the least-squares line and "
        "its 95 % interval: one row of plots per element, one column per model that wrote the responses."
    )
    panels = [panel for element in ELEMENTS for panel in _scatters(study, element, models)]
    title = "Length of responses and their mean score"
    yield figure(numbers, panels, title=title, description=text, columns=len(models))


def _scatters(study: Study, element: str, models: Sequence[str]) -> Iterator[tuple[str, Panel]]:
    """Yield the title and plot of each writer's responses."""
    points = _points(study, element)
    for writer in models:
        x, y, units = points.get(writer, (np.zeros(0), np.zeros(0), Units.single(0)))
        yield f"{titled(element)}\n{short(writer)}", Scatter(
            x[:MOST_POINTS].tolist(), y[:MOST_POINTS].tolist(), _line(length_fit(x, y, units)),
            x_label="characters" if element == list(ELEMENTS)[-1] else "",
            y_label="mean score" if writer == models[0] else "",
            bounds=(0.8, 5.2),
        )  # fmt: skip


def _unanswered(study: Study, element: str, group: str, part: Mapping[str, str]) -> str:
    """Return why the report has no metric of a group's answers on an element that needs lengths of responses."""
    if study.items.lengths is None:
        return "the responses are not known; set responses="
    dims = {"rubric": _rubric(study), "question": element, "group": group}
    if not any(study.metrics.find(name, **dims) for name in ("answer_share", "length_slope")):
        return study.no_rating(_rubric(study), element, group)
    return f"no response of {part.get('part', 'any writer')} was rated on {element}"


def _points(study: Study, element: str) -> dict[str, tuple[np.ndarray, np.ndarray, Units]]:
    """Return the lengths of each writer's responses, their mean scores by all models, and their units."""
    rated = study.rated(_rubric(study), element)
    if rated is None or study.items.lengths is None:
        return {}
    answers, items = rated
    scale, _ = study.rubrics.scale(_rubric(study), element)
    if element in study.metric_settings.inverted and scale:
        answers = model_scores.inverted(answers, low=scale[0], high=scale[1])
    group = RaterGroup(MODELS, study.model_group(_rubric(study)))
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


def _line(fit: LengthFit | None) -> Fit | None:
    if fit is None:
        return None
    return Fit(fit.intercept, fit.slope, fit.x.tolist(), fit.band_low.tolist(), fit.band_high.tolist())


def figure_13(study: Study) -> Iterator[PaperFigure]:
    """Yield heat maps of the shares scored "agree" or higher by sub-region and element, one per writer.

    Yield nothing if the items have no sub-region.
    """
    models = writers(study)
    all_regions = {region for writer in models for region in _regions(study, writer)}
    if not all_regions:
        return
    printed, in_paper = study.printed("figure_13"), study.settings.printed.get("figure_13")
    columns = in_paper.columns if in_paper else []
    elements = [element for element in ELEMENTS if not columns or element in columns]
    regions = [*(region for region in REGIONS if region in all_regions), *sorted(all_regions - set(REGIONS))]
    panels: list[tuple[str, Panel]] = []
    rows: list[PaperRow] = []
    for writer in models:
        of_writer = []
        for region in regions:
            row = f"{study.name_in_paper(writer) or ''} / {region}"
            cells = [_average(study, element, writer, region, printed.at(row, element)) for element in elements]
            of_writer.append(PaperRow((short(writer), region), tuple(cells)))
        panels.append((short(writer), HeatMap(values(of_writer), regions, [titled(element) for element in elements])))
        rows += of_writer
    matched = {study.name_in_paper(writer) for writer in models}
    for other in dict.fromkeys(row.partition(" / ")[0] for row in printed.rows):
        if other not in matched:
            rows += printed.rows_alone(printed.table.columns, headers=_of_paper, part=other)
    notes = (
        prompt_note(study),
        "Average over raters, where people count as one; n counts responses.",
        study.people_needed(_rubric(study), elements, items="responses"),
    )
    numbers = PaperTable(
        name="figure_13",
        title="Responses scored “agree” or higher by sub-region and writer",
        citation="Century, figure 13",
        row_headers=("Writer", "Sub-region"),
        columns=tuple((titled(element),) for element in elements),
        rows=tuple(rows),
        notes=tuple(filter(None, notes)),
    )
    text = "One heat map per model that wrote the responses: rows are sub-regions, columns elements of quality."
    yield figure(numbers, panels, description=text, columns=2, shared_rows=True)


def _of_paper(row: str) -> tuple[str, str]:
    writer, _, region = row.partition(" / ")
    return f"{writer} (paper)", region


def _regions(study: Study, writer: str) -> dict[str, dict[str, str]]:
    """Return the dims of the writer's responses about the pictures of each sub-region."""
    part = written_by(study, writer)
    attribute, suffix = f"{REGION}+{part['attribute']}", f" + {part['part']}"
    parts = study.metrics.values("part", "share_at_least", rubric=_rubric(study), attribute=attribute)
    return {
        name.removesuffix(suffix): {"attribute": attribute, "part": name} for name in parts if name.endswith(suffix)
    }


def _average(study: Study, element: str, writer: str, region: str, printed: Printed | None) -> PaperCell:
    """Return the average of shares over raters, or the share of the only rater."""
    if (subgroup := _regions(study, writer).get(region)) is None:
        kind = MetricKind("average_of_shares", definition=ABSENT)
        return PaperCell(undefined(kind, f"no response of {short(writer)} about {region}"), printed)
    dims = {"rubric": _rubric(study), "question": element, "threshold": AGREE, **subgroup}
    if study.metrics.find("average_of_shares", **dims):
        return PaperCell(study.metrics.first("average_of_shares", dims), printed)
    group = PEOPLE if not study.raters(_rubric(study)) else MODELS
    reason = no_share(study, element, group, subgroup)
    return study.cell("share_at_least", _share_dims(study, element, group) | subgroup, printed=printed, reason=reason)
