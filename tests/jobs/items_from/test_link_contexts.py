"""The name of a linked entity, by the languages of its titles and lemmas."""

from jobs.items_from.link_contexts import NO_ARTICLE, UNKNOWN, Context, article_context, name_of
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
    assert article_context(node, {}, language="en") == Context(NO_ARTICLE)
    assert article_context(node, {"t": "It is beaten."}, language="en").text == "It is beaten."
