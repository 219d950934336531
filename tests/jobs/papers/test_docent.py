"""DOCENT's tables and figure from metrics with known values."""

from dataclasses import replace
from typing import Any

from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MetricSettings
from jobs.papers.docent_tables import arrange
from jobs.papers.paper_tables import PaperCell, PaperFigure, PaperTable, estimate
from jobs.plots.panels import Estimate
from tests.jobs.papers.studies import study as of_metrics

SCORES = ("mistakes", "mistake_share", "precision", "omissions", "omission_share", "coverage")


def metric(name: str, value: float, **dims: str) -> Metric:
    return Metric(
        name=name, definition="d", value=value, low=value - 0.1, high=value + 0.1, interval_method="m", n=9, dims=dims
    )


def tables(*metrics: Metric, overlap: float = 0.5) -> dict[str, Any]:
    """Return the parts of the paper by name; an arrangement of DOCENT reads metrics only."""
    study = replace(of_metrics(metrics), metric_settings=MetricSettings(overlap=overlap))
    return {part.name: part for part in arrange(study)}


def numbers(table: PaperTable) -> dict[tuple[str, ...], list[float | None]]:
    return {row.headers: [cell.metric.value if cell.metric else None for cell in row.cells] for row in table.rows}


def scores(first: float, **dims: str) -> list[Metric]:
    return [metric(f"description_{name}", first + n / 10, **dims) for n, name in enumerate(SCORES)]


def test_descriptions_by_writer_and_scorer() -> None:
    by_people, by_model = {"group": "people"}, {"rater": "org/judge@1", "method": "direct", "condition": "short"}
    parts = tables(
        *scores(1, **by_people, model="writer a"), *scores(2, **by_people, model="writer b"), *scores(3, **by_people),
        *scores(4, **by_model, model="writer a"), *scores(5, **by_model, model="writer b"), *scores(6, **by_model),
    )  # fmt: skip
    label = "org/judge@1, direct, short"
    firsts = {
        ("writer a", "people"): 1.0, ("writer a", label): 4.0, ("writer b", "people"): 2.0, ("writer b", label): 5.0,
        ("all", "people"): 3.0, ("all", label): 6.0,
    }  # fmt: skip
    table = parts["docent_scores"]
    assert numbers(table) == {key: [first + n / 10 for n in range(6)] for key, first in firsts.items()}
    assert list(numbers(table)) == list(firsts)
    assert [(cell.unit, header) for cell, (header,) in zip(table.rows[0].cells, table.columns, strict=True)] == [
        ("number", "Mistakes"), ("percent", "Mistakes, share of tokens"), ("percent", "Precision"),
        ("number", "Omissions"), ("percent", "Omissions, share of tokens"), ("percent", "Coverage"),
    ]  # fmt: skip
    figure = parts["docent_scores_figure"]
    assert isinstance(figure, PaperFigure)
    assert numbers(figure.numbers) == {
        key: [first + 0.2, first + 0.5] for key, first in firsts.items() if key[0] != "all"
    }
    assert "docent_kinds" not in parts
    assert "docent_measures" not in parts
    assert parts["docent_spans"].notes == ("No comparison: no people marked spans, or only people did.",)


def test_scores_of_all_descriptions_have_a_row_per_writer_and_source() -> None:
    estimates = [
        metric("estimated_description_score", value, score=score, source=source, **of_writer)
        for score, first in (("mistakes", 1.0), ("coverage", 0.5))
        for source, value in (("people and judges", first), ("people alone", first / 2))
        for of_writer in ({"model": "a"}, {})
    ]
    parts = tables(*scores(1, group="people", model="a"), *scores(2, group="people"), *estimates)
    rows = numbers(parts["docent_estimates"])
    assert {key: (cells[0], cells[5]) for key, cells in rows.items()} == {
        (writer, source): (1.0 / part, 0.5 / part)
        for writer in ("a", "all")
        for source, part in (("people and judges", 1), ("people alone", 2))
    }


def test_without_writers_there_is_one_row_per_scorer_and_no_figure() -> None:
    parts = tables(*scores(3, group="people"))
    assert list(numbers(parts["docent_scores"])) == [("all", "people")]
    assert "docent_scores_figure" not in parts
    assert tables(metric("description_precision", 1)) == {}


