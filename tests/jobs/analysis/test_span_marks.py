"""Readings of marked spans: what counts as read, per item; and what is left out."""

from typing import Any

import pytest

from jobs.analysis.span_marks import (
    MarkedItem,
    SpanRater,
    TextOfItem,
    read_marked_items,
    read_marks,
    read_texts,
)
from jobs.analysis.span_metrics import read_span_tables, span_metrics
from jobs.errors import InputError
from jobs.metrics.question import MetricSettings
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.factories import TableInMemory

ANNA, MODEL = SpanRater("anna", "human", ""), SpanRater("m@1", "claims", "")
CORRECT = "A dog on a beach."


def span(item: str, start: int, end: int, *, rater: SpanRater = ANNA, **columns: Any) -> dict[str, Any]:
    row = {"item_id": item, "text_id": "t", "kind": "omission", "start": start, "end": end, "status": "ok"}
    return row | rater._asdict() | columns


def marks(*rows: dict[str, Any]) -> Any:
    sources: Any = [TableInMemory("spans", rows)]
    return read_marks(sources)


def test_a_correct_text_of_two_items_is_read_twice() -> None:
    """The omissions of one generated description are not those of another."""
    read = marks(span("i1", 2, 5), span("i2", 0, 0, marked=False))["omission"][ANNA]
    assert read[TextOfItem("i1", "t")].spans == [(2, 5)]
    assert read[TextOfItem("i2", "t")].spans == []


def test_claims_below_the_threshold_are_no_spans() -> None:
    low = span("i1", 0, 1, rater=MODEL, probability=0.2, marked=False)
    high = span("i1", 2, 5, rater=MODEL, probability=0.9, marked=True, category="missing")
    text = marks(low, high)["omission"][MODEL][TextOfItem("i1", "t")]
    assert (text.spans, text.categories) == ([(2, 5)], ["missing"])
    assert text.claims == [(0, 1, 0.2), (2, 5, 0.9)]


def test_spans_before_the_text_or_of_negative_length_are_refused() -> None:
    for start, end in ((-1, 2), (-3, -2), (3, 2)):
        with pytest.raises(InputError, match=f"span from {start} to {end}; "):
            marks(span("i1", start, end))
    assert marks(span("i1", 0, 1))["omission"][ANNA][TextOfItem("i1", "t")].spans == [(0, 1)]


def test_a_text_with_a_row_that_is_not_ok_does_not_count() -> None:
    rows = [span("i1", 2, 5), span("i1", 0, 0, status="unparsed"), span("i2", 2, 5)]
    assert list(marks(*rows)["omission"][ANNA]) == [TextOfItem("i2", "t")]


def test_an_incomplete_text_does_not_count_as_read_because_others_read_it() -> None:
    """Anna read i1, and its text u; her marks in t are unknown, not absent."""
    rows = [span("i1", 0, 0, status="unparsed"), span("i1", 1, 2, text_id="u")]
    rows += [span("i1", 2, 5, rater=MODEL), span("i1", 2, 5, rater=MODEL, text_id="u")]
    assert list(marks(*rows)["omission"][ANNA]) == [TextOfItem("i1", "u")]


def test_the_row_of_a_text_without_marks_does_not_count_as_a_span() -> None:
    """Its span is empty, whatever its column `marked`."""
    for marked in (None, True, False):
        text = marks(span("i1", 0, 0, marked=marked, probability=0.1))["omission"][ANNA][TextOfItem("i1", "t")]
        assert (text.spans, text.categories, text.claims) == ([], [], [])


def test_an_item_has_all_of_its_pictures_and_the_model_that_wrote_its_text() -> None:
    """Without a model, the writer is the column of its text; without pictures, the item stands for its picture."""
    rows: list[dict[str, Any]] = [
        {"item_id": "i1", "image_ids": ["p1", "p2"], "attributes": [("model", "m"), ("text_column", "caption")]},
        {"item_id": "i2", "image_ids": [], "attributes": [("text_column", "caption")]},
        {"item_id": "i3", "image_ids": ["p3"]},
        {"item_id": "i4"},
    ]
    sources: Any = [TableInMemory("items", rows)]
    assert read_marked_items(sources, ["i1", "i2", "i4"]) == {
        "i1": MarkedItem("p1 p2", "m"),
        "i2": MarkedItem("i2", "caption"),
        "i4": MarkedItem("i4"),
    }


