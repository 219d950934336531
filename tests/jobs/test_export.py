"""One flat row per rating, joined with its picture and item; the snippets of docs/results.md run on it."""

import codecs
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.judging import kept_rubric
from jobs.runtime.command_line import cli
from tests.cases import check_cases
from tests.factories import image_row, rating, record_of, write_file, write_table

DOCS = Path(__file__).resolve().parents[2] / "docs" / "results.md"
RED, BLUE = image_row("https://i/red.jpg") | {"author": "Ada"}, image_row("https://i/blue.jpg")
PAIR = {
    "item_id": "pair",
    "kind": "pair",
    "image_ids": [BLUE["image_id"], RED["image_id"]],
    "text_ids": [],
    "gold": ["1", "2"],
    "attributes": [("region", "north"), ("status", "draft")],
}


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two pictures and an item with both, rated by a model and a person, in R/."""
    monkeypatch.chdir(tmp_path)
    answers = kept_rubric.of_answers("r", ["1", "2", "3"], ordinal=True)
    model = [
        rating(RED["image_id"], "m", "fit", "3", expected=2.5, answers=list("123"), probabilities=[0.0, 0.5, 0.5]),
        rating(BLUE["image_id"], "m", "fit", None),
        rating("pair", "m", "fit", "2"),
    ]
    write_file(tmp_path / "R" / "ratings" / "model", "ratings", model, rubric=answers)
    write_file(tmp_path / "R" / "people", "ratings", [rating(RED["image_id"], "p1", "look", "good", score=None)])
    write_table(tmp_path / "R" / "records", "records", [record_of(RED, "Red"), record_of(BLUE, "Blue")])
    write_table(tmp_path / "R" / "images", "images", [RED, BLUE])
    write_table(tmp_path / "R" / "items", "items", [PAIR])
    return tmp_path


ALL = ["ratings=[R/ratings/*,R/people]", "records=R/records", "images=R/images", "items=[R/items]"]


def export(*keys: str, out: str = "ratings.parquet") -> dict[str, int]:
    result: Any = cli.execute("export", [f"out={out}", *keys])
    return dict(result)


def test_a_table_without_rows_is_a_file_without_rows(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(study / "nothing", "ratings", [])
    assert export(f"ratings=[{study}/nothing]") == {"excluded": 0}
    assert capsys.readouterr().out == f"export: {study}/ratings.parquet\n  0 ratings\n"
    assert pq.read_table("ratings.parquet").num_rows == 0


def test_a_row_has_its_picture_its_item_and_its_words(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert export(*ALL) == {"ok": 3, "unparsed": 1, "excluded": 0}
    assert capsys.readouterr().out == f"export: {study}/ratings.parquet\n  4 ratings = 3 ok + 1 unparsed\n"
    rows = {(row["item_id"], row["question"]): row for row in pq.read_table("ratings.parquet").to_pylist()}
    assert len(rows) == 4
    red = rows[RED["image_id"], "fit"]
    assert red | {"page_title": "Red", "author": "Ada", "source_url": "https://i/red.jpg", "label": "3"} == red
    assert (red["score"], red["expected"], red["region"], red["kind"]) == (3.0, 2.5, None, None)
    assert [red[f"p_{answer}"] for answer in "123"] == [0.0, 0.5, 0.5]
    failed = rows[BLUE["image_id"], "fit"]
    assert (failed["status"], failed["score"], failed["page_title"]) == ("unparsed", None, "Blue")
    pair = rows["pair", "fit"]
    assert pair["image_id"] == f"{BLUE['image_id']} {RED['image_id']}"
    assert (pair["page_title"], pair["gold"], pair["region"], pair["item_status"]) == ("Blue", "1; 2", "north", "draft")
    assert (pair["status"], pair["score"]) == ("ok", 2.0)
    person = rows[RED["image_id"], "look"]
    assert [person[f"p_{answer}"] for answer in "123"] == [pair["p_1"], failed["p_2"], None] == [None] * 3
    assert (person["rater"], person["value"], person["label"], person["question_text"]) == ("p1", "good", None, None)


def test_ratings_alone_have_neither_picture_nor_item_columns(study: Path) -> None:
    export("ratings=[R/ratings/model]")
    table = pq.read_table("ratings.parquet")
    assert not {"page_title", "source_url", "kind"} & {*table.column_names}
    assert set(table["image_id"].to_pylist()) == {None}, "no table says which of the ids are those of pictures"
    for others, pictures in (
        ("images=R/images", {RED["image_id"], BLUE["image_id"], None}),
        ("records=R/records", {RED["image_id"], BLUE["image_id"], None}),
        ("items=[R/items]", {f"{BLUE['image_id']} {RED['image_id']}", None}),
    ):
        export("ratings=[R/ratings/model]", others, "overwrite=true")
        assert set(pq.read_table("ratings.parquet")["image_id"].to_pylist()) == pictures


def test_the_folder_of_a_run_means_its_tables(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = study / "run"
    write_table(
        run / "ratings" / "m", "ratings", [rating(RED["image_id"], "m", "fit", "3"), rating("pair", "m", "fit", "2")]
    )
    write_table(run / "trials" / "m", "ratings", [rating(RED["image_id"], "m", "fit", "3")], limit=1)
    write_table(run / "ratings" / "n", "ratings", [rating("pair", "n", "fit", "1")], limit=1, model="n")  # of no other
    write_table(run / "records", "records", [record_of(RED, "Red"), record_of(BLUE, "Blue")])
    write_table(run / "images", "images", [RED, BLUE])
    write_table(run / "curated" / "images", "images", [RED])  # fewer rows
    write_table(run / "items", "items", [PAIR])
    assert export("ratings=[run]") == {"ok": 3, "excluded": 0}
    rows = {row["item_id"]: row for row in pq.read_table("ratings.parquet").to_pylist()}
    assert (rows["pair"]["page_title"], rows["pair"]["region"], rows["pair"]["source_url"]) == (
        "Blue", "north", "https://i/blue.jpg",
    )  # fmt: skip
    assert f"images: {run}/images\n" in capsys.readouterr().out
    export("ratings=[run]", f"images={run}/curated/images", "overwrite=true")
    rows = {row["item_id"]: row for row in pq.read_table("ratings.parquet").to_pylist()}
    assert rows["pair"]["source_url"] is None


def test_csv_has_the_same_rows(study: Path) -> None:
    export(*ALL)
    export(*ALL, out="ratings.csv")
    assert Path("ratings.csv").read_bytes().startswith(codecs.BOM_UTF8)  # without it Excel does not read UTF-8
    options = pcsv.ConvertOptions(
        column_types=pq.read_schema("ratings.parquet"), strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    assert pcsv.read_csv("ratings.csv", convert_options=options).equals(pq.read_table("ratings.parquet"))


def test_texts_that_would_be_formulas_are_marked_only_for_spreadsheets(study: Path) -> None:
    write_table(study / "remarks", "ratings", [rating("i", "p", "q", "1", comment="=1+1")])
    for out in ("ratings.csv", "ratings.parquet"):
        export("ratings=[remarks]", out=out)
    assert [row["comment"] for row in pq.read_table("ratings.parquet").to_pylist()] == ["=1+1"]
    assert pcsv.read_csv("ratings.csv")["comment"].to_pylist() == ["'=1+1"]


@pytest.mark.parametrize("entry", [RED["image_id"], "http://i/red.jpg"])
def test_ratings_of_excluded_pictures_are_left_out(study: Path, entry: str, capsys: pytest.CaptureFixture[str]) -> None:
    (study / "excluded.txt").write_text(entry)
    capsys.readouterr()
    counts = export(*ALL, "exclusions=excluded.txt")
    printed = capsys.readouterr().out
    assert printed.startswith(f"export: {study}/ratings.parquet\n  4 ratings = 1 unparsed + 3 excluded\n")
    assert "1 of 1 entries match a picture here" in printed
    assert counts == {"unparsed": 1, "excluded": 3}  # the pair shows the picture, too
    assert pq.read_table("ratings.parquet")["image_id"].to_pylist() == [BLUE["image_id"]]


def test_of_two_rows_of_an_item_the_first_tables_counts(study: Path) -> None:
    write_table(study / "R" / "more", "items", [PAIR | {"kind": "other", "attributes": [("region", "south")]}])
    export(*ALL[:3], "items=[R/items,R/more]")
    rows = pq.read_table("ratings.parquet").to_pylist()
    assert [(row["kind"], row["region"]) for row in rows if row["item_id"] == "pair"] == [("pair", "north")]


def test_what_is_refused(study: Path) -> None:
    cases = [
        (["ratings=[R/ratings/model]", "out=R"], "must end in .parquet or .csv"),
        ([], "ratings=.*: name at least one table"),
        (["ratings=[R/nothing]"], "R/nothing: no table here"),
        (["ratings=[R/images]"], "is a table 'images', expected ratings"),
        (["ratings=[unrated]"], "ratings=unrated: has tables of images, but none of ratings"),
        (["ratings=[R/people]", "out=old.csv"], "out=old.csv: exists"),
        (["ratings=[R/people]", "out=old.csv/rows.csv"], "old.csv is a file, where a folder is needed"),
        (["ratings=[R/people]", "out=R/images/rows.parquet"], "inside table .*/R/images, whose rows it would be among"),
    ]

    write_table(study / "unrated" / "images", "images", [RED])

    def check(keys: list[str], message: str) -> None:
        (study / "old.csv").write_text("mine")
        with pytest.raises(InputError, match=message):
            export(*keys)
        assert (study / "old.csv").read_text() == "mine"
        assert not (study / "ratings.parquet").exists()

    check_cases(check, cases)


def test_an_existing_file_is_replaced_on_demand(study: Path) -> None:
    export("ratings=[R/people]")
    export("ratings=[R/ratings/model]", "overwrite=true")
    assert len(pd.read_parquet("ratings.parquet")) == 3


def test_the_snippets_of_the_documentation_run(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export(*ALL)
    printed = []
    for snippet in re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL):
        module = re.search(r"(?:import|from) (\w+)", snippet)
        assert module
        if module[1] != "datasets":  # is not among the test requirements
            exec(snippet, {})
            printed.append(capsys.readouterr().out)
    assert len(printed) == 5
    assert all("fit" in text or "item_id" in text for text in printed)
