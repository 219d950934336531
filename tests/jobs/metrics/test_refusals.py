"""Rates of refusals and their intervals."""

import json

import pyarrow as pa
import pytest

from jobs.metrics.distributions import wilson
from jobs.metrics.refusals import COLUMNS, RefusalRate, RefusalRates, lines, metrics_table

ROW = ("model", "prompt")


def responses(kinds: dict[str, list[str | None]], *, model: str = "m") -> pa.Table:
    rows = [
        {"model": model, "prompt": "explicit", "item_id": item, "refusal_kind": kind, "text": "x"}
        for item, of_item in kinds.items()
        for kind in of_item
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in COLUMNS]))


def rates(*tables: pa.Table) -> dict[str, RefusalRate]:
    counted = RefusalRates()
    for each in tables:
        counted.add(each)
    return {rate.kind: rate for rate in counted.rates()}


def test_shares_and_items() -> None:
    found = rates(responses({"a": ["full", None, "hedge"], "b": [None, None, None]}), responses({"c": ["full"] * 3}))
    assert (found["full"].count, found["full"].n, found["full"].items) == (4, 9, 2)
    assert found["full"].share == pytest.approx(4 / 9)
    assert found["full"].item_ids == ("a", "c")
    assert (found["any"].count, found["hedge"].count, found["blocked"].count) == (5, 1, 0)
    assert lines(list(found.values()), shown=1)[0].startswith("full: 4 of 9 texts, 44.4 % (")
    assert lines(list(found.values()), shown=1)[0].endswith("2 items: a and 1 more")


def test_one_text_an_item_is_wilsons_interval() -> None:
    found = rates(responses({str(n): ["full" if n < 3 else None] for n in range(20)}))
    assert (found["full"].low, found["full"].high) == pytest.approx(wilson(3, 20))


def test_samples_that_agree_count_as_one_item() -> None:
    """Three texts of each of 20 items, all alike: the interval of 20, not of 60."""
    found = rates(responses({str(n): ["full" if n < 3 else None] * 3 for n in range(20)}))["full"]
    assert found.n == 60
    low, high = wilson(3, 20)
    assert (found.low, found.high) == pytest.approx((low, high))
    none = rates(responses({str(n): [None] * 3 for n in range(20)}))["full"]
    assert (none.low, none.high) == pytest.approx(wilson(0, 20))


def test_samples_that_differ_count_in_full() -> None:
    """One refusal in three of every item: no two items differ, so that 60 texts count as 60."""
    found = rates(responses({str(n): ["full", None, None] for n in range(20)}))["full"]
    assert (found.low, found.high) == pytest.approx(wilson(20, 60))


def test_rows_without_a_text_are_left_out_and_a_filter_is_counted() -> None:
    table = responses({"a": [None, "blocked"], "b": [None]})
    table = table.set_column(4, "text", pa.array([None, None, "x"], pa.string()))
    found = rates(table)
    assert (found["blocked"].count, found["blocked"].n) == (1, 2)
    assert RefusalRates().rates() == []


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind of refusal 'soft'"):
        rates(responses({"a": ["soft"]}))


def test_rows_of_table_metrics() -> None:
    counted = RefusalRates()
    counted.add(responses({"a": ["full"], "b": [None]}))
    counted.add(responses({"a": [None]}, model="other"))
    made = metrics_table(counted.rates()).to_pylist()
    assert len(made) == 2 * 5
    assert json.loads(made[0]["dims"]) == {"model": "m", "prompt": "explicit", "kind": "full"}
    assert (made[0]["value"], made[0]["n"], made[0]["status"]) == (0.5, 2, "ok")
    assert made[0]["low"] < 0.5 < made[0]["high"]
