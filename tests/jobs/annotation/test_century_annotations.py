"""Annotations in the shape that Century released: people and models, bad rows, and the paper's tables from them."""

import csv
from pathlib import Path
from typing import Any

import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from tests.factories import rows_of

pytestmark = pytest.mark.usefixtures("without_plots")

HEADER = (
    "image_url century_id rating.method rating.src rating.rater_id rating.content rating.concept rating.subregion "
    "rating.time_period rating.sensitive rating.commemorative rating.controversial"
).split()
URL = "https://upload.example/{}.jpg"
ANSWERS = ["event", "conflict", "Western Europe", "yes"]
# picture -> (sensitive of three people, of a model)
PEOPLE = [("Human", "crowd"), ("manual", "HUMAN raters"), ("human", "human")]  # method and source
SENSITIVE = {0: ((1, 1, 1), 1), 1: ((3, 4, 2), 5), 2: ((2, 2, 4), 1)}


def write(path: Path, rows: list[list[object]], header: list[str] | None = None) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header or HEADER, *rows])
    return str(path)


@pytest.fixture
def annotations(tmp_path: Path) -> str:
    rows: list[list[object]] = []
    for picture, (people, model) in SENSITIVE.items():
        for number, score in enumerate(people):
            rows.append([URL.format(picture), picture, *PEOPLE[number], f"w{number}", *ANSWERS, score, 1, 2])
        rows.append([URL.format(picture), picture, "auto", "gpt-4-turbo", "", *ANSWERS, model, 1, 2])
    return write(tmp_path / "annotations.csv", rows)


def test_people_and_models_become_ratings(annotations, tmp_path):
    cli.execute("import_ratings", [f"input={annotations}", "format=century", "rubric=century_labels",
                                   f"out={tmp_path}/ratings"])  # fmt: skip
    ratings = rows_of(f"{tmp_path}/ratings")
    assert len(ratings) == 12 * 7
    assert {(row["rater"], row["method"]) for row in ratings} == {
        ("gpt-4-turbo", "json"), *((f"w{n}", "human") for n in range(3)),
    }  # fmt: skip
    assert {row["item_id"] for row in ratings} == {content_id(URL.format(n)) for n in range(3)}
    one = next(r for r in ratings if r["rater"] == "gpt-4-turbo" and r["question"] == "sensitive" and r["score"] == 5)
    assert (one["value"], one["status"], one["rubric"]) == ("5", "ok", "century_labels")
    assert {row["value"] for row in ratings if row["question"] == "content_type"} == {"event"}


def test_reports_are_undefined_if_the_file_cannot_say_who_reported(annotations, tmp_path):
    """The released set has no status; a file with the column, or another one with `reported`, says that nobody did."""
    header, *rows = csv.reader(Path(annotations).read_text().splitlines())
    with_status = write(tmp_path / "status.csv", [[*row, "ok"] for row in rows], [*header, "rating.status"])
    columns = ["item_id", "rater", "sensitive"]
    plain = write(tmp_path / "plain.csv", [["a", "w", "3"]], columns)
    reporting = write(tmp_path / "reporting.csv", [["a", "w", "3", ""]], [*columns, "reported"])
    mapped = ["columns.questions={sensitive: sensitive}"]
    for file, keys, is_known in ((annotations, ["format=century"], False), (with_status, ["format=century"], True),
                                 (plain, mapped, False), (reporting, mapped, True)):  # fmt: skip
        out = f"{tmp_path}/{Path(file).stem}_out"
        manifest: Any = cli.execute(
            "import_ratings", [f"input={file}", *keys, "rubric=century_labels", f"out={out}/ratings"]
        )
        people = 3 if "century" in keys[0] else 1  # and no model among them
        assert manifest["counts"]["tallies"]["reports"]["of_people"] == people
        cli.execute("report", [f"ratings=[{out}/ratings]", f"out={out}/report"])
        of_people = [row for row in rows_of(f"{out}/report/metrics") if '"group":"people"' in row["dims"]]
        shares = [row for row in of_people if row["metric"] == "reported_share" or '"status":"reported"' in row["dims"]]
        assert shares
        assert {row["value"] for row in shares} == ({0.0} if is_known else {None}), file
        assert is_known or {row["reason"] for row in shares} == {
            "the imported file does not say who reported a picture"
        }


