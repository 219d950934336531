"""One flat row per rating, joined with its picture and item; the snippets of docs/results.md run on it."""

import codecs
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.csv as pcsv
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.export import FlatTable
from jobs.judging import kept_rubric
from jobs.judging.kept_rubric import Rubrics, of_levels
from jobs.runtime.command_line import cli
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from tests.cases import check_cases
from tests.factories import FIVE, image_row, rating, record_of, write_file, write_table, write_units

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
ALL = ["ratings=[R/ratings/*,R/people]", "records=R/records", "images=R/images", "items=[R/items]"]
RUBRICS = Rubrics({"r": FIVE, "worded": of_levels("worded", "q", "Is it?", [("2", "It is", 2.0)], {})})


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two pictures and an item with both, rated by a model and a person, in R/."""
    monkeypatch.chdir(tmp_path)
    answers = kept_rubric.of_answers("r", ["1", "2", "3"], ordinal=True)
    model = [
        rating(RED["image_id"], "m", "fit", "3", expected=2.5, probabilities=[0.0, 0.5, 0.5]),
        rating(BLUE["image_id"], "m", "fit", None),
        rating("pair", "m", "fit", "2"),
    ]
    write_file(tmp_path / "R" / "ratings" / "model", "ratings", model, rubric=answers)
    write_file(tmp_path / "R" / "people", "ratings", [rating(RED["image_id"], "p1", "look", "good", score=None)])
    write_table(tmp_path / "R" / "records", "records", [record_of(RED, "Red"), record_of(BLUE, "Blue")])
    write_table(tmp_path / "R" / "images", "images", [RED, BLUE])
    write_table(tmp_path / "R" / "items", "items", [PAIR])
    return tmp_path


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
    failed = rows[BLUE["image_id"], "fit"]
    assert (failed["status"], failed["score"], failed["page_title"]) == ("unparsed", None, "Blue")
    pair = rows["pair", "fit"]
    assert pair["image_id"] == f"{BLUE['image_id']} {RED['image_id']}"
    assert (pair["page_title"], pair["gold"], pair["region"], pair["item_status"]) == ("Blue", "1; 2", "north", "draft")
    assert (pair["status"], pair["score"]) == ("ok", 2.0)
    person = rows[RED["image_id"], "look"]
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


def table_of(
    folder: Path,
    *,
    items: Sequence[Sequence[dict[str, Any]]] = (),
    records: Sequence[dict[str, Any]] | None = None,
    images: Sequence[dict[str, Any]] | None = None,
    excluded: Sequence[str] = (),
) -> FlatTable:
    """Return the join with a table of items for each sequence."""
    tables = {"records": records, "images": images}
    opened = {
        name: open_table(write_table(folder / name, name, rows)) if rows is not None else None
        for name, rows in tables.items()
    }
    return FlatTable(
        items=[open_table(write_table(folder / f"i{n}", "items", rows)) for n, rows in enumerate(items)],
        **opened, rubrics=RUBRICS, exclusion_filter=ExclusionFilter(frozenset(excluded)),
    )  # fmt: skip


def joined(folder: Path, table: FlatTable, *ratings: dict[str, Any]) -> list[dict[str, Any]]:
    source = open_table(write_units(folder / "ratings", "ratings", [ratings]))
    return [row for rows in table.rows(source) for row in rows.to_pylist()]


def item(name: str, *pictures: str, **columns: Any) -> dict[str, Any]:
    return {"item_id": name, "kind": "image", "image_ids": list(pictures), **columns}


def test_of_two_rows_of_an_item_the_whole_first_one_counts(tmp_path: Path) -> None:
    first = item("a", "p", attributes=[("x", "1")])
    second = item("a", "q", kind="pair", gold=["g"], attributes=[("x", "2"), ("y", "3")])
    other = item("b", "q", attributes=[("y", "4")])
    table = table_of(tmp_path, items=[[first], [second, other]])
    rows = joined(tmp_path, table, *(rating(name, "m", "q", "1") for name in "ab"))
    assert [(row["item_id"], row["image_id"], row["kind"], row["gold"], row["x"], row["y"]) for row in rows] == [
        ("a", "p", "image", None, "1", None), ("b", "q", "image", None, None, "4"),
    ]  # fmt: skip


def test_an_item_has_the_record_of_its_first_picture(tmp_path: Path) -> None:
    records = [
        {"record_id": "1", "image_id": "p", "image_url": "up", "page_title": "P"},
        {"record_id": "2", "image_id": "q", "image_url": "uq", "page_title": "Q"},
        {"record_id": "3", "image_id": "p", "image_url": "other", "page_title": "P again"},
    ]
    images = [{"image_id": "q", "rendition": "original", "source_url": "sq", "licence": "CC0", "status": "ok"}]
    items = [item("pair", "q", "p", gold=["1", "2"]), item("none"), item("unknown", "z")]
    table = table_of(tmp_path, items=[items], records=records, images=images)
    names = ("pair", "none", "unknown", "p", "q", "elsewhere", "pair")
    rows = joined(tmp_path, table, *(rating(name, f"m{n}", "q", "1") for n, name in enumerate(names)))
    assert [(row["item_id"], row["image_id"], row["page_title"], row["licence"]) for row in rows] == [
        ("pair", "q p", "Q", "CC0"), ("none", None, None, None), ("unknown", "z", None, None), ("p", "p", "P", None),
        ("q", "q", "Q", "CC0"), ("elsewhere", None, None, None), ("pair", "q p", "Q", "CC0"),
    ]  # fmt: skip
    assert [row["gold"] for row in rows] == ["1; 2", None, None, None, None, None, "1; 2"]


def test_attributes_named_as_columns_get_a_prefix(tmp_path: Path) -> None:
    table = table_of(tmp_path, items=[[item("a", attributes=[("status", "draft"), ("b", "1"), ("image_url", "u")])]])
    names = table.schema.names
    assert names[:8] == ["item_id", "image_id", "kind", "response_id", "gold", "b", "item_image_url", "item_status"]
    (row,) = joined(tmp_path, table, rating("a", "m", "q", "1"))
    assert (row["item_status"], row["status"], row["b"], row["item_image_url"]) == ("draft", "ok", "1", "u")
    twice = item("a", attributes=[("status", "draft"), ("item_status", "final")])
    (row,) = joined(tmp_path / "z", table_of(tmp_path / "z", items=[[twice]]), rating("a", "m", "q", "1"))
    assert (row["item_item_status"], row["item_status"]) == ("draft", "final")
    assert table_of(tmp_path / "x").schema.names[:3] == ["item_id", "image_id", "rubric"]
    assert table_of(tmp_path / "y", images=[]).schema.names[2:5] == ["source_url", "author", "licence"]


def test_words_come_from_the_rubric(tmp_path: Path) -> None:
    ratings = [
        rating("a", "m", "q", "2", expected=2.25, truncated=["records", "texts"]),
        rating("a", "m", "q", "9", sample=1),
        rating("a", "m", "q", None, sample=2),
        rating("a", "m", "q", "2", sample=3, rubric="other"),
        rating("a", "m", "q", "2", sample=4, rubric="worded"),
    ]
    rows = joined(tmp_path, table_of(tmp_path), *ratings)
    label = next(answer.label for answer in FIVE.question("q").answers if answer.value == "2")  # type: ignore[union-attr]
    assert [row["label"] for row in rows] == [label, None, None, None, "It is"]
    assert [row["question_text"] for row in rows] == [None] * 4 + ["Is it?"]
    assert [row["truncated"] for row in rows] == ["records texts", None, None, None, None]
    assert (rows[0]["expected"], rows[1]["sample"], rows[2]["status"]) == (2.25, 1, "unparsed")


@pytest.mark.parametrize("mark", ["pair", "p", "q", "uq", "sq"])
def test_any_mark_of_the_pictures_leaves_a_rating_out(tmp_path: Path, mark: str) -> None:
    """All pictures of an item count, and the addresses of the first; so does its id, as in reports.

    An attribute of any name changes nothing.
    """
    records = [{"record_id": "2", "image_id": "q", "image_url": "uq"}]
    images = [{"image_id": "q", "rendition": "original", "source_url": "sq", "status": "ok"}]
    pair = item("pair", "q", "p", attributes=[("pictures", "two")])
    table = table_of(tmp_path, items=[[pair]], records=records, images=images, excluded=[mark])
    rows = joined(tmp_path, table, *(rating(name, "m", "q", "1") for name in ("pair", "p", "q", "z")))
    left = {"pair": ["p", "q", "z"], "p": ["q", "z"]}.get(mark, ["p", "z"])
    assert [row["item_id"] for row in rows] == left
    assert [row["pictures"] for row in rows if row["item_id"] == "pair"] == ["two"] * left.count("pair")
