"""Metrics as tables: rows and columns, units, reasons, and text that stays text."""

import re
from dataclasses import replace

import numpy as np

from jobs.metrics.answers import RatingTable
from jobs.metrics.intervals import Interval, no_interval
from jobs.metrics.kinds import KIND_OF, kind_of
from jobs.metrics.metric import Metric, MetricKind, Topic, estimated, undefined
from jobs.metrics.suite import version_metrics
from jobs.page.metric_tables import MAX_ROWS, blocks, metric_label, rater_words, without_twins
from jobs.page.page_contents import Page, letters_of
from jobs.page.page_names import rater_hues, rater_letters
from jobs.page.render import interval_text, render, unit_text, value_text
from tests.cases import check_cases
from tests.jobs.page import sample

NONE = no_interval("r")


def alpha(value, *, level="nominal", group="people", question="q", **more):
    dims = {"rubric": "r", "question": question, "group": group, "level": level}
    return Metric(name="alpha", definition="d", value=value, n=9, dims=dims, **({"reason": "r"} | more))


def test_a_family_is_a_table_and_a_group_a_column():
    (block,) = blocks([alpha(0.1), alpha(0.2, level="ordinal"), alpha(0.3, group="models")])
    (table,) = block.tables
    assert (block.rubric, block.question, table.title) == ("r", "q", "Agreement among raters")
    assert table.columns == ("people", "models")
    assert [(label, [f and f.value for f in line]) for label, line in table.rows] == [
        ("Krippendorff’s α (nominal)", [0.1, 0.3]),
        ("Krippendorff’s α (ordinal)", [0.2, None]),
    ]


def test_a_sentence_says_whether_a_judge_may_replace_people():
    def fit(name, value, *, n=5, interval=NONE, **dims):
        dims = {"rubric": "r", "question": "q", "rater": "m", **dims}
        return estimated(KIND_OF[name], value, n, coverage=1.0, interval=interval, dims=dims)

    metrics = [fit("reliability_reached", 0.92, interval=Interval(0.85, 0.99, "x")), fit("winning_rate", 0.6),
               fit("overconfidence", -0.16, interval=Interval(-0.2, -0.12, "x")),
               fit("worst_subgroup_distance", 0.4, attribute="period", part="old"),
               fit("worst_subgroup_distance", 0.8, attribute="region", part="West"),
               undefined(KIND_OF["winning_rate"], "nobody rated 30 items", dims={"rubric": "r", "question": "q",
                                                                              "rater": "few"})]  # fmt: skip
    ((table,),) = (block.tables for block in blocks(metrics))
    assert table.remarks[:2] == (
        "m may replace people here by the alternative annotator test: 60.0% of 5 people are not closer to the others "
        "than it is; it reaches 92.0% of their agreement (95%: 85.0% to 99.0%); it is 16.0% less sure than right (95%: "
        "−20.0% to −12.0%); it is farthest from people for region West: 0.80 on average.",
        "few may or may not replace people: nobody rated 30 items.",
    )


def test_the_sentence_says_how_far_a_judges_answers_change_with_the_order():
    """The numbers are those of the table of its versions."""
    random = np.random.default_rng(0)
    scores = random.integers(1, 6, 60).astype(float)
    other = np.clip(scores + np.where(np.arange(60) < 6, 2, 0) * np.where(scores > 3, -1, 1), 1, 5)

    def sentence(versions, pairs=()):
        matrix = np.stack([scores, other], axis=1)
        answers = RatingTable.from_matrix(matrix, raters=versions)
        dims = {"rubric": "r", "question": "q", "rater": "m"}
        metrics = [metric.at(**dims, versions=", ".join(versions)) for metric in version_metrics(answers)]
        fit = estimated(KIND_OF["winning_rate"], 0.6, 5, coverage=1.0, interval=NONE, dims=dims)
        tables = [table for block in blocks([fit, *metrics, *pairs]) for table in block.tables]
        return next(table.remarks[0] for table in tables if table.topic == Topic.FITNESS)

    of_orders = sentence(["closed fast", "closed paper"])
    means = sorted([scores.mean(), other.mean()])
    assert "; 10.0% of its scores change by more than 1 between the orders fast and paper (95%: " in of_orders
    assert f"; in these orders its mean is {means[0]:.2f} to {means[1]:.2f}." in of_orders
    assert "order" not in sentence(["closed fast", "json paper"])  # the method differs as well
    bias = estimated(KIND_OF["position_bias"], 0.25, 40, coverage=1.0, interval=Interval(0.1, 0.4, "x"),
                     dims={"rubric": "r", "question": "q", "rater": "m"})  # fmt: skip
    of_pairs = sentence(["closed", "json"], [bias])
    assert of_pairs.endswith("; 25.0% of its pairs get the same position in both orders (95%: 10.0% to 40.0%).")


