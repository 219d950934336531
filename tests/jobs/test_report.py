"""The report's metrics from tables: groups, ensembles, parts, gold, spans, scene graphs, and their page."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from actors.ids import content_id
from jobs.analysis import compute
from jobs.analysis.attributes import family_of
from jobs.analysis.report_metrics import ReportResults
from jobs.analysis.report_tables import ReportRatings, ReportTables
from jobs.errors import InputError
from jobs.metrics.observations import Observations
from jobs.metrics.rated_question import MetricSettings
from jobs.papers.study import PaperSettings, Study
from jobs.report import ReportConfig, check
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.cases import check_cases
from tests.factories import FIVE, rating, write_file
from tests.jobs.papers import studies

pytestmark = pytest.mark.usefixtures("without_plots")
COUNTRIES = {"p1": "India", "p2": "India", "p3": "Brazil"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """40 responses of two models, rated by two judges of their families and three people; a gold rater; spans."""
    folder = tmp_path_factory.mktemp("tables")
    ratings, items, responses = [], [], []
    for i in range(40):
        writer = "qwen2-vl" if i % 2 else "gemma-3"
        truth = 1 + (i * 7) % 5
        responses.append({"response_id": f"s{i}", "item_id": f"x{i}", "model": f"{writer}@1", "status": "ok",
                          "prompt": ("a", "b")[i % 3 == 0], "text": "w" * (10 + 3 * truth + i % 2)})  # fmt: skip
        items.append({"item_id": f"i{i}", "kind": "response", "response_id": f"s{i}",
                      "attributes": [("region", "East" if i < 30 else "West")]})  # fmt: skip
        for rater, shift in (("qwen3-vl@1", i % 2), ("gemma-3@1", 0)):
            ratings.append(rating(f"i{i}", rater, "due_weight", str(min(5, truth + shift))))
            ratings.append(rating(f"i{i}", rater, "factual_errors", str(truth)))
            ratings.append(rating(f"i{i}", rater, "kind", ("event", "unsure", "person")[i % 3]))
        for n, rater in enumerate(COUNTRIES):
            ratings.append(rating(f"i{i}", rater, "due_weight", str(max(1, truth - n))))
            ratings.append(rating(f"i{i}", rater, "kind", ("event", "none", "place")[(i + n * (i % 2)) % 3]))
        ratings.append(rating(f"i{i}", "expert", "kind", "event", method="gold"))
    marks = [
        {
            "item_id": "i0",
            "rater": r,
            "text_id": "t",
            "kind": "mistake",
            "method": "human",
            "condition": "",
            "start": a,
            "end": b,
            "status": "ok",
        }
        for r, a, b in (("expert", 2, 7), ("p1", 2, 7), ("p2", 8, 11))
    ]
    # p3 saw the item and marked an omission only: no mistake in the other text
    marks.append(marks[0] | {"rater": "p3", "text_id": "u", "kind": "omission"})
    return {
        "ratings": write_file(folder / "ratings", "ratings", ratings, rubric=FIVE),
        "items": write_file(folder / "items", "items", items),
        "responses": write_file(folder / "responses", "responses", responses),
        "raters": write_file(folder / "raters", "raters",
                        [{"rater": r, "kind": "human", "country": c} for r, c in COUNTRIES.items()]
                        + [{"rater": "expert", "kind": "gold"}]),
        "spans": write_file(folder / "spans", "spans", marks),
        "texts": write_file(folder / "texts", "texts", [{"text_id": t, "text": text}
                       for t, text in (("t", "A black dog, on a beach."), ("u", "A dog on sand."))]),
    }  # fmt: skip


@pytest.fixture(scope="module")
def report(tables, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    keys = [f"{key}=[{place}]" for key, place in tables.items()]
    more = ["metrics.ensembles={two: {r: [qwen3-vl,gemma-3]}, elsewhere: {century_labels: [gemma-3]}}",
            "metrics.disaggregate=[region]", "metrics.compare=[region]",
            "metrics.contrast=['prompt:a-b']", "metrics.crowdtruth=true"]  # fmt: skip
    cli.execute("report", [*keys, *more, f"out={out}"])
    rows = pa.concat_tables(open_table(f"{out}/metrics", "metrics").batches()).to_pylist()
    return [r | {"dims": json.loads(r["dims"])} for r in rows], (out / "index.html").read_text(encoding="utf-8")


def one(report, metric, **dims):
    """Return the metric of these dims; the metric of a part only if its attribute is named."""
    fitting = [r for r in report[0] if r["metric"] == metric and dims.items() <= r["dims"].items()]
    (result,) = [r for r in fitting if ("attribute" in r["dims"]) == ("attribute" in dims)]
    return result


def test_agreement_of_people_models_ensembles_and_countries(report):
    question = {"rubric": "r", "question": "due_weight"}
    groups = {r["dims"]["group"] for r in report[0] if r["metric"] == "alpha" and question.items() <= r["dims"].items()}
    assert groups == {"people", "models", "two", "people, country India", "people, country Brazil"}
    alone = one(report, "alpha", level="ordinal", group="people, country Brazil", **question)
    assert (alone["value"], alone["status"], alone["reason"]) == (None, "skipped", "one rater")
    both = [one(report, "alpha", level="ordinal", group=g, **question) for g in ("models", "two")]
    assert both[0]["value"] == both[1]["value"]
    assert both[0]["n"] == 40
    kappa = one(report, "kappa", group="people, country India", **question)
    assert (kappa["dims"]["rater_a"], kappa["dims"]["rater_b"]) == ("p1", "p2")


def test_agreement_of_parts_is_that_of_their_items_alone(report, tables, tmp_path):
    """CAIRE, table 14. A report of the ratings of those items has the same metrics."""
    rows = ds.dataset(tables["ratings"]).to_table()
    west = rows.filter(pc.is_in(rows["item_id"], pa.array([f"i{i}" for i in range(30, 40)])))
    keys = [f"ratings=[{write_file(tmp_path / 'west', 'ratings', west.to_pylist())}]", f"raters=[{tables['raters']}]"]
    cli.execute("report", [*keys, f"out={tmp_path}/out"])
    alone = pa.concat_tables(open_table(f"{tmp_path}/out/metrics", "metrics").batches()).to_pylist()
    alone = ([r | {"dims": json.loads(r["dims"])} for r in alone],)
    for metric, more in (("alpha", {"level": "ordinal"}), ("percent_agreement", {}), ("pairwise_spearman", {})):
        dims = {"group": "people", "question": "due_weight", **more}
        part = one(report, metric, attribute="region", part="West", **dims)
        whole = one(alone, metric, **dims)
        assert (part["value"], part["low"], part["n"]) == (whole["value"], whole["low"], whole["n"])
        assert "fewer than 30: interpret with caution" in part["reason"]
    assert one(report, "alpha", attribute="region", part="East", level="ordinal", group="people",
               question="due_weight")["reason"] is None  # fmt: skip
    assert {r["dims"]["part"] for r in report[0] if r["metric"] == "icc1" and "part" in r["dims"]} == {
        "East", "West", "gemma-3@1", "qwen2-vl@1",
    }  # fmt: skip


def test_what_an_item_was_judged_against_makes_parts_too(tmp_path):
    rows = [rating(f"i{i}", p, "q", str(1 + (i * (1 + n * k)) % 5), target=t)
            for i in range(9) for n, p in enumerate(("p1", "p2")) for k, t in enumerate(("China", "Mali"))]  # fmt: skip
    place = write_file(tmp_path / "R", "ratings", rows)
    cli.execute("report", [f"ratings=[{place}]", f"out={tmp_path}/out"])
    results = pa.concat_tables(open_table(f"{tmp_path}/out/metrics", "metrics").batches()).to_pylist()
    results = ([r | {"dims": json.loads(r["dims"])} for r in results],)
    assert one(results, "percent_agreement", attribute="target", part="China", group="people")["value"] == 1
    assert one(results, "percent_agreement", attribute="target", part="Mali", group="people")["value"] < 1


def test_people_need_three_ratings_and_models_do_not(report):
    people = one(report, "share_at_least", group="people", threshold="4", rule="mean", question="due_weight")
    # people's means are truth - 1 for truth 3 to 5, less for 1 and 2: at 4 only truth 5, which are 8 of 40
    assert (people["value"], people["n"]) == (8 / 40, 40)
    gemma = one(report, "share_at_least", group="gemma-3@1", threshold="4", rule="mean", question="due_weight")
    assert gemma["value"] == 16 / 40


def test_factual_errors_are_inverted(report):
    metric = one(report, "share_at_least", group="gemma-3@1", threshold="4", question="factual_errors", rule="mean")
    assert (metric["value"], metric["dims"]["inverted"]) == (16 / 40, "yes")  # truth 1 and 2


def test_responses_bring_parts_biases_and_contrasts(report):
    parts = {r["dims"]["part"]: r for r in report[0] if r["metric"] == "share_at_least" and "part" in r["dims"]
             and (r["dims"]["group"], r["dims"]["attribute"], r["dims"]["question"]) ==
             ("gemma-3@1", "region", "due_weight")}  # fmt: skip
    assert {name: p["n"] for name, p in parts.items()} == {"East": 30, "West": 10}
    assert parts["West"]["reason"] == "fewer than 30: interpret with caution"
    assert parts["East"]["reason"] is None
    of_writers = [r["dims"] for r in report[0] if r["dims"].get("attribute") == "model"]
    assert {dims["part"] for dims in of_writers if "part" in dims} == {"gemma-3@1", "qwen2-vl@1", "any two"}
    # table 3: each writer's share by the mean over an ensemble; qwen's judge adds a point to qwen's, 3 + 4 is below 4
    shares = {r["dims"]["part"]: r for r in report[0] if r["metric"] == "share_at_least" and r["dims"].get("group") ==
              "two" and (r["dims"].get("attribute"), r["dims"]["question"]) == ("model", "due_weight")}  # fmt: skip
    assert {name: (r["value"], r["n"]) for name, r in shares.items()} == {
        "gemma-3@1": (8 / 20, 20),
        "qwen2-vl@1": (8 / 20, 20),
    }
    # figure 13: the average over both judges and the people, not over ensembles of them
    averages = {r["dims"]["part"]: r for r in report[0] if r["metric"] == "average_of_shares"
                and (r["dims"]["attribute"], r["dims"]["question"]) == ("model", "due_weight")}  # fmt: skip
    assert averages["gemma-3@1"]["dims"]["raters"] == "3"
    assert averages["gemma-3@1"]["value"] == pytest.approx((8 / 20 + 8 / 20 + 4 / 20) / 3)
    assert averages["qwen2-vl@1"]["value"] == pytest.approx((12 / 20 + 8 / 20 + 4 / 20) / 3)
    # the qwen judge adds a point (up to 5) to what qwen wrote, and nothing to gemma's
    assert one(report, "self_preference", rater="qwen3-vl@1", question="due_weight")["value"] > 0.5
    assert one(report, "length_bias", group="gemma-3@1", kind="spearman", question="due_weight")["value"] > 0.9
    assert one(report, "welch_p", group="people", attribute="region", question="due_weight")["n"] == 40
    # table 12: the difference between prompts, overall and for each writer
    gaps = {r["dims"].get("model"): r for r in report[0] if r["metric"] == "share_difference"
            and (r["dims"]["group"], r["dims"]["question"]) == ("gemma-3@1", "due_weight")}  # fmt: skip
    assert set(gaps) == {None, "gemma-3@1", "qwen2-vl@1"}
    own_rows = [i for i in range(40) if i % 2 == 0]
    high = {prompt: [1 + (i * 7) % 5 >= 4 for i in own_rows if (i % 3 == 0) == (prompt == "b")] for prompt in "ab"}
    gap = sum(high["a"]) / len(high["a"]) - sum(high["b"]) / len(high["b"])
    assert gaps["gemma-3@1"]["value"] == pytest.approx(gap)


@pytest.mark.parametrize(("right", "positives"), [((5, 4, 2), {">=4": 8, ">4": 4}), ((1, 1, 0), {">=4": 8, ">4": 8})])
def test_gold_that_is_scored_moves_with_the_reading_and_labels_do_not(tmp_path, right, positives):
    """A model that always says 5 has the share of gold's positives as its precision."""
    rows = [rating(f"i{i}", "gemma@1", "q", "5") for i in range(12)]
    rows += [rating(f"i{i}", "expert", "q", str(right[i % 3]), method="gold") for i in range(12)]
    place = write_file(tmp_path / "R", "ratings", rows)
    gold = write_file(tmp_path / "W", "raters", [{"rater": "expert", "kind": "gold"}])
    cli.execute("report", [f"ratings=[{place}]", f"raters=[{gold}]", f"out={tmp_path}/out"])
    results = pa.concat_tables(open_table(f"{tmp_path}/out/metrics", "metrics").batches()).to_pylist()
    results = [r | {"dims": json.loads(r["dims"])} for r in results if r["metric"] == "precision"]
    micro = {r["dims"]["positive"]: r["value"] for r in results if r["dims"]["average"] == "micro"}
    assert micro == {reading: n / 12 for reading, n in positives.items()}


