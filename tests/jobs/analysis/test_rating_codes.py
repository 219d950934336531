"""Ratings as codes: what goes in comes out, whatever the batches, samples, targets and answers."""

import numpy as np
import pyarrow as pa
import pytest

from jobs.analysis import rating_codes
from jobs.analysis.rating_codes import Reduction
from jobs.metrics import answers
from jobs.metrics.answers import MAX_LEVELS, POWERS, RatingTable
from jobs.metrics.reliability import pairwise_correlations
from jobs.store.hashing import hash_texts
from jobs.tables import table
from tests.factories import rating


def batch(rows):
    return pa.Table.from_pylist(rows, schema=table("ratings").schema())


def reduced(rows, *, size=None, by=(), **variant):
    with Reduction(by=by) as output:
        for first in range(0, len(rows), size or len(rows)):
            output.add(batch(rows[first : first + (size or len(rows))]))
        return {key: output.question(key, **variant) for key in output.keys}


ROWS = [rating(f"i{i}", r, q, str(1 + (i * 3 + len(r) + len(q)) % 5)) for i in range(20)
        for r in ("p1", "p22", "m333") for q in ("a", "bb")]  # fmt: skip


@pytest.mark.parametrize("size", [None, 1, 7])
def test_the_matrix_is_the_table_whatever_the_batches(size):
    reduced_rows = reduced(ROWS, size=size)
    assert sorted(reduced_rows) == [("r", "a"), ("r", "bb")]
    one = reduced_rows["r", "bb"]
    answers = one.answers
    assert answers.raters == ("m333", "p1", "p22") or sorted(answers.raters) == ["m333", "p1", "p22"]
    place = {hashed: i for i, hashed in enumerate(one.item.tolist())}
    matrix = answers.matrix()
    for row in ROWS:
        if row["question"] == "bb":
            (hashed,) = hash_texts([row["item_id"]]).tolist()
            assert matrix[place[hashed], answers.raters.index(row["rater"])] == row["score"]
    assert answers.asked.tolist() == [20, 20, 20]
    assert answers.items == 20


@pytest.mark.parametrize("part", [7, 40])
def test_parts_of_a_large_question_are_the_question(monkeypatch, part):
    rows = [row | {"target": ("", "x")[n % 2]} for n, row in enumerate(ROWS)]
    rows += [rating("i3", "p1", "a", "5", sample=1), rating("i4", "p22", "a", None, sample=2)]
    countries = {"p1": "India"}
    whole = reduced(rows, countries=countries)["r", "a"]
    monkeypatch.setattr(rating_codes, "CHUNK", part)
    parts = reduced(rows, countries=countries)["r", "a"]
    for name in ("item", "rater", "value", "score", "asked"):
        assert getattr(parts.answers, name).tolist() == getattr(whole.answers, name).tolist(), name
    assert (parts.item.tolist(), parts.target.tolist()) == (whole.item.tolist(), whole.target.tolist())
    assert parts.ended == whole.ended
    assert (parts.statuses, parts.double, parts.answers.items) == (whole.statuses, whole.double, whole.answers.items)


@pytest.mark.parametrize("rows_at_a_time", [1, 5])
def test_stretches_of_the_items_count_what_all_do(monkeypatch, rows_at_a_time):
    draw = np.random.default_rng(2)
    matrix = np.where(draw.random((30, 6)) < 0.4, np.nan, draw.integers(1, 6, (30, 6)).astype(float))
    matrix[10:14] = np.nan  # items without answers, at a border too
    matrix[-1] = np.nan
    one = RatingTable.from_matrix(matrix)
    whole = [one.per_item(), one.levels(), *one.counts(), *one.counts(by="value"), *one.means()]
    whole_pairs = [metric.value for metric in pairwise_correlations(one)]
    monkeypatch.setattr(answers, "ROWS_AT_A_TIME", rows_at_a_time)
    parts = [one.per_item(), one.levels(), *one.counts(), *one.counts(by="value"), *one.means()]
    for mine, theirs in zip(parts, whole, strict=True):
        assert np.array_equal(mine, theirs, equal_nan=True)
    assert np.array_equal(whole[0], (~np.isnan(matrix)).sum(1))
    by_hand = [np.mean(row[~np.isnan(row)]) if (~np.isnan(row)).any() else np.nan for row in matrix]
    assert whole[6].tolist() == pytest.approx(by_hand, nan_ok=True)
    assert [metric.value for metric in pairwise_correlations(one)] == pytest.approx(whole_pairs, abs=1e-12)


def test_what_is_not_ok_is_asked_and_not_answered():
    reduced_rows = reduced([rating("i", "p1", "q", "4"), rating("i", "p2", "q", None), rating("j", "p2", "q", None)])[
        "r", "q"
    ]
    assert (reduced_rows.answers.n, reduced_rows.answers.items, dict(reduced_rows.statuses)) == (
        1,
        2,
        {"ok": 1, "unparsed": 2},
    )
    assert reduced_rows.answers.coverage == 1 / 3
    assert reduced_rows.ended == {"p1": {"ok": 1}, "p2": {"unparsed": 2}}
    assert reduced_rows.double == 1


def test_samples_are_one_answer():
    rows = [rating("i", "m", "q", v, sample=s) for s, v in ((1, "5"), (0, "2"), (2, "5"))]
    answers = reduced(rows)["r", "q"].answers
    assert answers.n == 1
    assert answers.score.tolist() == [4.0]
    assert answers.values[answers.value[0]] == "2"  # of the lowest sample
    assert answers.asked.tolist() == [1]


