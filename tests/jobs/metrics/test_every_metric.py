"""Every metric says what it rests on: n, coverage, an interval and its method, or why there is none.

Ratings of every kind at once, with countries, concepts, gold, responses, spans and scene graphs, and the jobs that
write metrics of their own; each row of their tables is looked at, and each metric that jobs/metrics can make is met.
"""

import importlib
import re
from html import unescape
from pkgutil import iter_modules
from typing import Any

import pyarrow as pa
import pytest

import jobs.metrics
from jobs.metrics import descriptive, kinds, ranking
from jobs.metrics.kinds import KIND_OF
from jobs.metrics.metric import Topic
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import rating, write_file

pytestmark = pytest.mark.usefixtures("without_plots")

COUNTRIES = ("Brazil", "India", "Kenya", "Peru")
PEOPLE = {f"p{n}": COUNTRIES[n % 4] for n in range(12)}
OF_TERMS = {"entities", "distinct_terms"}  # made by a report with terms, see test_entity_counts.py


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("every")
    ratings: list[dict[str, Any]] = []
    items: list[dict[str, Any]] = []
    responses: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    for i in range(24):
        attributes = [("concept", f"c{i % 3}"), *([("region", "East" if i % 2 else "West")] if i else [])]
        responses.append({"response_id": f"s{i}", "item_id": f"x{i}", "model": ("qwen2@1", "gemma-3@1")[i % 2],
                          "status": "ok", "prompt": "ab"[i % 3 == 0], "text": "w" * (10 + 7 * i % 11)})  # fmt: skip
        items.append({"item_id": f"i{i}", "kind": "response", "response_id": f"s{i}", "attributes": attributes})
        for c, country in enumerate(COUNTRIES):
            for m, model in enumerate(("qwen3@1", "gemma-3@1")):
                value = str(1 + (i * 3 + c * (1 + m)) % 5)
                p = [0.1, 0.1, 0.1, 0.1, 0.1]
                p[int(value) - 1] += 0.5 * (i % 7) / 7
                likely = [share / sum(p) for share in p]
                ratings.append(rating(f"i{i}", model, "relevant", value, target=country, probabilities=likely))
                again = str(1 + (i * 2 + c * c + m) % 5)
                ratings.append(rating(f"i{i}", model, "relevant", again, target=country, condition="article"))
            ratings.append(rating(f"i{i}", "text@1", "relevant", str(1 + (i + c) % 5), target=country))
        for n, person in enumerate(PEOPLE):
            ratings.append(rating(f"i{i}", person, "relevant", str(1 + (i * 3 + n) % 5), target=PEOPLE[person]))
            ratings.append(rating(f"i{i}", person, "kind", ("event", "place", "unsure")[(i + n * (n % 3)) % 3]))
        for model in ("qwen3@1", "gemma-3@1"):
            cut = ["article"] if i % 5 == 0 else None
            ratings.append(rating(f"i{i}", model, "kind", ("event", "place")[i % 2], truncated=cut))
            ratings.append(rating(f"i{i}", model, "kind", ("event", "place")[i % 3 > 0], condition="article",
                                  empty_context=None if i % 4 else "no article"))  # fmt: skip
            ratings += [rating(f"i{i}", model, q, ("yes", "no")[i % 3 == 0], rubric="dsg", target="a") for q in "12"]
        if i % 2:
            ratings.append(rating(f"i{i}", "p1", "good", str(1 + i % 5)))
        ratings += [
            rating(f"i{i}", model, "good", str(1 + i % 5 - (i % 5 > m)), answers=["1", "2"], probabilities=[0.9, 0.1])
            for m, model in enumerate(("m3", "m4"))
        ]
        ratings.append(rating(f"i{i}", "expert", "kind", "event", method="gold"))
        ratings += [rating(f"i{i}", "expert", "relevant", str(1 + 4 * (i % 2)), target=t, method="gold")
                    for t in COUNTRIES]  # fmt: skip
    for n in range(6):
        for order, (first, second) in enumerate((("a", "b"), ("b", "a"))):
            attributes = [("pair", f"q{n}"), ("first", f"{first}{n}"), ("second", f"{second}{n}"),
                          ("first_model", first), ("second_model", second)]  # fmt: skip
            items.append({"item_id": f"q{n}{order}", "kind": "pair", "attributes": attributes})
            for rater in ("qwen3@1", "p1"):
                value = ("first", "second")[(n + order * (n % 2) + (rater == "p1")) % 2]
                ratings.append(rating(f"q{n}{order}", rater, "preference", value))
    for rater, start, end in (("expert", 2, 7), ("p1", 2, 7), ("p2", 3, 11)):
        marks.append({"item_id": "i0", "rater": rater, "method": "human", "condition": "", "text_id": "t",
                      "kind": "mistake", "start": start, "end": end,
                      "status": "ok"})  # fmt: skip
    of_model = {"rater": "qwen3@1", "method": "claims", "marked": True, "probability": 0.75}
    marks += [marks[0] | of_model | {"item_id": item} for item in ("i0", "i1")]
    remark = {"item_id": "i0", "target": "", "rubric": "r", "field": "sources", "rater": "p1", "condition": "",
              "sample": 0, "number": 1, "text": "an encyclopedia"}  # fmt: skip
    questions = [{"set_id": "a", "question_id": q, "parents": p, "valid": True} for q, p in (("1", []), ("2", ["1"]))]
    raters = [{"rater": r, "kind": "human", "country": c} for r, c in PEOPLE.items()]
    files: dict[str, list[dict[str, Any]]] = {
        "items": items,
        "responses": responses,
        "texts": [{"text_id": "t", "text": "A black dog, on a beach."}],
        "ratings": ratings,
        "raters": [*raters, {"rater": "expert", "kind": "gold"}],
        "spans": marks,
        "remarks": [remark],
    }
    keys = [f"{key}=[{write_file(folder / key, key, of_item)}]" for key, of_item in files.items()]
    keys.append(f"questions={write_file(folder / 'questions', 'questions', questions)}")
    more = ["metrics.ensembles.two=[qwen3,gemma-3]", "metrics.disaggregate=[region]", "metrics.compare=[region]",
            "metrics.contrast=['prompt:a-b']", "metrics.crowdtruth=true", "likert=r/relevant",
            "metrics.random_part=true",
            "metrics.reference_condition=article", "metrics.baseline_condition=article", "metrics.leave_out=[text]",
            "metrics.weights.mine=[[0,1,1,1,1],[1,0,1,1,1],[1,1,0,1,1],[1,1,1,0,1],[1,1,1,1,0]]"]  # fmt: skip
    cli.execute("report", [*keys, *more, f"out={folder}/out"])
    return folder / "out"


