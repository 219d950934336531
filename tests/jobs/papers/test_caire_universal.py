"""Tables of the universal set from metrics by hand: which rater, subgroup and printed number is in which cell."""

from dataclasses import replace

from jobs.metrics.metric import Metric
from jobs.papers import caire_tables
from jobs.papers.caire_tables import ShownRater, of_people
from jobs.papers.paper_tables import PaperTable
from jobs.papers.study import PrintedTable
from tests.jobs.papers.studies import metric, rows_of, study, units_of

NONE = (None, None)
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
