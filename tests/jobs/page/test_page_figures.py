"""The page's plots: their numbers and labels, what is left out, and their links."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.distributions import Distribution, Distributions
from jobs.metrics.metric import Metric, MetricKind, Topic, undefined
from jobs.metrics.model_scores import length_fit
from jobs.metrics.observations import LENGTH, WITH_PEOPLE, Confusion, Observations, PairedScores
from jobs.metrics.rated_question import ACROSS, MetricSettings, QuestionContext, RatedQuestion
from jobs.metrics.suite import question_metrics
from jobs.page import page_figures as module
from jobs.page.card_links import cell_anchor, pair_anchor
from jobs.page.card_orders import answer_anchor
from jobs.page.metric_tables import blocks
from jobs.page.page_contents import FunnelStep, PageFigure, Wording
from jobs.page.page_figures import (
    MAX_MAPS,
    MAX_MATRICES,
    MAX_QUESTIONS,
    MAX_RATERS,
    MAX_SCATTERS,
    MAX_SCORED,
    agreement_map,
    drawn_matrices,
    figure_of,
    funnel_figures,
    observed_figures,
    page_figures,
    region_figures,
    score_map,
)
from jobs.page.page_names import short_names, unique
from jobs.page.render import render
from jobs.page.topic_figures import FigureContext
from jobs.runtime.command_line import cli
from tests.cases import check_cases
from tests.factories import TableInMemory, rating, write_table
from tests.jobs.page import sample

DIMS = {"rubric": "r", "question": "q"}
WORDS = {("r", "q"): Wording("The <question>")}


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def question(**context):
    """Two people and two models on 40 items; the second model is one point too high; lengths grow with the score."""
    draw = np.random.default_rng(1)
    truth = draw.integers(1, 5, (40, 1))
    matrix = np.hstack([truth, truth, truth, truth + 1]).astype(float)
    raters = ["p1", "p2", "org/good@1", "org/bad@1"]
    names = QuestionContext(
        kinds={"p1": "human", "p2": "human"}, picture=np.arange(40), target=np.zeros(40, np.int64), scale=(1, 5),
        lengths=(truth[:, 0] * 100 + draw.integers(0, 9, 40)).astype(np.float64), gold_scores=truth[:, 0].astype(float),
        judged=np.ones(40, bool), subgroups={"region": {"East": np.arange(40) < 20, "West": np.arange(40) >= 20}},
        **context,
    )  # fmt: skip
    return RatedQuestion(RatingTable.from_matrix(matrix, raters=raters), names, MetricSettings(disaggregate=["region"]))


@pytest.fixture(scope="module")
def drawn():
    rated, observations = question(), Observations()
    observations(DIMS, rated)
    people = Metric(name="people_total", definition="d", value=2, n=2, coverage=1.0, reason="a count")
    metrics = [metric.at(**DIMS) for metric in (people, *question_metrics(rated))]
    figures, left = page_figures(metrics, observations, WORDS)
    assert left == []
    return metrics, {figure.title: figure for figure in figures}


def test_the_heat_map_has_people_and_models_together(drawn):
    _, figures = drawn
    (svg,) = figures["Pairwise agreement of raters"].plots
    assert {"p1  1", "p2  2", "bad  3", "good  4", "The &lt;question&gt;"} <= set(texts(svg))
    assert texts(svg).count("1.00") == 6  # three pairs of equal raters, in both triangles
    assert texts(svg).count("–") == 4


def test_confusion_matrices_count_items(drawn):
    _, figures = drawn
    matrices = figures["Answers against people"].plots
    assert len(matrices) == 2
    of_bad = next(svg for svg in matrices if any("bad" in text for text in texts(svg)))
    truth = np.random.default_rng(1).integers(1, 5, 40)
    counts = [int((truth == level).sum()) for level in (1, 2, 3, 4)]
    assert [int(t) for t in texts(of_bad) if t.isdigit() and int(t) in counts and int(t) > 5] != []
    assert texts(of_bad).count("0") == 5 * 5 - 4
    assert len(figures["Answers against gold"].plots) == 3


def test_points_and_line_of_the_length_bias(drawn):
    _, figures = drawn
    svgs = figures["Length of responses and scores"].plots
    assert len(svgs) == 4  # people, models, and each model
    assert {"characters", "score"} <= set(texts(svgs[0]))
    assert "(n 40)" in "".join(texts(svgs[0]))


def test_families_have_intervals_and_subgroups_are_rows(drawn):
    _, figures = drawn
    scores = "".join(figures["Scores by subgroup"].plots)
    assert {"East", "West"} <= set(texts(scores))
    assert [name for name, _ in figures["Scores by subgroup"].legend] == [
        "mean of people",
        "mean of models",
        "good",
        "bad",
    ]
    assert "Agreement among raters" in figures
    assert not figures["Agreement among raters"].folded
    assert figures["Biases of judges"].folded


def test_plots_link_to_tables_and_tables_to_plots(drawn):
    metrics, figures = drawn
    tables = {table.name for block in blocks(metrics, list(WORDS)) for table in block.tables}
    for figure in figures.values():
        assert {name for _, name in figure.numbers} <= tables
    assert all(figure.numbers for figure in figures.values())
    linked = figure_of(list(figures.values()))
    assert linked[Topic.TWO_RATERS] == figures["Pairwise agreement of raters"].name
    assert linked[Topic.SCORES] == figures["Scores"].name


def test_no_data_no_plots():
    assert page_figures([], Observations(), {}) == ([], [])
    one = Metric(name="alpha", definition="d", value=0.5, low=0.4, high=0.6, interval_method="m", n=9, dims=DIMS)
    assert page_figures([one], Observations(), {}) == ([], [])
    assert list(funnel_figures([FunnelStep("a", 3), FunnelStep("b", 2)])) == []


def test_single_values_share_a_plot():
    metrics = [
        Metric(name=name, definition="d", value=0.5, low=0.4, high=0.6, interval_method="m", n=9,
               dims={**DIMS, "group": "people"})
        for name in ("icc1", "icc2", "percent_agreement")
    ]  # fmt: skip
    ((figure,), _) = page_figures(metrics, Observations(), WORDS)
    svg, share = figure.plots  # the share of equal answers is alone in its unit
    assert "equal answers" in texts(share)
    assert [name for name, _ in figure.legend] == ["people"]
    assert {"ICC(1)", "ICC(2,1)", "The &lt;question&gt;"} <= set(texts(svg))


def test_rows_of_sub_regions_are_ordered_by_continent():
    parts = ["southern_asia", "unsure", "western_europe", "Polynesia", "caribbean", "eastern_asia", "northern_europe"]
    metrics = [
        Metric(name="share_at_least", definition="d", value=0.5, low=0.4, high=0.6, interval_method="m", n=9,
               dims={**DIMS, "group": group, "attribute": "sub_region", "part": part})
        for part in parts for group in ("people", "models")
    ]  # fmt: skip
    ((figure,), _) = page_figures(metrics, Observations(), WORDS)
    (svg,) = figure.plots
    places = {text.lower().replace(" ", "_"): number for number, text in enumerate(texts(svg))}
    ordered = ["caribbean", "northern_europe", "western_europe", "eastern_asia", "southern_asia", "polynesia", "unsure"]
    assert sorted(ordered, key=lambda part: places[part]) == ordered


def test_the_funnel_has_every_count():
    steps = [FunnelStep("All <b>", 37_800_000, "records"), FunnelStep("Some", 1_500), FunnelStep("None", 0)]
    (figure,) = funnel_figures(steps)
    assert {"37,800,000", "1,500", "0", "All &lt;b&gt;, records"} <= set(texts(figure.plots[0]))
    assert "logarithmic" in figure.plots[0]


def test_every_rater_and_row_is_drawn_and_plots_past_the_limit_are_named():
    metrics = [
        Metric(name="group_mean_score", definition="d", value=2 + n / 100, low=1.0, high=3.0, interval_method="m", n=9,
               dims={"rubric": "r", "question": f"q{q:02}", "group": f"m{n:02}"})
        for q in range(26) for n in range(30)
    ]  # fmt: skip
    figures, _ = page_figures(metrics, Observations(), {})
    scores = next(figure for figure in figures if figure.title == "Scores")
    assert scores.notes == ["Not drawn: mean, q24; mean, q25."]
    rows = [text for svg in scores.plots for text in texts(svg) if re.fullmatch(r"m\d\d", text)]
    assert sorted(rows) == sorted([f"m{n:02}" for n in range(30)] * 24)


def test_plots_are_in_the_order_of_the_questions_and_limited_in_size(monkeypatch):
    keys = [("r", "second"), ("r", "first"), ("r", "other")]
    matrices: list[Any] = [
        ({"rubric": r, "question": q}, Confusion("m", "gold", ("1",), np.ones((1, 1), int))) for r, q in keys
    ]
    points: list[Any] = [
        ({"rubric": r, "question": q}, PairedScores(LENGTH, "m", np.arange(3.0), np.arange(3.0), 3, None))
        for r, q in keys
    ]
    order = {("r", "first"): Wording("First"), ("r", "second"): Wording("Second")}
    figures, left = page_figures([], Observations(matrices, points), order)
    titles = [[text for text in texts("".join(figure.plots)) if "(n " in text] for figure in figures]
    assert titles == [[f"“{name}”: m (n {n})" for name in ("First", "Second", "other")] for n in (1, 3)]
    sizes = [sum(map(len, figure.plots)) for figure in figures]
    first, second = (figure.title for figure in figures)
    for limit, expected in (
        (sum(sizes), (2, [])), (sum(sizes) - 1, (1, [second])), (min(sizes) - 1, (0, [first, second]))
    ):  # fmt: skip
        monkeypatch.setattr(module, "MAX_BYTES", limit)
        shown, left = page_figures([], Observations(matrices, points), order)
        assert (len(shown), left) == expected


def test_a_funnel_has_three_steps():
    steps = [FunnelStep("Read", 5, "rows"), FunnelStep("Kept", 3), FunnelStep("Shown", 1)]
    assert list(funnel_figures(steps[:2])) == []
    (figure,) = funnel_figures(steps)
    assert "<desc" in figure.plots[0]
    assert "Read: 5 rows; Kept: 3; Shown: 1." in figure.plots[0]
    assert figure.numbers == [("steps", "steps")]


def test_mean_scores_are_those_of_all_items():
    metrics = [
        Metric(name="group_mean_score", definition="d", value=value, n=9, reason="r",
               dims={"rubric": "r", "question": q, "group": group, **part})
        for q in ("a", "b") for group in ("m1", "m2")
        for value, part in ((3.25, {}), (1.5, {"attribute": "region", "part": "East"}))
    ]  # fmt: skip
    (figure,) = (f for f in page_figures(metrics, Observations(), {})[0] if f.title == "Mean scores by question")
    assert texts(figure.plots[0]).count("3.25") == 4
    assert "1.50" not in texts(figure.plots[0])


def test_numbers_that_the_distributions_of_the_only_rater_show_are_not_plotted():
    metrics = [
        Metric(name=name, definition="d", value=0.5, low=0.4, high=0.6, interval_method="m", n=9,
               dims={**DIMS, "question": question, "group": "m", **answer})
        for name, answer in (("majority_share", {"answer": "1"}), ("group_mean_score", {})) for question in "qp"
    ]  # fmt: skip
    titles = {
        raters: [
            figure.title for figure in page_figures(metrics, Observations(), {}, (), dict.fromkeys(raters, "A"))[0]
        ]
        for raters in ("", "m", "mn")
    }
    both = ["Answers by majority", "Scores"]
    assert titles == {"": both, "m": ["Scores"], "mn": both}


def test_names_are_short_and_distinct():
    assert short_names(["org/a@1", "lab/a@2", "org/b@main"]) == {
        "org/a@1": "org/a@1", "lab/a@2": "lab/a@2", "org/b@main": "b",
    }  # fmt: skip
    long = ["x" * 40 + end for end in "ab"]
    assert len(set(unique(long).values())) == 2


def test_a_question_about_sub_regions_has_a_map_of_each_rater():
    words = sample.wording()
    key = ("century_labels", "sub_region")
    place = answer_anchor(key, "western_europe")
    (figure,) = region_figures(sample.distributions(sample.ratings()), words, {place})
    assert len(figure.plots) == len(sample.RATERS)
    assert all(f'href="#{place}"' in svg for svg in figure.plots)
    assert figure.notes == ["Not on the map: Sub saharan africa, Other."]
    page = sample.page()
    html = render(replace(page, figures=[figure]))
    assert all(f'id="{name}"' in html for _, name in figure.numbers)
    few = [d for d in sample.distributions(sample.ratings()) if d.question == "concept"]
    assert list(region_figures(few, words, ())) == []


def test_maps_of_single_people_come_last():
    names = ["ada", "bela", "cleo", "dora", "zoe@1"]
    distributions = [d for d in sample.distributions(sample.ratings(raters=names)) if d.question == "sub_region"]
    (figure,) = region_figures(distributions, sample.wording(), (), set(names[:4]))
    drawn = [re.findall(r"sub-region: (\w+)", svg)[0] for svg in figure.plots]
    assert (drawn, figure.notes[1:]) == (["zoe", "ada", "bela", "cleo", "dora"], [])


def test_a_report_maps_its_model_before_people(tmp_path):
    answers = ("Western Europe", "Eastern Asia", "Caribbean", "Polynesia")
    for rater in ("ada", "bela", "cleo", "dora", "zoe"):
        method = "closed" if rater == "zoe" else "human"
        rows = [rating(f"i{n}", rater, "sub_region", answer, method=method) for n, answer in enumerate(answers)]
        write_table(tmp_path / rater, "ratings", rows)
    cli.execute("report", [f"ratings=[{tmp_path}/*]", f"out={tmp_path}/report"])
    html = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    drawn = re.findall(r"<title[^>]*>Map of sub_region: (\w+)</title>", html)
    assert drawn == ["zoe", "ada", "bela", "cleo", "dora"]


def test_each_question_has_a_matrix_and_models_come_before_people():
    kept: list[tuple[Mapping[str, str], Confusion]] = [
        ({"rubric": "r", "question": f"q{number:02}"}, Confusion(rater, "gold", ("a", "b"), np.ones((2, 2), int)))
        for number in range(33) for rater in ("people", "m", "n")
    ]  # fmt: skip
    drawn = drawn_matrices(kept, {})
    assert [(dims["question"], confusion.rater) for dims, confusion in drawn] == [
        (f"q{number:02}", rater) for number in range(33) for rater in "mn"[: 1 + (number < 27)]
    ]
    (figure,) = (f for f in page_figures([], Observations(kept), {})[0] if f.title == "Answers against gold")
    assert len(figure.plots) == 60
    (note,) = figure.notes
    assert note.startswith("Not drawn: “q00”: people; “q01”: people;")
    assert "“q32”: n" in note
    (figure,) = (f for f in page_figures([], Observations(kept[:21]), {})[0] if f.title == "Answers against gold")
    assert (len(figure.plots), figure.notes) == (21, [])


WEST, EAST, SOUTH, NORTH = "Western Europe", "Eastern Europe", "Southern Europe", "Northern Europe"


def distributions(*unused: str, **answers: list[str]) -> list[Distribution]:
    """Return the distributions of the answers of each rater; nobody gave the answers `unused`."""
    allowed = sorted({*unused, *(answer for of_rater in answers.values() for answer in of_rater)})
    counted = Distributions()
    rows = [
        rating(f"i{number}", rater, "where", answer, answers=allowed)
        for rater, of_rater in answers.items() for number, answer in enumerate(of_rater)
    ]  # fmt: skip
    table: Any = TableInMemory("ratings", rows)
    for batch in table.batches(table._rows.column_names):
        counted.add(batch)
    return counted.result()


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The maps in their order; nothing is drawn."""
    drawn: list[Any] = []

    def plot(panel: object, **_: str) -> str:
        drawn.append(panel)
        return ""

    monkeypatch.setattr(module, "plot", plot)
    return drawn