def test_a_mark_of_a_figure_is_its_cells_metric() -> None:
    value = metric("description_precision", 0.5)
    mark = Estimate("writer", 0.5, low=value.low, high=value.high, series="judge")
    assert estimate("writer", PaperCell(value), "judge") == mark
    assert estimate("writer", PaperCell(), "judge") == Estimate("writer", None, low=None, high=None, series="judge")


def test_kinds_of_mistakes() -> None:
    kinds = [
        metric("description_mistakes", value, group="people", category=kind, **writer)
        for value, kind, writer in ((1, "wrong_count", {"model": "a"}), (2, "wrong_count", {}), (3, "made_up", {}))
    ]
    by_judge = [metric("description_mistakes", 9, rater="judge", **writer) for writer in ({}, {"model": "a"})]
    parts = tables(*kinds, metric("description_mistakes", 6, group="people"), *by_judge)
    assert parts["docent_kinds"].columns == (("wrong count",), ("made up",))
    assert numbers(parts["docent_kinds"]) == {
        ("a", "people"): [1, None], ("a", "judge"): [None, None],
        ("all", "people"): [2, 3], ("all", "judge"): [None, None],
    }  # fmt: skip
    assert "this rater marks no kinds of mistakes" in parts["docent_kinds"].reasons
    assert list(numbers(parts["docent_scores"])) == [
        ("a", "people"), ("a", "judge"), ("all", "people"), ("all", "judge")
    ]  # fmt: skip


def test_spans_against_people_have_people_first() -> None:
    metrics = scores(1, group="people")
    for rater, method, first in (("judge", "direct", 0.1), ("people", "", 0.5)):
        shared = {"rater": rater, "against": "people", **({"method": method} if method else {})}
        for kind, more in (("mistake", 0), ("omission", 0.01)):
            for u, unit in enumerate(("character", "token", "span")):
                for n, name in enumerate(("precision", "recall", "f1")):
                    overlap = {"overlap": "0.25"} if unit == "span" else {}
                    value = first + more + u / 10 + n / 1000
                    metrics.append(metric(f"span_{name}", value, **shared, kind=kind, unit=unit, **overlap))
        metrics.append(metric("span_auc", first + 0.4, **shared, kind="mistake"))
    metrics.append(metric("span_f1", 1, rater="other", against="gold", kind="mistake", unit="token"))
    table = tables(*metrics, overlap=0.25)["docent_spans"]
    expected: dict[tuple[str, ...], list[float | None]] = {
        (header, rater_name): [
            *(first + more + u / 10 + n / 1000 for u in range(3) for n in range(3)),
            first + 0.4 if header == "Mistakes" else None,
        ]
        for header, more in (("Mistakes", 0), ("Omissions", 0.01))
        for rater_name, first in (("people", 0.5), ("judge, direct", 0.1))
    }
    assert numbers(table) == expected
    assert list(numbers(table)) == list(expected)
    assert table.columns[:4] == (
        ("Characters", "Precision"), ("Characters", "Recall"), ("Characters", "F1"), ("Tokens", "Precision")
    )  # fmt: skip
    assert table.columns[-1] == ("Probabilities", "AUC")
    assert table.notes == ("Spans match where intersection / union is at least 0.25.",)
    assert "only claims have probabilities" in table.reasons


def test_measures_against_peoples_scores() -> None:
    compared = [
        metric(f"description_{name}", value + n / 100, rater=rater, score=score)
        for rater, value in (("cider", 0.2), ("judge", 0.4))
        for score, value in (("precision", value), ("coverage", value + 0.1), ("quality", value + 0.2))
        for n, name in enumerate(("pearson", "spearman"))
    ]
    table = tables(*scores(1, group="people"), *compared)["docent_measures"]
    assert numbers(table) == {
        (rater,): [value + more + n / 100 for more in (0, 0.1, 0.2) for n in range(2)]
        for rater, value in (("cider", 0.2), ("judge", 0.4))
    }
    assert table.columns[0] == ("Precision", "Pearson")
    assert table.columns[-1] == ("Quality", "Spearman")
