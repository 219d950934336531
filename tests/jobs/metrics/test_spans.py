"""Marked spans: by hand, with holes, overlaps, empty texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.metrics.spans import Spans, against_gold, common_characters, matched, merged, span_agreement, touched_tokens

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
    nothing = cells_of(against_gold({"t": []}, {"t": []}))
    assert nothing["span_f1", "character"].reason.startswith("nothing is marked")
    assert nothing["span_f1", "token"].reason.endswith("texts=")
    assert cells_of(against_gold({"t": []}, {"u": []}))["span_f1", "span"].value is None


def test_matching_is_the_largest_not_the_first():
    # the first span fits both, the second only the first of gold: two pairs are possible
    assert matched([(0, 10), (0, 4)], [(0, 5), (5, 10)], overlap=0.4) == 2
    assert matched([(0, 3)], [(3, 6)], overlap=0) == 0  # touching is not overlap
    assert matched([], [(0, 1)], overlap=0.5) == 0


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


def test_a_span_that_ends_before_it_starts():
    with pytest.raises(ValueError, match="span from 5 to 3"):
        merged([(5, 3)])