def test_questions_are_in_the_rubrics_order():
    metric_blocks = blocks([alpha(0.1, question=q) for q in ("b", "a", "z")], [("r", "z")])
    assert [block.question for block in metric_blocks] == ["z", "a", "b"]


def test_a_heading_names_the_condition_method_and_order_that_a_block_has():
    metrics = [alpha(0.1), alpha(0.2, question="z"), alpha(0.3, level="x")]
    metrics[1] = replace(metrics[1], dims={**metrics[1].dims, "condition": "article", "order": "first"})
    metrics[2] = replace(metrics[2], dims={**metrics[2].dims, "method": "loglik"})
    assert [(block.question, block.about) for block in blocks(metrics)] == [
        ("q", ""), ("q", "method loglik"), ("z", "condition article, order first")
    ]  # fmt: skip


def test_one_rater_asked_in_several_ways_is_a_separate_family():
    several = alpha(0.5)
    several = replace(several, dims={**several.dims, "versions": "closed, open", "rater": "m"})
    assert [[table.title for table in block.tables] for block in blocks([several])] == [
        ["One rater asked in several ways"]
    ]
    assert [[table.title for table in block.tables] for block in blocks([alpha(0.5)])] == [["Agreement among raters"]]


def test_a_metric_is_in_one_family_by_what_it_is_about():
    part = {"attribute": "region", "part": "East"}
    cases = [
        ("alpha", {}, "Agreement among raters"),
        ("alpha", part, "Agreement by subgroup"),
        ("alpha", {"versions": "2"}, "One rater asked in several ways"),
        ("kappa", {}, "Agreement of two raters"),
        ("kappa", {"versions": "2"}, "One rater asked in several ways"),
        ("majority_share", {"answer": "1"}, "Answers by majority"),
        ("majority_share", {"answer": "1", **part}, "Answers by majority, by subgroup"),
        ("share_at_least", {"threshold": "4"}, "Scores"),
        ("share_at_least", {"threshold": "4", **part}, "Scores by subgroup"),
        ("average_of_shares", part, "Scores by subgroup"),
        ("average_of_shares", {}, None),
        ("answer_share", {"answer": "1", **part}, "Answers by subgroup"),
        ("description_mistakes", {}, "Descriptions: mistakes and omissions"),
        ("description_mistakes", {"category": "size"}, "Descriptions: kinds of mistakes"),
    ]

    def check(name, dims, title):
        metric = Metric(name=name, definition="d", value=0.5, n=9, reason="r", dims=dims)
        titles = [table.title for block in blocks([metric]) for table in block.tables]
        assert titles == ([title] if title else [])

    check_cases(check, cases)


def test_a_detail_of_a_column_s_metric_is_not_repeated_in_its_rows():
    dims = {"question": "q", "group": "m", "attribute": "region", "part": "East", "threshold": "4", "rule": "mean"}
    metrics = [Metric(name=name, definition="d", value=0.5, n=9, reason="r", dims=dims)
               for name in ("group_mean_score", "share_at_least")]  # fmt: skip
    ((table,),) = (block.tables for block in blocks([replace(metrics[0], dims={k: dims[k] for k in list(dims)[:4]}),
                                                     metrics[1]]))  # fmt: skip
    assert (table.columns, [row for row, _ in table.rows]) == (
        ("mean, m", "share with mean ≥ 4, m"), ["region: East"]
    )  # fmt: skip


def test_a_block_without_a_question_is_of_spans_only_if_all_its_tables_are():
    f1, terms = (Metric(name=name, definition="d", value=1, n=9, reason="r") for name in ("span_f1", "entities"))
    assert [[block.title for block in blocks(some)] for some in ([f1], [terms], [f1, terms])] == [
        ["Spans"], ["Other"], ["Other"]
    ]  # fmt: skip
    (of_rubric,) = blocks([replace(f1, dims={"rubric": "r"})])
    assert of_rubric.title == "r"


