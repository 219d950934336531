"""Examples of links: each picture with its own neighbours, candidates and ranked nodes."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.page.link_examples import PAGE, SHEET, as_csv, as_page, check_place, examples
from jobs.retrieval.shown_links import ShownLink, ShownNeighbor, check_pictures, read_links, read_neighbors
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.factories import TableInMemory


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
    shown = examples(["q", "p"], neighbors, links, nodes)
    assert shown[1].candidates("wit") == [("n", "North", 2), ("s", "South", 1)]
    rows = list(csv.reader(io.StringIO(as_csv(shown).decode("utf-8-sig"))))[1:]
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
    html = as_page(shown, {"p": {"data": "data:image/webp;base64,AA", "source_url": ""}, "q": {"data": None}}).decode()
    assert html.count("data:image/webp;base64,AA") == 1
    assert "=South" in html
    with pytest.raises(InputError, match="pictures=: z is in no table"):
        check_pictures(["p", "z"], neighbors, links)


def test_methods_are_sorted_and_texts_are_escaped() -> None:
    links = {("p", method): [ShownLink(1, "n", "<b>North</b>", 0.5)] for method in ("title", "article", "gloss")}
    (shown,) = examples(["p"], {("p", "wit"): []}, links, {})
    assert list(shown.links) == ["article", "gloss", "title"]
    html = as_page([shown], {}).decode()
    assert ("&lt;b&gt;North" in html, "<b>North" in html) == (True, False)


def test_another_programs_page_is_not_overwritten(tmp_path: Path) -> None:
    check_place(str(tmp_path))
    (tmp_path / PAGE).touch()
    with pytest.raises(InputError, match="this job did not write its"):
        check_place(str(tmp_path))
    (tmp_path / SHEET).touch()
    check_place(str(tmp_path))