def test_all_maps_of_a_question_have_one_scale(maps: list[Any]) -> None:
    (figure,) = region_figures(distributions(m=[WEST, EAST, SOUTH, NORTH], n=[WEST, WEST, EAST, SOUTH]), {}, ())
    assert [panel.high for panel in maps] == [0.5, 0.5]
    assert [panel.shares[WEST] for panel in maps] == [0.25, 0.5]
    assert figure.notes == []


def test_more_than_half_of_the_answers_are_on_the_map(maps: list[Any]) -> None:
    on_map = [WEST, EAST, SOUTH]
    assert len(list(region_figures(distributions(m=[*on_map, "Atlantis", "Utopia"]), {}, ()))) == 1
    assert list(region_figures(distributions(m=[*on_map, "Atlantis", "Utopia", "Erewhon"]), {}, ())) == []
    assert list(region_figures(distributions(SOUTH, NORTH, m=[WEST, EAST]), {}, ())) == [], "two regions were answered"


def kappa(first: str, second: str, value: float, question: str = "q", group: str = "models") -> Metric:
    dims = {"rubric": "r", "question": question, "rater_a": first, "rater_b": second, "group": group}
    return Metric(name="kappa", definition="", value=value, n=9, coverage=1.0, reason="none", dims=dims)


def score(group: str, question: str, value: float, **dims: str) -> Metric:
    key = {"rubric": "r", "question": question, "group": group, **dims}
    return Metric(name="group_mean_score", definition="", value=value, n=9, coverage=1.0, reason="none", dims=key)


