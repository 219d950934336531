"""What `annotate` and `import_ratings` print about a study and its plan, and what they refuse before they print it."""

from pathlib import Path
from typing import Any

import pytest

from jobs import annotate, import_ratings
from jobs.annotation.import_config import ImportRatingsConfig
from jobs.annotation.reading import RatingColumns
from jobs.annotation.study import AnnotateConfig
from jobs.errors import InputError
from jobs.runtime.outcomes import Manifest, Plan, show
from jobs.runtime.selection.draws import WeightedDrawConfig
from tests.factories import picture, write_csv, write_table

Printed = pytest.CaptureFixture[str]
PICTURES = [picture(number) for number in range(4)]
RUBRIC = {"name": "mood", "questions": [{"name": "tone", "text": "Tone?", "scale": "nominal", "answers": ["a", "b"]}]}


def study(folder: Path, **keys: Any) -> AnnotateConfig:
    if not (folder / "images").exists():
        write_table(folder / "images", "images", PICTURES)
        write_csv(folder / "raters.csv", ["rater"], [["ann"], ["bo"]])
        (folder / "excluded.txt").write_text(f"{PICTURES[0]['image_id']}\nabsent\n")
    usual = {"per_item": 2, "draw": WeightedDrawConfig(n=2), "exclusions": f"{folder}/excluded.txt", **keys}
    return AnnotateConfig(
        input=f"{folder}/images", raters=f"{folder}/raters.csv", rubric=RUBRIC, out=f"{folder}/T", **usual
    )


def test_a_study_is_printed_with_its_draw_its_loads_and_its_files(tmp_path: Path, capsys: Printed) -> None:
    numbers = "4 tasks of 2 items for 2 raters, 2 each; any two raters share 2 tasks"
    planned = annotate.execute(study(tmp_path, plan=True))
    assert isinstance(planned, Plan)
    assert planned.lines[1].endswith(f"MB; {numbers}")
    assert planned.lines[-1] == "  drew 2 of 3 pictures"
    assert not (tmp_path / "T").exists()
    show(manifest := annotate.execute(study(tmp_path)))
    lines = capsys.readouterr().out.splitlines()
    assert isinstance(manifest, Manifest)
    assert manifest["counts"]["rows_out"] == 5, "4 tasks, and the picture that was not drawn"
    assert lines[0] == f"annotate: {tmp_path}/T/assignments"
    assert lines[-4:] == [
        "  exclusions: 1 of 2 entries match no picture here, for example absent", "  drew 2 of 3 pictures",
        f"  {numbers}", f"  2 files in {tmp_path}/T/label_studio",
    ]  # fmt: skip
    show(annotate.execute(study(tmp_path, draw=WeightedDrawConfig(), overwrite=True, pictures="files")))
    lines = capsys.readouterr().out.splitlines()
    assert f"  3 pictures in {tmp_path}/T/pictures" in lines
    assert not [line for line in lines if "drew" in line]
    show(annotate.execute(study(tmp_path, draw=WeightedDrawConfig(n=1), overwrite=True, only_questions=["tone"])))
    assert "  2 tasks of 1 item for 2 raters, 1 each; any two raters share 1 task\n" in capsys.readouterr().out


def test_an_import_is_printed_with_exclusions_and_reported_pictures(tmp_path: Path, capsys: Printed) -> None:
    rows = [["gone", "ann", "1", ""], *([item, rater, "2", "yes"] for item, rater in (("p", "ann"), ("p", "bo"))),
            ["q", "ann", "2", "yes"]]  # fmt: skip
    source = write_csv(tmp_path / "people.csv", ["item_id", "rater", "value", "reported"], rows)
    (tmp_path / "excluded.txt").write_text("gone\nabsent\n")

    def execute(**keys: Any) -> None:
        usual = {"answers": ["1", "2"], "question": "q", "exclusions": f"{tmp_path}/excluded.txt", **keys}
        show(import_ratings.execute(ImportRatingsConfig(input=source, out=f"{tmp_path}/R", **usual)))

    execute(plan=True, limit=2)
    assert "limit=2: the first 2 rows or tasks" in capsys.readouterr().out
    with pytest.raises(InputError, match="no column other"):
        execute(plan=True, columns=RatingColumns(value="other"))
    assert not (tmp_path / "R").exists()
    execute(reports=f"{tmp_path}/reported.txt", reports_min=2)
    assert (tmp_path / "reported.txt").read_text() == "p # reported by 2\n"
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "  reported: 3 of 3 tasks (100.0%), 2 of 2 items (100.0%), 2 of 2 people (100.0%)",
        f"  {tmp_path}/reported.txt: 1 reported picture added; the list has 1 of them",
        "  exclusions: 1 of 2 entries match no picture here, for example absent",
    ]