def test_scores_of_gold_that_are_labels():
    cases = [
        ([0, 1], None, True),
        ([1], None, True),
        ([0, 1], (0, 1), True),
        ([0, 1], (1, 5), True),  # 0 lies outside the scale
        ([1], (1, 5), False),  # "not at all"
        ([0, 1], (0, 4), False),
        ([1, 4], (1, 5), False),
    ]

    def check(levels, scale, labels):
        assert compute._are_labels(np.array(levels, float), scale) == labels

    check_cases(check, cases)


def test_majorities_pool_none_and_gold_is_nobody_of_the_people(report):
    by_key = {r["dims"]["answer"]: r for r in report[0] if r["metric"] == "majority_share"
             and r["dims"]["group"] == "gemma-3@1" and "part" not in r["dims"]}  # fmt: skip
    assert by_key["none of the above"]["value"] == 13 / 40
    assert one(report, "accuracy", group="gemma-3@1")["value"] == 14 / 40
    assert not [r for r in report[0] if r["dims"].get("group") == "expert"]


def test_models_against_people(report):
    assert one(report, "spearman_with_people", rater="gemma-3@1", question="due_weight")["value"] > 0.9
    shares = {r["dims"]["deviation"]: r["value"] for r in report[0] if r["metric"] == "deviation_share"
              and r["dims"]["rater"] == "gemma-3@1"}  # fmt: skip
    # truth - max(1, truth - n), n 0, 1, 2: truth 1 gives 0 0 0, truth 2 gives 0 1 1, others 0 1 2; 8 items of each
    assert shares == pytest.approx({"-2": 0, "-1": 0, "0": 56 / 120, "+1": 40 / 120, "+2": 24 / 120})


