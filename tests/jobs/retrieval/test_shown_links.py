"""The neighbours, links and nodes of the pictures on a page, by hand."""

from typing import Any

import pytest

from jobs.errors import InputError
from jobs.retrieval.shown_links import read_links, read_neighbors, read_nodes
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.factories import TableInMemory


def source(uri: str, name: str, rows: list[dict[str, Any]]) -> Any:
    table: Any = TableInMemory(name, rows)
    table.uri = uri
    return table


def test_the_nearest_pictures_by_table_without_excluded_ones() -> None:
    rows = [{"query_id": "q", "rank": rank, "item_id": f"i{rank}", "score": 1.0 - rank} for rank in (2, 1, 3)]
    tables = [source("a/x/", "neighbors", rows), source("a/y", "neighbors", [{**rows[1], "query_id": "other"}])]
    excluded = ExclusionFilter(frozenset({"i1"}))
    shown = read_neighbors(tables, ["q"], nearest=2, exclusion_filter=ExclusionFilter(frozenset()))
    assert {place: [(hit.rank, hit.item_id) for hit in hits] for place, hits in shown.items()} == {
        ("q", "x"): [(1, "i1"), (2, "i2")]
    }
    left = read_neighbors(tables, ["q", "other"], nearest=2, exclusion_filter=excluded)
    assert {place: [hit.item_id for hit in hits] for place, hits in left.items()} == {("q", "x"): ["i2"]}
    with pytest.raises(InputError, match="name x"):
        read_neighbors([tables[0], source("b/x", "neighbors", rows)], ["q"], nearest=1, exclusion_filter=excluded)


def test_links_have_the_table_in_their_name_if_several_have_the_method() -> None:
    def link(method: str, rank: int, lemma: str | None = None) -> dict[str, Any]:
        return {"image_id": "q", "method": method, "rank": rank, "node_id": f"n{rank}", "lemma": lemma, "score": 0.5}

    one = source("a/x", "links", [link("lemma", 2), link("lemma", 1, "dog"), link("lemma", 3), link("gloss", 1)])
    of_two = [{**link("gloss", rank), "image_id": picture} for picture in ("q", "p") for rank in (1, 2)]
    assert set(read_links([source("a/x", "links", of_two)], ["q", "p"], k=2)) == {("q", "gloss"), ("p", "gloss")}
    shown = read_links([one, source("a/y", "links", [link("gloss", 1)])], ["q"], k=2)
    assert {place: [(hit.rank, hit.lemma) for hit in hits] for place, hits in shown.items()} == {
        ("q", "lemma"): [(1, "dog"), (2, "")], ("q", "gloss, x"): [(1, "")], ("q", "gloss, y"): [(1, "")],
    }  # fmt: skip


def test_nodes_of_pictures_with_a_lemma_in_the_language() -> None:
    lemmas = {"n2": [("de", ["Hund"]), ("en", ["dog", "hound"])], "n1": [("de", ["Katze"])], "n3": []}
    lemmas["n0"] = [("DE", ["Maus"]), ("EN", ["mouse"])]
    listed = [{"node_id": name, "lemmas": of_node} for name, of_node in [*lemmas.items(), ("n4", None)]]
    nodes = source("nodes", "nodes", listed)
    pairs = [{"image_id": "i", "node_id": name} for name in ("n4", "n3", "n2", "n1", "n0", "gone")]
    shown = read_nodes(nodes, source("pairs", "node_images", [*pairs, {"image_id": "j", "node_id": "n1"}]), ["i"])
    assert shown == {"i": [("gone", ""), ("n0", "mouse"), ("n1", "Katze"), ("n2", "dog"), ("n3", ""), ("n4", "")]}