def test_excluded_pictures_have_no_metrics() -> None:
    rows = [span(f"i{n}", 2, 5) for n in range(3)]
    items: list[dict[str, Any]] = [{"item_id": f"i{n}", "image_ids": [f"p{n}"]} for n in range(3)]
    tables: Any = [[TableInMemory(name, of_item)] for name, of_item in
                   (("spans", rows), ("texts", [{"text_id": "t", "text": CORRECT}]), ("items", items))]  # fmt: skip
    numbers = []
    for excluded in (frozenset(), frozenset({"p1"})):
        filtered = ExclusionFilter(excluded)
        read = read_span_tables(*tables, kinds={"anna": "human"}, exclusion_filter=filtered)
        metrics = {m.name: m.n for m in span_metrics(read, MetricSettings()) if m.dims.get("group") == "people"}
        numbers.append(metrics["description_omissions"])
    assert numbers == [3, 2]


def test_a_span_outside_of_its_text_is_refused() -> None:
    tables: Any = [[TableInMemory(name, of_item)] for name, of_item in
                   (("spans", [span("i1", 12, 18)]), ("texts", [{"text_id": "t", "text": CORRECT}]))]  # fmt: skip
    with pytest.raises(InputError, match=r"anna: item_id=i1, text_id=t: the span from 12 to 18 .* of 17 characters"):
        read_span_tables(tables[0], tables[1], [], kinds={}, exclusion_filter=ExclusionFilter(frozenset()))


def test_texts_that_metrics_leave_out_are_counted() -> None:
    rows = [span("i1", 2, 5), span("i1", 0, 0, status="unparsed"), span("i2", 2, 5), span("i2", 6, 8), span("i3", 0, 0)]
    tables: Any = [[TableInMemory("spans", rows)], [], []]
    read = read_span_tables(*tables, kinds={"anna": "human"}, exclusion_filter=ExclusionFilter(frozenset()))
    shares = {m.dims["status"]: m for m in span_metrics(read, MetricSettings()) if m.name == "span_status_share"}
    assert {status: metric.value for status, metric in shares.items()} == {"ok": 2 / 3, "unparsed": 1 / 3}
    assert shares["ok"].dims == {"rater": "anna", "kind": "omission", "status": "ok"}


def test_mistakes_are_counted_by_each_of_their_categories() -> None:
    """i1 has two of colour, of which one is of size too; a mistake without a category is of none."""
    categories = {"i1": ["colour", "colour+size", None], "i2": ["size", None, None]}
    rows = [
        span(item, start, start + 1, kind="mistake", category=category)
        for item, names in categories.items()
        for start, category in enumerate(names)
    ]
    tables: Any = [[TableInMemory("spans", rows)], [], []]
    read = read_span_tables(*tables, kinds={"anna": "human"}, exclusion_filter=ExclusionFilter(frozenset()))
    metrics = [m for m in span_metrics(read, MetricSettings()) if m.dims.get("category")]
    assert {(m.dims["category"], m.value) for m in metrics if m.n == 2} == {("colour", 1.0), ("size", 1.0)}


def test_texts_of_several_tables_have_the_same_words() -> None:
    tables: list[Any] = [
        TableInMemory(name, [{"text_id": text_id, "text": text} for text_id, text in rows])
        for name, rows in (
            ("texts", [("t", CORRECT), ("other", "x")]),
            ("texts", [("t", CORRECT), ("other", "y"), ("u", "A cat."), ("null", None)]),
            ("texts", [("t", "Another.")]),
        )
    ]
    for number, table in enumerate(tables):
        table.uri = f"place{number}"
    assert read_texts(tables[:2], {"t", "u"}) == {"t": CORRECT, "u": "A cat."}
    with pytest.raises(InputError, match="texts=place0: text t differs in place2"):
        read_texts(tables, {"t", "u"})
    with pytest.raises(InputError, match=r"texts=place0: 2 of the 3 texts with spans are in no table, such as gone;"):
        read_texts(tables[:2], {"t", "null", "gone"})