def test_conditions_are_apart_if_asked_for():
    rows = [rating("i", "m", "q", "1", condition="x"), rating("i", "m", "q", "3", condition="y")]
    assert [r.answers.score.tolist() for r in reduced(rows).values()] == [[2.0]]
    assert {key: r.answers.score.tolist() for key, r in reduced(rows, by=("condition",)).items()} == {
        ("r", "q", "x"): [1.0],
        ("r", "q", "y"): [3.0],
    }


def test_answers_are_in_the_rubrics_order():
    rows = [rating("i", "p", "q", "zebra"), rating("j", "p", "q", "ape"), rating("k", "p", "q", "new")]
    reduced_rows = reduced(rows, order=["zebra", "never", "ape"])["r", "q"].answers
    assert reduced_rows.values == ("zebra", "never", "ape", "new")
    assert sorted(reduced_rows.value.tolist()) == [0, 2, 3]


def test_free_text_is_not_a_closed_set():
    rows = [rating(f"i{n}", "p", "q", f"text {n}") for n in range(MAX_LEVELS + 5)]
    reduced_rows = reduced(rows)["r", "q"].answers
    assert reduced_rows.values == ()
    assert set(reduced_rows.value.tolist()) == {-1}


def test_people_of_a_country_rate_that_country():
    rows = [rating("i", "m", "q", "5", target="India"), rating("i", "m", "q", "1", target="Brazil"),
            rating("i", "p1", "q", "4"), rating("i", "p2", "q", "2")]  # fmt: skip
    reduced_rows = reduced(rows, countries={"p1": "India", "p2": "Brazil"})["r", "q"]
    assert reduced_rows.answers.items == 2
    by_target = {reduced_rows.targets[code]: i for i, code in enumerate(reduced_rows.target)}
    matrix = reduced_rows.answers.matrix()
    columns = [reduced_rows.answers.raters.index(r) for r in ("m", "p1", "p2")]
    assert matrix[by_target["India"], columns][:2].tolist() == [5, 4]
    assert matrix[by_target["Brazil"], columns][[0, 2]].tolist() == [1, 2]


def test_people_without_a_condition_rate_their_country_under_each():
    rows = [rating("i", "m", "q", "5", target="India", condition="x"), rating("i", "p1", "q", "4"),
            rating("i", "p2", "q", "2")]  # fmt: skip
    with Reduction(by=["condition"]) as reduction:
        reduction.add(batch(rows))
        people, of_model = reduction.keys
        joined = reduction.question(of_model, shared={people: {"p1"}}, countries={"p1": "India", "p2": "India"})
    assert [joined.targets[code] for code in joined.target] == ["India"]
    assert sorted(joined.answers.raters[code] for code in joined.answers.rater) == ["m", "p1"]


def test_hashes_are_stable_and_apart():
    ids = [f"{i:032x}" for i in range(5000)]
    assert len(np.unique(hash_texts(ids))) == 5000
    assert hash_texts(["a"]).tolist() == hash_texts(pa.array(["a"])).tolist()


def test_the_folder_is_gone_afterwards():
    with Reduction() as reduction:
        reduction.add(batch(ROWS))
        folder = reduction.folder
        assert any(folder.iterdir())
    assert not folder.exists()


def test_the_versions_of_a_rater_take_the_place_of_raters(monkeypatch):
    rows = [rating(f"i{i}", "m", "a", str(1 + i % 5), method="closed", order="paper") for i in range(6)]
    rows += [rating(f"i{i}", "m", "a", str(1 + (i + 1) % 5), method="json", order="both") for i in range(1, 4)]
    rows += [rating("i0", "n", "a", "5", method="closed", order="paper")]
    for chunk in (rating_codes.CHUNK, 4):
        monkeypatch.setattr(rating_codes, "CHUNK", chunk)
        with Reduction() as output:
            output.add(batch(rows))
            assert output.versions_of(("r", "a")) == {
                "m": {("closed", "paper"), ("json", "both")},
                "n": {("closed", "paper")},
            }
            assert output.methods_of(("r", "a")) == {"m": {"closed", "json"}, "n": {"closed"}}
            question = output.question(("r", "a"), versions_of="m")
        assert sorted(question.answers.raters) == ["closed paper", "json both"]
        by_version = dict(zip(question.answers.raters, question.answers.matrix().T, strict=True))
        place = [question.item.tolist().index(hashed) for hashed in hash_texts([f"i{i}" for i in range(6)]).tolist()]
        assert by_version["closed paper"][place].tolist() == [1, 2, 3, 4, 5, 1]
        assert by_version["json both"][place][1:4].tolist() == [3, 4, 5]
        assert np.isnan(by_version["json both"][place][[0, 4, 5]]).all()


def test_the_probabilities_of_the_lowest_sample_are_kept():
    rows = [rating("i1", "m", "q", "1", probabilities=[0.75, 0.25], sample=0),
            rating("i1", "m", "q", "2", probabilities=[0.1, 0.9], sample=1),
            rating("i2", "m", "q", "1", probabilities=[]), rating("i3", "m", "q", "1"),
            rating("i4", "m", "q", "3", probabilities=[0.25, 0.25, 0.5])]  # fmt: skip
    one = reduced(rows)["r", "q"]
    kept = dict(zip(one.item[one.answers.item].tolist(), one.answers.others, strict=True))
    # of the answers that are not the most probable one: probability / its probability
    shares = {"i1": [1 / 3], "i2": [np.nan], "i3": [np.nan], "i4": [0.5, 0.5]}
    for name, of_others in shares.items():
        expected = [np.log(sum(share**power for share in of_others)) for power in POWERS]
        np.testing.assert_allclose(kept[hash_texts([name])[0]], expected, atol=1e-6)
    people = reduced([rating("i1", "p1", "q", "1")])["r", "q"]
    assert np.isnan(people.answers.others).all()
