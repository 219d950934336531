"""Metrics of marked spans: who is compared with whom, over which texts, and the scores of descriptions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from jobs.analysis.span_metrics import SpanTables, read_span_tables, span_metrics
from jobs.metrics import text_overlap
from jobs.metrics.metric import Metric
from jobs.metrics.question import MetricSettings
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.factories import TableInMemory

KINDS = {"anna": "human", "ben": "human", "cleo": "human", "expert": "gold", "m": "model"}
Spans = Sequence[tuple[int, int]]


def rows_of(rater: str, spans_of: Mapping[str, Spans], **columns: Any) -> list[dict[str, Any]]:
    """Rows of a rater's spans by item; an item without spans has the row of a text that was read."""
    fixed = {"rater": rater, "method": KINDS[rater], "condition": "", "kind": "mistake", "status": "ok"}
    return [
        {**fixed, "item_id": item, "text_id": f"t {item}", "start": start, "end": end, **columns}
        for item, spans in spans_of.items()
        for start, end in spans or [(0, 0)]
    ]


def tables_of(
    rows: Sequence[dict[str, Any]],
    *,
    texts: Mapping[str, str] | None = None,
    pictures: Mapping[str, str] | None = None,
    excluded: Sequence[str] = (),
) -> SpanTables:
    of_texts = [{"text_id": text_id, "text": text} for text_id, text in (texts or {}).items()]
    of_items = [{"item_id": item, "image_ids": [picture]} for item, picture in (pictures or {}).items()]
    spans: Any = [TableInMemory("spans", rows)]
    text_tables: Any = [TableInMemory("texts", of_texts)] if texts else []
    items: Any = [TableInMemory("items", of_items)] if pictures else []
    return read_span_tables(
        spans, text_tables, items, kinds=KINDS, exclusion_filter=ExclusionFilter(frozenset(excluded))
    )


def metrics_named(name: str, tables: SpanTables, **dims: str) -> list[Metric]:
    return [
        metric
        for metric in span_metrics(tables, MetricSettings())
        if metric.name == name and dims.items() <= metric.dims.items()
    ]


def test_excluded_texts_are_in_no_count_of_statuses() -> None:
    """Also the text of an item of which nobody has a complete row."""
    rows = rows_of("anna", {"a": [(0, 1)], "b": [(0, 1)]}) + rows_of("anna", {"c": []}, status="unparsed")
    pictures = {"a": "p1", "b": "p2", "c": "p3"}
    for excluded, counts in (([], {"ok": 2, "unparsed": 1}), (["p2"], {"ok": 1, "unparsed": 1}), (["c"], {"ok": 2})):
        (by_rater,) = tables_of(rows, pictures=pictures, excluded=excluded).statuses.values()
        assert [Counter(statuses.values()) for statuses in by_rater.values() if statuses] == [counts]


def test_a_gold_rater_is_compared_with_nobody_and_a_person_only_with_gold() -> None:
    rows = [row for rater in ("anna", "expert", "m") for row in rows_of(rater, {"a": [(0, 4)]})]
    compared = {
        (metric.dims["rater"], metric.dims["against"]) for metric in metrics_named("span_recall", tables_of(rows))
    }
    assert compared == {("anna", "gold"), ("m", "gold"), ("m", "people")}


def test_people_are_compared_with_each_other_but_not_with_themselves() -> None:
    """Both miss the other's only mistake. Each text counts for each ordered pair of people who read it."""
    rows = rows_of("anna", {"a": [(0, 4)]}) + rows_of("ben", {"a": [(6, 8)]})
    (recall,) = metrics_named("span_recall", tables_of(rows), against="people", unit="span")
    assert (recall.dims["rater"], recall.value, recall.n) == ("people", 0.0, 2)


def test_a_model_is_compared_with_each_person_who_read_the_text() -> None:
    """The model finds Anna's mistake and neither of Ben's."""
    rows = rows_of("anna", {"a": [(0, 4)]}) + rows_of("ben", {"a": [(6, 8), (10, 12)]}) + rows_of("m", {"a": [(0, 4)]})
    (recall,) = metrics_named("span_recall", tables_of(rows), rater="m", against="people", unit="span")
    assert (recall.value, recall.n) == (pytest.approx(1 / 3), 2)


def test_only_texts_with_probabilities_of_claims_are_ranked() -> None:
    texts = {"t a": "red dog", "t b": "big cat"}
    rows = (
        rows_of("expert", {"a": [(0, 3)], "b": [(0, 3)]})
        + rows_of("m", {"a": [(0, 3)]}, probability=0.9)
        + rows_of("m", {"b": [(0, 3)]})
    )
    (ranking,) = metrics_named("span_auc", tables_of(rows, texts=texts), rater="m", against="gold")
    assert (ranking.value, ranking.n, ranking.coverage) == (1.0, 1, 0.5)


def test_a_mistake_marked_twice_counts_once_in_a_description() -> None:
    """Two categories of one mistake are two rows. A text that was read without a mark has none."""
    rows = rows_of("anna", {"a": [(0, 4), (0, 4), (6, 8)], "b": []})
    (mistakes,) = metrics_named("description_mistakes", tables_of(rows), group="people")
    assert (mistakes.value, mistakes.n) == (1.0, 2)


def test_a_category_is_compared_as_a_whole_word() -> None:
    """ "colour" is part of the name "colours of clothes", which is another category."""
    rows = rows_of("anna", {"a": [(0, 1), (2, 3)], "b": [(4, 5)]}, category="colours of clothes")
    rows += rows_of("anna", {"a": [(6, 7)]}, category="colour")
    means = {
        metric.dims["category"]: metric.value
        for metric in span_metrics(tables_of(rows), MetricSettings())
        if metric.dims.get("category") and metric.dims.get("group") == "people"
    }
    assert means == {"colour": 0.5, "colours of clothes": 1.5}


def test_overlap_measures_compare_the_generated_with_the_correct_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mistakes are marked in the generated text, omissions in the correct one."""
    calls = []

    def measure(generated: Sequence[str], correct: Sequence[str]) -> Any:
        calls.append((list(generated), list(correct)))
        return np.arange(len(generated), dtype=np.float64)

    monkeypatch.setattr(text_overlap, "MEASURES", {"length": measure})
    items = ("a", "b", "c", "d")
    rows = rows_of("anna", {item: [(0, 1)] for item in items})
    rows += [
        row | {"text_id": f"correct {row['item_id']}"}
        for row in rows_of("anna", {item: [(0, 1)] for item in items[:3]}, kind="omission")
    ]
    texts = {f"t {item}": f"generated {item}" for item in items} | {
        f"correct {item}": f"right {item}" for item in items
    }
    list(span_metrics(tables_of(rows, texts=texts), MetricSettings(text_overlap=["length"])))
    assert calls == [([f"generated {item}" for item in items[:3]], [f"right {item}" for item in items[:3]])]
