"""`judge questions=`: each item is asked the questions of its set, behind one picture."""

import io
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image

from jobs.judging.model_config import OwnQuestionsConfig
from jobs.judging.own_questions import candidate_sets, is_asked, joined_fields, set_id_of
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from jobs.store.run_files import read_json
from tests import scripted_model
from tests.cases import check_cases
from tests.factories import rows_of, write_table

PROMPT = "Luperci run at the\nfoot of the Palatine Hill"
SCRIPT = {"~": {"A": 0.75, "B": 0.25}, "^": {"B": 1.0}}  # marker of a question -> probabilities of yes and no


def question(set_id: str, name: str, text: str, *, valid: bool = True) -> dict[str, Any]:
    return {"set_id": set_id, "question_id": name, "text": text, "parents": [], "valid": valid}


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    picture = io.BytesIO()
    Image.new("RGB", (64, 48), "red").save(picture, "PNG")
    images = [{"image_id": "p", "rendition": "original", "bytes": picture.getvalue(), "status": "ok"}]
    texts = [{"text_id": "t", "role": "prompt", "text": PROMPT}]
    by_prompt = {"kind": "image", "image_ids": ["p"], "text_ids": ["t"]}
    items: list[dict[str, Any]] = [
        {"item_id": "a", **by_prompt},
        {"item_id": "b", **by_prompt},
        {"item_id": "named", "kind": "image", "image_ids": ["p"], "attributes": [("prompt", "own set")]},
        {"item_id": "without", "kind": "image", "image_ids": ["p"], "attributes": [("prompt", "another")]},
        {"item_id": "gone", **by_prompt, "image_ids": ["missing"]},
    ]
    questions = [
        question(set_id_of(PROMPT.replace("\n", "  ")), "1", "Are there men? ~"),
        question(set_id_of(PROMPT), "2", "Do they run? ^"),
        question(set_id_of(PROMPT), "3", "Is there an image? ~", valid=False),
        question("own set", "1", "Is there a hill? ^"),
        question("of no item", "1", "Is there a wolf? ~"),
    ]
    tables: dict[str, list[dict[str, Any]]] = {"images": images, "texts": texts, "questions": questions}
    paths = [f"{name}={write_table(tmp_path / name, name, rows)}" for name, rows in tables.items()]
    model = scripted_model.write(tmp_path / "model", SCRIPT)
    rubric = yaml.safe_load((CONF / "rubric" / "dsg.yaml").read_text(encoding="utf-8"))
    del rubric["questions"][0]["reply"]  # the tokenizer of the local model has no single tokens for the words
    (tmp_path / "dsg.yaml").write_text(yaml.safe_dump(rubric), encoding="utf-8")
    return [
        *paths,
        f"input={write_table(tmp_path / 'items', 'items', items)}",
        "model=local-tiny",
        f"model.checkpoint={model}",
        f"out={tmp_path}/R",
    ]


@pytest.mark.usefixtures("in_process")
def test_each_item_is_asked_the_questions_of_its_set(tmp_path: Path, keys: list[str]) -> None:
    assert cli.main("judge", [*keys, f"rubric={tmp_path}/dsg.yaml"]) == 0
    rows = rows_of(f"{tmp_path}/R")
    set_id = set_id_of(PROMPT)
    assert [(row["item_id"], row["target"], row["question"], row["status"], row["value"]) for row in rows] == [
        ("a", set_id, "1", "ok", "yes"),
        ("a", set_id, "2", "ok", "no"),
        ("b", set_id, "1", "ok", "yes"),
        ("b", set_id, "2", "ok", "no"),
        ("named", "own set", "1", "ok", "no"),
        ("without", "", "*", "skipped", None),
        ("gone", set_id, "1", "missing_input", None),
        ("gone", set_id, "2", "missing_input", None),
    ]
    assert rows[0]["answers"] == ["yes", "no"]
    assert rows[0]["probabilities"] == pytest.approx([0.75, 0.25], abs=1e-6)
    assert rows[5]["error_kind"] == "no_questions"
    assert {row["rubric"] for row in rows} == {"dsg"}
    assert {row["method"] for row in rows} == {"closed"}
    tokens = read_json(f"{tmp_path}/R/_run/manifest.json")["counts"]["tallies"]["tokens"]
    assert tokens["passed"] < 0.8 * tokens["of whole prompts"]  # the picture and the instruction are encoded once


