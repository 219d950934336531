"""The job `question_scores`, and what a report makes of its table."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr, ttest_ind

from jobs.errors import InputError
from jobs.judging import rating_tables
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from jobs.tables import TABLES
from tests.factories import (
    FIVE,
    rating,
    rows_of,
    trials_below,
    write_file,
    write_table,
    write_units,
)

pytestmark = pytest.mark.usefixtures("without_plots")

ANSWERS = {  # picture -> answers to 1, 2 (parent 1), 3 (parent 2), 4 (invalid); 5 has no parents
    "a": "yes yes yes yes yes",
    "b": "no yes yes yes yes",
    "c": "yes no yes no no",
    "d": "no no no yes no",
    "e": "yes yes no yes no",
    "f": "yes - no - no",
}
WITH = {"a": 1.0, "b": 0.5, "c": 0.25, "d": 0.0, "e": 0.5, "f": 1 / 3}
WITHOUT = {"a": 1.0, "b": 0.75, "c": 0.5, "d": 0.0, "e": 0.5, "f": 1 / 3}
PEOPLE = {"a": 5, "b": 2, "c": 3, "d": 1, "e": 4, "f": 2}


def answer(item: str, question: str, value: str, **columns: Any) -> dict[str, Any]:
    return rating(item, "m", question, None if value == "-" else value, rubric="dsg", target="s", **columns)


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    rows = [
        [answer(item, str(n), value) for n, value in enumerate(values.split(), 1)] for item, values in ANSWERS.items()
    ]
    none = answer("g", "*", "-", error_kind="no_questions") | {"target": "", "status": "skipped"}
    parents = {"2": ["1"], "3": ["2"]}
    questions = [
        {"set_id": "s", "question_id": str(n), "text": "Is it?", "parents": parents.get(str(n)), "valid": n != 4}
        for n in range(1, 6)
    ]
    ratings = write_units(
        tmp_path / "answers",
        "ratings",
        [[*rows[0], *rows[1]], [row for of_item in rows[2:] for row in of_item], [none]],
    )
    table = write_table(tmp_path / "questions", "questions", questions)
    return [f"input={ratings}", f"questions={table}", f"out={tmp_path}/R"]


def test_scores_by_hand(tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main("question_scores", keys) == 0
    rows = {(row["item_id"], row["question"]): row for row in rows_of(f"{tmp_path}/R")}
    scores = {key: row["score"] for key, row in rows.items() if row["status"] == "ok"}
    assert scores == {
        **{(item, "with_dependencies"): score for item, score in WITH.items()},
        **{(item, "without_dependencies"): score for item, score in WITHOUT.items()},
    }
    row = rows["b", "without_dependencies"]
    assert (row["rubric"], row["rater"], row["value"], row["target"]) == ("dsg_score", "m", "0.75", "")
    assert rows["a", "with_dependencies"]["value"] == "1.00"
    assert (rows["g", "with_dependencies"]["status"], rows["g", "with_dependencies"]["error_kind"]) == (
        "skipped", "no_questions",
    )  # fmt: skip
    assert len(open_table(f"{tmp_path}/R").footers) == 3
    assert "23 of 24 questions are answered; 1 of 6 pictures lack some, which do not count" in capsys.readouterr().out
    assert (rows["f", "with_dependencies"]["comment"], row["comment"]) == ("3 of 4 questions answered", None)
    published = [*keys[:2], f"out={tmp_path}/published", "convention=published"]
    assert cli.main("question_scores", published) == 0
    of_published = {(row["item_id"], row["question"]): row["score"] for row in rows_of(f"{tmp_path}/published")}
    assert of_published == {key: row["score"] for key, row in rows.items()} | {
        ("f", "with_dependencies"): 1 / 4, ("f", "without_dependencies"): 1 / 4
    }  # fmt: skip
    capsys.readouterr()
    assert cli.main("question_scores", keys) == 0
    assert "3 done before" in capsys.readouterr().out


def test_histogram_welch_and_correlation_with_people(tmp_path: Path, keys: list[str]) -> None:
    assert cli.main("question_scores", keys) == 0
    people = [rating(item, "p1", "match", str(score)) for item, score in PEOPLE.items()]
    scenario = {item: "triumph" if item in "abc" else "lupercalia" for item in PEOPLE}
    items = [{"item_id": i, "kind": "image", "attributes": [("scenario", s)]} for i, s in scenario.items()]
    report = [
        f"ratings=[{tmp_path}/answers,{tmp_path}/R,{write_file(tmp_path / 'people', 'ratings', people, rubric=FIVE)}]",
        f"items=[{write_table(tmp_path / 'items', 'items', items)}]",
        keys[1],
        "likert=r/match",
        "metrics.compare=[scenario]",
        f"out={tmp_path}/report",
    ]
    assert cli.main("report", report) == 0
    by_key = {(row["metric"], row["dims"]): row["value"] for row in rows_of(f"{tmp_path}/report/metrics")}

    def value(metric: str, **dims: str) -> float:
        number: float = by_key[metric, json.dumps(dims, sort_keys=True, separators=(",", ":"))]
        return number

    dims_of = {"rubric": "dsg_score", "question": "with_dependencies"}
    assert value("share", rater="m", answer="0.50", **dims_of) == 2 / 6
    assert value("share", rater="m", answer="0.95", **dims_of) == 0
    assert value("mean_score", rater="m", **dims_of) == pytest.approx(sum(WITH.values()) / 6)
    parts = [[WITH[i] for i in WITH if scenario[i] == name] for name in ("lupercalia", "triumph")]
    p = value("welch_p", group="m", attribute="scenario", first="lupercalia", second="triumph", **dims_of)
    assert p == pytest.approx(ttest_ind(*parts, equal_var=False).pvalue)
    dims = {"rater": "m", "rubric": "dsg", "reading": "with dependencies", "convention": "answered"}
    assert value("dsg_spearman", **dims) == pytest.approx(spearmanr(list(WITH.values()), list(PEOPLE.values()))[0])


def test_refused(tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main("question_scores", [*keys, "convention=paper"]) == 2
    assert "convention=paper: must be one of answered, published" in capsys.readouterr().err
    assert cli.main("question_scores", [*keys, "questions_rubric=other"]) == 2
    assert "no rating of rubric 'other' is about a set of" in capsys.readouterr().err
    assert not (tmp_path / "R").exists()
    other = write_table(tmp_path / "other", "questions", [{"set_id": "t", "question_id": "1", "text": "Is it?"}])
    assert cli.main("question_scores", [keys[0], f"questions={other}", f"out={tmp_path}/R"]) == 2
    assert "no rating of rubric 'dsg' is about a set of" in capsys.readouterr().err
    empty = write_table(tmp_path / "empty", "ratings", [])
    assert cli.main("question_scores", [f"input={empty}", f"questions={other}", f"out={tmp_path}/R"]) == 0


def test_ratings_of_items_without_a_set_are_skipped(tmp_path: Path, keys: list[str]) -> None:
    none = answer("g", "*", "-", error_kind="no_questions") | {"target": "", "status": "skipped"}
    ratings = write_table(tmp_path / "none", "ratings", [none])
    assert cli.main("question_scores", [f"input={ratings}", *keys[1:]]) == 0
    assert {(row["item_id"], row["status"]) for row in rows_of(f"{tmp_path}/R")} == {("g", "skipped")}


def test_excluded_items_have_no_scores(tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.txt").write_text("b\nnowhere\n")
    assert cli.main("question_scores", [*keys, f"exclusions={tmp_path}/list.txt"]) == 0
    assert {row["item_id"] for row in rows_of(f"{tmp_path}/R")} == set("acdefg")
    assert "exclusions: 1 of 2 entries match no picture here, for example nowhere" in capsys.readouterr().out
    assert cli.main("question_scores", keys) == 2
    assert "exclusions" in capsys.readouterr().err


def test_a_limit_takes_all_answers_about_the_first_items(
    tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main("question_scores", [*keys[:2], f"out={tmp_path}/whole"]) == 0
    assert cli.main("question_scores", [*keys[:2], f"out={tmp_path}/first", "limit=3"]) == 0
    assert "limit=3: the first 3 items; the table has no more" in capsys.readouterr().out
    first = rows_of(f"{tmp_path}/first")
    assert {row["item_id"] for row in first} == {"a", "b", "c"}
    assert first == [row for row in rows_of(f"{tmp_path}/whole") if row["item_id"] in "abc"]
    assert trials_below(tmp_path) == {"first": "whole"}
    assert cli.main("question_scores", [*keys[:2], f"out={tmp_path}/whole", "limit=3"]) == 2


def test_scores_keep_the_rater_and_need_an_answer_about_a_set(tmp_path: Path) -> None:
    questions = [{"set_id": "s", "question_id": "1", "text": "Is it?", "valid": True}]
    table = write_table(tmp_path / "questions", "questions", questions)

    def scores(name: str, *targets: str) -> str:
        rows = [rating(f"i{n}", "m", "1", "yes", rubric="dsg", target=name) for n, name in enumerate(targets)]
        answers = write_units(tmp_path / name, "ratings", [rows[:1], rows[1:]], rater="m@1")
        kept = pa.Table.from_pylist([{"rater": "m", "kind": "model"}], schema=TABLES["raters"].schema())
        pq.write_table(kept, f"{answers}/_run/raters.parquet")
        cli.execute("question_scores", [f"input={answers}", f"questions={table}", f"out={tmp_path}/scores-{name}"])
        return f"{tmp_path}/scores-{name}"

    late = open_table(scores("late", "other", "s"))
    assert late.metadata["remine.rater"] == "m@1"
    assert [(row["rater"], row["kind"]) for row in rating_tables.read_raters([late])] == [("m", "model")]
    for targets in (("other", ""), ("", "other"), ("other",)):
        with pytest.raises(InputError, match="no rating of rubric 'dsg' is about a set"):
            scores("none", *targets)
