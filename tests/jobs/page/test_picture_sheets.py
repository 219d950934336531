"""Pages and CSVs of pictures for one person: choices and the items that follow from them, and examples of links."""

import base64
import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from jobs.errors import InputError
from jobs.page.picture_sheets import (
    COLUMNS,
    PAGE,
    RANKINGS,
    SHEET,
    THUMBNAIL_SIDE,
    check_links_place,
    check_not_completed,
    choices_csv,
    choices_page,
    item_of,
    link_examples,
    links_page,
    rankings_csv,
    read_pictures,
    sheet_rows,
)
from jobs.retrieval.shown_links import ShownLink, ShownNeighbor, check_pictures, read_links, read_neighbors
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
    (tmp_path / SHEET).write_bytes(choices_csv([ROW]))
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
    data = choices_csv([ROW, {**ROW, "prompt": "=1+1", "rank": 2}])
    assert data.startswith(b"\xef\xbb\xbfquery_id,")
    assert b"\r\r\n" not in data
    rows = list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))
    assert [(row["prompt"], row["rank"]) for row in rows] == [("A <b>red</b> door", "1"), ("'=1+1", "2")]


def test_the_page_has_a_list_for_each_prompt() -> None:
    rows = [ROW, {**ROW, "item_id": "q" * 12, "rank": 2, "score": 0.25}, {**ROW, "prompt": "Two", "query_id": "t2"}]
    html = choices_page(rows, {"p1": {"source_url": "u", "data": "data:image/webp;base64,AA"}}).decode()
    assert html.count("<ol>") == html.count("<h2") == 2
    assert "A &lt;b&gt;red&lt;/b&gt; door" in html
    assert html.count('<img src="data:image/webp;base64,AA" alt="picture 1">') == 2
    assert html.count("no picture") == 1
    assert "<b>2</b> · 0.2500 · qqqqqqqq<" in html
    assert "query_id" not in html


def test_prompts_of_the_same_text_are_shown_apart_with_their_ids() -> None:
    rows = [{**ROW, "query_id": query, "item_id": item} for query, item in (("t1", "a"), ("t2", "b"), ("t1", "c"))]
    html = choices_page([*rows, {**ROW, "query_id": "t3", "prompt": "Two", "item_id": "d"}], {}).decode()
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


def link(image: str, rank: int, node: str, method: str = "article") -> dict[str, Any]:
    return {
        "image_id": image,
        "method": method,
        "rank": rank,
        "node_id": node,
        "lemma": f"L{node}",
        "score": 1.0 / rank,
    }


def test_links_are_best_first_and_named_after_their_table_where_two_have_a_method() -> None:
    one: Any = TableInMemory("links", [link("p", 2, "b"), link("p", 1, "a"), link("p", 3, "c"), link("q", 1, "a")])
    two: Any = TableInMemory("links", [link("p", 1, "d"), link("p", 1, "e", "title")])
    one.uri, two.uri = "R/one/", "R/two"
    results = read_links([one, two], ["p"], k=2)
    assert {key: [entry.node_id for entry in links] for key, links in results.items()} == {
        ("p", "article, one"): ["a", "b"],
        ("p", "article, two"): ["d"],
        ("p", "title"): ["e"],
    }


def test_neighbours_are_nearest_first_without_excluded_ones() -> None:
    rows = [
        {"query_id": query, "rank": rank, "item_id": item, "score": 1.0 / rank}
        for query, rank, item in (("p", 3, "c"), ("p", 1, "a"), ("p", 2, "out"), ("p", 4, "d"), ("q", 1, "a"))
    ]
    source: Any = TableInMemory("neighbors", rows)
    excluded = ExclusionFilter(frozenset({"out"}))
    neighbors = read_neighbors([source], ["p"], nearest=3, exclusion_filter=excluded)
    assert {place: [hit.item_id for hit in hits] for place, hits in neighbors.items()} == {
        ("p", "neighbors"): ["a", "c"]
    }
    with pytest.raises(InputError, match="two tables have the name neighbors"):
        read_neighbors([source, source], ["p"], nearest=3, exclusion_filter=excluded)


def test_each_picture_has_its_own_rows() -> None:
    neighbors = {("p", "wit"): [ShownNeighbor(1, "x", 0.9), ShownNeighbor(2, "y", 0.8)], ("q", "wit"): []}
    links = {("q", "title"): [ShownLink(1, "n", "North", 0.5)], ("p", "title"): [ShownLink(1, "s", "=South", 0.4)]}
    nodes = {"x": [("s", "South"), ("n", "North")], "y": [("n", "North")]}
    shown = link_examples(["q", "p"], neighbors, links, nodes)
    assert shown[1].candidates("wit") == [("n", "North", 2), ("s", "South", 1)]
    rows = list(csv.reader(io.StringIO(rankings_csv(shown).decode("utf-8-sig"))))[1:]
    assert [row[:1] + row[4:] for row in rows] == [
        ["q", "n", "North", "0.5"],
        ["p", "x", "South, North", "0.9"],
        ["p", "y", "North", "0.8"],
        ["p", "n", "North", "2"],
        ["p", "s", "South", "1"],
        ["p", "s", "'=South", "0.4"],
    ]
    assert [row[1:4] for row in rows] == [
        ["link", "title", "1"], ["neighbor", "wit", "1"], ["neighbor", "wit", "2"], ["candidate", "wit", ""],
        ["candidate", "wit", ""], ["link", "title", "1"],
    ]  # fmt: skip
    html = links_page(
        shown, {"p": {"data": "data:image/webp;base64,AA", "source_url": ""}, "q": {"data": None}}
    ).decode()
    assert html.count("data:image/webp;base64,AA") == 1
    assert "=South" in html
    with pytest.raises(InputError, match="pictures: z is in no table"):
        check_pictures(["p", "z"], neighbors, links)


def test_methods_are_sorted_and_texts_are_escaped() -> None:
    links = {("p", method): [ShownLink(1, "n", "<b>North</b>", 0.5)] for method in ("title", "article", "gloss")}
    (shown,) = link_examples(["p"], {("p", "wit"): []}, links, {})
    assert list(shown.links) == ["article", "gloss", "title"]
    html = links_page([shown], {}).decode()
    assert ("&lt;b&gt;North" in html, "<b>North" in html) == (True, False)


def test_another_programs_page_is_not_overwritten(tmp_path: Path) -> None:
    check_links_place(str(tmp_path))
    (tmp_path / PAGE).touch()
    with pytest.raises(InputError, match="this job did not write its"):
        check_links_place(str(tmp_path))
    (tmp_path / RANKINGS).touch()
    check_links_place(str(tmp_path))
