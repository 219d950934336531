"""CrowdTruth 2.0: the published metrics of a real task, a task by hand, and what binning does."""

import ast
import csv
import itertools
import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from jobs.metrics.answers import RatingTable
from jobs.metrics.crowdtruth import STRICT, binned, crowdtruth, task_of
from tests.cases import check_cases


@pytest.fixture(scope="module")
def published(data):
    folder = data / "crowdtruth"

    def rows(name):
        with (folder / name).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    judged = rows("relex-binary-choice.csv")
    units = sorted({r["_unit_id"] for r in judged})
    workers = sorted({r["_worker_id"] for r in judged})
    return {
        "unit": [units.index(r["_unit_id"]) for r in judged],
        "worker": [workers.index(r["_worker_id"]) for r in judged],
        "vectors": np.eye(2)[[int(r["top_member_employee"] == "TRUE") for r in judged]],
        "units": units,
        "workers": workers,
        "of_unit": {r["unit"]: r for r in rows("binary-relex-units.csv")},
        "of_worker": {r["worker"]: r for r in rows("binary-relex-workers.csv")},
        "of_annotation": {r[""]: float(r["aqs"]) for r in rows("binary-relex-annotations.csv")},
    }


def test_the_published_metrics(published):
    measures = crowdtruth(published["unit"], published["worker"], published["vectors"])
    for place, name in enumerate(published["units"]):
        row = published["of_unit"][name]
        assert measures.unit[place] == pytest.approx(float(row["uqs"]), abs=1e-6)
        scores = ast.literal_eval(row["unit_annotation_score"].removeprefix("Counter(").removesuffix(")"))
        assert measures.unit_annotation[place] == pytest.approx([scores["false"], scores["true"]], abs=1e-6)
    for place, name in enumerate(published["workers"]):
        row = published["of_worker"][name]
        assert measures.worker[place] == pytest.approx(float(row["wqs"]), abs=1e-6)
        assert measures.worker_worker[place] == pytest.approx(float(row["wwa"]), abs=1e-6)
        assert measures.worker_unit[place] == pytest.approx(float(row["wsa"]), abs=1e-6)
    expected = [published["of_annotation"][name] for name in ("false", "true")]
    assert measures.annotation == pytest.approx(expected, abs=1e-6)
    assert (measures.rounds, measures.change < 0.001) == (6, True)


def plainly(rows, stop):
    """CrowdTruth 2.0 as its formulas read: rows are (unit, worker, set of annotations). Slow, and of nothing shared."""
    units, workers = sorted({u for u, _, _ in rows}), sorted({w for _, w, _ in rows})
    labels = sorted({a for _, _, picked in rows for a in picked})
    picked = {(u, w): p for u, w, p in rows}
    of_unit = {u: [w for w in workers if (u, w) in picked] for u in units}
    of_worker = {w: [u for u in units if (u, w) in picked] for w in workers}
    uqs, wqs, aqs = dict.fromkeys(units, 1.0), dict.fromkeys(workers, 1.0), dict.fromkeys(labels, 1.0)

    def cosine(one, other):
        over = sum(aqs[a] * one.get(a, 0) * other.get(a, 0) for a in labels)
        lengths = [sum(aqs[a] * v.get(a, 0) ** 2 for a in labels) for v in (one, other)]
        return over / math.sqrt(lengths[0] * lengths[1]) if math.sqrt(lengths[0] * lengths[1]) >= 1e-8 else 1e-8

    def mean(pairs):
        pairs = list(pairs)
        return sum(v * weight for v, weight in pairs) / max(sum(weight for _, weight in pairs), 1e-8)

    def vector(u, w, weight=1.0):
        return dict.fromkeys(picked[u, w], weight)

    def rest(u, w):
        total: Counter[str] = Counter()
        for other in of_unit[u]:
            if other != w:
                total.update(vector(u, other, wqs[other]))
        return total

    def quality(a):
        terms = []
        for i, j in itertools.permutations(workers, 2):
            common = [u for u in of_worker[i] if u in of_worker[j]]
            if under := sum(uqs[u] * (a in picked[u, j]) for u in common):
                both = sum(uqs[u] * (a in picked[u, i]) * (a in picked[u, j]) for u in common)
                terms.append((both / under, wqs[i] * wqs[j]))
        return max(mean(terms), 1e-8)

    change = 1.0
    while change >= stop:
        new_u = {u: mean((cosine(vector(u, i), vector(u, j)), wqs[i] * wqs[j])
                         for i, j in itertools.combinations(of_unit[u], 2)) for u in units}  # fmt: skip
        wwa = {w: mean((cosine(vector(u, w), vector(u, o)), wqs[o] * uqs[u])
                       for u in of_worker[w] for o in of_unit[u] if o != w) for w in workers}  # fmt: skip
        wua = {w: mean((cosine(vector(u, w, wqs[w]), rest(u, w)), uqs[u]) for u in of_worker[w]) for w in workers}
        new = new_u, {w: wwa[w] * wua[w] for w in workers}, {a: quality(a) for a in labels}
        change = max(abs(n[k] - o[k]) for n, o in zip(new, (uqs, wqs, aqs), strict=True) for k in n)
        uqs, wqs, aqs = new
    uas = {(u, a): mean((a in picked[u, w], wqs[w]) for w in of_unit[u]) for u in units for a in labels}
    return {"unit": uqs, "worker": wqs, "wwa": wwa, "wua": wua, "annotation": aqs, "uas": uas}


