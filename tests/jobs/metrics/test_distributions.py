"""Distributions of ratings, against arithmetic done by hand."""

import itertools
import json
import math

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.analysis.metrics_output import metrics_table
from jobs.metrics import distributions as module
from jobs.metrics.distributions import Distribution, Distributions, metrics_of
from jobs.metrics.intervals import ALL_EQUAL, student, wilson
from jobs.tables import TableError, table
from tests.cases import check_cases
from tests.factories import add_ratings, add_units

ITEMS = itertools.count()
SCALE = ["1", "2", "3", "4", "5"]
SCHEMA = table("ratings").schema()


def table_of(distributions):
    return metrics_table(metric for distribution in distributions for metric in metrics_of(distribution))


def row(**changes):
    base = {
        "item_id": f"item {next(ITEMS)}",
        "sample": 0,
        "rater": "qwen",
        "rubric": "century",
        "question": "sensitive",
        "target": "",
        "condition": "",
        "method": "closed",
        "order": "",
        "value": None,
        "score": None,
        "answers": SCALE,
        "outside_mass": None,
        "truncated": None,
        "empty_context": None,
        "status": "ok",
    }
    return base | changes


def scored(value, *, outside=0.0, **changes):
    return row(value=str(value), score=float(value), outside_mass=outside, **changes)


def batch(rows):
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def reduce(rows, **options):
    counted = Distributions(**options)
    add_ratings(counted, batch(rows))
    return counted.result()


def only(rows, **options) -> Distribution:
    (one,) = reduce(rows, **options)
    return one


# Ten asked: 1, 3, 3, 3, 4, 5, 5, 5 are ok, one unparsed, one refused.
TEN = [scored(v, outside=o) for v, o in zip([1, 3, 3, 3, 4, 5, 5, 5], [0.0, 0.1] * 4, strict=True)] + [
    row(status="unparsed"),
    row(status="refused"),
]


def test_counts_shares_and_coverage():
    one = only(TEN)
    assert (one.asked, one.ok, one.coverage) == (10, 8, 0.8)  # 8 / 10
    assert one.statuses == {"ok": 8, "refused": 1, "unparsed": 1}
    assert one.not_ok == {"refused": 1, "unparsed": 1}
    assert [a.answer for a in one.answers] == SCALE
    assert [a.count for a in one.answers] == [1, 0, 3, 1, 3]  # "2" was never chosen: 0, not absent
    assert [a.share for a in one.answers] == [0.125, 0.0, 0.375, 0.125, 0.375]
    assert one.ordinal is True
    assert one.reason is None


def test_ratings_without_an_input_were_not_asked_of_the_rater():
    counted = only([scored(3), row(status="missing_input"), row(status="missing_input"), row(status="refused")])
    assert (counted.asked, counted.with_input, counted.ok) == (4, 2, 1)
    assert counted.not_ok == {"missing_input": 2, "refused": 1}


def test_mean_score_and_interval():
    mean = only(TEN).mean_score
    # Sum 1 + 9 + 4 + 15 = 29, mean 29 / 8 = 3.625.
    assert mean.value == 3.625
    # Squares 1 + 27 + 16 + 75 = 119; variance (119 - 29² / 8) / 7 = (119 - 105.125) / 7 = 1.982142857…
    # half width t(0.975, 7) · √(1.982142857 / 8) = 2.364624 · 0.4977628 = 1.1770220
    assert mean.low == pytest.approx(3.625 - 1.1770220, abs=1e-6)
    assert mean.high == pytest.approx(3.625 + 1.1770220, abs=1e-6)
    assert student(8) == pytest.approx(2.364624, abs=1e-6)
    assert (mean.n, mean.units, mean.interval_method, mean.reason) == (8, 8, "Student's t 95% over items", None)


def test_outside_mass_is_averaged_over_ok_rows_only():
    outside = only([*TEN, row(status="truncated", outside_mass=0.9)]).outside_mass
    assert outside.value == pytest.approx(0.05)  # 4 · 0.1 / 8
    assert outside.n == 8


def test_wilson_by_hand():
    # 1 of 8: p = .125, z² = 3.841459. Middle .125 + 3.841459 / 16 = .3650912;
    # half 1.959964 · √(.125 · .875 / 8 + 3.841459 / 256) = 1.959964 · √(.0136719 + .0150057) = .3319085;
    # divided by 1 + 3.841459 / 8 = 1.4801824: (.0224178, .4708883)
    assert wilson(1, 8) == pytest.approx((0.0224178, 0.4708883), abs=1e-6)
    # 0 of 10: high = z² / (n + z²) = 3.841459 / 13.841459 = .2775328; low exactly 0
    assert wilson(0, 10) == (0.0, pytest.approx(0.2775328, abs=1e-6))
    assert wilson(10, 10) == (pytest.approx(1 - 0.2775328, abs=1e-6), 1.0)


@pytest.mark.parametrize(("count", "n"), [(0, 0), (-1, 3), (4, 3)])
def test_wilson_refuses_numbers_that_are_not_proportions(count, n):
    with pytest.raises(ValueError, match="count="):
        wilson(count, n)