@pytest.fixture(scope="module")
def rows(report):
    return pa.concat_tables(open_table(f"{report}/metrics", "metrics").batches()).to_pylist()


def test_each_says_what_it_rests_on(rows):
    for row in rows:
        assert "n counts" in row["definition"], row
        if row["value"] is None:
            assert row["status"] != "ok", row
            assert row["reason"], row
            continue
        assert row["status"] == "ok", row
        assert row["n"] >= 1, row
        assert row["coverage"] is not None, row
        assert 0 <= row["coverage"] <= 1, row
        if row["interval_method"]:
            assert row["low"] <= row["high"], row
        else:
            assert row["reason"], row


def test_each_is_registered_and_on_the_page_or_listed_there_as_not_shown(report, rows):
    html = (report / "index.html").read_text("utf-8")
    defined = {unescape(text) for text in re.findall(r"<dd>(.*?)</dd>", html)}
    listed = set(re.findall(r"<code>(\w+)</code> \([\d,]+", html.partition("Only in the table <code>metrics")[2]))
    assert {row["metric"] for row in rows} <= KIND_OF.keys()
    missing = {
        row["metric"]
        for row in rows
        if row["definition"] not in defined and row["metric"] not in listed and not KIND_OF[row["metric"]].place
    }
    assert missing == set()
    assert "answer_share" not in listed


def test_no_kind_is_registered_that_nothing_computes(rows):
    of_other_jobs = {kind.name for module in (ranking, descriptive) for kind in kinds.declared(module)}
    assert KIND_OF.keys() - {row["metric"] for row in rows} == OF_TERMS | of_other_jobs
    assert all(bool(kind.topics) != bool(kind.place) for kind in KIND_OF.values())
    assert {topic for kind in KIND_OF.values() for topic in kind.topics} == set(Topic)


def test_the_registry_has_the_kinds_of_all_modules():
    modules = [importlib.import_module(f"jobs.metrics.{file.name}") for file in iter_modules(jobs.metrics.__path__)]
    assert {kind.name for module in modules for kind in kinds.declared(module)} == KIND_OF.keys()
