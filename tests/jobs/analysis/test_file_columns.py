"""Texts of a file as numbers, names of columns, attributes, and bins of scores, as pure functions."""

from collections import Counter

import pyarrow as pa
import pytest

from jobs.analysis.from_file.agreement import Attributes
from jobs.analysis.from_file.columns import as_numbers, named_columns
from jobs.analysis.from_file.scene_graphs import _is_valid
from jobs.analysis.scene_graphs import BINS, _scored, score_rows
from jobs.errors import InputError
from jobs.metrics.dsg import DsgQuestion


def test_texts_that_are_numbers():
    numbers = {"3": 3, " 3,5 ": 3.5, "-1,25": -1.25, "+2": 2, ".5": 0.5, "5.": 5, "1e3": 1000, "1E-2": 0.01,
               "9e99": 9e99, "-9e99": -9e99}  # fmt: skip
    others = ["", ".", "1,2,3", "1,", ",5", "1e", "nan", "inf", "3 4", "1e100", "-1e100", "0x1", "three", None]
    texts = pa.chunked_array([pa.array([*numbers, *others], pa.string())])
    assert as_numbers(texts).to_pylist() == [*numbers.values(), *[None] * len(others)]


def test_a_name_with_a_comma_is_a_column_if_the_file_has_it():
    assert named_columns("a,b", ["a", "b"]) == ["a", "b"]
    assert named_columns("a,b", ["a,b", "a", "b"]) == ["a,b"]
    assert named_columns(" a , ,c", []) == ["a", "c"]
    assert named_columns(None, ["a"]) == []


def test_words_for_valid_and_invalid_questions():
    assert [_is_valid("f", word) for word in (None, "Yes", "VALID", "T", "1.0")] == [True] * 5
    assert [_is_valid("f", word) for word in ("no", "Invalid", "F", "0")] == [False] * 4
    with pytest.raises(InputError, match="'maybe'"):
        _is_valid("f", "maybe")


def test_an_attribute_has_one_value_and_may_be_missing():
    attributes = Attributes("item", ["country"])
    names = ["item", attributes.column("country")]
    attributes.add("f", pa.table([["a", "a", "b"], ["Mali", None, None]], names=names))
    attributes.add("f", pa.table([["a", "c"], ["Mali", "Peru"]], names=names))
    assert attributes.values == {"country": {"a": "Mali", "c": "Peru"}}
    with pytest.raises(InputError, match="'Mali' and 'Peru'"):
        attributes.add("f", pa.table([["a"], ["Peru"]], names=names))


def test_a_score_is_in_the_bin_that_begins_at_or_below_it():
    for number, name in enumerate(BINS):
        assert _scored(number / 20)["value"] == name
        assert _scored(min(number / 20 + 0.04, 1))["value"] == name
    assert (BINS[0], BINS[-1], len(BINS)) == ("0.00", "1.00", 21)


def test_answers_of_other_rubrics_and_failed_ones_do_not_count():
    def answer(question, value, *, target="set", rubric="r", status="ok"):
        key = {"item_id": "i", "target": target, "rater": "m", "condition": "", "method": "closed", "order": "",
               "sample": 0}  # fmt: skip
        return key | {"rubric": rubric, "question": question, "value": value, "status": status,
                      "error_kind": None, "error_message": None}  # fmt: skip

    graph = {"set": [DsgQuestion("1"), DsgQuestion("2", ("1",))], "i": [DsgQuestion("1")]}
    rows = [answer("1", "no"), answer("2", "yes"), answer("1", "yes", rubric="other")]
    scores = [row["score"] for row in score_rows(pa.Table.from_pylist(rows), graph, rubric="r")]
    assert scores == [0, 1 / 2]
    rows = [answer("1", "yes", status="refused"), answer("2", "yes")]
    scores = [row["score"] for row in score_rows(pa.Table.from_pylist(rows), graph, rubric="r")]
    assert scores == [1, 1]  # a refusal does not count, nor for its child
    table = pa.Table.from_pylist(rows)
    tally: Counter[str] = Counter()
    published = list(score_rows(table, graph, rubric="r", convention="published", tally=tally))
    assert [row["score"] for row in published] == [0, 1 / 2]
    assert [row["comment"] for row in published] == ["1 of 2 questions answered"] * 2
    assert tally == {"scores": 1, "partial": 1, "answered": 1, "questions": 2}
    (row, _) = score_rows(pa.Table.from_pylist([answer("1", None, status="refused")]), graph, rubric="r")
    assert (row["status"], row.get("score")) == ("refused", None)
    (row, _) = score_rows(pa.Table.from_pylist([answer("1", "yes", target="")]), graph, rubric="r")
    assert row["score"] == 1  # without a target the item names the set
    (row, _) = score_rows(pa.Table.from_pylist([answer("9", "yes")]), graph, rubric="r")
    assert (row["status"], row["error_kind"]) == ("skipped", "no_questions")