@given(st.integers(1, 10**6).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share(pair):
    count, n = pair
    low, high = wilson(count, n)
    assert 0 <= low <= count / n <= high <= 1


def test_nothing_ok_is_undefined_and_never_zero():
    one = only([row(status="unparsed"), row(status="error")])
    assert one.coverage == 0.0
    assert [(a.count, a.share, a.interval.low) for a in one.answers] == [(0, None, None)] * 5
    assert one.reason == one.mean_score.reason == one.outside_mass.reason == "none of the 2 ratings is ok"
    assert one.mean_score.value is None
    assert one.ordinal is None


def test_a_rater_with_nothing_ok_is_ordinal_if_another_shows_the_scale():
    first, second = reduce([scored(2), row(rater="zzz", status="error")])
    assert (first.rater, first.ordinal) == ("qwen", True)
    assert (second.rater, second.ordinal, second.mean_score.value) == ("zzz", True, None)


def test_categories_have_shares_but_no_mean():
    kinds = ["photograph", "document", "symbol"]
    one = only([row(value=v, answers=kinds) for v in ["symbol", "symbol", "photograph"]])
    assert one.ordinal is False
    assert [a.count for a in one.answers] == [1, 0, 2]
    assert (one.mean_score.value, one.mean_score.reason) == (None, "categories have no mean")
    assert one.outside_mass.reason == "the rater gave no probabilities"


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ([scored(4)], "no interval: fewer than 5 items (1)"),
        ([scored(3), scored(5)], "no interval: fewer than 5 items (2)"),
        ([scored(4) for _ in range(5)], ALL_EQUAL),
    ],
)
def test_no_interval_where_there_is_no_spread(rows, reason):
    mean = only(rows).mean_score
    assert (mean.value, mean.low, mean.high, mean.interval_method, mean.reason) == (4.0, None, None, None, reason)


def test_people_without_answer_lists_take_the_order_of_the_model():
    people, model = reduce([scored(5, rater="ann", answers=None), scored(1)])
    assert (people.rater, model.rater) == ("ann", "qwen")
    assert [a.answer for a in people.answers] == SCALE


def test_a_value_outside_the_rubric_is_counted_and_marked():
    one = only([scored(1), row(value="maybe")])
    assert [(a.answer, a.count, a.listed) for a in one.answers][-1] == ("maybe", 1, False)
    assert one.mean_score.n == 1


def test_conditions_are_distinguished_when_named():
    rows = [scored(1, condition="a"), scored(5, condition="b")]
    assert only(rows).mean_score.value == 3.0
    assert [d.extra for d in reduce(rows, extra=["condition"])] == [(("condition", "a"),), (("condition", "b"),)]
    with pytest.raises(ValueError, match="unknown seconds"):
        Distributions(extra=["seconds"])


def test_an_open_question_is_not_counted_answer_by_answer(monkeypatch):
    monkeypatch.setattr(module, "MAX_ANSWERS", 3)
    counted = Distributions()
    for value in "abcde":
        counted.add(batch([row(value=value, answers=None)]))
    (one,) = counted.result()
    assert (one.ok, one.answers) == (5, ())
    assert one.reason == "more than 3 different answers: not a closed question"
    assert counted._values == {("qwen", "century", "sensitive"): None}


def test_dictionaries_that_differ_by_chunk_and_further_columns_are_read():
    halves = []
    for part in (TEN[:5], TEN[5:]):
        rows = batch(part).append_column("further", pa.array(["x"] * 5))
        for name in ("rater", "rubric", "question", "status", "value"):
            rows = rows.set_column(rows.column_names.index(name), name, rows[name].dictionary_encode())
        halves.append(rows)
    counted = Distributions()
    add_ratings(counted, pa.concat_tables(halves))
    assert counted.result() == reduce(TEN)


def test_no_rows_no_distributions():
    assert reduce([]) == []
    assert table_of([]).num_rows == 0


def test_a_broken_batch_is_refused_whole():
    cases = [
        ([row(value=None)], "ok but have no value"),
        ([row(value="1", score=math.nan)], "score is not a finite"),
        ([row(value="1", outside_mass=math.inf)], "outside_mass is not a finite"),
        ([row(status="fine")], "unknown status fine"),
        ([row(status="z"), row(status="fine"), row(status="y")], "unknown status fine, y, z"),
        ([row(value="1", answers=["a\x1fb"])], "U\\+001F"),
    ]

    def check(rows, complaint):
        counted = Distributions()
        with pytest.raises(ValueError, match=complaint):
            counted.add(batch([scored(1), *rows]))
        assert counted.result() == []

    check_cases(check, cases)


def test_missing_columns_and_null_keys_are_named():
    with pytest.raises(ValueError, match="missing columns value, answers"):
        Distributions().add(batch(TEN).drop_columns(["value", "answers"]))
    loose = pa.schema([f.with_nullable(True) for f in SCHEMA])
    with pytest.raises(ValueError, match="null in rater"):
        Distributions().add(pa.Table.from_pylist([row(value="1", rater=None)], schema=loose))