def test_spans_and_crowdtruth(report):
    assert one(report, "span_f1", rater="p1", unit="character", kind="mistake")["value"] == 1
    assert one(report, "span_f1", rater="p2", unit="token", kind="mistake")["value"] == 0
    assert one(report, "span_recall", rater="p3", unit="character", kind="mistake")["value"] == 0
    assert one(report, "unit_quality_mean", question="kind")["n"] == 40
    units = {r["dims"]["unit"] for r in report[0] if r["metric"] == "unit_quality"}
    assert units == {f"i{i}" for i in range(40)}


def test_every_metric_says_what_it_rests_on(report):
    for row in report[0]:
        assert (row["value"] is None) == (row["status"] != "ok"), row
        assert row["reason"] or row["interval_method"], row
        assert row["value"] is None or 0 <= row["coverage"] <= 1, row
        assert row["interval_method"] is None or row["low"] <= row["high"], row
        assert "n counts" in row["definition"], row


def test_the_page_shows_them(report):
    page = report[1]
    for words in ("Agreement among raters", "Krippendorff’s α (ordinal)", "Answers by majority", "Against gold",
                  "few</span>",
                  "Marked spans", "CrowdTruth", "Definitions of the metrics"):  # fmt: skip
        assert words in page, words
    assert "i39" not in page  # single units are left to the table


