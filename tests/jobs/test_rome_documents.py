"""`pipeline=rome profile=debug` from documents to the report: models write the prompts, and two models draw."""

import csv
from collections import Counter
from pathlib import Path

import pytest

from jobs.runtime.command_line import cli
from tests.factories import rows_of

pytest.importorskip("diffusers", reason="needs the extra diffusion")
pytestmark = [pytest.mark.long, pytest.mark.usefixtures("in_process", "without_plots"), pytest.mark.timeout(900)]
DRAWN = ["sd3-medium", "sdxl-base"]


def test_from_documents_to_the_report(tmp_path: Path, s3: str) -> None:
    (tmp_path / "documents.csv").write_text("document,scenario\nA triumph enters the city.,Triumph\n")
    (tmp_path / "raters.csv").write_text("rater\nanna\n")
    arguments = {
        "source": "documents",
        "file": f"{tmp_path}/documents.csv",
        "prompts_per_document": 1,
        "pictures_per_prompt": 2,
        "image_models": f"[{','.join(DRAWN)}]",
        "raters": f"{tmp_path}/raters.csv",
        "tool": "spreadsheet",
        "questions": f"{tmp_path}/questions.csv",
    }
    keys = [f"pipeline.inputs.{name}={value}" for name, value in arguments.items()]
    out = f"{s3}/rome-documents"
    # The prompt, which the questions are about, is the answer of a model with random weights.
    cli.execute("items", [f"input={arguments['file']}", "columns.texts.document=document", f"out={tmp_path}/documents"])
    tables = [f"input={tmp_path}/documents/items", f"texts={tmp_path}/documents/texts", f"out={tmp_path}/W"]
    write = ["prompt=scenes", "samples=1", "max_tokens=16", "model=local-tiny"]
    cli.execute("generate", [*tables, *write, "model.checkpoint=local:qwen2.5-vl-tiny@qwen2.5-7b-text"])
    (prompt,) = (row["text"] for row in rows_of(f"{tmp_path}/W"))
    with (tmp_path / "questions.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([["prompt", "question_id", "question"], [prompt, "1", "Is there a triumph?"]])
    assert cli.main("run", ["pipeline=rome", "profile=debug", f"out={out}", *keys]) == 0

    names = [f"local:sd3-tiny@{name}" for name in DRAWN]
    assert Counter(row["author"] for row in rows_of(f"{out}/drawn/images")) == dict.fromkeys(names, 2)
    pairs = [dict(row["attributes"]) for row in rows_of(f"{out}/pairs/items")]
    assert len(pairs) == 2 * 6  # of four pictures, in both orders
    assert sum("first_image_model" in pair for pair in pairs) == 2 * 4  # by different models
    judge = "qwen2.5-vl-7b"
    for table, asked in {"rating": 4, "comparison": 12, "answers": 4, "scores": 8}.items():
        assert Counter(row["status"] for row in rows_of(f"{out}/ratings/{table}-{judge}")) == {"ok": asked}
    dims = {row["dims"] for row in rows_of(f"{out}/report/metrics") if row["metric"] == "bradley_terry"}
    assert {name for name in names if any(name in text for text in dims)} == set(names)
    from jobs.store.files import locations

    sheets = {file.uri.removeprefix(out) for file in locations.listing(f"{out}/tasks") if file.uri.endswith(".csv")}
    assert sheets == {f"/tasks/{study}/spreadsheet/anna.csv" for study in ("rating", "comparison", "questions")}