def test_rows_that_name_no_labeller_are_rejected_and_unknown_answers_kept_apart(tmp_path):
    file = write(
        tmp_path / "a.csv",
        [
            [URL.format(0), 0, "human", "human", "", *ANSWERS, 1, 1, 1],
            [URL.format(0), 0, "auto", "m", "", "spaceship", "conflict", "Western Europe", "", 7, 1, 1],
        ],
    )
    manifest = cli.execute("import_ratings", [f"input={file}", "format=century", "rubric=century_labels",
                                              f"out={tmp_path}/r"])  # fmt: skip
    assert isinstance(manifest, dict)
    assert manifest["counts"]["rejected"] == {"no_rater": 1}
    status = {row["question"]: (row["status"], row["raw"]) for row in rows_of(f"{tmp_path}/r")}
    assert status["content_type"] == ("out_of_range", "spaceship")
    assert status["sensitive"] == ("out_of_range", "7")
    assert status["time_period"][0] == "skipped"


def test_mapped_questions_replace_those_of_the_rubric(annotations, tmp_path):
    keys = ["answers=[1,2,3,4,5]", "columns.questions={upsetting: rating.sensitive}", f"out={tmp_path}/r"]
    cli.execute("import_ratings", [f"input={annotations}", "format=century", *keys])
    ratings = rows_of(f"{tmp_path}/r")
    assert {row["question"] for row in ratings} == {"upsetting"}
    assert sorted(row["score"] for row in ratings if row["method"] == "json") == [1, 1, 5]
    wrong = ["answers=[1,2]", "columns.questions={upsetting: rating.nothing}", f"out={tmp_path}/s"]
    with pytest.raises(InputError, match=r"no column.*rating\.nothing"):
        cli.execute("import_ratings", [f"input={annotations}", "format=century", *wrong])


def test_other_files_and_keys_are_refused(annotations, tmp_path):
    other = write(tmp_path / "other.csv", [["u", 1]], ["image_url", "score"])
    keys = ["format=century", "rubric=century_labels", f"out={tmp_path}/r"]
    with pytest.raises(InputError, match=r"rating\.method"):
        cli.execute("import_ratings", [f"input={other}", *keys])
    with pytest.raises(InputError, match="no column of answers"):
        cli.execute("import_ratings", [f"input={annotations}", "format=century", "rubric=cultural_relevance",
                                       f"out={tmp_path}/r"])  # fmt: skip
    with pytest.raises(InputError, match="table=spans: format=century"):
        cli.execute("import_ratings", [f"input={annotations}", *keys, "table=spans"])
    assert not (tmp_path / "r").exists()


def test_the_pipeline_makes_the_papers_tables(annotations, tmp_path):
    pictures = write(
        tmp_path / "pictures.csv",
        [[URL.format(n), f"https://en.wikipedia.org/wiki/{n}", "train", "with_knowledge_graph", "False", n]
         for n in range(3)],
        ["image_url", "wikipedia_url", "wit_split", "century_method", "is_starter_set", "century_id"],
    )  # fmt: skip
    cli.execute("run", ["pipeline=century_released", f"out={tmp_path}/R", f"pipeline.inputs.annotations={annotations}",
                        f"pipeline.inputs.pictures={pictures}"])  # fmt: skip
    with (tmp_path / "R/report/paper/table_2.csv").open() as file:
        cells = {
            (row["Dimension of quality"], row["Labelling method"], row["column"]): row for row in csv.DictReader(file)
        }
    # people's means: 1, 3, 8/3
    people = cells["Sensitive", "People", "“Somewhat” (3) or higher · by mean"]
    assert (float(people["value"]), people["n"], people["printed"]) == (pytest.approx(1 / 3), "3", "0.558")
    model = cells["Sensitive", "gpt-4-turbo", "“Not at all” (1) · by mean"]
    assert (float(model["value"]), model["printed"]) == (pytest.approx(2 / 3), "0.147")  # GPT-4 Turbo's in the paper
    assert {row["record_id"] for row in rows_of(f"{tmp_path}/R/pictures/records")}
    assert {row["image_id"] for row in rows_of(f"{tmp_path}/R/pictures/records")} == {
        content_id(URL.format(n)) for n in range(3)
    }
    assert (tmp_path / "R/report/paper/figure_7.svg").exists()
