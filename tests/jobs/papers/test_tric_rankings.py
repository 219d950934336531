"""Reciprocal ranks of encoders and after re-ranking, by hand."""

from jobs.papers.study import PrintedTable
from jobs.papers.tric_tables import reranking, table_2
from tests.jobs.papers.studies import metric, rows_of, study, units_of

PRINTED = {
    "table_2": PrintedTable(
        "t", ["test-A", "test-B"], {"random baseline": [0.05, 0.06], "big": [0.2, 0.21], "small": [0.1, None]},
        percent=False,
    )
}  # fmt: skip
NONE = (None, None)


def test_encoders_by_wording_next_to_the_papers() -> None:
    computed = [
        metric("mrr", 0.5, table="clip", template="none"),
        metric("mrr", 0.9, table="clip", template="none", decade="1880s"),
        metric("mrr", 0.6, table="clip", template="year"),
        metric("mrr", 0.4, table="siglip", template="decade"),
        metric("mrr", 0.7, table="other"),  # of no template
        metric("mrr_change", 0.1, table="clip", first="none", second="year"),
        metric("mrr_change", 0.8, table="clip", first="none", second="year", decade="1880s"),
        metric("random_mrr", 0.07, table="clip"),
        metric("random_mrr", 0.08, table="siglip"),
    ]
    table = table_2(study(computed=computed, printed=PRINTED, names=["clip=big"]))
    rows = rows_of(table)
    assert list(rows.items()) == [
        (("clip", "no date"), [(0.5, None), NONE, (None, 0.2), (None, 0.21)]),
        (("clip", "year"), [(0.6, None), (0.1, None), NONE, NONE]),
        (("siglip", "decade"), [(0.4, None), NONE, NONE, NONE]),
        (("random order", ""), [(0.07, None), NONE, (None, 0.05), (None, 0.06)]),
        (("small", ""), [NONE, NONE, (None, 0.1), NONE]),
    ]
    assert units_of(table) == ["number"] * 4
    assert table.notes[0].startswith("n counts ranked pictures. Pictures without a vector")


def test_without_random_ranks_only_the_papers_are_shown() -> None:
    table = table_2(study(printed=PRINTED))
    assert units_of(table) == ["", "", "number", "number"]
    named_alike = table_2(study(computed=[metric("mrr", 0.3, table="small", template="none")], printed=PRINTED))
    assert rows_of(named_alike)["small", "no date"][0::2] == [(0.3, None), (None, 0.1)]  # named as in the paper
    assert ("small", "") not in rows_of(named_alike)
    assert list(rows_of(table)) == [("random baseline", ""), ("big", ""), ("small", "")]


def test_judges_are_compared_with_the_encoder_and_with_no_date() -> None:
    table = {"table": "reranked"}
    judged = {**table, "ranking": "judge", "rater": "m"}
    computed = [
        metric("mrr@100", 0.3, **table, ranking="encoder"),
        metric("mrr@100", 0.9, **table, ranking="encoder", decade="1880s"),
        metric("mrr@100", 0.5, **judged, condition="none"),
        metric("mrr@100", 0.6, **judged, condition="day"),
        metric("mrr@100", 0.8, **judged, condition="day", decade="1880s"),
        metric("mrr_change@100", 0.2, **table, rater="m", first="encoder", second="none"),
        metric("mrr_change@100", 0.31, **table, rater="m", first="encoder", second="day"),
        metric("mrr_change@100", 0.1, **table, rater="m", first="none", second="day"),
        metric("mrr_change@100", 0.7, **table, rater="n", first="none", second="none"),
    ]
    ranked = reranking(study(computed=computed))
    assert units_of(ranked) == ["number"] * 3
    assert ranked.notes == ("Changes are paired by picture; n counts pictures.",)
    assert list(rows_of(ranked).items()) == [
        (("encoder", "", ""), [(0.3, None), NONE, NONE]),
        (("reranked", "m", "no date"), [(0.5, None), (0.2, None), NONE]),
        (("reranked", "m", "day"), [(0.6, None), (0.31, None), (0.1, None)]),
    ]