def test_raters_of_any_pair_are_in_the_map_of_their_question() -> None:
    """b is in pairs with a and c; the mean over both questions of a and b is (0.2 + 0.8) / 2."""
    metrics = [kappa("a", "b", 0.2), kappa("b", "c", 0.4), kappa("a", "b", 0.8, "p")]
    unknown = {**metrics[0].dims, "rater_a": "x", "rater_b": "y"}
    metrics.append(undefined(MetricKind("kappa"), "no common items", dims=unknown))
    (figure,) = agreement_map(metrics, FigureContext())
    mean, of_q, of_p = (texts(svg) for svg in figure.plots)
    names = {"a  1", "b  2", "c  3"}
    assert [names & set(of_item) for of_item in (mean, of_q, of_p)] == [names, names, {"a  1", "b  2"}]
    values = [sorted(text for text in of_item if re.fullmatch(r"[\d.]{4}|–", text)) for of_item in (mean, of_q, of_p)]
    assert values == [
        ["0.40", "0.40", "0.50", "0.50", *["–"] * 5],
        ["0.20", "0.20", "0.40", "0.40", *["–"] * 5],
        ["0.80", "0.80", "–", "–"],
    ]
    assert figure.notes == []
    assert list(agreement_map(metrics[:1], FigureContext())) == []  # two raters are a number, and no map


