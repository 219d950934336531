"""Metrics of ratings under several conditions: each condition's own, with people and gold in every one."""

import json

import pytest

from jobs.errors import InputError
from jobs.metrics.rated_question import MetricSettings
from jobs.runtime.command_line import cli
from tests.factories import FIVE, rating, rows_of, write_file

pytestmark = pytest.mark.usefixtures("without_plots")
ITEMS = [f"i{n}" for n in range(8)]
TRUTH = [1, 2, 3, 4, 5, 1, 3, 5]
ARTICLE = [1, 2, 3, 4, 5, 2, 3, 5]  # one above people's in i5
NONE = [3, 3, 3, 3, 5, 3, 1, 3]


def ratings(rater, scores, condition="", **columns):
    return [rating(item, rater, "q", str(score), condition=condition, **columns)
            for item, score in zip(ITEMS, scores, strict=True)]  # fmt: skip


def metrics(folder, tables, *keys):
    """Return the report's metrics as (name, dims, row)."""
    places = [write_file(folder / f"t{number}", "ratings", rows, rubric=FIVE) for number, rows in enumerate(tables)]
    assert cli.main("report", [f"ratings=[{','.join(places)}]", f"out={folder}/out", *keys]) == 0
    return [(row["metric"], json.loads(row["dims"]), row) for row in rows_of(f"{folder}/out/metrics")]


def values(result, name, **dims):
    """condition -> value of the metrics with that name and dims."""
    return {d.get("condition"): row["value"] for n, d, row in result if n == name and dims.items() <= d.items()}


def test_people_and_gold_without_a_condition_count_under_each(tmp_path):
    people = [ratings("p1", TRUTH), ratings("p2", TRUTH)]
    gold = ratings("expert", [5 * (score >= 4) for score in TRUTH], method="gold")
    judged = [ratings("m@1", ARTICLE, "article"), ratings("m@1", NONE, "none")]
    results = metrics(tmp_path, [*people, gold, *judged])
    assert values(results, "group_mean_score", group="m@1") == {"article": 25 / 8, "none": 24 / 8}
    assert values(results, "group_mean_score", group="people") == {"article": 3, "none": 3}
    exact = {"rater": "m@1", "deviation": "0"}
    assert values(results, "deviation_share", **exact) == {"article": 14 / 16, "none": 4 / 16}
    assert set(values(results, "f1", group="m@1", average="micro")) == {"article", "none"}
    assert values(results, "alpha", group="people", level="ordinal") == {"article": 1, "none": 1}
    # each rater's distribution has the condition of its rows
    assert values(results, "mean_score", rater="m@1") == {"article": 25 / 8, "none": 24 / 8}
    assert values(results, "mean_score", rater="p1") == {"": 3}
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "m@1 · condition article" in page


def test_changes_between_conditions_are_paired(tmp_path):
    gold = ratings("expert", [5 * (score >= 4) for score in TRUTH], method="gold")
    tables = [ratings("p1", TRUTH), gold, ratings("m@1", ARTICLE, "article"), ratings("m@1", NONE, "none")]
    results = metrics(tmp_path, tables)
    by_item = {(name, dims.get("threshold")): (dims, row) for name, dims, row in results if name.endswith("_change")}
    dims, row = by_item["score_change", None]
    assert dims == {"rubric": "r", "question": "q", "group": "m@1", "first": "article", "second": "none"}
    assert (row["value"], row["n"], row["coverage"]) == (-1 / 8, 8, 1)
    assert row["low"] < row["value"] < row["high"]
    assert by_item["share_at_least_change", "4"][1]["value"] == (1 - 3) / 8
    f1 = {d["average"]: r["value"] for n, d, r in results if n == "f1_change" and d["positive"] == ">=4"}
    assert f1["micro"] == 2 * 1 / (2 * 1 + 2) - 1  # none finds one of three positives, article all
    assert by_item["pearson_with_people_change", None][1]["value"] < 0
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Changes between conditions" in page
    assert "article → none" in page