def test_random_tasks_are_what_the_formulas_give():
    """Single and multiple choice, few and many workers; the package CrowdTruth-core 2.1 gave the same on sixty such."""

    def check(seed):
        draw = random.Random(seed)
        labels = ["left", "ärgerlich", "none", "東"][: draw.randint(2, 4)]
        rows = []
        for u in range(draw.randint(2, 9)):
            crowd = draw.randint(2, 8)
            for w in draw.sample(range(9), crowd):
                often = labels[:1] if draw.random() < 0.5 else labels
                rows.append((u, w, frozenset(draw.sample(often, draw.randint(1, len(often)) if seed % 2 else 1))))
        units, workers = sorted({u for u, _, _ in rows}), sorted({w for _, w, _ in rows})
        used = sorted({a for _, _, picked in rows for a in picked})
        vectors = [[float(a in picked) for a in used] for _, _, picked in rows]
        at = crowdtruth([units.index(u) for u, _, _ in rows], [workers.index(w) for _, w, _ in rows], vectors)
        expected = plainly(rows, 0.001)
        measures: dict[str, tuple[Any, list[Any]]] = {
            "unit": (at.unit, units),
            "worker": (at.worker, workers),
            "wwa": (at.worker_worker, workers),
            "wua": (at.worker_unit, workers),
            "annotation": (at.annotation, used),
        }
        for name, (result, keys) in measures.items():
            assert result == pytest.approx([expected[name][key] for key in keys], abs=1e-9), name
        scores = [[expected["uas"][u, a] for a in used] for u in units]
        assert at.unit_annotation == pytest.approx(np.array(scores), abs=1e-9)

    check_cases(check, range(12))


def test_a_smaller_stop_needs_more_rounds(published):
    measures = crowdtruth(published["unit"], published["worker"], published["vectors"], stop=STRICT)
    again = crowdtruth(published["unit"], published["worker"], published["vectors"], stop=1e-12)
    assert measures.change < STRICT
    assert measures.rounds > 6
    assert np.abs(measures.unit - again.unit).max() < 1e-8


def test_names_and_order_change_nothing(published):
    draw = np.random.default_rng(0)
    order = draw.permutation(len(published["unit"]))
    rename = draw.permutation(len(published["workers"]))
    one = crowdtruth(published["unit"], published["worker"], published["vectors"])
    two = crowdtruth(
        np.array(published["unit"])[order], rename[np.array(published["worker"])][order], published["vectors"][order]
    )
    assert one.unit == pytest.approx(two.unit, abs=1e-12)
    assert one.worker == pytest.approx(two.worker[rename], abs=1e-12)


def test_unanimous_units_are_perfect():
    measures = crowdtruth([0, 0, 1, 1], [0, 1, 0, 1], np.eye(2)[[0, 0, 1, 1]])
    assert measures.unit == pytest.approx([1, 1])
    assert measures.worker == pytest.approx([1, 1])
    assert measures.annotation == pytest.approx([1, 1])


def test_the_first_round_by_hand():
    # unit 0: yes yes no (of 3 pairs 1 agrees); unit 1: yes yes yes. With stop above any change one round is all.
    vectors = np.eye(2)[[0, 0, 1, 0, 0, 0]]
    measures = crowdtruth([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], vectors, stop=2)
    assert measures.rounds == 1
    assert measures.unit == pytest.approx([1 / 3, 1])
    assert measures.worker_worker == pytest.approx([3 / 4, 3 / 4, 2 / 4])
    # the rest of unit 0 is (1, 1) for the two who said yes, cosine 1 / sqrt(2), and (2, 0) for the third, cosine 0
    assert measures.worker_unit == pytest.approx([(2**-0.5 + 1) / 2, (2**-0.5 + 1) / 2, 1 / 2])
    # yes: of ordered pairs (i, j), how much of j's yes i shares: 1 but for (2, 0) and (2, 1), which are 1/2
    assert measures.annotation == pytest.approx([5 / 6, 1e-8])


