"""The plots of the data on a page, at most `MAX_BYTES` in all: the funnel, raters together, answers, and regions.

Those of families of metrics are in `jobs.page.topic_figures`.
"""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import nan
from types import MappingProxyType

import numpy as np

from jobs.metrics.distributions import Distribution
from jobs.metrics.kinds import kind_of
from jobs.metrics.metric import Metric, Topic
from jobs.metrics.observations import GOLD, LENGTH, WITH_PEOPLE, Confusion, Observations, PairedScores
from jobs.metrics.rated_question import ACROSS, MODELS, PEOPLE
from jobs.page.card_links import QuestionMatrices, cell_anchor, pair_anchor
from jobs.page.card_orders import answer_anchor
from jobs.page.metric_tables import IN_HEADING, blocks, each_once, is_shown_by_distributions
from jobs.page.page_contents import FunnelStep, PageFigure, Wording, question_of, rater_label
from jobs.page.page_names import anchor, not_drawn, rater_colour, rater_hues, short_names, shortened
from jobs.page.topic_figures import RATERS, FigureContext, caption_of, topic_figures
from jobs.plots.figures import label_width, plot
from jobs.plots.files import captions_file, drawing_files
from jobs.plots.panels import CountMatrix, Fit, HeatMap, Scatter, Steps
from jobs.plots.tiles import TileMap, place_of

MAX_BYTES = 6_000_000  # size of all plots of a page together
Words = Mapping[tuple[str, str], Wording]
Question = tuple[str, ...]
EACH_TWO = "Pairwise agreement of raters"
MAX_RATERS = 42  # raters in a heat map: at most 14 of each of people, models and both have kappas
MAX_MAPS = 11  # heat maps of single questions
MAX_QUESTIONS = 24  # columns of the map of scores
MAX_SCORED = 202  # rows of the map of scores: people, models, and all that are reported one by one (`MAX_LINES`)
LEAST_TILES = 3  # answers of a rater that have a tile; fewer make no map
MAX_REGION_MAPS = 24  # most raters of a question, each with a map
MAX_MATRICES = 60  # matrices in a figure
MAX_SCATTERS = 48  # scatter plots in a figure
AXIS_LABEL = 0.25  # inches of the label of a vertical axis
TOPIC_OF_REFERENCE = {"people": Topic.WITH_PEOPLE, "gold": Topic.GOLD}  # topics with the numbers of the matrices
GROUPS = (PEOPLE, MODELS)  # raters with the colours of text
FUNNEL = 3  # fewest steps of a funnel


def page_figures(
    metrics: Sequence[Metric],
    observations: Observations,
    wording: Mapping[tuple[str, str], Wording],
    places: Container[str] = (),
    letters: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[PageFigure], list[str]]:
    """Return the plots of ratings and metrics, in the order of the page, and the titles of others, left out for their
    size.

    Args:
        places: anchors of the cells and rows that have cards (`jobs.page.card_links`).
        letters: rater -> its letter on the page; plots that would repeat the distributions of a single rater are left
            out.
    """
    place = {key: number for number, key in enumerate(wording)}

    def order(dims: Mapping[str, str]) -> int:
        return place.get(question_of(dims), len(place))

    metrics = sorted(metrics, key=lambda metric: order(metric.dims))
    observations = Observations(
        sorted(observations.confusions, key=lambda pair: order(pair[0])),
        sorted(observations.pairs, key=lambda pair: order(pair[0])),
    )
    one_rater = len(letters) == 1
    others = sorted(
        {
            value
            for m in metrics
            for dim in (*RATERS, "model")
            if (value := m.dims.get(dim)) not in (None, PEOPLE, MODELS)
        }
    )
    hues = rater_hues([*letters, *others])
    metric_blocks = blocks(metrics, list(wording), one_rater=one_rater)
    context = FigureContext(wording, metric_blocks, places, letters, hues)
    metrics = [metric for metric in each_once(metrics) if not (one_rater and is_shown_by_distributions(metric))]
    figures: list[PageFigure] = []
    left: list[str] = []
    size = 0
    for figure in chain(
        agreement_map(metrics, context),
        score_map(metrics, context),
        observed_figures(observations, context),
        reliability_curves(metrics, context),
        topic_figures(metrics, context),
    ):
        bytes_of = sum(map(len, figure.plots))
        if size + bytes_of > MAX_BYTES:
            left.append(figure.title)
            continue
        size += bytes_of
        figures.append(figure)
    return figures, left