@pytest.mark.usefixtures("in_process")
def test_questions_by_names_the_field(tmp_path: Path, keys: list[str]) -> None:
    assert cli.main("judge", [*keys, f"rubric={tmp_path}/dsg.yaml", "questions_by=nothing"]) == 0
    assert {row["error_kind"] for row in rows_of(f"{tmp_path}/R")} == {"no_questions", "no_picture"}


def test_a_question_is_asked_unless_it_is_invalid_or_empty() -> None:
    rows = [{"valid": valid, "text": text} for valid in (True, None, False) for text in ("Is it?", "", None)]
    assert [is_asked(row) for row in rows] == [True, False, False] * 2 + [False] * 3
    assert (candidate_sets("x"), candidate_sets("")) == (("x", set_id_of("x")), ())


def test_the_field_of_the_sets_is_read_once() -> None:
    with_questions = OwnQuestionsConfig(questions="Q", questions_by="p")
    assert joined_fields(("a", "p"), with_questions) == joined_fields(("a",), with_questions) == ("a", "p")
    assert joined_fields(("a",), OwnQuestionsConfig(questions_by="p")) == ("a",)


def test_refused(tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        ({"questions": None}, "questions=null: rubric 'dsg' asks each item its own questions"),
        ({"rubric": "image_rating"}, "rubric 'image_rating' has its own questions"),
        ({"input": "images"}, "a table of images, which lack the field 'prompt'"),
        ({"questions": "images"}, "questions"),
        ({"targets": "[a]"}, "rubric 'dsg' asks about no target"),
    ]

    def check(change: dict[str, str | None], message: str) -> None:
        arguments = {"rubric": "dsg", **dict(key.split("=", 1) for key in keys)}
        for name, value in change.items():
            arguments[name] = "null" if value is None else f"{tmp_path}/images" if value == "images" else value
        if change.get("input"):
            arguments = {name: value for name, value in arguments.items() if name not in ("images", "texts")}
        assert cli.main("judge", [f"{name}={value}" for name, value in arguments.items()]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "R").exists()

    check_cases(check, cases)


def test_other_jobs_refuse_the_rubric(tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    tables = [key for key in keys if key.split("=")[0] in ("input", "images", "texts")]
    responses = write_table(tmp_path / "responses", "responses", [])
    commands = {
        "generate": [*tables, "prompt=rubric_json", "model=local-tiny"],
        "parse": [f"input={responses}"],
    }
    for job, arguments in commands.items():
        assert cli.main(job, [*arguments, "rubric=dsg", f"out={tmp_path}/R"]) == 2, job
        assert "its own questions" in capsys.readouterr().err
        assert not (tmp_path / "R").exists()


def test_answers_of_people(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(
        "item_id,set,rater,question,value\na,s,p1,1,Yes\na,s,p1,2,no\na,s,p1,3,maybe\n"
    )
    keys = [f"input={tmp_path}/people.csv", "columns.target=set", "rubric=dsg", f"out={tmp_path}/R"]
    assert cli.main("import_ratings", keys) == 0
    rows = {row["question"]: row for row in rows_of(f"{tmp_path}/R")}
    assert [(rows[q]["target"], rows[q]["value"], rows[q]["status"]) for q in "123"] == [
        ("s", "yes", "ok"), ("s", "no", "ok"), ("s", None, "out_of_range"),
    ]  # fmt: skip
