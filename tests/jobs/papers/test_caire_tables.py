"""Tables of CAIRE from metrics by hand: which rater, subgroup, condition and printed number is in which cell."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MetricSettings
from jobs.papers import caire_tables
from jobs.papers.caire_tables import ShownRater, _of_paper, arrange, asked, of_linking, of_people, of_right_labels
from jobs.papers.paper_tables import PaperTable
from jobs.papers.study import PrintedTable
from tests.jobs.papers.studies import NONE, metric, rows_of, study, units_of

PEOPLE = {"kinds": {"p": "human"}, "answered": {("relevance", "relevance"): ["p"]}}


def of_judge(name: str, value: float | None, rater: str, **more: str) -> Metric:
    dims = {"rubric": "relevance", "question": "relevance", "rater": rater, "group": "people"}
    return metric(name, value, **dims, **more)


def by_name(metrics: list[Metric], judges: list[ShownRater], **settings: object) -> dict[str, PaperTable]:
    return {table.name: table for table in of_people(study(metrics, **settings), judges)}  # type: ignore[arg-type]


def shown(rater: str, role: str = "article") -> ShownRater:
    return ShownRater(rater, "", role)


def test_the_rater_of_table_17_is_named_or_correlates_most_with_people() -> None:
    values = {"low": 0.2, "high": 0.4, "undefined": None, "negative": -0.9, "titled": 0.5, "alone": 0.9}
    metrics = [of_judge("pearson_by_image", value, rater) for rater, value in values.items()]
    judges = [shown(rater) for rater in values if rater not in ("titled", "alone")]
    titled, alone = shown("titled", "titles"), shown("alone", "none")
    cases: list[tuple[list[ShownRater], dict[str, str], str]] = [
        ([*judges, alone], {}, "high"),
        ([*judges, shown("alone", "gold")], {"rater": ""}, "high"),
        ([alone, titled, *judges], {}, "titled"),
        ([shown("undefined"), shown("negative")], {}, "negative"),
        ([alone, shown("nothing", "none")], {}, "alone"),  # nobody was shown an article
        (judges, {"rater": "low"}, "low"),
        ([*judges, alone], {"rater": "Alone"}, "alone"),
        (judges, {"rater": "other"}, "high"),
    ]
    for judges_of_case, options, expected in cases:
        for names in ([], ["alone=Alone", "low=Low"]):  # a name in the paper changes only what the option may be
            title = by_name(metrics, judges_of_case, options=options, names=names)["table_17"].title
            if names or options != {"rater": "Alone"}:
                assert title.split(",")[0] == f"Correlation of {expected}"


def test_countries_of_table_17_have_the_statistics_of_their_raters() -> None:
    metrics = [
        of_judge("pearson_by_image", 0.5, "m"),
        of_judge("rater_correlation_mean", 0.1, "m", target="B"),
        of_judge("rater_correlation_sd", 0.2, "m", target="A"),
        of_judge("correlation_with_average", 0.3, "m", target="A"),
        of_judge("correlation_with_average", 0.9, "other", target="C"),
    ]
    printed = {"table_17": PrintedTable("t", ["mean ", "sd ", "average "], {"A": [11, 12, 13]}, percent=False)}
    table = by_name(metrics, [shown("m")], printed=printed)["table_17"]
    assert [header for header, _ in table.columns] == ["Mean", "Maximum", "Minimum", "Median", "SD", "With the average"]
    assert {*units_of(table)} == {"number"}
    assert rows_of(table) == {
        ("A",): [(None, 11), NONE, NONE, NONE, (0.2, 12), (0.3, 13)],
        ("B",): [(0.1, None), *[NONE] * 5],
    }


def test_subgroups_are_ordered_by_country_and_natural_pictures_come_first() -> None:
    def of_part(value: float, attribute: str, part: str) -> Metric:
        return of_judge("pearson_by_image", value, "m", attribute=attribute, part=part)

    metrics = [
        of_judge("pearson_by_image", 0.5, "m"),
        *(of_part(v, "source+country", p) for v, p in ((0.1, "generated + A"), (0.2, "natural + B"))),
        *(of_part(v, "source+country", p) for v, p in ((0.3, "natural + A"), (0.4, "a + b + B"))),
        of_part(0.6, "source", "generated"),
        of_part(0.7, "source", "natural"),
        of_part(0.8, "country", "A"),
        of_part(0.15, "concept", "tea"),
        of_part(0.25, "concept", "dance"),
        of_judge("pearson_global_average", 0.35, "m", attribute="source", part="natural"),
        of_judge("pearson_concept_average", 0.45, "m", attribute="source", part="generated"),
    ]
    printed = {
        "table_2": PrintedTable("t", ["natural + A", "natural"], {"M / article": [1, 2], "N / none": [3, None]},
                                percent=False),
        "table_15": PrintedTable("t", ["M / "], {"tea": [4]}, percent=False),
        "table_16": PrintedTable("t", ["global natural"], {"M / article": [5], "N / gold": [6]}, percent=False),
    }  # fmt: skip
    tables_by_name = by_name(metrics, [shown("m"), shown("n", "none")], printed=printed, names=["m=M"])
    assert tables_by_name["table_2"].columns == (
        ("A", "natural"), ("A", "generated"), ("B", "natural"), ("b + B", "a"), ("All", "natural"), ("All", "generated")
    )  # fmt: skip
    assert rows_of(tables_by_name["table_2"]) == {
        ("m", "linked article"): [(0.3, 1), (0.1, None), (0.2, None), (0.4, None), (0.7, 2), (0.6, None)],
        ("N", "no context"): [(None, 3), *[NONE] * 5],
    }
    units = {name: {*units_of(table)} - {""} for name, table in tables_by_name.items() if table.rows}
    assert units == {f"table_{number}": {"number"} for number in (2, 15, 16)}
    assert tables_by_name["table_15"].columns == (("m, linked article", ""),)
    assert rows_of(tables_by_name["table_15"]) == {("dance",): [(0.25, None)], ("tea",): [(0.15, 4)]}
    assert rows_of(tables_by_name["table_16"]) == {
        ("m", "linked article"): [NONE, (0.45, None), (0.35, 5), NONE],
        ("N", "right article"): [NONE, NONE, (None, 6), NONE],
    }


def test_table_15_is_of_raters_that_were_shown_the_article_if_there_are_any() -> None:
    metrics = [
        of_judge("pearson_by_image", value, rater, **part)
        for rater, value in (("m", 0.1), ("n", 0.2))
        for part in ({}, {"attribute": "concept", "part": "tea"})
    ]
    printed = {"table_15": PrintedTable("t", ["m / ", "n / "], {"tea": [3, 4]}, percent=False)}
    both = by_name(metrics, [shown("m"), shown("n", "none")], printed=printed)["table_15"]
    assert (both.columns, rows_of(both)) == ((("m, linked article", ""),), {("tea",): [(0.1, 3)]})
    alone = by_name(metrics, [shown("n", "none")], printed=printed)["table_15"]
    assert (alone.columns, rows_of(alone)) == ((("n, no context", ""),), {("tea",): [(0.2, None)]})


def test_other_sources_and_conditions_are_in_alphabetical_order() -> None:
    parts = [("zoo + A", "a"), ("drawn + A", "c"), ("generated + A", "b"), ("late + A", "d"), ("new + A", "e")]
    metrics = [
        of_judge("pearson_by_image", 0.1, "m", attribute="source+country", part=part, condition=condition)
        for part, condition in reversed(parts)
    ]
    one = study(metrics)
    assert [header for _, _, header in caire_tables._parts(one, "country", "pearson_by_image")] == [
        ("A", source) for source in ("drawn", "late", "new", "zoo", "generated")
    ]
    names = [index.find("pearson_by_image")[0].dims["part"] for index in caire_tables._indexes(one)[1:]]
    assert names == ["zoo + A", "generated + A", "drawn + A", "late + A", "new + A"]  # of conditions a to e


def test_agreement_of_people_needs_no_judge_that_is_compared_with_them() -> None:
    def of_people(name: str, value: float, country: str, **more: str) -> Metric:
        dims = {"rubric": "relevance", "question": "relevance", "group": "people"}
        return metric(name, value, **dims, attribute="target", part=country, **more)

    metrics = [
        of_people("alpha", 0.1, "B", level="ordinal"),
        of_people("alpha", 0.2, "B", level="interval"),
        of_people("alpha", 0.3, "B", level="nominal"),
        of_people("pairwise_spearman", 0.4, "A"),
        of_people("pairwise_pearson", 0.5, "B"),
        of_people("alpha", 0.6, "A", level="ordinal"),
    ]
    printed = {"table_14": PrintedTable("t", ["b"], {"alpha": [7], "other": [8]}, percent=False)}
    tables_by_name = by_name(metrics, [shown("m")], printed=printed, **PEOPLE)
    assert list(tables_by_name) == ["table_14"]
    assert tables_by_name["table_14"].columns == (("A", ""), ("B", ""), ("Avg.", ""))
    assert units_of(tables_by_name["table_14"]) == ["number"] * 3
    assert [*rows_of(tables_by_name["table_14"]).values()] == [
        [(0.6, None), (0.1, 7), (0.35, None)], [NONE, (0.2, None), (0.2, None)], [(0.4, None), NONE, (0.4, None)],
        [NONE, (0.5, None), (0.5, None)], [NONE, (None, 8), NONE]
    ]  # fmt: skip
    averages = [row.cells[2].metric for row in tables_by_name["table_14"].rows[:4]]
    assert [(average.n, average.coverage) for average in averages if average] == [(2, 1), (1, 0.5), (1, 0.5), (1, 0.5)]
    assert by_name(metrics, [shown("m")]) == {}
    under = [replace(one, dims={**one.dims, "condition": "x"}) for one in metrics]
    other = metric("refusals", 0.9, rubric="relevance", question="relevance", condition="a")
    assert rows_of(by_name([other, *under], [shown("m")], **PEOPLE)["table_14"])["Krippendorff's alpha, ordinal",] == [
        (0.6, None),
        (0.1, None),
        (0.35, None),
    ]  # which no condition changes


MACRO = {"average": "macro", "positive": ">=3"}


def of_rater(name: str, value: float, rater: str, **dims: str) -> Metric:
    reading = {"average": "micro", "positive": ">=4"}
    return metric(name, value, **{"rubric": "relevance", "question": "relevance", "group": rater} | reading | dims)


def f1_tables(
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
    shown = f1_tables(metrics, judges, baseline="none", right="gold", printed=printed, names=["m=M"])
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
    macro = f1_tables(metrics, judges, baseline="none", right="gold", options=options)
    assert rows_of(macro["table_1"])["m", "linked article"] == [(0.95, None), (0.13, None)]
    assert rows_of(macro["table_11"])["m", "linked article"] == [(0.22, None)]
    assert all(option in macro["table_1"].notes[0] for option in options.values())
    alone = f1_tables(metrics, judges)
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
    shown = f1_tables(metrics, judges, baseline="none")["table_1"]
    assert rows_of(shown) == {
        ("clip", "encoder"): [(0.5, None), NONE], ("m", "no context"): [(0.5, None), NONE],
        ("text", "linked article"): [(0.5, None), (0.3, None)], ("new", "linked article"): [(0.5, None), NONE],
    }  # fmt: skip
    assert shown.reasons == ("new has no ratings under 'none', and no model has F1 there to compare it with",)


def test_likelihoods_are_compared_with_likelihoods_with_the_right_article() -> None:
    likely, right = "article; log-likelihood", "gold; log-likelihood"
    metrics = [of_rater("f1", 0.5, "m", condition=condition) for condition in (likely, right)]
    metrics += [of_rater("f1_ratio", 0.8, "m", first=right, second=likely)]
    shown = f1_tables(metrics, [ShownRater("m", likely, "likelihood")], right="gold")
    assert list(rows_of(shown["table_11"]).values()) == [[(0.8, None)]]


def test_without_right_labels_there_are_no_tables() -> None:
    assert f1_tables([of_rater("accuracy", 0.5, "m")], [ShownRater("m", "none", "none")]) == {}


def test_methods_and_data_sets_of_the_report_come_before_those_of_the_paper() -> None:
    computed = [
        metric("accuracy@10", 0.8, table="ours"),
        metric("accuracy@1", 0.5, table="lemma", dataset="food"),
        metric("accuracy@10", 0.7, table="lemma", dataset="food"),
        metric("accuracy@5", 0.6, table="named", dataset="art"),
        metric("right_answers", 20, table="lemma", dataset="food"),
        metric("accuracy@1x", 0.9, table="lemma", dataset="food"),  # another metric
    ]
    printed = {
        "table_3": PrintedTable("t", ["food @1", "art @1"], {"lemma": [40, 30], "gloss": [20, None]}),
        "table_4": PrintedTable("t", ["categories"], {"art": [7], "food": [21]}, percent=False),
    }
    accuracy, sizes = of_linking(study(computed=computed, printed=printed))
    assert accuracy.columns == (
        ("All queries", "@10"), ("art", "@5"), ("food", "@1"), ("food", "@10"), ("art", "@1")
    )  # fmt: skip
    assert list(rows_of(accuracy).items()) == [
        (("A model names the entity",), [NONE, (0.6, None), NONE, NONE, NONE]),
        (("All lemmas",), [NONE, NONE, (0.5, 0.4), (0.7, None), (None, 0.3)]),
        (("ours",), [(0.8, None), NONE, NONE, NONE, NONE]),
        (("All glosses",), [NONE, NONE, (None, 0.2), NONE, NONE]),
    ]
    assert (units_of(accuracy), units_of(sizes)) == (["percent"] * 5, ["count"])
    assert list(rows_of(sizes).items()) == [(("food",), [(20, 21)]), (("art",), [(None, 7)])]


def test_data_sets_and_sizes_of_the_report_are_sorted() -> None:
    names = [f"d{number}" for number in range(9, 0, -1)]
    computed = [metric(name, 1, table="lemma", dataset=d) for d in names for name in ("accuracy@1", "right_answers")]
    accuracy, sizes = of_linking(study(computed=computed))
    sizes_of_one = [metric(f"accuracy@{k}", 1, table="lemma") for k in (100, 5, 33)]
    assert [k for _, k in next(of_linking(study(computed=sizes_of_one))).columns] == ["@5", "@33", "@100"]
    assert [name for name, _ in accuracy.columns] == [name for (name,) in rows_of(sizes)] == sorted(names)


def test_without_metrics_of_linking_there_are_no_tables() -> None:
    assert list(of_linking(study(computed=[metric("mrr", 0.5, table="clip")]))) == []


CLOSED, LIKELIHOOD = {"closed"}, {"loglik"}
OPTIONS = {"none": "", "article": "wiki", "titles": "names", "gold": "right", "rater": "x", "average": "x"}


def asked_rows(answered: dict[tuple[str, str, str], dict[str, set[str]]], **kinds: str) -> list[tuple[str, str, str]]:
    reduction: Any = SimpleNamespace(by=("condition",), keys=list(answered), methods_of=lambda key: answered[key])
    judges = asked(replace(study(kinds=kinds, options=OPTIONS), reduction=reduction))
    return [(judge.rater, judge.condition, judge.role) for judge in judges]


def test_raters_are_in_the_order_of_table_1_with_the_papers_names_of_their_conditions() -> None:
    answered = {
        ("relevance", "relevance", "wiki"): {"n": CLOSED, "m": CLOSED, "p": CLOSED, "l": LIKELIHOOD},
        ("relevance", "relevance", "wiki; log-likelihood"): {"m": CLOSED},
        ("relevance", "relevance", "right; log-likelihood"): {"m": CLOSED},
        ("relevance", "relevance", "right"): {"m": CLOSED, "l": LIKELIHOOD},
        ("relevance", "relevance", ""): {"m": CLOSED, "clip": {"encoder"}},
        ("relevance", "relevance", "names"): {"m": CLOSED},
        ("relevance", "relevance", "x"): {"m": CLOSED},
        ("relevance", "relevance", "a; b"): {"m": CLOSED},
        ("relevance", "other", "names"): {"k": CLOSED},
        ("other", "relevance", "names"): {"k": CLOSED},
    }
    assert asked_rows(answered, p="human", clip="encoder") == [
        ("clip", "", "encoder"),
        ("m", "", "none"),
        ("m", "wiki", "article"),
        ("n", "wiki", "article"),
        ("m", "names", "titles"),
        ("m", "right", "gold"),
        ("l", "wiki", "likelihood"),
        ("m", "wiki; log-likelihood", "likelihood"),
        ("l", "right", "gold likelihood"),
        ("m", "right; log-likelihood", "gold likelihood"),
        ("m", "a; b", "a; b"),
        ("m", "x", "x"),
    ]


def test_labels_and_printed_rows_of_raters() -> None:
    one = study(names=["m=M"], printed={"t": PrintedTable("t", ["f1"], {"M / none": [1], "K / x": [2], "L": [3]})})
    judges = [ShownRater("m", "", "none"), ShownRater("n", "y", "y"), ShownRater("n", "", "")]
    assert [judge.headers for judge in judges] == [("m", "no context"), ("n", "y"), ("n", "no condition")]
    assert [judge.in_paper(one) for judge in judges] == ["M / none", "n / y", "n / "]
    others = one.printed("t").rows_alone(["f1"], headers=_of_paper, without=["M / none"])
    assert [row.headers for row in others] == [("K", "x"), ("L",)]


def test_tables_are_in_the_order_of_their_numbers() -> None:
    dims = {"rubric": "relevance", "question": "relevance"}
    reduction: Any = SimpleNamespace(by=("condition",), keys=[("relevance", "relevance", "")],
                                     methods_of=lambda _: {"m": CLOSED})  # fmt: skip
    metrics = [metric("f1", 0.5, **dims, group="m"), metric("pearson_by_image", 0.5, **dims, rater="m")]
    computed = [metric("accuracy@1", 0.5, table="lemma")]
    one = replace(study(metrics, computed=computed), reduction=reduction)
    names = [part.name for part in arrange(one)]
    assert names == [f"table_{n}" for n in (1, 2, 3, 4, 8, 10, 11, 15, 16, 17)]