def test_people_come_first_and_raters_past_the_limit_are_reported() -> None:
    models = [kappa("a", f"m{number:02}", 0.5) for number in range(MAX_RATERS)]
    (figure,) = agreement_map([*models, kappa("zoe", "yan", 0.5, group="people")], FigureContext())
    assert {"yan  1", "zoe  2", "a  3"} <= set(texts(figure.plots[0]))
    assert figure.notes == [f"Not drawn: m{MAX_RATERS - 3}; m{MAX_RATERS - 2}; m{MAX_RATERS - 1}."]
    (figure,) = agreement_map(models[1:], FigureContext())
    assert figure.notes == []  # as many as there may be
    other = Metric(name="alpha", definition="", value=1, n=9, reason="none",
                   dims={"group": "people", "rater_a": "m03", "rater_b": "m02"})  # fmt: skip
    (figure,) = agreement_map([*models[1:4], other], FigureContext())
    assert {"a  1", "m01  2", "m02  3", "m03  4"} <= set(texts(figure.plots[0]))  # only kappas say who is a person


def test_mean_scores_of_groups_and_of_models() -> None:
    cases = [
        (["people", "models", "m", "n"], ["people", "models", "m", "n"]),
        (["people", "models", "m"], ["people", "m"]),  # of one model the mean of all is its own
        (["models", "m", "n"], ["models", "m", "n"]),
        (["m"], []),
    ]

    def check(groups: list[str], rows: list[str]) -> None:
        metrics = [score(group, question, 2.0) for group in groups for question in ("q", "p")]
        figures = list(score_map([*metrics, score("part", "q", 9.0, attribute="region")], FigureContext()))
        assert [name for figure in figures for name in rows if name in texts(figure.plots[0])] == rows
        assert len(figures) == bool(rows)
        assert "9.00" not in [text for figure in figures for text in texts(figure.plots[0])]
        of_one_question = [metric for metric in metrics if metric.dims["question"] == "q"]
        assert list(score_map(of_one_question, FigureContext())) == []

    check_cases(check, cases)


