"""Marked spans: by hand, with holes, overlaps, empty texts."""

from collections.abc import Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.metrics import spans
from jobs.metrics.spans import (
    Spans,
    against_gold,
    common_characters,
    matched,
    merged,
    ranking_of_tokens,
    span_agreement,
    status_shares,
    touched_tokens,
)

TEXT = "A black dog, on a beach."  # tokens: A black dog , on a beach .
spans_of = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 8)).map(lambda p: (p[0], p[0] + p[1])), max_size=5)


def cells_of(metrics):
    return {(f.name, f.dims["unit"]): f for f in metrics}


def test_characters_tokens_and_spans_by_hand():
    # gold marks "black dog" (2-11); the rater "dog, on" (8-15): 3 characters in common of 7 and 9
    cells = cells_of(against_gold({"t": [(8, 15)]}, {"t": [(2, 11)]}, texts={"t": TEXT}, overlap=0.2))
    assert cells["span_precision", "character"].value == pytest.approx(3 / 7)
    assert cells["span_recall", "character"].value == pytest.approx(3 / 9)
    assert cells["span_f1", "character"].value == pytest.approx(6 / 16)
    # tokens: {dog , on} and {black dog}
    assert cells["span_precision", "token"].value == pytest.approx(1 / 3)
    assert cells["span_recall", "token"].value == pytest.approx(1 / 2)
    # spans: 3 of 13 characters in common, which is 0.23
    assert cells["span_f1", "span"].value == 1
    strict = cells_of(against_gold({"t": [(8, 15)]}, {"t": [(2, 11)]}, texts={"t": TEXT}, overlap=0.5))
    assert strict["span_f1", "span"].value == 0


def test_texts_without_marks_count_and_nothing_marked_is_undefined():
    cells = cells_of(against_gold({"t": [], "u": [(0, 2)]}, {"t": [(0, 2)], "u": [(0, 2)]}))
    assert cells["span_recall", "character"].value == 1 / 2
    assert cells["span_precision", "character"].value == 1
    of_gold = cells_of(against_gold({"t": [(0, 2)]}, {"t": [(0, 2)], "u": [], "v": []}))["span_recall", "character"]
    assert (of_gold.n, of_gold.coverage) == (1, 1 / 3)
    nothing = cells_of(against_gold({"t": []}, {"t": []}))
    assert nothing["span_f1", "character"].reason.startswith("nothing is marked")
    assert (nothing["span_f1", "character"].n, nothing["span_f1", "character"].coverage) == (1, 1.0)
    assert nothing["span_f1", "token"].reason.endswith("texts=")
    assert nothing["span_f1", "token"].coverage == 1
    apart = cells_of(against_gold({"t": []}, {"u": []}))["span_f1", "span"]
    assert (apart.value, apart.n, apart.coverage) == (None, 0, 0.0)


def test_matching_is_the_largest_not_the_first():
    # the first span fits both, the second only the first of gold: two pairs are possible
    assert matched([(0, 10), (0, 4)], [(0, 5), (5, 10)], overlap=0.4) == 2
    assert matched([(0, 3)], [(3, 6)], overlap=0) == 0  # touching is not overlap
    assert matched([], [(0, 1)], overlap=0.5) == 0
    assert matched([(0, 3)], [(0, 10)], overlap=0.3) == 1  # exactly the overlap
    assert matched([(0, 3)], [(0, 10)], overlap=0.31) == 0


def test_tokens_that_a_span_touches():
    assert touched_tokens([(3, 9)], TEXT) == {1, 2}
    assert touched_tokens([(5, 5)], TEXT) == set()
    assert touched_tokens([], TEXT) == set()


@settings(max_examples=80, deadline=None)
@given(spans_of, spans_of)
def test_characters_are_counted_as_sets_of_them(one, other):
    def characters(spans):
        return {i for start, end in spans for i in range(start, end)}

    assert sum(end - start for start, end in merged(one)) == len(characters(one))
    assert common_characters(one, other) == len(characters(one) & characters(other))


def test_agreement_between_raters():
    marks: dict[str, Spans] = {
        "a": {"t": [(2, 7)]},
        "b": {"t": [(2, 7)]},
        "c": {"t": [(8, 11)]},
        "d": {"u": []},
    }
    cells = cells_of(span_agreement(marks, texts={"t": TEXT, "u": "x"}))
    # a-b 1, a-c 0, b-c 0; d shares no text
    assert cells["span_agreement", "character"].value == pytest.approx(1 / 3)
    assert (cells["span_agreement", "token"].n, cells["span_agreement", "token"].coverage) == (3, 3 / 6)
    # 8 tokens of 3 raters; black: 1 1 0, dog: 0 0 1, six others 0.
    # Do = (2 * 2 + 2 * 2) / 2 / 24, De = 2 * 3 * 21 / (24 * 23)
    expected = 1 - (2 + 2) / 24 / (2 * 3 * 21 / (24 * 23))
    assert cells["span_alpha", "token"].value == pytest.approx(expected)
    alone = cells_of(span_agreement({"a": {"t": [(0, 1)]}}))
    assert alone["span_agreement", "character"].reason == "one rater"
    assert (alone["span_agreement", "character"].coverage, alone["span_agreement", "token"].n) == (None, 0)
    apart = cells_of(span_agreement({"a": {"t": []}, "b": {"t": []}}))["span_agreement", "span"]
    reason = "no two raters share a text in which either marked something"
    assert (apart.value, apart.reason, apart.coverage) == (None, reason, 0)


