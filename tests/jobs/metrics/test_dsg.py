"""Scene graphs: by hand, and the published correlations of a real evaluation."""

import csv
import itertools
from collections import defaultdict

import pytest

from jobs.metrics.dsg import DsgQuestion, answered_share, dsg_metrics, is_unclear, is_yes, parents_of, score
from jobs.metrics.intervals import fisher


def named(metrics):
    return {(f.name, f.dims.get("reading"), f.dims.get("convention")): f for f in metrics}


def test_a_child_of_a_no_is_a_no_and_its_own_child_is_not():
    questions = [
        DsgQuestion("1", (), answer="no"),
        DsgQuestion("2", ("1",), answer="yes"),
        DsgQuestion("3", ("2",), answer="yes"),  # its parent's own answer is yes
        DsgQuestion("4", ("1", "2"), answer="yes"),
    ]
    assert score(questions, dependencies=False) == 3 / 4
    assert score(questions, dependencies=True) == 1 / 4


def test_a_question_without_an_answer_does_not_count_and_does_not_make_its_children_no():
    """Seven valid questions, six answered, two of them yes: 2/6 instead of 2/7, by a loop over all graphs of three."""
    answers = ["yes", "no", "no", "yes", "no", "no", None]
    seven = [DsgQuestion(str(n), answer=answer) for n, answer in enumerate(answers)]
    assert score(seven, dependencies=False) == pytest.approx(2 / 6)
    assert score(seven, dependencies=False, convention="published") == pytest.approx(2 / 7)
    assert answered_share(seven) == pytest.approx(6 / 7)
    for first, second, third in itertools.product(("yes", "no", None), repeat=3):
        chain = [DsgQuestion("1", answer=first), DsgQuestion("2", ("1",), answer=second),
                 DsgQuestion("3", ("1", "2"), answer=third)]  # fmt: skip
        answer_of = {"1": first, "2": second, "3": third}
        hits: dict[str, list[bool]] = {"answered": [], "published": []}
        for question in chain:
            answer, above = answer_of[question.question], [answer_of[parent] for parent in question.parents]
            if answer is not None:
                hits["answered"].append(answer == "yes" and "no" not in above)
            hits["published"].append(answer == "yes" and all(of_parent == "yes" for of_parent in above))
        for convention, of_convention in hits.items():
            expected = None if (first, second, third) == (None,) * 3 else sum(of_convention) / len(of_convention)
            assert score(chain, dependencies=True, convention=convention) == expected, (first, second, third)


def test_invalid_missing_and_odd():
    questions = [
        DsgQuestion("1", answer="yes"),
        DsgQuestion("2", valid=False, answer="no"),
        DsgQuestion("3", answer=None),
    ]
    assert score(questions, dependencies=True) == 1  # neither the one without an answer nor the invalid one counts
    assert score(questions, dependencies=True, convention="published") == 1 / 2  # the first of them is no
    assert score([DsgQuestion("1")], dependencies=True) is None
    assert score([DsgQuestion("1", valid=False, answer="yes")], dependencies=True) is None
    assert score([], dependencies=False) is None
    assert score([DsgQuestion("2", ("9",), answer="yes")], dependencies=True) == 1  # a parent that is not a question
    assert [is_yes(a) for a in ("yes", " Yes. ", "no", "yes, two", None, "")] == [
        True,
        True,
        False,
        False,
        False,
        False,
    ]
    assert [is_yes(a) for a in ("YES", "Y", "true", "TRUE", "1", "1.0", "0", "False", "n")] == [True] * 6 + [False] * 3
    assert [is_unclear(a) for a in ("two", "yes, two", "", "No.", "0", "TRUE", None)] == [True] * 3 + [False] * 4
    assert [parents_of(x) for x in ("[1, 2]", "['1']", "1.0", "-1", "None", "nan", "0.0")] == [
        ("1", "2"),
        ("1",),
        ("1",),
        (),
        (),
        (),
        (),
    ]
    assert parents_of("1, outside") == ("1", "outside")
    assert [parents_of(x) for x in ("0", "", None, "1,2", ["3", "0"])] == [(), (), (), ("1", "2"), ("3",)]


def test_conventions_of_coverage():
    pictures = {"a": [DsgQuestion("1", answer="yes")], "b": [DsgQuestion("1", answer="no")], "c": []}
    metrics = named(dsg_metrics(pictures, {}))
    assert metrics["dsg_score", "with dependencies", "answered"].value == 1 / 2
    assert metrics["dsg_score", "with dependencies", "published"].value == pytest.approx(1 / 3)
    assert metrics["dsg_score", "with dependencies", "answered"].coverage == pytest.approx(2 / 3)
    unanswered = {**pictures, "c": [DsgQuestion("1"), DsgQuestion("2")]}
    counts = [metric for metric in dsg_metrics(unanswered, {}) if metric.name in ("dsg_invalid", "dsg_unclear")]
    assert [metric.coverage for metric in counts] == [1 / 2, 1 / 2]