def test_a_map_is_symmetric_with_letters_and_links(panels: list[tuple[Any, dict[str, str]]]) -> None:
    metrics = [
        kappa("b", "org/a@1", 0.2, group=ACROSS), kappa("zoe", "yan", 0.6, group="people"),
        kappa("org/a@1", "c", 0.4), kappa("x", "y", 0.9, group="other"),
    ]  # fmt: skip
    letters = {"yan": "D", "zoe": "E", "b": "B", "c": "C", "org/a@1": "A"}
    wording = {("r", "q"): Wording("How much?")}
    places = [pair_anchor("b", "org/a@1"), pair_anchor("b", "b")]
    (figure,) = agreement_map(metrics, FigureContext(wording, blocks(metrics), places, letters))
    ((panel, words),) = panels
    assert panel.rows == ["yan  D", "zoe  E", "b  B", "c  C", "a  A"]
    assert panel.columns == ["D", "E", "B", "C", "A"]
    assert panel.values == [
        [None, 0.6, None, None, None], [0.6, None, None, None, None], [None, None, None, None, 0.2],
        [None, None, None, None, 0.4], [None, None, 0.2, 0.4, None],
    ]  # fmt: skip
    assert panel.links == {
        (2, 4): (places[0], "Cards on which b and a differ"), (4, 2): (places[0], "Cards on which a and b differ")
    }  # fmt: skip
    assert (panel.percent, panel.low, panel.high) == (False, -1, 1)
    assert words == {
        "title": "Pairwise agreement of raters: How much?", "heading": "How much?",
        "description": "Heat map of Cohen's kappa of every pair of yan, zoe, b, c, a.",
    }  # fmt: skip
    assert [title for title, _ in figure.numbers] == ["How much?"]
    list(agreement_map(metrics, FigureContext(letters={"b": "B"})))  # a rater without a letter
    assert panels[-1][0].columns == list("12345")


