"""The name of a linked entity, by the languages of its titles and lemmas."""

from typing import Any

from actors.ids import content_id
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
from tests.cases import check_cases


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
