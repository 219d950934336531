"""Tables and histograms of splits, and reciprocal ranks of encoders and after re-ranking, by hand."""

from typing import Any

import pytest

from jobs.metrics.metric import Metric
from jobs.papers import paper_tables, tric_tables
from jobs.papers.study import PrintedTable
from jobs.papers.tric_tables import reranking, table_2
from jobs.plots.panels import Histogram
from tests.jobs.papers.studies import NONE, metric, rows_of, study, units_of


def bins(split: str, column: str, counts: dict[int, float], width: int) -> list[Metric]:
    return [
        metric("histogram_count", value, split=split, column=column, bin=str(begin), width=str(width))
        for begin, value in counts.items()
    ]


def of_split(split: str) -> list[Metric]:
    return [
        metric("instances", 3, split=split),
        *bins(split, "year", {1880: 2, 1890: 1}, 10),
        *bins(split, "words", {0: 5}, 4),
        *bins(split, "characters", {0: 1, 8: 0}, 8),
    ]


def drawn(monkeypatch: pytest.MonkeyPatch, *names: str) -> dict[str, tuple[str, dict[str, Histogram]]]:
    """Name of each figure -> its citation and its histograms by their titles."""
    panels: list[dict[str, Histogram]] = []

    def draw(of_figure: Any, **_: str) -> str:
        panels.append(dict(of_figure))
        return ""

    monkeypatch.setattr(paper_tables, "small_multiples", draw)
    figures = list(tric_tables.figures(study(computed=[one for name in names for one in of_split(name)])))
    assert [figure.numbers.name for figure in figures] == [figure.name for figure in figures]
    return {figure.name: (figure.citation, shown) for figure, shown in zip(figures, panels, strict=True)}


def test_the_papers_unions_have_its_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = drawn(monkeypatch, "train", "training")
    assert set(figures) == {"figure_5", "figure_7"}
    citation, shown = figures["figure_5"]
    assert citation == "TRIC, figure 5"
    assert shown == {"Year": Histogram([2, 1], [1880, 1890, 1900], x_label="year", y_label="pictures")}
    assert figures["figure_7"][1] == {
        "Words per caption": Histogram([5], [0, 4], x_label="words per caption", y_label="captions"),
        "Characters per caption": Histogram([1, 0], [0, 8, 16], x_label="characters per caption", y_label="captions"),
    }


def test_an_unknown_count_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[Any] = []
    monkeypatch.setattr(paper_tables, "small_multiples", lambda of_figure, **_: panels.extend(of_figure))
    unknown = metric("histogram_count", None, split="a", column="year", bin="1900", width="5")
    (figure, *_) = tric_tables.figures(study(computed=[metric("instances", 1, split="a"), unknown, *of_split("a")[2:]]))
    assert panels[0][1].counts[0] == 0
    assert {cell.unit for row in figure.numbers.rows for cell in row.cells} == {"count"}


def test_other_splits_have_a_figure_each(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = drawn(monkeypatch, "train", "dev-0")
    assert set(figures) == {"figure_train", "figure_dev-0"}
    citation, shown = figures["figure_train"]
    assert citation == "as TRIC, figures 4 to 7"
    assert list(shown) == ["Year", "Words per caption", "Characters per caption"]


def test_splits_of_the_paper_follow_those_that_were_read() -> None:
    printed = {
        "table_1": PrintedTable("t", ["instances", "share"], {"dev-0": [5, 10], "train": [675, 70]}, percent=False),
        "section_6": PrintedTable("t", ["year mean", "words maximum"], {"train": [1903.5, 40]}, percent=False),
    }
    computed = [
        metric("instances", 3, split="train"), metric("instances", 1, split="mine"),
        metric("share", 0.75, split="train"), metric("share", 0.25, split="mine"),
        metric("mean", 1895, split="train", column="year"), metric("maximum", 9, split="train", column="words"),
        metric("maximum", 99, split="train", column="characters"),
    ]  # fmt: skip
    one = study(computed=computed, printed=printed)
    assert rows_of(tric_tables.table_1(one)) == {
        ("train",): [(3, 675), (0.75, 70)], ("mine",): [(1, None), (0.25, None)], ("dev-0",): [(None, 5), (None, 10)]
    }  # fmt: skip
    table = tric_tables.statistics(one)
    (train, mine) = rows_of(table).values()
    by_column = dict(zip(table.columns, train, strict=True))
    assert {column: numbers for column, numbers in by_column.items() if numbers != (None, None)} == {
        ("Year", "mean"): (1895, 1903.5), ("Words per caption", "max"): (9, 40),
        ("Characters per caption", "max"): (99, None),
    }  # fmt: skip
    assert set(mine) == {(None, None)}
    units = {column: cell.unit for column, cell in zip(table.columns, table.rows[0].cells, strict=True)}
    assert (units["Year", "min"], units["Year", "mean"]) == ("count", "number")


PRINTED = {
    "table_2": PrintedTable(
        "t", ["test-A", "test-B"], {"random baseline": [0.05, 0.06], "big": [0.2, 0.21], "small": [0.1, None]},
        percent=False,
    )
}  # fmt: skip


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
