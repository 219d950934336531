"""Rates of refusals and their intervals."""

import pyarrow as pa
import pytest

from jobs.metrics.intervals import ALL_EQUAL, student, wilson
from jobs.metrics.refused_texts import COLUMNS, RefusalRate, RefusalRates, lines, refusal_metrics

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
    for entry in tables:
        counted.add(entry)
    return {rate.kind: rate for rate in counted.rates()}


def bounds(rate: RefusalRate) -> tuple[float | None, float | None]:
    return rate.interval.low, rate.interval.high


def test_shares_and_items() -> None:
    refusal_rates = rates(
        responses({"a": ["full", None, "hedge"], "b": [None, None, None]}), responses({"c": ["full"] * 3})
    )
    assert (refusal_rates["full"].count, refusal_rates["full"].n, refusal_rates["full"].items) == (4, 9, 2)
    assert refusal_rates["full"].share == pytest.approx(4 / 9)
    assert refusal_rates["full"].item_ids == ("a", "c")
    assert (refusal_rates["any"].count, refusal_rates["hedge"].count, refusal_rates["blocked"].count) == (5, 1, 0)
    assert lines(list(refusal_rates.values()), shown=1)[0].startswith("full: 4 of 9 texts, 44.4 % (")
    assert lines(list(refusal_rates.values()), shown=1)[0].endswith("2 items: a and 1 more")


def test_one_text_an_item_is_wilsons_interval() -> None:
    refusal_rates = rates(responses({str(n): ["full" if n < 3 else None] for n in range(20)}))
    assert bounds(refusal_rates["full"]) == pytest.approx(wilson(3, 20))


def test_samples_that_agree_count_as_one_item() -> None:
    """Three texts of each of 20 items, all alike: the interval of 20, not of 60."""
    refusal_rates = rates(responses({str(n): ["full" if n < 3 else None] * 3 for n in range(20)}))["full"]
    assert refusal_rates.n == 60
    assert bounds(refusal_rates) == pytest.approx(wilson(3, 20, z=student(20)))
    none = rates(responses({str(n): [None] * 3 for n in range(20)}))["full"]
    assert bounds(none) == pytest.approx(wilson(0, 20))


def test_the_design_effect_is_that_of_the_ratio_estimator() -> None:
    """0, 1, 2, 0, 1 and 2 refusals in 6 items of 4 texts: share p = 6/24.

    Between items: 6 / 5 x (1 + 0 + 1 + 1 + 0 + 1) / 24² = 1 / 120; of 24 texts: p (1 - p) / 24 = 1 / 128. Their ratio
    is 16/15.
    """
    kinds: dict[str, list[str | None]] = {
        name: ["full"] * (number % 3) + [None] * (4 - number % 3) for number, name in enumerate("abcdef")
    }
    results = rates(responses(kinds))["full"]
    assert bounds(results) == pytest.approx(wilson(6, 24, z=student(6) * (16 / 15) ** 0.5))
    assert (results.interval.units, results.interval.method) == (6, "wilson 95%, design effect of items (Kish 1965)")


def test_refusals_of_every_text_count_items() -> None:
    refused = rates(responses({"a": ["full"] * 2, "b": ["full"] * 2, "c": ["full"] * 2}))["full"]
    assert bounds(refused) == pytest.approx(wilson(3, 3))


def test_the_first_refused_items_are_kept_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobs.metrics.refused_texts.MAX_ITEMS", 2)
    refused = rates(responses({"a": ["full"], "b": ["full"], "c": ["full"]}))
    assert (refused["full"].item_ids, refused["full"].items) == (("a", "b"), 3)
    assert lines([refused["full"]], shown=3)[0].endswith("3 items: a, b")
    assert lines([refused["full"]], shown=2)[0].endswith("3 items: a, b and 1 more")


def test_items_that_do_not_differ_show_no_variance() -> None:
    """One refusal in three of every item."""
    refused = rates(responses({str(n): ["full", None, None] for n in range(20)}))["full"]
    assert (bounds(refused), refused.interval.reason) == ((None, None), ALL_EQUAL)
    assert lines([refused])[0].startswith("full: 20 of 60 texts, 33.3 %; 20 items: ")


def test_rows_without_a_text_are_left_out_and_a_filter_is_counted() -> None:
    table = responses({"a": [None, "blocked"], "b": [None]})
    table = table.set_column(COLUMNS.index("text"), "text", pa.array([None, None, "x"], pa.string()))
    refusal_rates = rates(table)
    assert (refusal_rates["blocked"].count, refusal_rates["blocked"].n) == (1, 2)
    assert RefusalRates().rates() == []


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="refusal_kind='soft'"):
        rates(responses({"a": ["soft"]}))


def test_metrics() -> None:
    counted = RefusalRates()
    counted.add(responses({"a": ["full"], "b": [None]}))
    counted.add(responses({"a": [None]}, model="other"))
    results = list(refusal_metrics(counted.rates()))
    assert len(results) == 2 * 5
    counted.add(responses({"a": [None]}, model="apart"))
    assert list(dict.fromkeys(rate.model for rate in counted.rates())) == ["apart", "m", "other"]
    assert results[0].dims == {"model": "m", "prompt": "explicit", "kind": "full"}
    assert (results[0].value, results[0].n, results[0].coverage, results[0].status) == (0.5, 2, 1.0, "ok")
    assert results[0].low is not None
    assert results[0].high is not None
    assert results[0].low < 0.5 < results[0].high


def test_texts_that_were_not_written_lower_the_coverage() -> None:
    table = responses({"a": ["full", None, None], "b": [None]})
    table = table.set_column(COLUMNS.index("text"), "text", pa.array(["x", None, None, "x"], pa.string()))
    counted = RefusalRates()
    counted.add(table)
    (full,) = [metric for metric in refusal_metrics(counted.rates()) if metric.dims["kind"] == "full"]
    assert (full.value, full.n, full.coverage) == (1 / 2, 2, 1 / 2)
    none = table
    for name in ("text", "refusal_kind"):
        none = none.set_column(COLUMNS.index(name), name, pa.nulls(4, pa.string()))
    counted = RefusalRates()
    counted.add(none)
    undefined = list(refusal_metrics(counted.rates()))
    assert {(f.value, f.status, f.coverage) for f in undefined} == {(None, "missing_input", 0.0)}
    assert {f.reason for f in undefined} == {"none of the 4 requested texts was written"}


def test_conditions_have_rates_of_their_own() -> None:
    rows = [{"model": "m", "prompt": "p", "condition": condition, "item_id": f"i{n}", "text": "t",
             "refusal_kind": "full" if condition == "x" and n < 3 else None}
            for condition in ("x", "y") for n in range(6)]  # fmt: skip
    counted = RefusalRates()
    counted.add(pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in COLUMNS])))
    by_key = {m.dims["condition"]: (m.value, m.n) for m in refusal_metrics(counted.rates()) if m.dims["kind"] == "any"}
    assert by_key == {"x": (1 / 2, 6), "y": (0, 6)}
