"""Ratings joined with items, records and images: which row of several, which picture, which columns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.analysis.flat_table import FlatTable, answers_with_probabilities
from jobs.judging.kept_rubric import Rubrics, of_levels
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from tests.factories import FIVE, rating, write_table, write_units

RUBRICS = Rubrics({"r": FIVE, "worded": of_levels("worded", "q", "Is it?", [("2", "It is", 2.0)], {})})


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
        records=opened["records"], images=opened["images"], rubrics=RUBRICS,
        exclusion_filter=ExclusionFilter(frozenset(excluded)),
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


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("/home/ada/photos/sub/é b.png", "é b.png"),
        ("/data/a.tar#x.png", "a.tar#x.png"),
        ("s3://bucket/p/x.png", "s3://bucket/p/x.png"),
        ("https://i/x.png?y=/z", "https://i/x.png?y=/z"),
        ("", ""),
    ],
)
def test_a_local_file_has_no_folders(tmp_path: Path, source: str, shown: str) -> None:
    images = [{"image_id": "q", "rendition": "original", "source_url": source, "status": "ok"}]
    (row,) = joined(tmp_path, table_of(tmp_path, images=images), rating("q", "m", "q", "1"))
    assert row["source_url"] == shown


def test_probabilities_are_those_of_the_answers_of_each_question(tmp_path: Path) -> None:
    """Questions differ in their answers, some rows have none, and one list is shorter than its answers."""
    cases: list[tuple[list[str], list[float] | None]] = [
        (["1", "2"], [0.25, 0.75]), (["no", "yes"], [0.9, 0.1]), (["1", "2"], None), (["2", "1"], [0.0, 1.0]),
        (["1", "2"], [0.5]),
    ]  # fmt: skip
    ratings = [
        rating(f"i{n}", "m", "q", "1", answers=answers, probabilities=probabilities)
        for n, (answers, probabilities) in enumerate(cases)
    ]
    source = open_table(write_units(tmp_path / "ratings", "ratings", [ratings[:2], ratings[2:]]))
    answers = answers_with_probabilities([source])
    assert sorted(answers) == ["1", "2", "no", "yes"]
    table = FlatTable(
        items=[], records=None, images=None, rubrics=RUBRICS, exclusion_filter=ExclusionFilter(frozenset()),
        answers=answers,
    )  # fmt: skip
    rows = {row["item_id"]: row for part in table.rows(source) for row in part.to_pylist()}
    shown = {name: {a: row[f"p_{a}"] for a in answers if row[f"p_{a}"] is not None} for name, row in rows.items()}
    assert shown == {
        "i0": {"1": 0.25, "2": 0.75}, "i1": {"no": 0.9, "yes": 0.1}, "i2": {}, "i3": {"1": 1.0, "2": 0.0}, "i4": {},
    }  # fmt: skip