def test_the_maps_of_questions_past_the_limit_are_counted(panels: list[tuple[Any, dict[str, str]]]) -> None:
    def of_questions(count: int) -> Any:
        panels.clear()
        pairs = [kappa(pair[0], pair[1], 0.5, f"q{number}") for number in range(count) for pair in ("ab", "bc")]
        (figure,) = agreement_map(pairs, FigureContext())
        return [words["heading"] for _, words in panels], figure.notes

    assert of_questions(1) == (["q0"], [])
    headings, notes = of_questions(MAX_MAPS)
    assert (headings[:2], len(headings), notes) == ([f"Mean of {MAX_MAPS} questions", "q0"], MAX_MAPS + 1, [])
    for more, words in ((1, f"q{MAX_MAPS}"), (2, f"q{MAX_MAPS}; q{MAX_MAPS + 1}")):
        headings, notes = of_questions(MAX_MAPS + more)
        assert (len(headings), notes) == (MAX_MAPS + 1, [f"Not drawn: {words}."])


def test_colours_of_scores_go_between_the_ends_of_the_scale(panels: list[tuple[Any, dict[str, str]]]) -> None:
    metrics = [
        score("m", "q", 2.5), score("m", "p", 4.5, condition="c"), score("people", "q", 1.5),
        score("m", "q", 9.0, versions="yes"),
        undefined(MetricKind("group_mean_score"), "none", dims=score("x", "q", 1).dims),
    ]  # fmt: skip
    (figure,) = score_map(metrics, FigureContext({("r", "q"): Wording("How much?", scale=(1, 5))}, blocks(metrics)))
    ((panel, words),) = panels
    assert (panel.rows, panel.columns) == (["people", "m"], ["How much?", "p, c"])
    assert panel.values == [[1.5, None], [2.5, 4.5]]
    assert (panel.ends, panel.percent) == ([(1, 5), (4.5, 4.5)], False)  # of p, the scale is unknown
    assert words["description"] == "Heat map of mean scores: 2 raters and groups by 2 questions."
    assert (figure.title, figure.notes) == ("Mean scores by question", [])
    assert [title for title, _ in figure.numbers] == ["p, condition c", "How much?"]