def test_of_a_crowd_the_page_shows_people_all_together(tmp_path):
    rows = [rating(f"i{i}", f"p{i * 3 + n}", "q", str(1 + n)) for i in range(4) for n in range(3)]
    rows += [rating(f"i{i}", "m@1", "q", "3") for i in range(4)]
    cli.execute("report", [f"ratings=[{write_file(tmp_path / 'R', 'ratings', rows)}]", f"out={tmp_path}/out"])
    page = " ".join((tmp_path / "out" / "index.html").read_text(encoding="utf-8").split())
    assert "13 raters, 1 question, 16 ratings requested: 16 ok." in page
    assert page.count("all people") >= 1
    assert '<span dir="auto">p11</span>' not in page
    results = pa.concat_tables(open_table(f"{tmp_path}/out/metrics", "metrics").batches()).to_pylist()
    means = {json.loads(r["dims"])["rater"]: r["value"] for r in results if r["metric"] == "mean_score"}
    assert means["p11"] == 3
    assert len(means) == 13


def test_scene_graphs_from_tables(tmp_path):
    questions = [
        {"set_id": "a", "question_id": "1", "parents": [], "valid": True},
        {"set_id": "a", "question_id": "2", "parents": ["1"], "valid": True},
        {"set_id": "a", "question_id": "3", "parents": [], "valid": False},
    ]
    rows = [rating("pic", "m", q, v, rubric="dsg", target="a") for q, v in (("1", "no"), ("2", "yes"), ("3", "yes"))]
    rows += [rating("pic", "p1", "match", "4")]
    places = [f"ratings=[{write_file(tmp_path / 'r', 'ratings', rows)}]",
              f"questions={write_file(tmp_path / 'q', 'questions', questions)}", "likert=r/match"]  # fmt: skip
    cli.execute("report", [*places, f"out={tmp_path}/out"])
    rows = pa.concat_tables(open_table(f"{tmp_path}/out/metrics", "metrics").batches()).to_pylist()
    by_key = {
        (r["metric"], json.loads(r["dims"]).get("reading"), json.loads(r["dims"]).get("convention")): r for r in rows
    }
    assert by_key["dsg_score", "with dependencies", "answered"]["value"] == 0
    assert by_key["dsg_score", "without dependencies", "answered"]["value"] == 1 / 2
    assert by_key["dsg_invalid", None, None]["value"] == 1
    assert by_key["dsg_spearman", "with dependencies", "answered"]["value"] is None


