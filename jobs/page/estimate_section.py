"""The section “Estimates for the whole set”, and its sentences for the first screen and the terminal.

People rated a part of the items and models all of them; the section says what people's answers to all would be, and how
many more ratings by people would narrow that by how much (docs/estimates.md).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from actors.quantities import quantity
from jobs.html.formats import in_words, number, percent
from jobs.metrics.estimates import ALL_RATED, NOT_RANDOM
from jobs.metrics.kinds import kind_of
from jobs.metrics.metric import Metric, Quantity, Topic
from jobs.metrics.rating_plans import BOTH, DETECTABLE, HALF_WIDTH, JUDGES_ALONE, MORE_RATINGS, PEOPLE_ALONE, SPLIT
from jobs.page.metric_tables import IN_HEADING, belongs
from jobs.page.page_contents import PageFigure, PageSection, SectionTable, Wording, question_of
from jobs.page.page_names import anchor, not_drawn, short_names, unique
from jobs.page.topic_figures import AXIS, LABELS, MAX_PLOTS, MAX_ROWS, WIDTH, caption_of
from jobs.plots.figures import label_width, plot
from jobs.plots.panels import Estimate, Intervals, Lines, Panel
from jobs.plots.svg import INK, SECOND, SOFT

NAME, TITLE = "estimates", "Estimates for the whole set"
SOURCES = {
    BOTH: ("people and models", SECOND),
    PEOPLE_ALONE: ("people alone", INK),
    JUDGES_ALONE: ("models alone", SOFT),
}
ABOUT = (
    "What people would answer if they rated everything. Models rated all items, but are biased; people rated a random "
    "part. Where both rated an item, their difference shows the models’ error, which is taken out of the models’ "
    "answers to all (prediction-powered inference). The interval is right even if the models are bad; good ones make "
    "it narrower than that of people alone. It is about these items and these people: the more items they rate, the "
    "less is left to estimate. Other people might answer otherwise."
)
OPENING = (
    "What people would answer if they rated everything, ± half a 95% interval: they rated a part, models everything, "
    "and where the two differ on that part, the models’ answers to the rest are corrected."
)
# Metrics of a judge against people, of all items where people rated a random part -> their column.
OF_JUDGES = {
    "estimated_accuracy": "Accuracy",
    "estimated_f1": "F1",
    "estimated_bias": "Mean minus people’s",
    "estimated_brier": "Brier score",
    "overconfidence": "Surer than right",
    "calibration_error": "Calibration error",
}
JUDGED = (
    "Accuracy and F1: of the same side of the threshold as people’s mean, or of the answer that most people give. "
    "Brier score: squared distance of the probability of the model’s answer from whether people agree (0 is best, 0.25 "
    "that of always ½). Surer than right: its mean probability minus how often people agree. Calibration error: the "
    "mean distance of the two, from answers of which it is unsure to those of which it is sure."
)
Words = Mapping[tuple[str, str], Wording]
Part = tuple[str, str]  # attribute and value, empty for all items
WHOLE = ("", "")


@dataclass
class EstimatedQuestion:
    """The main estimate of a question, people's mean or the share of their most frequent answer, with its plans.

    Attributes:
        title: of the question and, of categories, the answer.
        values: part -> source -> estimate.
        worth: items that people alone would have to rate; None: unknown.
        more: part -> target half width -> source -> further items.
        halves: source -> number of rated items -> half width.
        detectable: what is compared -> difference at today's number of ratings.
        splits: (answers per item, half width); no_split: why there are none.
        reason: why it is undefined.
    """

    title: str
    values: dict[Part, dict[str, Metric]] = field(default_factory=dict)
    worth: float | None = None
    more: dict[Part, dict[str, dict[str, int]]] = field(default_factory=dict)
    halves: dict[str, dict[int, float]] = field(default_factory=dict)
    detectable: dict[str, float] = field(default_factory=dict)
    splits: list[tuple[int, float]] = field(default_factory=list)
    reason: str = ""

    @property
    def is_share(self) -> bool:
        """Whether the estimate is a share of an answer."""
        return any(kind_of(m).unit.percent for of_part in self.values.values() for m in of_part.values())

    def text(self, value: float | None) -> str:
        """Return a value or a half width of the estimate."""
        return percent(value) if self.is_share else number(value, 2)

    def error(self, part: Part, source: str) -> str:
        """Return half the length of an interval, with ±; empty without one."""
        metric = self.values.get(part, {}).get(source)
        if metric is None or metric.low is None or metric.high is None:
            return ""
        return f"± {self.text((metric.high - metric.low) / 2)}"

    @property
    def expected(self) -> list[str]:
        """The half width for each number of rated items, such as `66: ± 0.09 (people alone ± 0.25)`."""
        alone = self.halves.get(PEOPLE_ALONE, {})
        return [
            f"{n:,}: ± {self.text(half)}"
            + (f" (people alone ± {self.text(alone[n])})" if alone.get(n, half) != half else "")
            for n, half in self.halves.get(BOTH, {}).items()
        ]

    def plan(self, part: Part) -> str:
        """Return how many more items the next half width needs: `120 more rated: ± 0.10 (without models 180 more)`."""
        for target, needed in self.more.get(part, {}).items():
            alone = f" (without models {needed[PEOPLE_ALONE]:,} more)" if needed[PEOPLE_ALONE] != needed[BOTH] else ""
            return f"{needed[BOTH]:,} more rated: ± {self.text(float(target))}{alone}"
        return ""


def estimated_questions(metrics: Sequence[Metric], words: Words) -> list[EstimatedQuestion]:
    """Return the main estimate of each question, means first; none if people's part is not known to be random, or is
    everything."""
    by_question: dict[tuple[str, ...], list[Metric]] = {}
    for metric in metrics:
        if any(belongs(topic, metric) for topic in (Topic.ESTIMATES, Topic.ESTIMATES_BY_SUBGROUP, Topic.WORTH)) or (
            metric.name in (HALF_WIDTH.name, MORE_RATINGS.name, DETECTABLE.name, SPLIT.name)
        ):
            by_question.setdefault(tuple(metric.dims.get(name, "") for name in IN_HEADING), []).append(metric)
    read = [_question(listed, words) for listed in by_question.values()]
    kept = [question for question in read if question.values or question.reason not in ("", NOT_RANDOM, ALL_RATED)]
    place = {key: number for number, key in enumerate(words)}
    order = {
        id(q): place.get(question_of(m[0].dims), len(place)) for q, m in zip(read, by_question.values(), strict=True)
    }
    return sorted(kept, key=lambda question: (question.is_share, order[id(question)]))


def _question(listed: Sequence[Metric], words: Words) -> EstimatedQuestion:
    dims = listed[0].dims
    key = question_of(dims)
    wording = words.get(key) or Wording(in_words(key[1]))
    about = [dims[name] for name in IN_HEADING[2:] if dims.get(name)]
    name = "estimated_mean" if any(m.name == "estimated_mean" and m.value is not None for m in listed) else ""
    answer = next((m.dims["answer"] for m in listed if m.name == HALF_WIDTH.name and "answer" in m.dims), "")
    label = wording.labels.get(answer) or answer
    question = EstimatedQuestion(", ".join([wording.title, *about]) + (f": {label}" if answer else ""))
    for metric in listed:
        part = metric.dims.get("attribute", ""), metric.dims.get("part", "")
        source = metric.dims.get("source", "")
        is_main = metric.name == name or (
            not name and metric.name == "estimated_answer_share" and metric.dims.get("answer", "") == answer
        )
        if is_main and metric.value is not None:
            question.values.setdefault(part, {})[source] = metric
        elif metric.value is None and metric.name.startswith("estimated_") and part == WHOLE:
            question.reason = question.reason or metric.reason or ""
        elif (
            metric.name == "effective_ratings"
            and part == WHOLE
            and metric.dims.get("of", "").endswith(answer or "people’s mean")
        ):
            question.worth = metric.value
        elif metric.value is not None:
            _add_plan(question, metric, part, source)
    return question


def _add_plan(question: EstimatedQuestion, metric: Metric, part: Part, source: str) -> None:
    dims, value = metric.dims, metric.value or 0.0
    if metric.name == MORE_RATINGS.name:
        question.more.setdefault(part, {}).setdefault(dims["half_width"], {})[source] = int(value)
    elif metric.name == HALF_WIDTH.name and part == WHOLE:
        question.halves.setdefault(source, {})[int(dims["ratings"])] = value
    elif metric.name == DETECTABLE.name:
        question.detectable.setdefault(dims["of"], value)
    elif metric.name == SPLIT.name:
        question.splits.append((int(dims["per_item"]), value))


def estimate_sentences(questions: Sequence[EstimatedQuestion]) -> Iterator[str]:
    """Yield what estimates are and, per question, the estimate with its interval, that of people alone, the models' own
    number, and what more ratings bring."""
    if any(BOTH in question.values.get(WHOLE, {}) for question in questions):
        yield OPENING
    for question in questions:
        if (shown := question.values.get(WHOLE, {}).get(BOTH)) is None:
            yield f"{question.title}, all items: undefined, {question.reason}."
            continue
        items, by_source = round(shown.n / shown.coverage) if shown.coverage else shown.n, question.values[WHOLE]
        parts = [f"{question.title}, all {items:,} items: {_number_of(question, BOTH)}"]
        alone, of_models = by_source.get(PEOPLE_ALONE), by_source.get(JUDGES_ALONE)
        if alone is not None and (alone.value, alone.low) != (shown.value, shown.low):
            parts.append(f"from the {shown.n:,} that people rated alone: {_number_of(question, PEOPLE_ALONE)}")
        else:
            parts.append(f"from the {shown.n:,} that people rated; models do not narrow it")
        if of_models is not None:
            parts.append(f"from models alone, uncorrected: {_number_of(question, JUDGES_ALONE)}")
        if plan := question.plan(WHOLE):
            parts.append(plan)
        yield "; ".join(parts) + "."


def _number_of(question: EstimatedQuestion, source: str) -> str:
    """Return an estimate for all items with half its interval, if it has one."""
    return f"{question.text(question.values[WHOLE][source].value)} {question.error(WHOLE, source)}".rstrip()


def plan_lines(questions: Sequence[EstimatedQuestion]) -> Iterator[str]:
    """Yield what more ratings by people would bring: half widths by number of rated items, the next one of each
    subgroup, differences that can be found, and the split."""
    for question in questions:
        if len(question.halves.get(BOTH, {})) > 1:
            yield f"{question.title}, if people rate so many items: {'; '.join(question.expected)}."
        parts = [f"{part[1]} {plan}" for part in question.values if part != WHOLE and (plan := question.plan(part))]
        if parts:
            yield f"{question.title}, more ratings by people: {'; '.join(parts)}."
        if question.detectable:
            listed = "; ".join(f"{compared} {number(value, 2)}" for compared, value in question.detectable.items())
            yield f"{question.title}, smallest differences that would be found (power 80%): {listed}."
        if len(question.splits) > 1:
            best = min(question.splits, key=lambda split: split[1])
            listed = ", ".join(f"{n}: ± {question.text(half)}" for n, half in question.splits)
            yield (
                f"{question.title}, as many answers as so far, by answers per item: {listed}; "
                f"{quantity(best[0], 'answer')} per item {'is' if best[0] == 1 else 'are'} best."
            )


def estimate_sections(
    questions: Sequence[EstimatedQuestion], metrics: Sequence[Metric], words: Words
) -> Iterator[PageSection]:
    """Yield the section, if there are estimates or reasons why those that were asked for are undefined."""
    if not questions:
        return
    rows = [(q.title, _cells(q, WHOLE)) for q in questions if WHOLE in q.values]
    undefined = [f"{q.title} is undefined: {q.reason}." for q in questions if WHOLE not in q.values]
    columns = [
        "People and models",
        "People alone",
        "Models alone",
        "Rated by people",
        "Models are worth",
        "Further items for people",
    ]
    notes = [*undefined, *dict.fromkeys(_caveats(questions))]
    tables = [SectionTable("People’s mean score, or the share of their most frequent answer", columns, rows, notes)]
    parts = [
        (f"{question.title}: {part[1]}", _cells(question, part))
        for question in questions
        for part in question.values
        if part != WHOLE
    ]
    if parts:
        tables.append(SectionTable("Estimates for subgroups", columns, parts, folded=True))
    tables += _judge_table(metrics, words)
    tables += _planning_table(questions)
    figure = estimate_figure(metrics, questions, words)
    yield PageSection(NAME, TITLE, ABOUT, tables, [figure] if figure else [])


def _judge_table(metrics: Sequence[Metric], words: Words) -> Iterator[SectionTable]:
    """Yield how good each judge is over all items, if there are estimates of it."""
    rows: dict[tuple[str, str], dict[str, Metric]] = {}
    for metric in metrics:
        dims = metric.dims
        is_shown = metric.name in OF_JUDGES and metric.value is not None and dims.get("source", BOTH) == BOTH
        if is_shown and not {"attribute", "answer"} & set(dims):
            heading = words[question_of(dims)].title if question_of(dims) in words else in_words(question_of(dims)[1])
            title = ", ".join([heading, *(dims[name] for name in IN_HEADING[2:] if dims.get(name))])
            of_judge = rows.setdefault((title, dims["rater"]), {})
            of_judge[metric.name] = metric
    rows = {key: cells for key, cells in rows.items() if any(name.startswith("estimated_") for name in cells)}
    names = [name for name in OF_JUDGES if any(name in cells for cells in rows.values())]
    if not names:
        return
    raters = short_names(sorted({rater for _, rater in rows}))
    listed: list[tuple[str, list[Metric | str | None]]] = []
    for (title, rater), cells in rows.items():
        threshold = next((f" (≥ {m.dims['threshold']})" for m in cells.values() if "threshold" in m.dims), "")
        listed.append((f"{title}{threshold}: {raters[rater]}", [cells.get(name) for name in names]))
    columns = [OF_JUDGES[name] for name in names]
    yield SectionTable("Each model against people, if they rated everything", columns, listed, [JUDGED])


def _planning_table(questions: Sequence[EstimatedQuestion]) -> Iterator[SectionTable]:
    compared = list(dict.fromkeys(name for question in questions for name in question.detectable))
    numbers = sorted({per_item for question in questions for per_item, _ in question.splits})
    if not compared and not numbers:
        return
    rows: list[tuple[str, list[Metric | str | None]]] = []
    for question in questions:
        halves = dict(question.splits)
        differences = [
            number(question.detectable[name], 2) if name in question.detectable else None for name in compared
        ]
        split = [f"± {question.text(halves[n])}" if n in halves else None for n in numbers]
        if any([*differences, *split]):
            rows.append((question.title, [*differences, *split]))
    yield SectionTable(
        "Planning: differences that can be found, and answers per item",
        [*(f"Smallest difference: {name}" for name in compared),
         *(f"{quantity(n, 'answer')} per item" for n in numbers)],
        rows,
        ["Smallest difference: what a test at 5% finds with a probability of 80% with as many items rated as today. "
         "Answers per item: the half width if people spent as many answers as so far on more items or on repetitions."],
        folded=True,
    )  # fmt: skip


def _caveats(questions: Sequence[EstimatedQuestion]) -> Iterator[str]:
    for question in questions:
        shown = question.values.get(WHOLE, {}).get(BOTH)
        if shown is not None and shown.low is not None and shown.reason:
            yield f"{question.title}: {shown.reason}."


def _cells(question: EstimatedQuestion, part: Part) -> list[Metric | str | None]:
    by_source = question.values[part]
    both = by_source.get(BOTH)
    rated = ""
    if both is not None and both.coverage:
        rated = f"{both.n:,} of {round(both.n / both.coverage):,}"
    worth = ""
    if part == WHOLE and question.worth is not None and both is not None:
        more = round(question.worth) - both.n
        worth = f"{more:,} more rated items" if more > 0 else "nothing"
    return [both, by_source.get(PEOPLE_ALONE), by_source.get(JUDGES_ALONE), rated, worth, question.plan(part)]


def estimate_figure(
    metrics: Sequence[Metric], questions: Sequence[EstimatedQuestion], words: Words
) -> PageFigure | None:
    """Return the estimates with those of people alone and models alone, and the half widths by number of ratings."""
    groups: dict[tuple[str, bool], dict[str, list[Metric]]] = {}
    estimates = [m for m in metrics if m.value is not None and m.dims.get("source") in SOURCES
                 and any(belongs(topic, m) for topic in (Topic.ESTIMATES, Topic.ESTIMATES_BY_SUBGROUP))]  # fmt: skip
    raters = short_names(sorted({m.dims["rater"] for m in estimates if "rater" in m.dims}))
    for metric in estimates:
        title, row = _place(metric, words, raters)
        groups.setdefault((title, kind_of(metric).unit.percent), {}).setdefault(row, []).append(metric)
    if not groups:
        return None
    colours = dict(SOURCES.values())
    panels = [
        (title if first == 0 else f"{title} ({first // MAX_ROWS + 1})", _intervals(dict(rows), is_percent, words))
        for (title, is_percent), of_rows in groups.items()
        for first in range(0, len(of_rows), MAX_ROWS)
        for rows in [list(of_rows.items())[first : first + MAX_ROWS]]
    ]
    shown: list[tuple[str, Panel, str]] = [
        (title, panel, "Estimates with 95% intervals")
        for title, panel in sorted(panels, key=lambda entry: ", by " in entry[0])[:MAX_PLOTS]
    ]
    lines: list[tuple[str, Panel, str]] = [
        (title, panel, "Half widths by items rated") for title, panel in _half_width_lines(questions[:MAX_PLOTS])
    ]
    return PageFigure(
        name=anchor("figure", TITLE),
        title="People and models, people alone, models alone",
        about="Points are values, lines 95% intervals; models alone have none, because their bias is unknown. "
        "Then half the length of the interval against the number of items that people rate.",
        plots=[
            plot(panel, title=f"{TITLE}: {title}", description=f"{described}: {title}.", heading=title)
            for title, panel, described in [*shown[:1], *lines, *shown[1:]]
        ],
        caption=caption_of(
            [m for (title, _), rows in groups.items() for listed in rows.values() for m in listed][:200]
        ),
        notes=not_drawn([title for title, _ in panels[MAX_PLOTS:]]),
        legend=list(colours.items()),
        topic=Topic.ESTIMATES,
    )


def _place(metric: Metric, words: Words, raters: Mapping[str, str]) -> tuple[str, str]:
    """Return the title of the plot of an estimate, and its row."""
    dims, kind = metric.dims, kind_of(metric)
    wording = words.get(question_of(dims)) or Wording(in_words(question_of(dims)[1]))
    title = ", ".join([wording.title, *(dims[name] for name in IN_HEADING[2:] if dims.get(name))])
    if kind.name == "estimated_answer_share":
        answer = wording.labels.get(dims["answer"]) or dims["answer"]
        if dims.get("attribute"):
            return f"{title}: {answer}, by {in_words(dims['attribute'])}", dims["part"]
        return f"{title}: people’s answers", answer
    measure = kind.detailed.format(**dims) if kind.details else kind.label
    measure = measure[:1].upper() + measure[1:]
    if dims.get("attribute"):
        return f"{title}: {measure}, by {in_words(dims['attribute'])}", dims["part"]
    return measure, f"{raters[dims['rater']]}: {title}" if "rater" in dims else title


def _intervals(rows: Mapping[str, Sequence[Metric]], is_percent: bool, words: Words) -> Intervals:
    names = unique(list(rows))
    scales = {w.scale for listed in rows.values() for m in listed if (w := words.get(question_of(m.dims)))}
    unit = kind_of(next(iter(rows.values()))[0]).unit
    bounds = (0.0, 1.0) if unit in (Quantity.SHARE, Quantity.FRACTION) else None
    if unit == Quantity.SCORE and len(scales) == 1:
        bounds = scales.pop()
    return Intervals(
        [Estimate(names[row], m.value, m.low, m.high, SOURCES[m.dims["source"]][0])
         for row, listed in rows.items() for m in listed],
        bounds=bounds,
        percent=is_percent,
        reference=0.0 if unit == Quantity.NUMBER else None,
        width=max(AXIS, WIDTH - max(LABELS, label_width(names.values()))),
        colours=dict(SOURCES.values()),
        legend=False,
    )  # fmt: skip


def _half_width_lines(questions: Sequence[EstimatedQuestion]) -> Iterator[tuple[str, Lines]]:
    for question in questions:
        ratings = list(question.halves.get(BOTH, {}))
        if len(ratings) > 1:
            series = {SOURCES[source][0]: list(halves.values()) for source, halves in question.halves.items()}
            colours = dict(SOURCES.values())
            title = re.sub(r"\s+", " ", question.title)
            yield f"{title}: ± by items rated", Lines(ratings, series, colours, "items rated by people", "± 95%")