def funnel_figures(steps: Sequence[FunnelStep]) -> Iterator[PageFigure]:
    """Yield the plot of the funnel, if it has at least three steps."""
    if len(steps) < FUNNEL:
        return
    labels = [shortened(f"{step.label}{', ' + step.unit if step.unit else ''}", 44) for step in steps]
    yield PageFigure(
        name=anchor("figure", "funnel"),
        title="Funnel",
        about="",
        plots=(
            plot(
                Steps([step.n for step in steps], labels),
                title="Funnel",
                description="; ".join(f"{step.label}: {step.n:,} {step.unit}".strip() for step in steps) + ".",
            ),
        ),
        numbers=[("steps", "steps")],
    )


def file_names(figures: Sequence[PageFigure]) -> dict[str, str]:
    """Return the name of the files of each figure by its anchor: readable words, with a hash if two are the same."""
    words = {figure.name: figure.name.rpartition("-")[0] or figure.name for figure in figures}
    used = Counter(words.values())
    return {name: word if used[word] == 1 else name for name, word in words.items()}


def plot_files(figures: Sequence[PageFigure]) -> dict[str, bytes]:
    """Return the files of all figures (`jobs.plots.files`), and that of their captions."""
    names = file_names(figures)
    files: dict[str, bytes] = {}
    for figure in figures:
        files |= drawing_files(names[figure.name], figure.plots, f"{figure.title}. {figure.caption or figure.about}")
    titles = {names[figure.name]: (figure.title, figure.caption or figure.about) for figure in figures}
    return files | captions_file(titles)


def figure_of(figures: Sequence[PageFigure]) -> dict[Topic, str]:
    """Return the anchor of the first figure of each topic."""
    return {figure.topic: figure.name for figure in reversed(figures) if figure.topic}


def agreement_map(metrics: Sequence[Metric], context: FigureContext) -> Iterator[PageFigure]:
    """Yield heat maps of the kappas of all pairs of raters: their mean over all questions, and each question's.

    If a rater of a map has no letter on the page, all its raters are numbered.
    """
    kappas: dict[Question, dict[frozenset[str], float]] = {}
    for metric in metrics:
        dims = metric.dims
        if metric.name == "kappa" and dims.get("group") in (PEOPLE, MODELS, ACROSS) and metric.value is not None:
            pair = frozenset((dims["rater_a"], dims["rater_b"]))
            key = (*question_of(dims), dims.get("condition", ""))
            kappas.setdefault(key, {})[pair] = metric.value
    raters = _people_first(metrics, {rater for pairs in kappas.values() for pair in pairs for rater in pair})
    if len(raters) < 3:
        return
    shown = raters[:MAX_RATERS]
    names = short_names(raters)
    numbers = {rater: str(place) for place, rater in enumerate(shown, start=1)}
    marks = context.letters if set(shown) <= context.letters.keys() else numbers
    maps = [(_question_heading(key, context), pairs) for key, pairs in kappas.items()]
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
        topic=Topic.TWO_RATERS,
        about="Cohen’s κ of every pair of raters, people and models together: quadratic weights on scales, unweighted "
        "for categories. 1 is perfect agreement, 0 agreement by chance, and colours diverge from it; a dash "
        "means no common items, or undefined. A cell links to the cards on which the two differ, if there are any.",
        plots=[
            plot(
                _kappa_map(pairs, in_map, names, marks, context),
                title=f"{EACH_TWO}: {title}",
                description=f"Heat map of Cohen's kappa of every pair of {', '.join(names[r] for r in shown)}.",
                heading=title,
            )
            for title, pairs in maps[: MAX_MAPS + 1]
            for in_map in [[rater for rater in shown if any(rater in pair for pair in pairs)]]
        ],
        caption=caption_of([m for m in metrics if m.name == "kappa" and "attribute" not in m.dims]),
        numbers=context.numbers(Topic.TWO_RATERS),
        notes=notes,
    )