def test_reasons_are_printed_once_and_long_tables_are_cut():
    asked = {"rubric": "r", "question": "q", "group": "people"}
    gone = [undefined(MetricKind("alpha"), "no pairs", dims={**asked, "level": str(i)}) for i in range(MAX_ROWS + 6)]
    gone.insert(0, alpha(0.5, level="first", reason="few"))
    (block,) = blocks(gone)
    assert block.tables[0].notes == ("no pairs",)
    assert block.tables[0].folded
    assert (len(block.tables[0].rows), block.tables[0].more) == (MAX_ROWS, 7)
    text = render(Page(title="t", metrics=gone))
    assert text.count("no pairs") == 1
    assert "7 more rows" in text
    (undefined_only,) = blocks(gone[1:])
    assert undefined_only.tables[0].empty
    assert undefined_only.grids == []
    assert undefined_only.lines == list(undefined_only.tables)  # its reasons


def test_values_without_an_interval_are_remarked_on_once_with_their_names():
    few, small = "no interval: fewer than 5 items (2)", "fewer than 30: interpret with caution"
    dims = {"rubric": "r", "question": "q", "group": "g", "level": "nominal"}
    metrics = [
        alpha(0.1, reason=few),
        alpha(0.2, level="ordinal", reason=f"{few}; {small}"),
        alpha(0.3, level="ratio", reason=small, low=0.1, high=0.5, interval_method="m"),
        Metric(name="percent_agreement", definition="d", value=0.5, n=2, reason=few, dims=dims),
        Metric(name="icc1", definition="d", value=0.5, n=2, low=0.1, high=0.9, interval_method="m",
               reason="26 of 40 rated items", dims=dims),
    ]  # fmt: skip
    (block,) = blocks(metrics)
    (table,) = block.tables
    assert table.remarks == (f"equal answers; Krippendorff’s α — {few}", "ICC(1) — 26 of 40 rated items")
    text = render(Page(title="t", metrics=metrics))
    assert text.count("26 of 40 rated items") == 2  # in the cell's title and under the table
    counts = [Metric(name="ratings_total", definition="d", value=3, n=3, reason="a count: no interval")]
    assert blocks(counts)[0].tables[0].remarks == ()
    without_reason = [alpha(0.1, reason=None, low=0.0, high=0.2, interval_method="m")]
    assert blocks(without_reason)[0].tables[0].remarks == ()


def test_groups_of_one_rater_make_no_table_of_dashes():
    assert blocks([undefined(MetricKind("alpha"), "one rater", dims={"group": "g", "level": "nominal"})]) == []


def test_values_are_written_with_their_units():
    cases = [
        (
            estimated(MetricKind("share_at_least"), 0.558, 1500, interval=Interval(0.53, 0.58, "m")),
            "55.8%",
            "53.0 to 58.0",
        ),
        (estimated(MetricKind("alpha"), -0.044, 9, interval=Interval(-0.1, 0.02, "m")), "−0.044", "−0.100 to 0.020"),
        (estimated(MetricKind("share_difference"), -0.365, 9, interval=NONE), "−36.5%", ""),
        (estimated(MetricKind("ratings_total"), 1569, 1569, interval=NONE), "1,569", ""),
        (estimated(MetricKind("welch_p"), 2e-7, 9, interval=NONE), "<0.0001", ""),
        *((undefined(MetricKind(name), "none"), "—", "") for name in ("alpha", "welch_p", "win_rate", "people_total")),
        (
            estimated(MetricKind("items_per_person"), 1237.0, 3, interval=Interval(36, 2001, "m")),
            "1,237",
            "36 to 2,001",
        ),
        (estimated(MetricKind("items_per_person"), 36.0, 3, interval=Interval(35.25, 37, "m")), "36.0", "35.2 to 37.0"),
        (estimated(MetricKind("ratings_per_person_sd"), 2.94, 3, interval=NONE), "2.9", ""),
    ]

    def check(metric, value, interval):
        assert (value_text(metric), interval_text(metric)) == (value, interval)

    check_cases(check, cases)


def test_values_of_papers_are_written_in_their_unit():
    cases = [
        (0.2649, "percent", "26.5%"), (-0.1, "percent", "−10.0%"), (None, "percent", "—"), (1569.0, "count", "1,569"),
        (None, "count", "—"), (2.3456, "number", "2.346"), (-0.5, "number", "−0.500"), (None, "number", "—"),
    ]  # fmt: skip
    assert [unit_text(value, unit) for value, unit, _ in cases] == [text for _, _, text in cases]