def test_five_points_become_three():
    assert binned(np.array([1.0, 2, 3, 4, 5]), 1, 5).tolist() == [0, 0, 1, 2, 2]


def test_three_different_bins_make_quality_zero():
    # Century, appendix N: disagree, neutral and agree on one item; the other items agree after binning
    answers = RatingTable.from_matrix([[1, 3, 5], [1, 2, 1], [4, 5, 5], [2, 1, 2]])
    metrics = list(task_of(answers, ["a", "b", "c", "d"], bins=(1, 5)).metrics())
    quality = {f.dims["unit"]: f.value for f in metrics if f.name == "unit_quality"}
    assert quality == pytest.approx({"a": 0, "b": 1, "c": 1, "d": 1})
    (zero,) = [f for f in metrics if f.name == "unit_quality_zero"]
    assert (zero.value, zero.n) == (1 / 4, 4)


def test_answers_without_a_score_count_only_where_answers_are_the_annotations():
    answers = RatingTable.from_matrix([[1, 5, 5], [1, 1, 5]])
    answers.score[1] = np.nan  # an answer such as "other", which is not on the scale

    def raters_of_a(task):
        return {f.n for f in task.metrics() if f.name == "unit_quality" and f.dims["unit"] == "a"}

    assert raters_of_a(task_of(answers, ["a", "b"])) == {3}
    assert raters_of_a(task_of(answers, ["a", "b"], bins=(1, 5))) == {2}


def test_annotations_that_nobody_shares_make_every_quality_zero():
    """Each then has the lowest quality, and so the length of every vector is the lowest that counts."""
    metrics = list(task_of(RatingTable.from_matrix([[1, 2], [3, 4]]), ["a", "b"]).metrics())
    assert [f.value for f in metrics if f.name in ("unit_quality", "worker_quality")] == [0, 0, 0, 0]
    assert [f.value for f in metrics if f.name == "annotation_quality"] == [1e-8] * 4
    (zero,) = [f for f in metrics if f.name == "unit_quality_zero"]
    assert (zero.value, zero.n, zero.high) == (1, 2, 1)


def test_units_with_one_rating_are_left_out_and_lower_the_coverage():
    task = task_of(RatingTable.from_matrix(np.array([[1, 1], [2, np.nan], [2, 2]])), ["a", "b", "c"])
    metrics = list(task.metrics())
    assert {f.dims["unit"] for f in metrics if "unit" in f.dims} == {"a", "c"}
    (mean,) = [f for f in metrics if f.name == "unit_quality_mean"]
    assert (mean.n, mean.coverage) == (2, 4 / 6)
    summary = {f.name: (f.n, f.coverage) for f in metrics if f.name in ("worker_quality_mean", "crowdtruth_rounds")}
    assert summary == {"worker_quality_mean": (2, 4 / 6), "crowdtruth_rounds": (4, 4 / 6)}
    share = {f.dims["rater"]: (f.n, f.coverage) for f in metrics if f.name == "worker_quality"}
    assert share == {"r0": (2, 2 / 3), "r1": (2, 2 / 3)}
    (nothing,) = task_of(RatingTable.from_matrix([[1, np.nan]]), ["a"]).metrics(dims={"of": "x"})
    assert (nothing.reason, nothing.coverage) == ("no unit was rated by two raters", 0.0)
    assert nothing.dims == {"of": "x"}


@pytest.mark.parametrize(
    ("unit", "worker", "vectors", "message"),
    [
        ([0, 0], [0, 1], [[1, 0], [0, 0]], "vectors"),
        ([0, 1], [0, 1], [[1, 0], [1, 0]], "single judgement"),
        ([0, 0], [0], [[1, 0]], "differ"),
    ],
)
def test_what_is_refused(unit, worker, vectors, message):
    with pytest.raises(ValueError, match=message):
        crowdtruth(unit, worker, vectors)


def test_without_judgements_there_are_no_qualities():
    qualities = crowdtruth([], [], np.empty((0, 2)))
    assert (len(qualities.unit), len(qualities.worker), qualities.unit_annotation.shape) == (0, 0, (0, 2))


def test_a_crowd_that_never_settles_is_undefined_and_no_crash(monkeypatch):
    """Random answers of raters who share little swing between two states for ever, in the reference too."""
    monkeypatch.setattr("jobs.metrics.crowdtruth.MAX_ROUNDS", 1)
    task = task_of(RatingTable.from_matrix(np.array([[1, 2, 3], [1, 1, 2], [1, np.nan, np.nan]])), ["a", "b", "c"])
    (metric,) = task.metrics(dims={"of": "x"})
    assert (metric.value, metric.n, metric.coverage, metric.status) == (None, 2, 6 / 9, "skipped")
    assert metric.dims == {"of": "x"}
    assert str(metric.reason).startswith("no convergence within 1 rounds")