def score_map(metrics: Sequence[Metric], context: FigureContext) -> Iterator[PageFigure]:
    """Yield a heat map of the mean scores of models and groups by question, if there are at least two of each."""
    scores: dict[str, dict[Question, float]] = {}
    for metric in metrics:
        dims = metric.dims
        if (
            metric.name == "group_mean_score"
            and not {"versions", "attribute"} & dims.keys()
            and metric.value is not None
        ):
            key = (*question_of(dims), dims.get("condition", ""))
            scores.setdefault(dims["group"], {})[key] = metric.value
    questions = list(dict.fromkeys(key for values in scores.values() for key in values))
    groups = [group for group in scores if group not in (MODELS, PEOPLE)]
    rows = [group for group in (PEOPLE, MODELS) if group in scores and (group == PEOPLE or len(groups) > 1)] + groups
    if len(rows) < 2 or len(questions) < 2:
        return
    shown, columns, names = rows[:MAX_SCORED], questions[:MAX_QUESTIONS], short_names(rows)
    values = [[scores[row].get(key) for key in columns] for row in shown]
    ends = [
        context.scale((key[0], key[1])) or _range(line[place] for line in values) for place, key in enumerate(columns)
    ]
    notes = []
    if len(rows) > len(shown) or len(questions) > len(columns):
        left = [
            *(names[row] for row in rows[MAX_SCORED:]),
            *(_question_heading(key, context) for key in questions[MAX_QUESTIONS:]),
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
                    [_question_heading(key, context) for key in columns],
                    percent=False,
                    ends=ends,
                    row_colours=[rater_colour(row, context.hues) for row in shown],
                ),
                title="Mean scores by question",
                description=f"Heat map of mean scores: {len(shown)} raters and groups by {len(columns)} questions.",
            )
        ],
        caption=caption_of([m for m in metrics if m.name == "group_mean_score" and "attribute" not in m.dims]),
        numbers=context.numbers(Topic.SCORES),
        notes=notes,
    )


def _range(values: Iterable[float | None]) -> tuple[float, float]:
    defined = [value for value in values if value is not None]
    return min(defined), max(defined)


def _people_first(metrics: Sequence[Metric], raters: set[str]) -> list[str]:
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
    context: FigureContext,
) -> HeatMap:
    """Return the map of the raters; `marks` has each rater's letter or number."""
    values = [[None if a == b else pairs.get(frozenset((a, b))) for b in raters] for a in raters]
    links = {
        (row, column): (name, f"Cards on which {names[a]} and {names[b]} differ")
        for row, a in enumerate(raters)
        for column, b in enumerate(raters)
        if a != b and (name := pair_anchor(a, b)) in context.places
    }
    rows, columns = [f"{names[r]}  {marks[r]}" for r in raters], [marks[r] for r in raters]
    colours = [rater_colour(rater, context.hues) for rater in raters]
    return HeatMap(values, rows, columns, low=-1.0, percent=False, links=links, row_colours=colours)


def _question_heading(key: Question, context: FigureContext) -> str:
    return shortened(", ".join(filter(None, (context.title((key[0], key[1])), *key[2:]))))


def region_figures(
    distributions: Sequence[Distribution],
    wording: Mapping[tuple[str, str], Wording],
    places: Container[str],
    single: Container[str] = (),
) -> Iterator[PageFigure]:
    """Yield a figure, with a map per rater, for each question whose answers are mostly sub-regions of the world.

    Args:
        places: anchors of answers that have cards; their tiles are links.
        single: single people and references; their maps come after those of models and of all people.
    """
    for key in dict.fromkeys((d.rubric, d.question) for d in distributions):
        of_question = sorted(
            (d for d in distributions if (d.rubric, d.question) == key), key=lambda d: d.rater in single
        )
        words = wording.get(key, Wording(key[1]))
        codes = list(dict.fromkeys(share.answer for d in of_question for share in d.answers))
        labels = {code: words.labels.get(code) or code for code in codes}
        on_map = [code for code in codes if place_of(labels[code])]
        answered = [code for code in on_map if any(s.count for d in of_question for s in d.answers if s.answer == code)]
        if len(answered) < LEAST_TILES or 2 * len(on_map) <= len(codes):
            continue
        names = [rater_label(d.rater, d.extra) for d in of_question]
        short = short_names(names)
        shares = [{share.answer: share.share for share in d.answers} for d in of_question]
        high = max((share for of_rater in shares for code in on_map if (share := of_rater.get(code))), default=1.0)
        links = {
            labels[code]: (name, f"Cards: {labels[code]}")
            for code in on_map
            if (name := answer_anchor(key, code)) in places
        }
        absent = [labels[code] for code in codes if code not in on_map]
        notes = [f"Not on the map: {', '.join(absent)}."] if absent else []
        notes += not_drawn([short[name] for name in names[MAX_REGION_MAPS:]])
        yield PageFigure(
            name=anchor("figure", *key, f"map {words.title}"),
            title=f"Map of “{words.title}”",
            about="Each sub-region of the world is a tile near its place on a map; its colour is its share of the "
            "rater’s answers. A tile links to the cards with this answer, if there are any.",
            plots=[
                plot(
                    TileMap({labels[code]: of_rater.get(code) for code in on_map}, high, links),
                    title=f"Map of {words.title}: {short[name]}",
                    description=f"Shares of the answers of {short[name]} by sub-region of the world.",
                    heading=short[name],
                )
                for name, of_rater in list(zip(names, shares, strict=True))[:MAX_REGION_MAPS]
            ],
            numbers=[("ratings", question_place(key))],
            notes=notes,
            wide=True,
        )