@pytest.mark.parametrize(("raters", "questions", "noted"), [
    (MAX_SCORED, MAX_QUESTIONS, False), (MAX_SCORED + 1, 2, True), (2, MAX_QUESTIONS + 1, True)
])  # fmt: skip
def test_scores_past_the_limits_are_counted(
    panels: list[tuple[Any, dict[str, str]]], raters: int, questions: int, noted: bool
) -> None:
    metrics = [score(f"m{rater}", f"q{place}", rater) for rater in range(raters) for place in range(questions)]
    (figure,) = score_map(metrics, FigureContext())
    rows, columns = min(raters, MAX_SCORED), min(questions, MAX_QUESTIONS)
    assert (len(panels[0][0].rows), len(panels[0][0].columns)) == (rows, columns)
    left = [*(f"m{rater}" for rater in range(rows, raters)), *(f"q{place}" for place in range(columns, questions))]
    assert figure.notes == [f"Not drawn: {'; '.join(left)}."] * noted


OF_QUESTION = {"rubric": "r", "question": "q"}
LABELLED = {("r", "q"): Wording("Question", labels={"yes": "Certainly yes", "1": "low"}, scale=(1, 5))}


@pytest.fixture
def drawn_panels(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The panels of all plots, in their order, with their headings; nothing is drawn."""
    drawn: list[tuple[str, Any]] = []

    def plot(panel: object, *, title: str, description: str, heading: str, labels: float = 0.0) -> str:
        drawn.append((heading, panel))
        return title

    monkeypatch.setattr(module, "plot", plot)
    return drawn


def confusion(
    rater: str, reference: str, answers: Sequence[str] = ("yes", "no"), counts: object = ((3, 1), (0, 2))
) -> Confusion:
    return Confusion(rater, reference, tuple(answers), np.array(counts, np.int64))


def figures_of_answers(
    confusions: Sequence[tuple[Mapping[str, str], Confusion]] = (),
    pairs: Sequence[tuple[Mapping[str, str], PairedScores]] = (),
    places: Sequence[str] = (),
) -> list[PageFigure]:
    return list(observed_figures(Observations(list(confusions), list(pairs)), FigureContext(LABELLED, (), places)))


def points(kind: str, rater: str, n: int, *, drawn: int | None = None) -> PairedScores:
    x = np.arange(n, dtype=float)
    y = 1 + 2 * x + np.where(x % 2, 0.5, -0.5)
    return PairedScores(kind, rater, x[:drawn], y[:drawn], n, length_fit(x, y))


def test_answers_that_nobody_gave_have_no_row_unless_they_are_levels(drawn_panels: list[tuple[str, Any]]) -> None:
    counts = [[3, 0, 1], [0, 0, 0], [0, 0, 2]]
    words = confusion("org/m@1", "people", ["yes", "maybe", "a very long answer of words"], counts)
    levels = confusion("org/m@1", "people", ["-1", "0.5", "1"], counts)
    only_rater = confusion("org/m@1", "people", ["yes", "no"], [[3, 1], [0, 0]])
    figures_of_answers(
        [
            (OF_QUESTION, words),
            ({"rubric": "r", "question": "p"}, levels),
            (OF_QUESTION | {"condition": "c"}, only_rater),
        ]
    )
    of_words, of_rater, of_levels = (panel for _, panel in drawn_panels)
    assert of_words.rows == of_words.columns == ["Certainly yes", "a very long answer of words"]
    assert of_words.counts == [[3, 1], [0, 2]]
    assert (of_words.row_label, of_words.column_label) == ("by people", "by m")
    assert of_levels.rows == ["-1", "0.5", "1"]  # a level has no label, and its row stays
    assert of_levels.counts == counts
    assert of_rater.rows == ["Certainly yes", "no"]  # the rater alone answered no
    assert [name for name, _ in drawn_panels] == ["“Question”: m (n 6)", "“Question” · c: m (n 4)", "“p”: m (n 6)"]


def test_cells_with_cards_are_links(drawn_panels: list[tuple[str, Any]]) -> None:
    matrix = confusion("m", "gold", ["yes", "maybe", "no"], [[3, 0, 1], [0, 0, 0], [0, 0, 2]])
    at = cell_anchor(OF_QUESTION, matrix, 0, 2)
    figures_of_answers([(OF_QUESTION, matrix)], places=[at, cell_anchor(OF_QUESTION, matrix, 1, 1)])
    assert drawn_panels[0][1].links == {(0, 1): (at, "Cards: gold Certainly yes, m no")}


def test_a_figure_per_reference_says_how_many_matrices_it_lacks(drawn_panels: list[tuple[str, Any]]) -> None:
    many = [
        ({"rubric": "r", "question": f"q{number:02}"}, confusion("m", "people")) for number in range(MAX_MATRICES + 1)
    ]
    of_gold = [(OF_QUESTION, confusion("people", "gold")), (OF_QUESTION, confusion("m", "gold"))]
    against_gold, against_people = figures_of_answers([*many, *of_gold])  # their question has a place on the page
    assert [one.title for one in (against_gold, against_people)] == ["Answers against gold", "Answers against people"]
    assert against_people.notes == [f"Not drawn: “q{MAX_MATRICES:02}”: m."]
    assert against_gold.notes == []
    assert "nearest to the mean" in against_people.about
    assert "nearest to the mean" in against_gold.about  # people are a rater there
    assert len(drawn_panels) == MAX_MATRICES + 2
    assert "nearest to the mean" not in figures_of_answers([(OF_QUESTION, confusion("m", "gold"))])[0].about


def test_points_of_lengths_and_of_people_are_two_figures(drawn_panels: list[tuple[str, Any]]) -> None:
    lengths, people = figures_of_answers(
        pairs=[(OF_QUESTION, points(LENGTH, "m", 6)), (OF_QUESTION, points(WITH_PEOPLE, "clip", 3))]
    )
    assert (lengths.title, people.title) == ("Length of responses and scores", "Encoders’ and people’s scores")
    assert (lengths.notes, people.notes) == ([], [])
    (name, scatter), (other, of_people) = drawn_panels
    assert (name, other) == ("“Question”: m (n 6)", "“Question”: clip (n 3)")
    assert (scatter.x, scatter.y) == ([0, 1, 2, 3, 4, 5], [0.5, 3.5, 4.5, 7.5, 8.5, 11.5])
    assert (scatter.x_label, scatter.y_label) == ("characters", "score")
    assert (of_people.x_label, of_people.y_label) == ("score of the rater", "mean of people")
    assert (scatter.bounds, of_people.bounds) == (pytest.approx((0.76, 5.24)),) * 2  # the scale, with room for points
    fit = length_fit(np.array(scatter.x), np.array(scatter.y))
    assert fit is not None
    assert (scatter.fit.intercept, scatter.fit.slope) == (fit.intercept, fit.slope)
    assert all(low < high for low, high in zip(scatter.fit.low, scatter.fit.high, strict=True))


def test_scatter_plots_report_what_they_leave_out(drawn_panels: list[tuple[str, Any]]) -> None:
    plots = [(OF_QUESTION, points(LENGTH, f"m{number:02}", 4)) for number in range(MAX_SCATTERS)]
    assert figures_of_answers(pairs=plots)[0].notes == []
    more = [*plots, (OF_QUESTION, points(LENGTH, "more", 9, drawn=3))]
    assert figures_of_answers(pairs=more)[0].notes == ["Not drawn: “Question”: more."]  # its points are not drawn
    (figure,) = figures_of_answers(pairs=more[1:])
    assert figure.notes == ["Not all points are drawn; the lines are fitted to all."]
    flat = PairedScores(LENGTH, "m", np.ones(3), np.arange(3.0), 3, None)
    figures_of_answers(pairs=[(OF_QUESTION, flat)])
    assert drawn_panels[-1][1].fit is None
