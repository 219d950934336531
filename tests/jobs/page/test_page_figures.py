"""The page's plots: their numbers and labels, what is left out, and their links."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.confusion import Confusion
from jobs.metrics.metric import Metric
from jobs.metrics.observations import Observations
from jobs.metrics.paired_scores import LENGTH, PairedScores
from jobs.metrics.question import MetricSettings, QuestionContext, RatedQuestion
from jobs.metrics.suite import question_metrics
from jobs.page import page_figures as module
from jobs.page.card_links import drawn_matrices
from jobs.page.card_orders import answer_anchor
from jobs.page.metric_families import blocks
from jobs.page.model import FunnelStep, Wording
from jobs.page.page_figures import figure_of, funnel_figures, page_figures
from jobs.page.region_figures import region_figures
from jobs.page.render import render
from jobs.page.short_names import short_names, unique
from jobs.runtime.command_line import cli
from tests.factories import rating, write_table
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
    assert linked["Agreement of two raters"] == figures["Pairwise agreement of raters"].name
    assert linked["Scores"] == figures["Scores"].name


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
