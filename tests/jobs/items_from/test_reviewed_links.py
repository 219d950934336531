"""Pairs of links that people review: which ranks, which names, which pictures of an entity."""

from collections.abc import Sequence
from typing import Any

import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.items_from import reviewed_links
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.factories import TableInMemory

NOTHING = ExclusionFilter(frozenset())


def links(method: str, *best: tuple[str, Sequence[str]], batch: int = 3) -> Any:
    """Return a table of links: each picture with its nodes, best first."""
    rows = [
        {"image_id": image, "method": method, "rank": rank, "node_id": node}
        for image, nodes in best
        for rank, node in enumerate(nodes, 1)
    ]
    return TableInMemory("links", rows, batch=batch)


def texts(nodes: Sequence[dict[str, Any]], articles: Sequence[dict[str, Any]] = (), language: str = "en") -> Any:
    kb: Any = {
        "nodes": TableInMemoryWhole("nodes", nodes),
        "articles": TableInMemoryWhole("texts", articles),
    }
    return {name: row["text"] for name, row in reviewed_links.texts(kb, {"n", "m"}, language).items()}


class TableInMemoryWhole(TableInMemory):
    """Rows in memory, also read without naming the columns."""

    def batches(self, columns: Sequence[str] | None = None) -> Any:
        return super().batches(columns or self._rows.column_names)


def test_pairs_have_the_best_ranks_of_every_method() -> None:
    tables = [links("one", ("a", "nmo"), ("b", "n")), links("two", ("a", "mno"))]
    assert reviewed_links.pairs(tables, 1, NOTHING) == {
        ("a", "n"): {"one": 1}, ("b", "n"): {"one": 1}, ("a", "m"): {"two": 1},
    }  # fmt: skip
    assert reviewed_links.pairs(tables, 2, NOTHING) == {
        ("a", "n"): {"one": 1, "two": 2}, ("a", "m"): {"one": 2, "two": 1}, ("b", "n"): {"one": 1},
    }  # fmt: skip
    assert len(reviewed_links.pairs(tables, 3, NOTHING)) == 4


def test_a_limit_counts_pictures_across_batches_and_tables() -> None:
    tables = [links("one", ("a", "nm"), ("b", "nm"), ("c", "n"), batch=2), links("two", ("c", "n"), ("b", "o"))]
    assert list(reviewed_links.pairs(tables, 1, NOTHING, limit=2)) == [("a", "n"), ("b", "n"), ("b", "o")]
    assert len(reviewed_links.pairs(tables, 1, NOTHING, limit=3)) == 4
    left = reviewed_links.pairs(tables, 1, ExclusionFilter(frozenset({"a"})), limit=2)
    assert list(left) == [("b", "n"), ("b", "o")], "an excluded picture is among the first ones"


def test_too_many_pairs_and_none_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reviewed_links, "MAX_PAIRS", 2)
    assert len(reviewed_links.pairs([links("one", ("a", "nm"))], 2, NOTHING)) == 2
    with pytest.raises(InputError, match="more than 2 pairs"):
        reviewed_links.pairs([links("one", ("a", "nmo"))], 3, NOTHING)
    with pytest.raises(InputError, match="no links to review"):
        reviewed_links.pairs([links("one", ("a", "n"))], 0, NOTHING)


def test_a_text_has_five_distinct_names_the_gloss_and_forty_words() -> None:
    names = [("de", ["d1", "e1"]), ("en", ["e1", "e2"]), ("af", ["a1", "a2", "a3"])]
    article = {"text_id": "t", "text": " ".join(f"w{n}" for n in range(41))}
    node: dict[str, Any] = {"node_id": "n", "lemmas": names, "glosses": [("fr", "f"), ("de", "d")]}
    assert texts([node]) == {"n": "e1; e2; a1; a2; a3\n\nd"}
    assert texts([node], language="fr") == {"n": "a1; a2; a3; d1; e1\n\nf"}
    opening = " ".join(f"w{n}" for n in range(40))
    long = texts([node | {"article_text_ids": [("en", "t")], "glosses": None}], [article], "de")
    assert long == {"n": f"d1; e1; a1; a2; a3\n\n{opening} …"}


def test_a_node_without_any_text_is_named_by_its_id() -> None:
    nodes: list[dict[str, Any]] = [
        {"node_id": "n"},
        {"node_id": "m", "glosses": [("en", "")], "article_text_ids": [("en", "absent")]},
    ]
    assert texts([*nodes, {"node_id": "other", "glosses": [("en", "x")]}]) == {"n": "n", "m": "m"}


def test_the_text_of_a_node_is_a_reference_in_the_language() -> None:
    kb: Any = {"nodes": TableInMemoryWhole("nodes", [{"node_id": "n"}]), "articles": TableInMemoryWhole("texts", [])}
    assert reviewed_links.texts(kb, {"n"}, "de") == {"n": {
        "text_id": content_id("entity", "n", "n"), "role": "reference", "language": "de", "date": None, "source": "n",
        "revision": None, "text": "n",
    }}  # fmt: skip


def test_pictures_of_entities_are_usable_and_in_the_order_of_their_ids() -> None:
    kb: Any = {
        "node_images": TableInMemory("node_images", [
            {"node_id": node, "image_id": image}
            for node, images in (("n", "cbadef"), ("m", "b"), ("other", "ag")) for image in images
        ]),
        "images": TableInMemory("images", [
            {"image_id": "a", "source_url": "https://x/a", "status": "ok"},
            {"image_id": "b", "source_url": "https://x/b", "final_url": "https://y/b", "status": "ok"},
            {"image_id": "c", "source_url": "https://x/c", "final_url": "file:///c", "status": "ok"},
            {"image_id": "d", "source_url": "https://x/d", "status": "error"},
            {"image_id": "e", "source_url": "file:///e", "status": "ok"},
            {"image_id": "f", "source_url": "https://x/f", "status": "ok"},
            {"image_id": "g", "source_url": "https://x/g", "status": "ok"},
        ]),
    }  # fmt: skip
    expected = [("a", "https://x/a"), ("b", "https://y/b"), ("c", "https://x/c"), ("f", "https://x/f")]
    assert reviewed_links.pictures(kb, {"n", "m"}, NOTHING) == {"n": expected, "m": expected[1:2]}
    listed = ExclusionFilter(frozenset({"a", "https://x/f"}))
    assert reviewed_links.pictures(kb, {"n"}, listed) == {"n": expected[1:3]}