def test_with_many_conditions_a_baseline_is_needed(tmp_path):
    tables = [ratings("m@1", TRUTH[n:] + TRUTH[:n], name) for n, name in enumerate(("", *"abcd"))]
    results = metrics(tmp_path, tables)
    (change,) = [row for name, _, row in results if name.endswith("_change")]
    assert change["value"] is None
    assert "metrics.baseline_condition" in change["reason"]
    results = metrics(tmp_path / "b", tables, "metrics.baseline_condition=b")
    pairs = {(dims["first"], dims["second"]) for name, dims, _ in results if name == "score_change"}
    assert pairs == {("b", other) for other in ("", "a", "c", "d")}
    results = metrics(tmp_path / "c", tables, "metrics.baseline_condition=''")
    assert {dims["first"] for name, dims, _ in results if name == "score_change"} == {""}
    assert "no condition → a" in (tmp_path / "c" / "out" / "index.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match=r"metrics.baseline_condition=x: .* 'a', 'b', 'c', 'd'"):
        cli.execute("report", [f"ratings=[{tmp_path}/t*]", "metrics.baseline_condition=x", f"out={tmp_path}/no"])
    assert not (tmp_path / "no").exists()


def test_people_with_conditions_stay_in_theirs(tmp_path):
    tables = [ratings("p1", TRUTH), ratings("p2", [1] * 8, "none"), ratings("p2", [5] * 8, "article"),
              ratings("m@1", ARTICLE, "article"), ratings("m@1", NONE, "none")]  # fmt: skip
    results = metrics(tmp_path, tables)
    assert values(results, "group_mean_score", group="people") == {"article": (3 + 5) / 2, "none": (3 + 1) / 2}


def test_a_person_with_and_without_condition_has_both(tmp_path):
    tables = [ratings("p1", TRUTH), ratings("p1", [5] * 8, "article"), ratings("m@1", ARTICLE, "article")]
    results = metrics(tmp_path, tables)
    assert values(results, "group_mean_score", group="people") == {"": 3, "article": 5}
    assert values(results, "group_mean_score", group="m@1") == {"article": 25 / 8}


def test_one_condition_is_not_a_dim(tmp_path):
    results = metrics(tmp_path, [ratings("p1", TRUTH), ratings("m@1", ARTICLE, "article")])
    assert not [dims for _, dims, _ in results if "condition" in dims]
    assert values(results, "group_mean_score", group="m@1") == {None: 25 / 8}
    assert values(results, "group_mean_score", group="people") == {None: 3}


def test_people_are_joined_by_their_country_under_each_condition(tmp_path):
    """CAIRE: people rate their own country, and the target of their ratings is empty."""
    raters = write_file(tmp_path / "raters", "raters", [{"rater": "p1", "kind": "human", "country": "Mali"}])
    judged = [ratings("m@1", ARTICLE, c, target="Mali") for c in ("article", "none")]
    results = metrics(tmp_path, [ratings("p1", TRUTH), *judged], f"raters=[{raters}]")
    assert {row["n"] for n, d, row in results if n == "pearson_with_people"} == {8}


def test_scene_graphs_are_scored_under_each_condition(tmp_path):
    questions = [{"set_id": "a", "question_id": q, "parents": [], "valid": True} for q in "12"]
    place = write_file(tmp_path / "questions", "questions", questions)
    answers = [rating("pic", "m", q, value, rubric="dsg", target="a", condition=condition)
               for condition, arguments in (("x", ("yes", "yes")), ("y", ("no", "yes")))
               for q, value in zip("12", arguments, strict=True)]  # fmt: skip
    results = metrics(tmp_path, [answers], f"questions={place}")
    assert values(results, "dsg_score", convention="answered", reading="with dependencies") == {"x": 1, "y": 0.5}


def test_two_tables_with_one_condition_are_refused(tmp_path):
    places = [write_file(tmp_path / name, "ratings", ratings("m@1", ARTICLE, "article")) for name in "ab"]
    with pytest.raises(InputError, match=r"/a: .*/b .*condition=article"):
        cli.execute("report", [f"ratings=[{','.join(places)}]", f"out={tmp_path}/out"])
    assert not (tmp_path / "out").exists()


def test_conditions_are_always_separate_and_no_setting():
    assert "condition" not in MetricSettings().group_by
    with pytest.raises(InputError, match=r"metrics.group_by=condition"):
        cli.execute("report", ["images=x", "metrics.group_by=[condition]", "out=o"])


def test_one_judge_asked_in_two_ways_is_compared_with_itself(tmp_path):
    closed = ratings("m@1", TRUTH, method="closed", order="paper")
    joint = ratings("m@1", [*TRUTH[:5], 2, 3, 3], method="json", order="rubric_json")  # off by 1 in i5, by 2 in i7
    results = metrics(tmp_path, [closed, joint, ratings("n@1", TRUTH, order="paper"), ratings("p1", TRUTH)])
    of_versions = {(n, d.get("group")): (d, row) for n, d, row in results if "versions" in d}
    dims, row = of_versions["percent_agreement", None]
    assert dims == {"rubric": "r", "question": "q", "rater": "m@1", "versions": "closed paper, json rubric_json"}
    assert (row["value"], row["n"]) == (6 / 8, 8)
    assert of_versions["percent_agreement_within", None][1]["value"] == 7 / 8
    assert of_versions["group_mean_score", "closed paper"][1]["value"] == sum(TRUTH) / 8
    assert of_versions["group_mean_score", "json rubric_json"][1]["value"] == (sum(TRUTH) - 1) / 8
    assert {d["rater"] for n, d, _ in results if "versions" in d} == {"m@1"}
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "One rater asked in several ways" in page


def test_likelihoods_and_answers_of_one_rater_are_not_averaged(tmp_path, capsys):
    closed, likelihoods = ratings("m@1", TRUTH, "a"), ratings("m@1", NONE, "a", method="loglik")
    places = [write_file(tmp_path / name, "ratings", rows, rubric=FIVE)
              for name, rows in (("closed", closed), ("loglik", likelihoods))]  # fmt: skip
    assert cli.main("report", [f"ratings=[{','.join(places)}]", f"out={tmp_path}/out"]) == 2
    message = capsys.readouterr().err
    assert "m@1 answered r/q by loglik and by closed under the condition 'a'" in message
    assert not (tmp_path / "out").exists()
    assert cli.main("report", [f"ratings=[{places[1]}]", f"out={tmp_path}/out"]) == 0
