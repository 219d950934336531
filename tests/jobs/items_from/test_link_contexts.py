"""The name of a linked entity, by the languages of its titles and lemmas."""

from collections.abc import Sequence
from typing import Any

import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.items_from import link_contexts
from jobs.items_from.link_contexts import (
    NO_ARTICLE,
    NO_LINK,
    UNKNOWN,
    Context,
    article_context,
    name_of,
    titles_context,
    with_context,
)
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.cases import check_cases
from tests.factories import TableInMemory


def test_a_title_comes_before_the_lemma() -> None:
    cases = [
        ([("de", "Trommel"), ("en", "Drum")], "djembe", "Drum"),
        ([("", "Djembe")], "jembe", "Djembe"),  # a knowledge base in one language, which it does not name
        ([("", "Djembe"), ("en", "Drum")], None, "Drum"),
        ([("de", "Trommel")], "djembe", "djembe"),
        ([("de", "Trommel")], None, "Trommel"),
        ([], None, "drum"),
    ]

    def check(titles: list[tuple[str, str]], lemma: str | None, expected: str) -> None:
        node = {"node_id": "n", "titles": titles, "lemmas": [("en", ["drum", "tom-tom"])]}
        assert name_of(node, lemma, "en") == expected

    check_cases(check, cases)


def test_a_node_without_names_has_its_id() -> None:
    assert name_of({"node_id": "n", "titles": None, "lemmas": None}, None, "en") == "n"


def test_a_node_that_is_not_there_and_one_without_an_article() -> None:
    assert article_context(None, {}, language="en") == Context(UNKNOWN)
    node = {"node_id": "n", "titles": [("en", "Drum")], "lemmas": None, "article_text_ids": [("en", "t")]}
    attributes = (("entity", "Drum"), ("node", "n"))
    assert article_context(node, {}, language="en") == Context(NO_ARTICLE, attributes)
    assert article_context(node, {"t": "It is beaten."}, language="en") == Context(
        "article", attributes, role="article", text="It is beaten.", source="n"
    )


def test_a_title_is_listed_once_and_unknown_nodes_not_at_all() -> None:
    nodes = {name: {"node_id": name, "titles": [("en", title)], "lemmas": None}
             for name, title in (("m", "Drum"), ("n", "Djembe"), ("o", "Drum"))}  # fmt: skip
    links = [{"node_id": name, "lemma": None} for name in ("m", "absent", "n", "o")]
    context = titles_context(links, nodes, language="en")
    assert context == Context("titles", role="titles", text="Drum\nDjembe")
    assert titles_context(links[1:2], nodes, language="en") == Context(UNKNOWN)
    assert titles_context([], nodes, language="en") == Context(NO_LINK)


def test_a_context_replaces_that_of_another_knowledge_base() -> None:
    """The text of an article names its node, and that of titles the item, whose text it is alone."""
    texts = [{"text_id": role, "role": role, "text": "old"} for role in ("prompt", "article", "titles")]
    attributes = [("entity", "old"), ("theme", "sea"), ("node", "old")]
    item: dict[str, Any] = {"item_id": "i", "kind": "image", "attributes": attributes, "text_ids": ["x"]}
    article = Context("article", (("entity", "Drum"), ("node", "n")), "article", "It is beaten.", "n")
    row, rows = with_context(item, texts, article, language="de")
    text_id = content_id("item", "i", "article", "n", "It is beaten.")
    text = {"text_id": text_id, "role": "article", "language": "de", "source": "n", "text": "It is beaten."}
    assert rows == [texts[0], text]
    assert row == {
        "item_id": "i", "kind": "image", "text_ids": ["prompt", text_id],
        "attributes": [("theme", "sea"), ("entity", "Drum"), ("node", "n")],
    }  # fmt: skip
    titles = Context("titles", role="titles", text="Drum")
    (of_titles,), (of_another,) = (
        with_context({**item, "item_id": name}, [], titles, language="en")[1] for name in ("i", "j")
    )
    assert (of_titles["source"], of_titles["text_id"] == of_another["text_id"]) == ("i", False)
    bare, nothing = with_context({**item, "attributes": None}, [], Context(NO_LINK), language="en")
    assert (bare["attributes"], bare["text_ids"], nothing) == ([("empty_context", "no link")], [], [])
    empty = Context(NO_ARTICLE, (("entity", "Drum"), ("node", "n")))
    named, _ = with_context(item, texts, empty, language="en")
    reasons = [("theme", "sea"), ("entity", "Drum"), ("node", "n"), ("empty_context", "no article")]
    assert (named["attributes"], named["text_ids"]) == (reasons, ["prompt"])
    for context, expected in ((Context("none"), [("theme", "sea")]), (article, reasons[:-1])):
        assert with_context(named, [], context, language="en")[0]["attributes"] == expected


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
    return {name: row["text"] for name, row in link_contexts.texts(kb, {"n", "m"}, language).items()}


class TableInMemoryWhole(TableInMemory):
    """Rows in memory, also read without naming the columns."""

    def batches(self, columns: Sequence[str] | None = None) -> Any:
        return super().batches(columns or self._rows.column_names)


def test_pairs_have_the_best_ranks_of_every_method() -> None:
    tables = [links("one", ("a", "nmo"), ("b", "n")), links("two", ("a", "mno"))]
    assert link_contexts.pairs(tables, 1, NOTHING) == {
        ("a", "n"): {"one": 1}, ("b", "n"): {"one": 1}, ("a", "m"): {"two": 1},
    }  # fmt: skip
    assert link_contexts.pairs(tables, 2, NOTHING) == {
        ("a", "n"): {"one": 1, "two": 2}, ("a", "m"): {"one": 2, "two": 1}, ("b", "n"): {"one": 1},
    }  # fmt: skip
    assert len(link_contexts.pairs(tables, 3, NOTHING)) == 4


def test_a_limit_counts_pictures_across_batches_and_tables() -> None:
    tables = [links("one", ("a", "nm"), ("b", "nm"), ("c", "n"), batch=2), links("two", ("c", "n"), ("b", "o"))]
    assert list(link_contexts.pairs(tables, 1, NOTHING, limit=2)) == [("a", "n"), ("b", "n"), ("b", "o")]
    assert len(link_contexts.pairs(tables, 1, NOTHING, limit=3)) == 4
    left = link_contexts.pairs(tables, 1, ExclusionFilter(frozenset({"a"})), limit=2)
    assert list(left) == [("b", "n"), ("b", "o")], "an excluded picture is among the first ones"


def test_too_many_pairs_and_none_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_contexts, "MAX_PAIRS", 2)
    assert len(link_contexts.pairs([links("one", ("a", "nm"))], 2, NOTHING)) == 2
    with pytest.raises(InputError, match="more than 2 pairs"):
        link_contexts.pairs([links("one", ("a", "nmo"))], 3, NOTHING)
    with pytest.raises(InputError, match="no links to review"):
        link_contexts.pairs([links("one", ("a", "n"))], 0, NOTHING)


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
    assert link_contexts.texts(kb, {"n"}, "de") == {"n": {
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
    assert link_contexts.pictures(kb, {"n", "m"}, NOTHING) == {"n": expected, "m": expected[1:2]}
    listed = ExclusionFilter(frozenset({"a", "https://x/f"}))
    assert link_contexts.pictures(kb, {"n"}, listed) == {"n": expected[1:3]}
