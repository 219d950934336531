"""Tasks answered in Label Studio itself, exported and read again. Optional and slow (about two minutes):

    REMINE_LABEL_STUDIO_PYTHON=ENV/bin/python pytest tests/jobs/annotation/test_label_studio_itself.py

ENV needs `pip install label-studio playwright`; the test uses the chromium of the system.
"""

import csv
import io
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from PIL import Image

from actors.ids import content_id
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import picture, record_of, write_table

PYTHON = os.environ.get("REMINE_LABEL_STUDIO_PYTHON", "")
pytestmark = [
    pytest.mark.skipif(not PYTHON, reason="set REMINE_LABEL_STUDIO_PYTHON to a Python with label-studio"),
    pytest.mark.timeout(3000),
]
DRIVER = Path(__file__).with_name("in_label_studio.py")
RATER, PASSWORD = "anna@example.org", "only-in-this-test"
REFERENCE = "A harbour with three ships 🚢🚢 lies before the town.\n\nTwo men are talking on the quay; it is $5."
CORRECT = "A dog on a sandy beach."
DESCRIPTIONS = {  # column of the user's file -> description; in_label_studio.py says which words are marked
    "model_a": "An otter on a beach.",
    "model_b": "An animal on a beach.",
    "model_c": "A black dog on a sandy beach.",
    "model_d": "On a sandy beach, a dog.",
}
MARKED = {  # description -> kind, category and words
    "model_a": {("mistake", "mistake", "otter"), ("omission", "missing", "sandy")},
    "model_b": {("omission", "missing", "dog"), ("omission", "missing", "sandy")},
    "model_c": {("mistake", "mistake", "black")},
    "model_d": set(),
}
OWN_ANSWERS = {("set0", "1", "yes"), ("set0", "2", "no"), ("set0", "3", "yes"), ("set1", "1", "no")}
GENERATED = "A harbour 🐈 with five ships and a lighthouse.\nOne man is swimming."


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Start Label Studio on a free port, with one user and a new database; yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    at = f"http://127.0.0.1:{port}"
    keys = {"LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true", "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(tmp_path)}
    quiet = {"COLLECT_ANALYTICS": "false", "LATEST_VERSION_CHECK": "false", "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": ""}
    base = {"LABEL_STUDIO_BASE_DATA_DIR": str(tmp_path / "server")}
    command = [str(Path(PYTHON).with_name("label-studio")), "start", "--no-browser", "--internal-host", "127.0.0.1"]
    command += ["--port", port, "--host", at, "--username", RATER, "--password", PASSWORD]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(command, env=os.environ | keys | quiet | base, stdout=log, stderr=log)
    try:
        _wait(at, server)
        yield at
    finally:
        server.terminate()
        server.wait(30)


def _wait(address: str, server: subprocess.Popen[bytes]) -> None:
    for _ in range(900):  # it first makes its database, which takes minutes on a busy machine
        assert server.poll() is None, "label-studio ended; see server.log"
        try:
            urllib.request.urlopen(f"{address}/health", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(1)
        else:
            return
    raise AssertionError("label-studio does not answer")


def _study(folder: Path) -> None:
    """Five pictures with titles that are awkward in XML, HTML and Label Studio, and two responses with references."""
    images = []
    for number in range(5):
        file = io.BytesIO()
        Image.effect_noise((320, 240), 20 + number).convert("RGB").save(file, "JPEG")
        images.append(picture(number) | {"bytes": file.getvalue()})
    titles = ["Battle of Ö & co", "Ship <b>sinking</b>", "$100 note", "Café 東京", "Fifth, with a comma"]
    write_table(str(folder / "images"), "images", images)
    write_table(str(folder / "records"), "records", [record_of(i, t) for i, t in zip(images, titles, strict=True)])
    texts, responses, items = [], [], []
    for number, image in enumerate(images[:2]):
        reference, response = content_id("reference", str(number)), content_id("response", str(number))
        texts.append({"text_id": reference, "role": "reference", "language": "en", "text": REFERENCE})
        responses.append({"response_id": response, "item_id": "x", "text": GENERATED, "status": "ok"})
        more = {"image_ids": [image["image_id"]], "text_ids": [reference], "response_id": response}
        items.append({"item_id": content_id("item", str(number)), "kind": "response", **more})
    for table, rows in (("texts", texts), ("responses", responses), ("items", items)):
        write_table(str(folder / table), table, rows)
    (folder / "raters.csv").write_text(f"rater\n{RATER}\n")


def _annotate(folder: Path, name: str, *more: str) -> None:
    study = [f"records={folder / 'records'}", f"raters={folder / 'raters.csv'}", "per_item=1"]
    study += [] if any(key.startswith("rubric=") for key in more) else ["rubric=century_labels"]
    shown = ["pictures=files", f'picture_base="/data/local-files/?d={name}/pictures/"', f"out={folder / name}"]
    cli.execute("annotate", [*study, *shown, *more])


def _rows(uri: Path, table: str) -> list[dict[str, Any]]:
    return pa.concat_tables(list(open_table(str(uri), table).batches())).to_pylist()


def test_answers_in_the_interface_are_read(tmp_path: Path, address: str) -> None:
    _study(tmp_path)
    _annotate(tmp_path, "questions", f"input={tmp_path / 'images'}")
    items = [f"{table}={tmp_path / table}" for table in ("images", "texts", "responses")]
    _annotate(tmp_path, "spans", f"input={tmp_path / 'items'}", *items, "span_labels=mistakes_omissions",
              "only_questions=[sensitive]")  # fmt: skip
    _docent_study(tmp_path)
    _own_study(tmp_path)
    exports = tmp_path / "exports"
    exports.mkdir()
    folders = [str(tmp_path / name) for name in ("questions", "spans", "docent", "own", "exports")]
    done = subprocess.run(
        [PYTHON, str(DRIVER), address, *folders], capture_output=True, text=True, timeout=2400, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]

    read = ["rubric=century_labels", "rater_from=assigned"]
    cli.execute("import_ratings", [f"input={exports / 'questions.json'}", *read, f"reports={tmp_path / 'reported.txt'}",
                            f"out={tmp_path / 'R'}"])  # fmt: skip
    ratings = _rows(tmp_path / "R", "ratings")
    plan = sorted(_rows(tmp_path / "questions" / "assignments", "assignments"), key=lambda row: row["place"])
    order = [row["item_id"] for row in plan]
    by_task = [[row for row in ratings if row["item_id"] == item] for item in order]
    assert {row["rater"] for row in ratings} == {RATER}
    assert [row["value"] for row in by_task[0]] == [
        "photograph", "person", "conflict", "Eastern Europe", "yes", "3", "1", "5"
    ]  # fmt: skip
    assert by_task[0][0]["comment"] == "a comment – ünï 🚢"
    assert {row["status"] for row in by_task[1]} == {"reported"}
    assert (tmp_path / "reported.txt").read_text().split()[0] == order[1]
    assert {row["status"] for row in by_task[2]} == {"skipped"}
    assert [row["value"] for row in by_task[3]] == [
        "artistic depiction, painting or cartoon", "organization", "reform", "Polynesia", "yes", "3", "3", "2"
    ]  # fmt: skip
    assert by_task[4] == []  # a draft is not an annotation

    cli.execute("import_ratings", [f"input={exports / 'spans.json'}", *read, f"out={tmp_path / 'Q'}"])
    issues = [row["value"] for row in _rows(tmp_path / "Q", "ratings") if row["question"] == "response_issue"]
    assert issues == ["no", "yes"]
    span_labels = ["span_labels=mistakes_omissions", "table=spans", "rater_from=assigned"]
    cli.execute("import_ratings", [f"input={exports / 'spans.json'}", *span_labels, f"out={tmp_path / 'S'}"])
    spans = [(r["kind"], r["category"], r["start"], r["end"]) for r in _rows(tmp_path / "S", "spans")]
    assert [(kind, text[start:end]) for (kind, _, start, end), text in zip(
        spans[:3], [GENERATED, GENERATED, REFERENCE], strict=True
    )] == [("mistake", "five"), ("mistake", "swimming"), ("omission", "Two men")]  # fmt: skip
    assert [category for _, category, _, _ in spans[:3]] == ["noun", "relationship", "missing"]
    assert spans[3:] == [("mistake", None, 0, 0), ("omission", None, 0, 0)]
    _check_docent(tmp_path)
    keys = ["rubric=dsg", "rater_from=assigned", f"out={tmp_path / 'O'}"]
    cli.execute("import_ratings", [f"input={exports / 'own.json'}", *keys])
    answers = _rows(tmp_path / "O", "ratings")
    assert {(row["target"], row["question"], row["value"]) for row in answers} == OWN_ANSWERS
    assert {row["status"] for row in answers} == {"ok"}


def _own_study(folder: Path) -> None:
    """Write a study of two pictures with their own questions, whose texts contain the answers to give."""
    items = [
        {"item_id": content_id("own", str(n)), "kind": "image", "image_ids": [picture(n)["image_id"]],
         "attributes": [("prompt", f"set{n}")]}
        for n in range(2)
    ]  # fmt: skip
    questions = [
        {"set_id": set_id, "question_id": name, "text": f"Answer with {value.capitalize()} to $5, please?",
         "parents": [], "valid": True}
        for set_id, name, value in sorted(OWN_ANSWERS)
    ]  # fmt: skip
    write_table(str(folder / "own_items"), "items", items)
    write_table(str(folder / "own_questions"), "questions", questions)
    tables = [f"input={folder / 'own_items'}", f"images={folder / 'images'}", f"questions={folder / 'own_questions'}"]
    _annotate(folder, "own", *tables, "rubric=dsg", "show_columns=[]")


def _docent_study(folder: Path) -> None:
    """Write a study of one picture with a correct and four generated descriptions, from a file as in docs/docent.md."""
    (folder / "photos").mkdir()
    Image.effect_noise((320, 240), 40).convert("RGB").save(folder / "photos" / "beach.jpg")
    with (folder / "docent.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["picture", "correct", *DESCRIPTIONS])
        lines.writerow(["beach.jpg", CORRECT, *DESCRIPTIONS.values()])
    roles = [f"columns.texts.generated=[{','.join(DESCRIPTIONS)}]", "columns.texts.reference=correct"]
    places = ["columns.pictures=picture", f"pictures.path={folder / 'photos'}", f"out={folder / 'described'}"]
    cli.execute(
        "items", [f"input={folder / 'docent.csv'}", *roles, *places, "item_per=generated", "columns.id=picture"]
    )
    (image_id,) = {image for row in _rows(folder / "described" / "items", "items") for image in row["image_ids"]}
    row = picture(0) | {"image_id": image_id, "bytes": (folder / "photos" / "beach.jpg").read_bytes()}
    write_table(str(folder / "beach"), "images", [row])
    tables = [f"input={folder / 'described' / 'items'}", f"texts={folder / 'described' / 'texts'}"]
    study = [f"images={folder / 'beach'}", f"raters={folder / 'raters.csv'}", "per_item=1", "together=set", "seed=1"]
    shown = ["pictures=files", 'picture_base="/data/local-files/?d=docent/pictures/"', f"out={folder / 'docent'}"]
    cli.execute("annotate", [*tables, *study, *shown, "span_labels=docent"])


def _check_docent(folder: Path) -> None:
    """Compare the imported spans with the words that were marked in the browser."""
    keys = ["span_labels=docent", "table=spans", "rater_from=assigned", f"out={folder / 'D'}"]
    cli.execute("import_ratings", [f"input={folder / 'exports' / 'docent.json'}", *keys])
    spans = _rows(folder / "D", "spans")
    texts = {row["text_id"]: row["text"] for row in _rows(folder / "described" / "texts", "texts")}
    items = {
        dict(row["attributes"])["text_column"]: row["item_id"] for row in _rows(folder / "described" / "items", "items")
    }
    for column, marks in MARKED.items():
        item = items[column]
        marked = [row for row in spans if row["item_id"] == item and row["marked"]]
        words = {(row["kind"], row["category"], texts[row["text_id"]][row["start"] : row["end"]]) for row in marked}
        assert words == marks
        unmarked = {row["kind"] for row in spans if row["item_id"] == item and not row["marked"]}
        assert unmarked == {"mistake", "omission"} - {kind for kind, _, _ in marks}
