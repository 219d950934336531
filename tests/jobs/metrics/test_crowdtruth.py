"""CrowdTruth 2.0: the published figures of a real task, a task by hand, and what binning does."""

import ast
import csv

import numpy as np
import pytest

from jobs.metrics.answers import Answers
from jobs.metrics.crowdtruth import STRICT, binned, crowdtruth, task_of


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


def test_the_published_figures(published):
    found = crowdtruth(published["unit"], published["worker"], published["vectors"])
    for place, name in enumerate(published["units"]):
        row = published["of_unit"][name]
        assert found.unit[place] == pytest.approx(float(row["uqs"]), abs=1e-6)
        scores = ast.literal_eval(row["unit_annotation_score"].removeprefix("Counter(").removesuffix(")"))
        assert found.unit_annotation[place] == pytest.approx([scores["false"], scores["true"]], abs=1e-6)
    for place, name in enumerate(published["workers"]):
        row = published["of_worker"][name]
        assert found.worker[place] == pytest.approx(float(row["wqs"]), abs=1e-6)
        assert found.worker_worker[place] == pytest.approx(float(row["wwa"]), abs=1e-6)
        assert found.worker_unit[place] == pytest.approx(float(row["wsa"]), abs=1e-6)
    expected = [published["of_annotation"][name] for name in ("false", "true")]
    assert found.annotation == pytest.approx(expected, abs=1e-6)
    assert (found.rounds, found.change < 0.001) == (6, True)


def test_a_stricter_end_goes_on(published):
    found = crowdtruth(published["unit"], published["worker"], published["vectors"], stop=STRICT)
    again = crowdtruth(published["unit"], published["worker"], published["vectors"], stop=1e-12)
    assert found.change < STRICT
    assert found.rounds > 6
    assert np.abs(found.unit - again.unit).max() < 1e-8


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
    found = crowdtruth([0, 0, 1, 1], [0, 1, 0, 1], np.eye(2)[[0, 0, 1, 1]])
    assert found.unit == pytest.approx([1, 1])
    assert found.worker == pytest.approx([1, 1])
    assert found.annotation == pytest.approx([1, 1])


def test_the_first_round_by_hand():
    # unit 0: yes yes no (of 3 pairs 1 agrees); unit 1: yes yes yes. With stop above any change one round is all.
    vectors = np.eye(2)[[0, 0, 1, 0, 0, 0]]
    found = crowdtruth([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], vectors, stop=2)
    assert found.rounds == 1
    assert found.unit == pytest.approx([1 / 3, 1])
    assert found.worker_worker == pytest.approx([3 / 4, 3 / 4, 2 / 4])
    # the rest of unit 0 is (1, 1) for the two who said yes, cosine 1 / sqrt(2), and (2, 0) for the third, cosine 0
    assert found.worker_unit == pytest.approx([(2**-0.5 + 1) / 2, (2**-0.5 + 1) / 2, 1 / 2])
    # yes: of ordered pairs (i, j), how much of j's yes i shares: 1 but for (2, 0) and (2, 1), which are 1/2
    assert found.annotation == pytest.approx([5 / 6, 1e-8])


def test_five_points_become_three():
    assert binned(np.array([1.0, 2, 3, 4, 5]), 1, 5).tolist() == [0, 0, 1, 2, 2]


def test_three_different_bins_make_quality_zero():
    # Century, appendix N: disagree, neutral and agree on one item; the other items agree after binning
    answers = Answers.of([[1, 3, 5], [1, 2, 1], [4, 5, 5], [2, 1, 2]])
    figures = list(task_of(answers, ["a", "b", "c", "d"], bins=(1, 5)).figures())
    quality = {f.dims["unit"]: f.value for f in figures if f.metric == "unit_quality"}
    assert quality == pytest.approx({"a": 0, "b": 1, "c": 1, "d": 1})
    (zero,) = [f for f in figures if f.metric == "unit_quality_zero"]
    assert (zero.value, zero.n) == (1 / 4, 4)


def test_units_with_one_rating_are_left_out_and_told():
    task = task_of(Answers.of(np.array([[1, 1], [2, np.nan], [2, 2]])), ["a", "b", "c"])
    figures = list(task.figures())
    assert {f.dims["unit"] for f in figures if "unit" in f.dims} == {"a", "c"}
    (mean,) = [f for f in figures if f.metric == "unit_quality_mean"]
    assert (mean.n, mean.coverage) == (2, 4 / 6)
    (nothing,) = task_of(Answers.of([[1, np.nan]]), ["a"]).figures()
    assert nothing.reason == "no unit was rated by two raters"


@pytest.mark.parametrize(
    ("unit", "worker", "vectors", "message"),
    [
        ([0, 0], [0, 1], [[1, 0], [0, 0]], "without an annotation"),
        ([0, 1], [0, 1], [[1, 0], [1, 0]], "single judgement"),
        ([0, 0], [0], [[1, 0]], "differ"),
    ],
)
def test_what_is_refused(unit, worker, vectors, message):
    with pytest.raises(ValueError, match=message):
        crowdtruth(unit, worker, vectors)
