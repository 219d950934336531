"""Readings of marked spans: what counts as read, per item; and what is left out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from jobs.analysis.assigned_items import ItemAssignment
from jobs.analysis.span_tables import (
    MarkedItem,
    SpanRater,
    SpanTables,
    TextOfItem,
    read_marked_items,
    read_marks,
    read_span_tables,
    read_texts,
    span_metrics,
)
from jobs.errors import InputError
from jobs.metrics import description_scores
from jobs.metrics.estimates import NOT_RANDOM
from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MetricSettings
from jobs.metrics.rating_plans import BOTH, PEOPLE_ALONE
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import hash_texts
from tests.factories import TableInMemory

ANNA, MODEL = SpanRater("anna", "human", ""), SpanRater("m@1", "claims", "")
CORRECT = "A dog on a beach."
KINDS = {"anna": "human", "ben": "human", "cleo": "human", "expert": "gold", "m": "model"}
Spans = Sequence[tuple[int, int]]


def span(item: str, start: int, end: int, *, rater: SpanRater = ANNA, **columns: Any) -> dict[str, Any]:
    row = {"item_id": item, "text_id": "t", "kind": "omission", "start": start, "end": end, "status": "ok"}
    return row | rater._asdict() | columns


def marks(*rows: dict[str, Any]) -> Any:
    sources: Any = [TableInMemory("spans", rows)]
    return read_marks(sources)[0]


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


def test_scores_of_all_descriptions_are_estimated_where_people_read_a_drawn_part() -> None:
    """The model marks a mistake too many in every text; people read a quarter of them."""
    rng = np.random.default_rng(0)
    ids, counts = [f"i{n}" for n in range(120)], rng.integers(0, 4, 120)
    marked = {item: [(4 * k, 4 * k + 1) for k in range(count)] for item, count in zip(ids, counts, strict=True)}
    more = {item: [*spans, (90, 95)] for item, spans in marked.items()}
    drawn = np.isin(np.arange(120), rng.permutation(120)[:30])
    of_people = {item: marked[item] for item, is_drawn in zip(ids, drawn, strict=True) if is_drawn}
    hashes = hash_texts(ids)
    order = np.argsort(hashes)
    assignment = ItemAssignment("tasks", hashes[order], drawn[order], np.full(120, 0.25), 1)

    def estimate(read: SpanTables, *assignments: ItemAssignment | None) -> dict[str, Metric]:
        scores = [
            m for m in span_metrics(read, MetricSettings(), *assignments) if m.name == "estimated_description_score"
        ]
        return {f"{m.dims.get('score')}, {m.dims['source']}": m for m in scores}

    tables = tables_of(rows_of("anna", of_people) + rows_of("m", more))
    of_all = estimate(tables, assignment)
    both, alone = (of_all[f"mistakes, {source}"] for source in (BOTH, PEOPLE_ALONE))
    assert (both.low or 0) < counts.mean() < (both.high or 0)
    assert (both.high or 0) - (both.low or 0) < 0.3 * ((alone.high or 0) - (alone.low or 0))
    assert (both.n, both.coverage) == (30, 0.25)
    (unknown,) = estimate(tables).values()
    assert unknown.reason == NOT_RANDOM
    others = {item: marked[item] for item in ids[:60]}
    (outside,) = estimate(tables_of(rows_of("anna", others) + rows_of("m", more)), assignment).values()
    assert "outside of the assignments" in str(outside.reason)
    assert estimate(tables_of(rows_of("anna", marked) + rows_of("m", more))) == {}  # people read all


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

    monkeypatch.setattr(description_scores, "OVERLAPS", {"length": measure})
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