def question_place(key: tuple[str, str]) -> str:
    """Return the anchor of the distributions of a question."""
    return anchor("ratings", key[0], f"ratings {key[1]}")


def drawn_matrices(matrices: QuestionMatrices, words: Words) -> QuestionMatrices:
    """Return the matrices to plot: `MAX_MATRICES` of each reference, in the order of the page.

    Every question gets one before any gets a second, and models come before people.
    """
    place = {key: number for number, key in enumerate(words)}
    ordered = sorted(matrices, key=lambda pair: place.get(question_of(pair[0]), len(place)))
    of_question, of_reference = Counter[tuple[object, ...]](), Counter[str]()
    turns = []  # for each matrix, how many of its question come before it, and its number
    by_models_first = sorted(enumerate(ordered), key=lambda numbered: numbered[1][1].rater == PEOPLE)
    for number, (dims, confusion) in by_models_first:
        question = confusion.reference, *sorted(dims.items())
        turns.append((of_question[question], number))
        of_question[question] += 1
    kept = []
    for _, number in sorted(turns):
        reference = ordered[number][1].reference
        of_reference[reference] += 1
        if of_reference[reference] <= MAX_MATRICES:
            kept.append(number)
    return [ordered[number] for number in sorted(kept)]


def observed_figures(observations: Observations, context: FigureContext) -> Iterator[PageFigure]:
    """Yield the confusion matrices against people and against gold, and the scatter plots, if there are data for
    them."""
    of_reference: dict[str, list[tuple[Mapping[str, str], Confusion]]] = defaultdict(list)
    for dims, confusion in drawn_matrices(observations.confusions, context.wording):
        of_reference[confusion.reference].append((dims, confusion))
    for reference, matrices in of_reference.items():
        left = [pair for pair in observations.confusions if pair[1].reference == reference and pair not in matrices]
        yield _confusion_figure(reference, matrices, context, left=left)
    of_kind: dict[str, list[tuple[Mapping[str, str], PairedScores]]] = defaultdict(list)
    for dims, pairs in observations.pairs:
        of_kind[pairs.kind].append((dims, pairs))
    for kind, points in of_kind.items():
        yield _scatter_figure(kind, points, context)


def _confusion_figure(
    reference: str,
    matrices: QuestionMatrices,
    context: FigureContext,
    *,
    left: QuestionMatrices,
) -> PageFigure:
    names = short_names(sorted({confusion.rater for _, confusion in (*matrices, *left)}))
    panels = [
        (
            f"{_quoted(dims, context)}: {names[confusion.rater]} (n {confusion.n:,})",
            _matrix(dims, confusion, names, context),
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
        numbers=context.numbers(TOPIC_OF_REFERENCE[reference]),
        notes=not_drawn([f"{_quoted(dims, context)}: {names[confusion.rater]}" for dims, confusion in left]),
    )


def _matrix(
    dims: Mapping[str, str],
    confusion: Confusion,
    names: Mapping[str, str],
    context: FigureContext,
) -> CountMatrix:
    key = question_of(dims)
    labels = context.wording[key].labels if key in context.wording else {}
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
        if (name := cell_anchor(dims, confusion, right, answer)) in context.places
    }
    of_reference = "gold" if confusion.reference == GOLD else f"by {confusion.reference}"
    return CountMatrix(counts, short, short, of_reference, f"by {rater}", links)