def test_wrong_settings(tables, tmp_path):
    cases = [
        ("metrics.group_by=[target]", "metrics.group_by=target"),
        ("metrics.contrast=[prompt]", "metrics.contrast=prompt: "),
        ("metrics.stop=0", "metrics.stop=0: must be above 0"),
        ("metrics.ensembles.people=[p1]", "metrics.ensembles.people"),
        ("metrics.ensembles.two={q: [p1]}", "metrics.ensembles.two.q=.*: no such rubric; must be one of .*, r$"),
        ("metrics.leave_out=gemma", "metrics.leave_out=gemma: must be a list of raters"),
        ("metrics.leave_out={q: [p1]}", "metrics.leave_out.q=.*: no such rubric"),
        ("metrics.groups=[planet]", "no column planet"),
        ("metrics.disaggregate=[regoin]", "metrics.disaggregate=regoin: .*region"),
        ("metrics.compare=[region+x]", "metrics.compare=x: "),
    ]

    def check(key, sentence):
        keys = [f"ratings=[{tables['ratings']}]", f"raters=[{tables['raters']}]", f"items=[{tables['items']}]", key]
        keys.append(f"out={tmp_path}/out")
        with pytest.raises(InputError, match=sentence):
            cli.execute("report", keys)
        assert not (tmp_path / "out").exists()

    check_cases(check, cases)