def test_an_overlap_is_reached_in_spite_of_rounding():
    """Three of ten characters, of at least 0.1 + 0.2 > 0.3."""
    assert matched([(0, 3)], [(0, 10)], overlap=0.1 + 0.2) == 1
    assert matched([(0, 3)], [(0, 10)], overlap=0.31) == 0
    assert matched([(0, 3)], [(3, 10)], overlap=0) == 0


def test_a_span_that_ends_before_it_starts():
    with pytest.raises(ValueError, match="span from 5 to 3"):
        merged([(5, 3)])


def test_tokens_need_the_text():
    with pytest.raises(ValueError, match="unit=token: text= is required"):
        spans.cells([(0, 1)], [(0, 1)], "token", text=None, overlap=0.5)


def test_a_span_counts_once_and_an_empty_one_never():
    cells = cells_of(against_gold({"t": [(0, 2), (0, 2), (3, 3)]}, {"t": [(0, 2)]}))
    assert cells["span_precision", "span"].value == 1


def test_intervals_draw_pictures():
    gold: Spans = {n: [(0, 2)] for n in range(10)}
    marked: Spans = {n: [(0, 2 + n % 4)] for n in range(10)}
    of_five: dict[Hashable, str] = {n: str(n // 2) for n in range(10)}
    apart, alike = (cells_of(against_gold(marked, gold, pictures=pictures)) for pictures in (None, of_five))
    assert alike["span_precision", "character"].value == apart["span_precision", "character"].value
    assert alike["span_precision", "character"].low is not None
    assert alike["span_precision", "character"].low != apart["span_precision", "character"].low
    assert cells_of(against_gold(marked, gold, pictures=dict.fromkeys(gold, "one")))["span_f1", "span"].low is None


def test_texts_that_are_not_there_do_not_count():
    marks: dict[str, Spans] = {"a": {"t": [(2, 7)], "u": [(0, 1)]}, "b": {"t": [(2, 7)], "u": []}}
    cells = cells_of(span_agreement(marks, texts={"t": TEXT}))
    assert cells["span_agreement", "character"].value == 1
    assert cells_of(span_agreement(marks, texts={}))["span_alpha", "token"].value is None
    unmarked: dict[str, Spans] = {"a": {"t": []}, "b": {"t": []}}
    alpha = cells_of(span_agreement(unmarked, texts={"t": TEXT}))["span_alpha", "token"]
    assert (alpha.value, alpha.n, alpha.coverage) == (None, 8, 1.0)


def test_the_ranking_of_tokens_by_hand():
    # tokens: A black dog , on a beach . with 0.2, 0.9 (the larger of two), 0.9, 0, 0, 0, 0.1, 0; gold: black, beach
    probabilities: dict[Hashable, list[tuple[int, int, float]]] = {
        "t": [(0, 7, 0.2), (2, 11, 0.9), (11, 11, 1.0), (18, 23, 0.1)],
        "u": [(0, 1, 1.0)],
        "w": [],
    }
    gold: Spans = {"t": [(2, 7), (18, 23)], "v": [], "w": []}
    auc = ranking_of_tokens(probabilities, gold, texts={"t": TEXT, "u": "x"})
    # black is above 5 of 6 and equal to dog, beach above the 4 with 0; the text of w is unknown
    assert (auc.value, auc.n, auc.coverage) == (pytest.approx((5.5 + 4) / 12), 1, 1 / 3)
    assert ranking_of_tokens(probabilities, gold, texts=None).value is None
    none = ranking_of_tokens(probabilities, {"t": []}, texts={"t": TEXT})
    assert (none.reason, none.n, none.coverage) == ("gold marks all tokens, or none", 1, 1.0)
    apart = ranking_of_tokens({"u": []}, {"t": []}, texts={"t": TEXT})
    assert apart.reason == "the rater and gold saw no common text"


def test_shares_of_statuses():
    statuses = list(status_shares(["ok", "error", "ok", "ok"], ["a", "a", "b", "c"]))
    assert {metric.coverage for metric in statuses} == {1.0}
    shares = {metric.dims["status"]: (metric.value, metric.n) for metric in statuses}
    assert shares == {"ok": (3 / 4, 4), "error": (1 / 4, 4)}
