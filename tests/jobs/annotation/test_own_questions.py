"""People answer the questions of the items themselves: tasks in each tool, and answers under the keys of `judge`."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from actors.ids import content_id
from jobs.judging.own_questions import set_id_of
from jobs.runtime.command_line import cli
from tests.factories import picture, rows_of, write_table
from tests.jobs.annotation import tool_exports
from tests.jobs.annotation.tool_exports import Act

PROMPT, ALONE = "A red boat.", "A tower."
QUESTIONS = {  # set -> question_id -> text, in the order of the table; the last one of PROMPT is invalid
    set_id_of(PROMPT): {"1": "Is there a boat?", "2": "=Is it red, or not?", "3": "Is there an image?"},
    set_id_of(ALONE): {"1": "Is there a tower?"},
}
ANSWERS = {(set_id_of(PROMPT), "1"): "yes", (set_id_of(PROMPT), "2"): "no", (set_id_of(ALONE), "1"): "yes"}


@pytest.fixture
def keys(tmp_path: Path) -> list[str]:
    """Three items with questions, two of them about the same prompt, and one without."""
    items: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    images = [picture(number) for number in range(4)]
    for number, (image, prompt) in enumerate(zip(images, (PROMPT, PROMPT, ALONE, "No set."), strict=True)):
        texts.append({"text_id": f"t{number}", "role": "prompt", "text": prompt})
        row = {"item_id": content_id("item", str(number)), "kind": "image", "image_ids": [image["image_id"]]}
        items.append(row | {"text_ids": [f"t{number}"]})
    questions: list[dict[str, Any]] = [
        {"set_id": set_id, "question_id": name, "text": text, "parents": [], "valid": "image" not in text}
        for set_id, of_set in QUESTIONS.items()
        for name, text in of_set.items()
    ]
    tables_of = {"items": items, "texts": texts, "images": images, "questions": questions}
    for table, rows in tables_of.items():
        write_table(tmp_path / table, table, rows)
    (tmp_path / "raters.csv").write_text("rater\nanna\nbo\n")
    tables = [f"{name}={tmp_path}/{name}" for name in ("texts", "images", "questions")]
    return [f"input={tmp_path}/items", *tables, f"raters={tmp_path}/raters.csv", "per_item=2", "rubric=dsg"]


def answer_label_studio(folder: Path, out: Path) -> None:
    for path in folder.glob("*.json"):
        tasks = json.loads(path.read_text("utf-8"))
        work = []
        for task in tasks:
            data = task["data"]
            assert "prompt" not in data, "people see what models see"
            assert data["target"] not in data["instruction_html"]
            chosen = {
                f"own_questions_{number}": ANSWERS[data["target"], own_values["question_id"]]
                for number, own_values in enumerate(data["own_questions"])
            }
            work.append([Act(path.stem, chosen=chosen)])
        (out / path.name).write_text(json.dumps(tool_exports.label_studio(tasks, work)))


def answer_prodigy(folder: Path, out: Path) -> None:
    for path in folder.glob("*.choice.jsonl"):
        rater = path.name.partition(".")[0]
        lines = []
        for number, line in enumerate(path.read_text("utf-8").splitlines()):
            task = json.loads(line)
            assert QUESTIONS[task["target"]][task["question"]] in task["html"].replace("&#x27;", "'")
            act = Act(rater, chosen={task["question"]: ANSWERS[task["target"], task["question"]]})
            lines.append(json.dumps(tool_exports.prodigy(task, act, dataset="d", time=number)))
        (out / path.name).write_text("\n".join(lines))


def answer_spreadsheet(folder: Path, out: Path) -> None:
    for path in folder.glob("*.csv"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
        assert [row["wording"][:1] for row in rows if row["question"] == "2"] == ["'", "'"], "a formula"
        for row in rows:
            assert row["answers"] == "Yes / No"
            row["value"] = ANSWERS[row["target"], row["question"]].upper()
        with (out / path.name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)


def test_answers_come_back_from_each_tool_under_the_keys_of_judge(
    tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    tools = {"label_studio": answer_label_studio, "prodigy": answer_prodigy, "spreadsheet": answer_spreadsheet}
    for tool, answer in tools.items():
        assert cli.main("annotate", [*keys, f"tool={tool}", "show_columns=[]", f"out={tmp_path}/{tool}"]) == 0
        assert "1 of 4 items have no questions and are left out" in capsys.readouterr().out
        exports = tmp_path / f"{tool}-answers"
        exports.mkdir()
        answer(tmp_path / tool / tool, exports)
        assert cli.main("import_ratings", [f"input={exports}", "rubric=dsg", f"out={tmp_path}/R/{tool}"]) == 0
        rows = rows_of(f"{tmp_path}/R/{tool}")
        assert {(row["status"], row["rubric"], row["method"]) for row in rows} == {("ok", "dsg", "human")}
        answers = {(row["item_id"], row["rater"], row["target"], row["question"]): row["value"] for row in rows}
        sets = [set_id_of(text) for text in (PROMPT, PROMPT, ALONE)]
        assert answers == {
            (content_id("item", str(number)), rater, set_id, question): value
            for number, set_id in enumerate(sets)
            for rater in ("anna", "bo")
            for (of_set, question), value in ANSWERS.items()
            if of_set == set_id
        }, tool
        scores = [f"input={tmp_path}/R/{tool}", f"questions={tmp_path}/questions", f"out={tmp_path}/S/{tool}"]
        assert cli.main("question_scores", scores) == 0
        assert sorted(row["score"] for row in rows_of(f"{tmp_path}/S/{tool}")) == [0.5] * 8 + [1] * 4


def test_the_form_of_label_studio_repeats_one_control(tmp_path: Path, keys: list[str]) -> None:
    assert cli.main("annotate", [*keys, f"out={tmp_path}/T"]) == 0
    config = (tmp_path / "T" / "label_studio" / "config.xml").read_text("utf-8")
    assert '<Repeater on="$own_questions" indexFlag="{{idx}}"' in config
    assert 'value="$own_questions[{{idx}}].text"' in config
    assert 'name="own_questions_{{idx}}"' in config
    assert config.count("<Choice ") == 3  # report, yes, no
    assert 'hotkey="1"' not in config


def test_what_does_not_fit_is_refused(tmp_path: Path, keys: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    arguments = dict(key.split("=", 1) for key in keys)
    wrong = [
        ({"questions": "null"}, "questions=null: rubric 'dsg' asks each item its own questions"),
        ({"rubric": "image_rating"}, "rubric 'image_rating' has its own questions"),
        ({"questions_by": "document"}, "none of the 4 items has a set of questions"),
        ({"rubric": "image_rating", "questions": "null", "tool": "spreadsheet", "span_labels": "docent",
          "welfare": "plain"}, "span_labels=docent: mistakes are marked in a text of role 'generated'"),
        ({"rubric": "century_contextualisation", "questions": "null", "tool": "spreadsheet"}, "fields for free text"),
    ]  # fmt: skip
    for change, message in wrong:
        changed = [f"{name}={value}" for name, value in (arguments | change).items()]
        assert cli.main("annotate", [*changed, f"out={tmp_path}/T"]) == 2, message
        assert message in capsys.readouterr().err
    assert not (tmp_path / "T").exists()


def test_a_spreadsheet_of_a_rubric_has_a_row_per_question(tmp_path: Path, keys: list[str]) -> None:
    arguments = dict(key.split("=", 1) for key in keys) | {"rubric": "image_rating", "questions": "null"}
    changed = [f"{name}={value}" for name, value in arguments.items()]
    records = [
        {"record_id": "r", "image_id": picture(0)["image_id"], "page_title": "A page", "page_url": "https://e/p"}
    ]
    write_table(tmp_path / "records", "records", records)
    more = ["tool=spreadsheet", f"records={tmp_path}/records", f"out={tmp_path}/T"]
    assert cli.main("annotate", [*changed, *more]) == 0
    with (tmp_path / "T" / "spreadsheet" / "anna.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4
    assert {row["question"] for row in rows} == {"match"}
    assert {row["prompt"] for row in rows} == {PROMPT, ALONE, "No set."}
    assert "page title: A page" in {row["about"].partition("\n")[0] for row in rows}
    assert all(row["image"].startswith("https://") for row in rows)
    for row in rows:
        row.update({"value": "3", "mismatches": "the boat"} if row["place"] != "1" else {"skipped": "yes"})
    with (tmp_path / "done.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    for table, out in (("ratings", "P"), ("remarks", "M")):
        read = [f"input={tmp_path}/done.csv", "rubric=image_rating", f"table={table}", f"out={tmp_path}/{out}"]
        assert cli.main("import_ratings", read) == 0
    assert sorted((row["status"], row["score"]) for row in rows_of(f"{tmp_path}/P") if row["score"]) == [("ok", 3)] * 3
    assert [row["status"] for row in rows_of(f"{tmp_path}/P")].count("skipped") == 1
    assert [row["text"] for row in rows_of(f"{tmp_path}/M")] == ["the boat"] * 3