def test_the_sample_page_shows_values_intervals_n_and_marks():
    html = render(sample.page())
    page = " ".join(re.sub("<[^>]+>", " ", html).split())
    wanted = {"group": "people", "level": "ordinal"}
    fitting = [f for f in sample.metrics() if f.name == "alpha" and wanted.items() <= f.dims.items()]
    (metric,) = [f for f in fitting if "attribute" not in f.dims]
    assert f"Krippendorff’s α (ordinal) {value_text(metric)} {interval_text(metric)} · n {metric.n}" in page
    assert 'title="fewer than 30: interpret with caution">few</span>' in html
    assert "Definitions of the metrics" in page


def test_dims_from_data_stay_text():
    evil = "<script>alert(1)</script>"
    html = render(Page(title="t", metrics=[alpha(0.1, level=evil, group=evil, question=evil)]))
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 3


def test_a_group_of_one_rater_is_not_repeated():
    scores = [
        Metric(name="group_mean_score", definition="d", value=value, n=9, reason="r", dims={"group": group})
        for group, value in (("models", 2.0), ("m@1", 2.0), ("people", 3.0))
    ]
    counts = [Metric(name="ratings_total", definition="d", value=3, n=3, reason="a count")]
    (block,) = blocks([*scores, *counts])
    assert [row for table in block.tables for row, _ in table.rows] == ["all", "m@1", "people"]
    assert len(without_twins([replace(scores[0], value=1.0), *scores[1:]])) == 3


def test_several_people_are_a_separate_group():
    scores = [
        Metric(name="group_mean_score", definition="d", value=2.0, n=9, reason="r", dims={"group": group})
        for group in ("people", "p1")
    ]
    for people, groups in ((1, ["p1"]), (2, ["people", "p1"])):
        total = Metric(name="people_total", definition="d", value=people, n=people, reason="a count")
        assert [metric.dims["group"] for metric in without_twins([*scores, total])[:-1]] == groups
    several = replace(scores[0], n=8), scores[1]
    assert len(without_twins(several)) == 2, "equal values of other items"


def test_a_single_row_is_a_line_and_no_table():
    (block,) = blocks([alpha(0.1), alpha(0.2, group="models")])
    assert block.grids == []
    assert [(label, metric.value) for label, metric in block.lines[0].line] == [
        ("Krippendorff’s α (nominal), people", 0.1), ("Krippendorff’s α (nominal), models", 0.2),
    ]  # fmt: skip
    assert "<table" not in render(Page(title="t", metrics=[alpha(0.1)]))


def test_each_number_of_a_line_has_its_label():
    dims = {"rubric": "r", "question": "q", "group": "people"}
    metrics = [
        estimated(MetricKind(name), 3, 3, interval=NONE, dims=dims) for name in ("people_total", "items_per_person")
    ]

    def line(metrics):
        (entry,) = re.findall(r"<dt>People</dt><dd>(.*?)</dd>", render(Page(title="t", metrics=metrics)))
        return re.sub("<span class=.ci.*", "", " ".join(re.sub("<[^>]+>", " ", entry).split()))

    assert line(metrics).startswith("people 3 items per person 3")
    assert line(metrics[:1]) == "3"  # the heading says what it counts


def test_numbers_that_are_the_same_for_every_question_are_shown_once():
    def people(question, value):
        return Metric(name="people_total", definition="d", value=value, n=value, coverage=1.0, reason="a count",
                      dims={"rubric": "r", "question": question})  # fmt: skip

    def other(question):
        return replace(people(question, 2), name="kappa", dims={"rubric": "r", "question": question})

    metrics = [metric for name in "ab" for metric in (people(name, 3), other(name))]
    titles = [[table.title for table in block.tables] for block in blocks(metrics)]
    assert titles == [["People", "Agreement of two raters"], ["Agreement of two raters"]]
    for changed in (people("b", 4), replace(people("b", 3), n=4)):
        titles = [[table.title for table in block.tables] for block in blocks([*metrics[:2], changed])]
        assert titles == [["People", "Agreement of two raters"], ["People"]]


EVERYTHING = (
    "metric", "rater", "rater_a", "rater_b", "group", "attribute", "part", "first", "second", "threshold", "rule",
    "raters", "tolerance", "level", "weights", "k", "columns", "of", "answer",
)  # fmt: skip


