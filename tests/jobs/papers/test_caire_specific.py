"""Tables of F1 from metrics by hand: which rater, condition and printed number is in which cell."""

from dataclasses import replace
from typing import Any

from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MetricSettings
from jobs.papers.caire_tables import ShownRater, of_right_labels
from jobs.papers.paper_tables import PaperTable
from jobs.papers.study import PrintedTable
from tests.jobs.papers.studies import metric, rows_of, study

NONE = (None, None)
MACRO = {"average": "macro", "positive": ">=3"}


def of_rater(name: str, value: float, rater: str, **dims: str) -> Metric:
    reading = {"average": "micro", "positive": ">=4"}
    return metric(name, value, **{"rubric": "relevance", "question": "relevance", "group": rater} | reading | dims)


def by_name(
    metrics: list[Metric],
    judges: list[ShownRater],
    *,
    baseline: str | None = None,
    right: str | None = None,
    **keys: Any,
) -> dict[str, PaperTable]:
    settings = MetricSettings(baseline_condition=baseline, reference_condition=right)
    one = replace(study(metrics, **keys), metric_settings=settings)
    return {table.name: table for table in of_right_labels(one, judges)}


def test_raters_are_in_the_table_of_their_context() -> None:
    contexts = {"none": "none", "article": "article", "other": "other", "gold": "gold", "likely": "likelihood",
                "right": "gold likelihood"}  # fmt: skip
    judges = [ShownRater("m", condition, role) for condition, role in contexts.items()]
    metrics = [
        *(of_rater("f1", n / 10, "m", condition=condition) for n, condition in enumerate(contexts)),
        of_rater("f1", 0.95, "m", condition="article", **MACRO),
        of_rater("f1_change", 0.11, "m", first="none", second="article"),
        of_rater("f1_change", 0.12, "m", first="none", second="likely"),
        of_rater("f1_change", 0.13, "m", first="none", second="article", **MACRO),
        of_rater("f1_change", 0.14, "m", first="none", second="none"),
        of_rater("f1_ratio", 0.21, "m", first="gold", second="article"),
        of_rater("f1_ratio", 0.22, "m", first="gold", second="article", **MACRO),
        of_rater("f1_ratio", 0.23, "m", first="gold", second="gold"),
        of_rater("f1_ratio", 0.24, "m", first="gold", second="none"),
    ]
    columns = ["f1", "change", "ratio"]
    printed = {
        "table_1": PrintedTable("t", columns, {"M / none": [1, 2, None], "N / article": [3, None, None]},
                                percent=False),
        "table_8": PrintedTable("t", columns, {"M / likelihood": [4, 5, None]}, percent=False),
        "table_10": PrintedTable("t", columns, {"M / gold": [6, 7, None]}, percent=False),
        "table_11": PrintedTable("t", columns, {"M / article": [None, None, 8]}, percent=False),
    }  # fmt: skip
    shown = by_name(metrics, judges, baseline="none", right="gold", printed=printed, names=["m=M"])
    assert {name: list(rows_of(table).items()) for name, table in shown.items()} == {
        "table_1": [
            (("m", "no context"), [(0, 1), (None, 2)]),
            (("m", "linked article"), [(0.1, None), (0.11, None)]),
            (("m", "other"), [(0.2, None), NONE]),
            (("N", "linked article"), [(None, 3), NONE]),
        ],
        "table_8": [(("m", "linked article, likelihood of labels"), [(0.4, 4), (0.12, 5)])],
        "table_10": [
            (("m", "right article"), [(0.3, 6)]),
            (("m", "right article, likelihood of labels"), [(0.5, None)]),
        ],
        "table_11": [
            (("m", "linked article"), [(0.21, 8)]),
            (("m", "other"), [NONE]),
            (("m", "linked article, likelihood of labels"), [NONE]),
        ],
    }
    assert [table.columns[-1] for table in shown.values()] == [
        ("Change from 'none'",), ("Change from 'none'",), ("F1",), ("Ratio",)
    ]  # fmt: skip
    options = {"average": "macro", "reading": ">=3"}
    macro = by_name(metrics, judges, baseline="none", right="gold", options=options)
    assert rows_of(macro["table_1"])["m", "linked article"] == [(0.95, None), (0.13, None)]
    assert rows_of(macro["table_11"])["m", "linked article"] == [(0.22, None)]
    assert all(option in macro["table_1"].notes[0] for option in options.values())
    alone = by_name(metrics, judges)
    assert rows_of(alone["table_1"])["m", "linked article"] == [(0.1, None), NONE]
    assert alone["table_1"].columns == (("F1",), ("Change",))


def test_a_text_model_is_compared_with_the_best_model_without_context_and_an_encoder_with_none() -> None:
    judges = [ShownRater("clip", "", "encoder"), ShownRater("m", "none", "none")]
    judges += [ShownRater(rater, "article", "article") for rater in ("text", "new")]
    metrics = [
        *(of_rater("f1", 0.5, judge.rater, condition=judge.condition) for judge in judges),
        of_rater("f1_over_best", 0.3, "text", first="none", second="article", best="m"),
        of_rater("f1_over_best", 0.4, "clip", first="none", second="", best="m"),
    ]
    shown = by_name(metrics, judges, baseline="none")["table_1"]
    assert rows_of(shown) == {
        ("clip", "encoder"): [(0.5, None), NONE], ("m", "no context"): [(0.5, None), NONE],
        ("text", "linked article"): [(0.5, None), (0.3, None)], ("new", "linked article"): [(0.5, None), NONE],
    }  # fmt: skip
    assert shown.reasons == ("new has no ratings under 'none', and no model has F1 there to compare it with",)


def test_likelihoods_are_compared_with_likelihoods_with_the_right_article() -> None:
    likely, right = "article; log-likelihood", "gold; log-likelihood"
    metrics = [of_rater("f1", 0.5, "m", condition=condition) for condition in (likely, right)]
    metrics += [of_rater("f1_ratio", 0.8, "m", first=right, second=likely)]
    shown = by_name(metrics, [ShownRater("m", likely, "likelihood")], right="gold")
    assert list(rows_of(shown["table_11"]).values()) == [[(0.8, None)]]


def test_without_right_labels_there_are_no_tables() -> None:
    assert by_name([of_rater("accuracy", 0.5, "m")], [ShownRater("m", "none", "none")]) == {}