def test_rows_of_the_table_metrics():
    outputs = table_of(only_list := reduce(TEN))
    assert outputs.schema.equals(table("metrics").schema())
    rows = {(r["metric"], r["dims"]): r for r in outputs.to_pylist()}
    assert len(rows) == outputs.num_rows == 5 + 3  # five answers, and mean, outside mass, coverage
    share = rows["share", '{"answer":"3","question":"sensitive","rater":"qwen","rubric":"century"}']
    assert (share["value"], share["n"], share["coverage"], share["status"]) == (0.375, 8, 0.8, "ok")
    assert (share["low"], share["high"]) == wilson(3, 8)
    assert share["interval_method"] == "wilson 95%"
    dims = '{"question":"sensitive","rater":"qwen","rubric":"century"}'
    assert rows["mean_score", dims]["value"] == 3.625
    assert rows["coverage", dims]["value"] == 0.8
    assert rows["coverage", dims]["n"] == 10
    with pytest.raises(TableError, match="duplicate keys"):
        table_of(only_list * 2)


def test_ratings_with_a_truncated_context_are_counted():
    cut = ["article"]
    rows = [scored(3, truncated=cut), scored(4), scored(4, truncated=cut), row(status="error", truncated=cut)]
    counted = Distributions(extra=["condition"])
    counted.add(batch([*rows, *(r | {"condition": "x"} for r in rows), *[r | {"rater": "gemma"} for r in rows[1:2]]]))
    assert [d.truncated for d in counted.result()] == [0, 2, 2]
    assert [d.truncated for d in counted.without("condition").result()] == [0, 4]
    shares = [r for r in table_of(counted.result()).to_pylist() if r["metric"] == "truncated_share"]
    assert [(r["value"], r["n"], r["coverage"]) for r in shares] == [(2 / 3, 3, 0.75)] * 2


def test_ratings_of_items_without_the_text_of_their_condition_are_counted():
    marked = {"empty_context": "no article"}
    rows = [scored(3, **marked), scored(4), scored(4), scored(2), row(status="error", **marked)]
    counted = Distributions(extra=["condition"])
    counted.add(batch([*rows, *(r | {"condition": "x"} for r in rows)]))
    assert [d.empty_context for d in counted.result()] == [1, 1]
    assert [d.empty_context for d in counted.without("condition").result()] == [2]
    shares = [r for r in table_of(counted.result()).to_pylist() if r["metric"] == "empty_context_share"]
    assert [(r["value"], r["n"], r["coverage"]) for r in shares] == [(0.25, 4, 0.8)] * 2


def test_undefined_metrics_say_why():
    table = table_of(reduce([row(status="error"), row(question="kind", value="a", answers=["a"])]))
    undefined = {
        (r["metric"], json.loads(r["dims"])["question"]): (r["value"], r["status"], r["reason"])
        for r in table.to_pylist()
        if r["status"] != "ok"
    }
    assert {r["coverage"] for r in table.to_pylist() if r["status"] != "ok"} == {0.0}
    nothing = (None, "missing_input", "none of the 1 ratings is ok")
    assert undefined == {
        ("share", "sensitive"): nothing,
        ("mean_score", "sensitive"): nothing,
        ("outside_mass_mean", "sensitive"): nothing,
        ("mean_score", "kind"): (None, "skipped", "categories have no mean"),
        ("outside_mass_mean", "kind"): (None, "skipped", "the rater gave no probabilities"),
    }


ANY_ROW = st.builds(
    lambda rater, question, value, status, outside: (
        scored(value, rater=rater, question=question, outside=outside)
        if status == "ok"
        else row(rater=rater, question=question, status=status)
    ),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["x", "y"]),
    st.integers(1, 5),
    st.sampled_from(["ok", "ok", "ok", "unparsed", "error"]),
    st.sampled_from([0.0, 0.125, 0.5]),
)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_order_and_split_of_batches_change_nothing(data):
    rows = data.draw(st.lists(ANY_ROW, max_size=30))
    shuffled = data.draw(st.permutations(rows))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    counted = Distributions()
    for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        counted.add(batch(shuffled[start:end]))
    add_units(counted, batch(shuffled))
    assert counted.result() == reduce(rows)
    assert sum(d.asked for d in counted.result()) == len(rows)


def test_without_a_column_the_counts_are_those_that_never_had_it(monkeypatch):
    monkeypatch.setattr(module, "MAX_ANSWERS", 6)
    rows = [scored(1 + n % 5, condition="xyz"[n % 3], outside=n / 64, rater=f"r{n % 2}") for n in range(20)]
    rows += [row(status="refused", condition="x"), row(value="other", condition="y")]
    rows += [row(value=f"text {n}", question="free", condition="xy"[n % 2]) for n in range(9)]
    by_condition = Distributions(extra=["condition", "order"])
    by_condition.add(batch(rows))
    merged = by_condition.without("condition")
    add_units(merged, batch(rows))
    assert merged.result() == reduce(rows, extra=["order"])