def _scatter_figure(
    kind: str, plots: Sequence[tuple[Mapping[str, str], PairedScores]], context: FigureContext
) -> PageFigure:
    names = short_names(sorted({pairs.rater for _, pairs in plots}))
    titles = {LENGTH: "Length of responses and scores", WITH_PEOPLE: "Encoders’ and people’s scores"}
    x_label = {LENGTH: "characters", WITH_PEOPLE: "score of the rater"}[kind]
    y_label = {LENGTH: "score", WITH_PEOPLE: "mean of people"}[kind]
    panels = [
        (
            f"{_quoted(dims, context)}: {names[pairs.rater]} (n {pairs.n:,})",
            Scatter(
                pairs.x.tolist(),
                pairs.y.tolist(),
                _line_of(pairs),
                x_label,
                y_label,
                _score_axis(dims, context),
            ),
        )
        for dims, pairs in plots[:MAX_SCATTERS]
    ]
    notes = not_drawn([f"{_quoted(dims, context)}: {names[pairs.rater]}" for dims, pairs in plots[MAX_SCATTERS:]])
    if any(len(pairs.x) < pairs.n for _, pairs in plots[:MAX_SCATTERS]):
        notes.append("Not all points are drawn; the lines are fitted to all.")
    topic = {LENGTH: Topic.BIASES, WITH_PEOPLE: Topic.WITH_PEOPLE}[kind]
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
        numbers=context.numbers(topic),
        notes=notes,
    )


def reliability_curves(metrics: Sequence[Metric], context: FigureContext) -> Iterator[PageFigure]:
    """Yield the curves of how often people give a judge's answers, by the probability that it gives them."""
    bins: dict[tuple[str, ...], dict[str, dict[str, Metric]]] = {}
    for metric in metrics:
        if Topic.CALIBRATION in kind_of(metric).topics and metric.value is not None:
            key = (*(metric.dims.get(name, "") for name in IN_HEADING), metric.dims["rater"])
            bins.setdefault(key, {}).setdefault(metric.dims["bin"], {})[metric.name] = metric
    if not bins:
        return
    names = short_names(sorted({key[-1] for key in bins}))
    panels = []
    for key, of_key in list(bins.items())[:MAX_SCATTERS]:
        right = [of_bin["bin_accuracy"] for of_bin in of_key.values()]
        sure = [of_bin["bin_confidence"].value or 0.0 for of_bin in of_key.values()]
        low, high = ([nan if end is None else end for end in ends]
                     for ends in ((m.low for m in right), (m.high for m in right)))  # fmt: skip
        title = f"{_quoted(dict(zip(IN_HEADING, key, strict=False)), context)}: {names[key[-1]]}"
        agreeing = [metric.value or 0.0 for metric in right]
        labels = "probability of the answer", "people who give it"
        panels.append((title, Scatter(sure, agreeing, Fit(0, 1), *labels, (0, 1), low, high, x_bounds=(0, 1))))
    yield PageFigure(
        name=anchor("figure", Topic.CALIBRATION.value.title),
        title=Topic.CALIBRATION.value.title,
        topic=Topic.CALIBRATION,
        about="Each point is a bin of a judge’s answers, by the probability that the judge gives them, with the 95% "
        "interval of the share of people who give the same answer. On the line, the judge is as often right as it is "
        "sure; below it, it is too sure.",
        plots=[
            plot(panel, title=f"Reliability: {title}", description=f"Reliability curve of {title}.", heading=title)
            for title, panel in panels
        ],
        caption=caption_of([m for m in metrics if m.name == "bin_accuracy"]),
        numbers=context.numbers(Topic.CALIBRATION),
        notes=not_drawn([names[key[-1]] for key in list(bins)[MAX_SCATTERS:]]),
    )


def _score_axis(dims: Mapping[str, str], context: FigureContext) -> tuple[float, float] | None:
    """Return the ends of an axis of scores, with room for points at the ends of the scale; None if it is unknown."""
    if (scale := context.scale(question_of(dims))) is None:
        return None
    room = 0.06 * (scale[1] - scale[0])
    return scale[0] - room, scale[1] + room


def _line_of(pairs: PairedScores) -> Fit | None:
    fit = pairs.fit
    return Fit(fit.intercept, fit.slope, fit.x.tolist(), fit.band_low.tolist(), fit.band_high.tolist()) if fit else None


def _quoted(dims: Mapping[str, str], context: FigureContext) -> str:
    title = context.title(question_of(dims))
    rest = (value for name, value in dims.items() if name not in ("rubric", "question") and value)
    return shortened(" · ".join((f"“{title}”", *rest)))


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit()
