"""The CSV and the page on which a person chooses, and the items that follow from them."""

import base64
import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from jobs.errors import InputError
from jobs.page.choice_sheet import (
    COLUMNS,
    PAGE,
    SHEET,
    THUMBNAIL_SIDE,
    as_csv,
    as_page,
    check_not_completed,
    item_of,
    read_pictures,
    sheet_rows,
)
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from tests.factories import TableInMemory, write_table
from tests.jobs.page.sample import drawn

ROW: dict[str, Any] = {
    "query_id": "t1", "prompt": "A <b>red</b> door", "values": '{"colour": "red", "n": 3}', "rank": 1, "item_id": "p1",
    "score": 0.5, "url": "https://x.example/p", "chosen": "",
}  # fmt: skip


def sheet(folder: Path, *rows: dict[str, Any], header: tuple[str, ...] = COLUMNS) -> str:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, header)
    writer.writeheader()
    writer.writerows(rows)
    (folder / SHEET).write_text(text.getvalue())
    return str(folder)


def test_only_a_sheet_without_entries_is_overwritten(tmp_path: Path) -> None:
    check_not_completed(str(tmp_path))
    (tmp_path / PAGE).touch()
    with pytest.raises(InputError, match="this job did not write it"):
        check_not_completed(str(tmp_path))
    check_not_completed(sheet(tmp_path, ROW, {**ROW, "chosen": " "}))
    (tmp_path / SHEET).write_bytes(as_csv([ROW]))
    check_not_completed(str(tmp_path))
    edited = "has been edited, and a new sheet would overwrite it"
    with pytest.raises(InputError, match=edited):
        check_not_completed(sheet(tmp_path, ROW, {**ROW, "chosen": "x"}))
    for header in ((*COLUMNS[:-1], "picked"), (*COLUMNS, "notes")):
        with pytest.raises(InputError, match=edited):
            check_not_completed(sheet(tmp_path, header=header))
    (tmp_path / SHEET).write_bytes(b"PK\x03\x04\x00\xff")
    with pytest.raises(InputError, match=edited):
        check_not_completed(str(tmp_path))


def test_prompts_are_in_the_order_of_their_table_and_neighbours_by_rank() -> None:
    prompts: Any = TableInMemory("texts", [
        {"text_id": "t2", "text": "Two", "source": None}, {"text_id": "t0", "text": "None", "source": None},
        {"text_id": "t1", "text": "One", "source": "{}"},
    ])  # fmt: skip
    rows = [
        {"query_id": query, "rank": rank, "item_id": item, "score": 1 / rank}
        for query, rank, item in (("t1", 2, "b"), ("t1", 1, "a"), ("t2", 2, "out"), ("t2", 1, "c"))
    ]
    neighbors: Any = TableInMemory("neighbors", rows)
    listed = sheet_rows(neighbors, prompts, ExclusionFilter(frozenset({"out"})))
    assert [(row["prompt"], row["values"], row["rank"], row["item_id"]) for row in listed] == [
        ("Two", "", 1, "c"), ("One", "{}", 1, "a"), ("One", "{}", 2, "b")
    ]  # fmt: skip
    assert set(listed[0]) == set(COLUMNS)
    assert (listed[0]["url"], listed[0]["chosen"], listed[1]["score"]) == ("", "", 1)
    with pytest.raises(InputError, match="query t1 is not in prompts="):
        sheet_rows(neighbors, TableInMemory("texts", [{"text_id": "t2", "text": "", "source": None}]),  # type: ignore[arg-type]
                   ExclusionFilter(frozenset()))  # fmt: skip


def test_the_sheet_is_for_spreadsheet_programs() -> None:
    data = as_csv([ROW, {**ROW, "prompt": "=1+1", "rank": 2}])
    assert data.startswith(b"\xef\xbb\xbfquery_id,")
    assert b"\r\r\n" not in data
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    assert [(row["prompt"], row["rank"]) for row in rows] == [("A <b>red</b> door", "1"), ("'=1+1", "2")]


def test_the_page_has_a_list_for_each_prompt() -> None:
    rows = [ROW, {**ROW, "item_id": "q" * 12, "rank": 2, "score": 0.25}, {**ROW, "prompt": "Two", "query_id": "t2"}]
    html = as_page(rows, {"p1": {"source_url": "u", "data": "data:image/webp;base64,AA"}}).decode()
    assert html.count("<ol>") == html.count("<h2") == 2
    assert "A &lt;b&gt;red&lt;/b&gt; door" in html
    assert html.count('<img src="data:image/webp;base64,AA" alt="picture 1">') == 2
    assert html.count("no picture") == 1
    assert "<b>2</b> · 0.2500 · qqqqqqqq<" in html
    assert "query_id" not in html


def test_prompts_of_the_same_text_are_shown_apart_with_their_ids() -> None:
    rows = [{**ROW, "query_id": query, "item_id": item} for query, item in (("t1", "a"), ("t2", "b"), ("t1", "c"))]
    html = as_page([*rows, {**ROW, "query_id": "t3", "prompt": "Two", "item_id": "d"}], {}).decode()
    headings = re.findall(r"<h2 dir=\"auto\">(.*?)</h2>", html)
    text = "A &lt;b&gt;red&lt;/b&gt; door"
    assert headings == [f"{text}<small>query_id t1</small>", f"{text}<small>query_id t2</small>", "Two"]
    assert [re.findall(r"· (\w)</small>", part) for part in html.split("<ol>")[1:]] == [["a", "c"], ["b"], ["d"]]


def test_an_item_has_the_values_of_its_prompt() -> None:
    item = item_of(ROW | {"rank": "1"})
    assert item["attributes"] == [("colour", "red"), ("n", "3"), ("prompt", "A <b>red</b> door")]
    assert (item["kind"], item["image_ids"]) == ("image", ["p1"])
    ids = {item_of(ROW | change)["item_id"] for change in ({}, {"item_id": "p2"}, {"query_id": "t2"})}
    assert len(ids) == 3
    for values in ("a book", "[1]"):
        assert item_of(ROW | {"values": values})["attributes"][0] == ("source", values)
    assert item_of(ROW | {"values": ""})["attributes"] == [("prompt", "A <b>red</b> door")]


def test_pictures_are_small_and_those_without_bytes_have_an_address_alone(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"image_id": "p1", "rendition": "original", "source_url": "u1", "status": "ok", "bytes": drawn(1)},
        {"image_id": "p2", "rendition": "original", "source_url": "u2", "status": "missing", "bytes": None},
        {"image_id": "p3", "rendition": "original", "source_url": "u3", "status": "ok", "bytes": b"no picture"},
        {"image_id": "p4", "rendition": "original", "source_url": "u4", "status": "ok", "bytes": drawn(2)},
    ]
    images = open_table(write_table(tmp_path / "images", "images", rows))
    pictures = read_pictures(images, {"p3", "p2", "p1", "gone"})
    assert {name: picture["source_url"] for name, picture in pictures.items()} == {"p1": "u1", "p2": "u2", "p3": "u3"}
    assert (pictures["p2"]["data"], pictures["p3"]["data"]) == (None, None)
    kind, _, data = pictures["p1"]["data"].partition(",")
    assert kind == "data:image/webp;base64"
    assert max(Image.open(io.BytesIO(base64.b64decode(data))).size) == THUMBNAIL_SIDE