def test_counts_of_invalid_and_unclear_answers_and_correlations_by_hand():
    pictures = {
        "a": [DsgQuestion("1", answer="two"), DsgQuestion("2", answer="maybe", valid=False)],
        "b": [DsgQuestion("1", answer="Yes!"), DsgQuestion("2", answer="n.")],
        "c": [DsgQuestion("1", answer="yes"), DsgQuestion("2")],
        "d": [DsgQuestion("1", answer="t")],
    }
    for convention, value in (("answered", 2.5 / 4), ("published", 2 / 5)):
        of_all = named(dsg_metrics({**pictures, "none": []}, {}))["dsg_score", "with dependencies", convention]
        assert of_all.value == pytest.approx((0 + 1 / 2 + 1 + 0) / 4 if convention == "answered" else 1 / 5)
        assert of_all.coverage == pytest.approx(3.5 / 5), value
    metrics = named(dsg_metrics(pictures, {"a": 1.0, "b": 2.0, "c": 3.0, "gone": 5.0}))
    invalid, unclear = metrics["dsg_invalid", None, None], metrics["dsg_unclear", None, None]
    assert (invalid.value, invalid.n, invalid.coverage) == (1, 7, 6 / 7)
    assert (unclear.value, unclear.n) == (2, 5)
    ranks = metrics["dsg_spearman", "with dependencies", "answered"]
    assert (ranks.value, ranks.n, ranks.coverage) == (pytest.approx(1), 3, 2.5 / 4)  # c's only answer is yes
    assert metrics["dsg_spearman", "with dependencies", "published"].n == 4
    assert metrics["dsg_score", "with dependencies", "answered"].coverage == pytest.approx(3.5 / 5)
    few = named(dsg_metrics({"a": pictures["a"], "b": pictures["b"]}, {"a": 1.0, "b": 2.0}))
    undefined = few["dsg_kendall", "with dependencies", "answered"]
    assert (undefined.value, undefined.n, undefined.coverage) == (None, 2, 1.0)
    nothing = named(dsg_metrics({}, {}))
    assert {metric.value for metric in nothing.values()} == {None, 0}
    assert len(nothing) == 2 + 4  # the counts, and the undefined score of each reading and convention


def test_intervals_are_of_their_correlation_and_of_pictures():
    asked = [f"i{number}" for number in range(6)]
    answers = [(1, 1), (1, 1), (1, 0), (0, 0), (0, 1), (0, 0)]
    pictures = {
        name: [DsgQuestion(str(place), answer="yes" if yes else "no") for place, yes in enumerate(of_picture)]
        for name, of_picture in zip(asked, answers, strict=True)
    }
    metrics = named(dsg_metrics(pictures, dict(zip(asked, (5.0, 4, 4, 2, 1, 3), strict=True))))
    for kind in ("spearman", "kendall"):
        metric = metrics[f"dsg_{kind}", "with dependencies", "answered"]
        interval = fisher(metric.value, 6, kind=kind)
        assert (metric.low, metric.high, metric.interval_method) == (interval.low, interval.high, interval.method)
        assert f"{kind.capitalize()} correlation of the pictures' score, with dependencies" in metric.definition
        assert "without pictures that have no answer" in metric.definition
    score_of_all = metrics["dsg_score", "without dependencies", "published"]
    assert (score_of_all.value, score_of_all.n) == (0.5, 6)
    assert score_of_all.low < 0.5 < score_of_all.high
    assert "without dependencies (DSG, Cho et al. 2024), pictures without an answer score 0" in score_of_all.definition
    few = named(dsg_metrics({name: pictures[name] for name in asked[:4]}, {}))
    reason = few["dsg_score", "with dependencies", "answered"].reason
    assert reason == "no interval: fewer than 5 pictures (4)"
    nothing = named(dsg_metrics({"a": []}, {}))["dsg_score", "with dependencies", "answered"]
    assert (nothing.status, nothing.reason, nothing.coverage) == ("missing_input", "no picture has an answer", 0)


def test_the_published_correlations(data):
    folder = data / "dsg"
    pictures, likert = defaultdict(list), defaultdict(list)
    with (folder / "tifa160-likert-anns.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            likert[f"{row['t2i_model']} {row['item_id']}"].append(float(row["answer"]))
    with (folder / "mplug_dsg.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if (key := f"{row['t2i_model']} {row['item_id']}") in likert:
                asked = DsgQuestion(row["question_id"], parents_of(row["dependency_id"]), answer=row["answer"])
                pictures[key].append(asked)
    metrics = named(dsg_metrics(pictures, {key: sum(s) / len(s) for key, s in likert.items()}))
    published = {
        ("dsg_spearman", "with dependencies"): 0.463,
        ("dsg_kendall", "with dependencies"): 0.380,
        ("dsg_spearman", "without dependencies"): 0.464,
        ("dsg_kendall", "without dependencies"): 0.378,
    }
    for (name, reading), value in published.items():
        metric = metrics[name, reading, "published"]
        assert round(metric.value, 3) == value
        assert (metric.n, metric.coverage) == (800, 795 / 800)
        assert metrics[name, reading, "answered"].n == 795