def test_families():
    assert [family_of(m) for m in ("Qwen/Qwen2.5-VL-7B@x", "qwen3-vl", "local:gemma-tiny", "llama-3.2-11b")] == [
        "qwen", "qwen", "gemma", "llama",
    ]  # fmt: skip


def test_refusals_are_metrics_of_the_responses(tables, tmp_path):
    """Five of gemma's responses decline; two of the five are about pictures that a second report excludes."""
    rows = ds.dataset(tables["responses"]).to_table().to_pylist()
    gemma = [row for row in rows if row["model"] == "gemma-3@1" and row["prompt"] == "a"]
    for row in gemma[:5]:
        row["refusal_kind"] = "full"
    for row in gemma[:2]:
        row["item_id"] = content_id(row["response_id"])
    (tmp_path / "out.txt").write_text("".join(f"{row['item_id']}\n" for row in gemma[:2]))
    place = write_file(tmp_path / "responses", "responses", rows)
    for more, full, n in (([], 5, len(gemma)), ([f"exclusions={tmp_path}/out.txt"], 3, len(gemma) - 2)):
        cli.execute("report", [f"responses=[{place}]", f"out={tmp_path}/out", *more])
        outputs = pa.concat_tables(open_table(f"{tmp_path}/out/metrics", "metrics").batches()).to_pylist()
        assert {row["metric"] for row in outputs} == {"refusal_rate"}
        by_key = {tuple(json.loads(row["dims"])[name] for name in ("model", "prompt", "kind")): row for row in outputs}
        assert by_key["gemma-3@1", "a", "full"]["value"] == full / n
        assert by_key["gemma-3@1", "a", "full"]["n"] == n
        assert by_key["qwen2-vl@1", "a", "any"]["value"] == 0
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "Refusals" in page
    assert "gemma-3@1, a" in page


def test_the_page_reports_ratings_without_an_item(tmp_path, tables):
    other = write_file(tmp_path / "ratings", "ratings", [rating("00.png", "p1", "due_weight", "3")], rubric=FIVE)
    cli.execute("report", [f"ratings=[{other}]", f"items=[{tables['items']}]", f"out={tmp_path}/R"])
    page = (tmp_path / "R" / "index.html").read_text(encoding="utf-8")
    assert f"No item of {other}" in page
    cli.execute("report", [f"ratings=[{tables['ratings']}]", f"items=[{tables['items']}]", f"out={tmp_path}/S"])
    assert "No item of" not in (tmp_path / "S" / "index.html").read_text(encoding="utf-8")


def test_settings_of_a_paper_and_of_metrics_are_checked() -> None:
    for settings, message in (
        (ReportConfig(gallery=-1), "gallery=-1"),
        (ReportConfig(gallery_seed=-1), "gallery_seed=-1"),
        (ReportConfig(metrics=MetricSettings(stop=0)), "metrics.stop=0"),
        (ReportConfig(paper=PaperSettings(name="x")), "paper.name=x"),
    ):
        with pytest.raises(InputError, match=f"^{message}: "):
            check(settings)
    check(ReportConfig(gallery=0, gallery_seed=0))


def test_a_paper_is_arranged_from_all_metrics_under_its_condition() -> None:
    values = (("a", 0.1), ("b", 0.2))
    by_condition = [studies.metric("share", value, question="q", condition=name) for name, value in values]
    nothing: Any = object()
    results = ReportResults(
        [studies.metric("models", 1)],
        [studies.metric("people", 1)],
        by_condition,
        Observations(),
        notices=[],
        methods={},
        spans=None,
        items=nothing,
        settings=MetricSettings(),
    )
    tables, paper = ReportTables(), PaperSettings(condition="b")
    study = Study.of_report(paper, results, ReportRatings(tables, nothing, nothing, nothing, nothing))
    assert [m.name for m in study.metrics.all] == ["models", "people", "share", "share"]
    assert study.metrics.get("share", {"question": "q"}).value == 0.2
    assert (study.computed.all, study.items, study.metric_settings) == ([], nothing, results.settings)