def test_a_label_is_a_phrase() -> None:
    cases = [
        ("share_at_least", {"threshold": "4", "rule": "mean", "group": "people"}, "share with mean of people ≥ 4"),
        ("share_at_least", {"threshold": "4", "rule": "mean", "group": "m"}, "share with mean ≥ 4, m"),
        ("share_at_least", {"threshold": "4", "rule": "any"}, "share with any rating ≥ 4"),
        ("average_of_shares", {"threshold": "4", "raters": "3", "attribute": "region", "part": "Africa"},
         "share ≥ 4, average over 3 raters, region: Africa"),
        ("share_difference", {"threshold": "4"}, "share difference, ≥ 4"),
        ("percent_agreement_within", {"tolerance": "1", "group": "models"}, "answers within 1, models"),
        ("alpha", {"level": "ordinal", "group": "people"}, "Krippendorff’s α (ordinal), people"),
        ("icc2k", {"k": "3", "columns": "raters"}, "ICC(2,k), k = 3"),
        ("kappa", {"rater_a": "anna", "rater_b": "m@1", "group": "people and models"}, "Cohen’s κ, anna and m@1"),
        ("pearson_with_people", {"rater": "m@1", "group": "people"}, "Pearson with people’s mean, m@1"),
        ("pearson_with_people", {"rater": "m@1", "group": "Kenya"}, "Pearson with people’s mean, m@1, Kenya"),
        ("score_change", {"first": "", "second": "article"}, "score change, no condition → article"),
        ("kappa", {"weights": "quadratic"}, "Cohen’s κ, quadratic weights"),
        ("reported_share", {"of": "people", "group": "people"}, "share of people who reported"),
        ("majority_share", {"answer": "(no majority)"}, "share, no majority"),
    ]  # fmt: skip

    def check(name: str, dims: dict[str, str], phrase: str) -> None:
        metric = Metric(name=name, definition="d", value=0.5, n=9, reason="r", dims=dims)
        assert metric_label(metric, EVERYTHING) == phrase

    check_cases(check, cases)


def test_only_the_dims_asked_for_are_named() -> None:
    metric = Metric(name="alpha", definition="d", value=0.5, n=9, reason="r", dims={"level": "ordinal", "group": "g"})
    assert (metric_label(metric, ["group"]), metric_label(metric, ["metric", "first"])) == (
        "g",
        "Krippendorff’s α (ordinal)",
    )


def test_a_detail_of_the_name_is_named_alone_without_it() -> None:
    cases = [
        ("alpha", {"level": "ordinal"}, "ordinal"),
        ("share_at_least", {"threshold": "4", "rule": "any"}, "≥ 4, any rating"),
        ("share_difference", {"threshold": "4"}, "≥ 4"),
        ("kappa", {"inverted": "yes", "bins": "3"}, "scale inverted, bins = 3"),
        ("kappa", {"part": "Africa", "first": "a"}, "Africa, a"),
        ("kappa", {"threshold": "", "k": ""}, ""),
    ]

    def check(name: str, dims: dict[str, str], phrase: str) -> None:
        metric = Metric(name=name, definition="d", value=0.5, n=9, reason="r", dims=dims)
        names = ["level", "threshold", "rule", "inverted", "bins", "k", "part", "attribute", "first", "second"]
        assert metric_label(metric, names) == phrase

    check_cases(check, cases)


def test_words_for_raters() -> None:
    cases = [
        ("kappa", {"rater_a": "anna", "rater_b": "bo", "group": "people"}, "anna and bo"),
        ("kappa", {"rater_a": "anna", "group": "Kenya"}, "Kenya, anna"),
        ("accuracy", {"rater": "m", "group": "models"}, "m"),
        ("accuracy", {"group": "people"}, "people"),
        ("people_total", {"group": "people"}, ""),
        ("people_total", {"group": "Kenya"}, "Kenya"),
    ]

    def check(name: str, dims: dict[str, str], phrase: str) -> None:
        metric = Metric(name=name, definition="d", value=0.5, n=9, reason="r", dims=dims)
        assert rater_words(metric, ("rater", "rater_a", "rater_b", "group")) == phrase
        assert rater_words(metric, ()) == ""

    check_cases(check, cases)
    other = Metric(name="rater_correlation_mean", definition="d", value=0.5, n=9, reason="r")
    assert kind_of(other).label == "mean"


def test_letters_and_colours_of_raters_follow_their_names() -> None:
    letters = rater_letters(["b", "a"], ["0", "b"])
    assert letters == {"a": "A", "b": "B", "0": "C"}
    assert list(rater_letters(map(str, range(1000, 1028))).values())[-2:] == ["AA", "AB"]
    assert len(set(rater_hues(map(str, range(20))).values())) == 20
    assert letters_of([], []) == {}
