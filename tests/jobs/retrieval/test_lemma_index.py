"""Names in free text against a few nodes."""

from typing import Any

import numpy as np

from jobs.retrieval.lemma_index import LemmaIndex, lines_of, phrase_hashes, spans, words_of
from tests.factories import TableInMemory

NODES: list[dict[str, Any]] = [
    {"node_id": "n1", "lemmas": [("en", ["Easter egg"]), ("de", ["Osterei"])], "titles": [("en", "Easter egg")]},
    {"node_id": "n2", "lemmas": [("en", ["Easter"])]},
    {"node_id": "n3", "lemmas": [("en", ["egg", "eggs"])]},
    {"node_id": "n4", "lemmas": [("en", ["roe", "egg"])]},
    {"node_id": "n5", "lemmas": [("en", ["day_of_the_dead"]), ("es", ["Día de Muertos"])]},
    {"node_id": "n6", "lemmas": None, "titles": None},
]
TABLE: Any = TableInMemory("nodes", NODES)


def found(text: str, *, lines: int = 5, longest: int = 6) -> list[tuple[str, str, float]]:
    index = LemmaIndex(TABLE, phrase_hashes([text], lines=lines, longest=longest))
    return [(m.node_id, m.lemma, round(m.share, 3)) for m in index.matches(text, lines=lines, longest=longest)]


def test_words_have_no_case_accents_or_punctuation() -> None:
    assert words_of("Día de_Muertos, (2nd)!") == ["dia", "de", "muertos", "2nd"]
    assert words_of("ᴱgg 卵") == ["egg", "卵"]
    assert lines_of("1. A b\n\n- c\n(2) d\n", 2) == [["a", "b"], ["c"]]
    assert lines_of("99) a\n101. b", 9) == [["a"], ["101", "b"]], "a list has no numbers of three digits"


def test_runs_of_words_begin_with_the_longest() -> None:
    assert list(spans(3, 2)) == [(0, 2), (1, 3), (0, 1), (1, 2), (2, 3)]
    assert len(phrase_hashes(["a b c", "a b"], lines=1, longest=6)) == 6
    assert len(phrase_hashes(["a b c\nd"], lines=1, longest=2)) == 5, "of the first line, and not a b c"


def test_nodes_of_a_text() -> None:
    expected = {
        "an EASTER EGG!": [("n1", "Easter egg", 0.667)],  # not also Easter and egg: their words are taken
        "Osterei": [("n1", "Osterei", 1.0)],
        "egg": [("n3", "egg", 1.0), ("n4", "egg", 1.0)],  # the node whose first name it is comes first
        "eggs at Easter": [("n3", "eggs", 0.333), ("n2", "Easter", 0.333)],
        "nothing\n2. Day of the Dead\nEaster": [("n5", "day_of_the_dead", 1.0), ("n2", "Easter", 1.0)],
        "dia de muertos": [("n5", "Día de Muertos", 1.0)],
        "nothing known": [],
    }
    assert {text: found(text) for text in expected} == expected


def test_lines_and_lengths_beyond_the_limits_do_not_count() -> None:
    assert found("Osterei\nEaster", lines=1) == [("n1", "Osterei", 1.0)]
    assert found("day of the dead", longest=3) == []


def test_only_wanted_names_are_held() -> None:
    index = LemmaIndex(TABLE, phrase_hashes(["egg"], lines=1, longest=1))
    assert len(index) == 1
    assert not index.nodes("easter")
    assert not LemmaIndex(TABLE, np.empty(0, np.uint64))


def test_nodes_of_a_name_are_sorted_and_a_node_keeps_its_first_match() -> None:
    """By the place of the name among the node's names, then by id."""
    rows: list[dict[str, Any]] = [
        {"node_id": node, "lemmas": [("en", lemmas)]}
        for node, lemmas in (("z", ["roe"]), ("c", ["x", "roe"]), ("a", ["roe"]), ("b", ["y", "roe"]), ("y", ["roe"]))
    ]
    table: Any = TableInMemory("nodes", rows)
    index = LemmaIndex(table, phrase_hashes(["roe x"], lines=1, longest=1))
    assert [node.node_id for node in index.nodes("roe")] == ["a", "y", "z", "b", "c"]
    assert (len(index), index.nodes("absent")) == (2, [])
    assert found("Easter egg\nEaster egg hunt\negg") == found("Easter egg\negg")


def test_a_title_is_a_first_name() -> None:
    nodes: list[dict[str, Any]] = [
        {"node_id": "n1", "lemmas": [("en", ["roe", "egg"])]},
        {"node_id": "n2", "titles": [("en", "Egg")]},
    ]
    table: Any = TableInMemory("nodes", nodes)
    index = LemmaIndex(table, phrase_hashes(["egg"], lines=1, longest=1))
    assert [node.node_id for node in index.nodes("egg")] == ["n2", "n1"]
