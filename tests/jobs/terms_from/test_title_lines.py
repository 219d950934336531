"""Models' lists of titles: which lines are used, and what is wrong with the others."""

import json
from collections import Counter

from jobs.runtime.configuration.config import load
from jobs.terms_from.config import TermSourcesConfig
from jobs.terms_from.overlap import TitleOverlap, overlaps
from jobs.terms_from.title_lines import ListedTitle, TitleLines
from jobs.terms_from.topics import TopicList
from tests.cases import check_cases


def century() -> TopicList:
    return TopicList.from_dict(load("terms", TermSourcesConfig, ["out=x"]).topics)


def line(title: object, category: str = "reform", topic: str = "protest", sub_region: str = "Eastern Asia") -> str:
    return json.dumps({"sub_region": sub_region, "category": category, "topic": topic, "page_title": title})


def read(text: str, *, is_cut: bool = False, keep_unknown: bool = False) -> tuple[list[ListedTitle], dict[str, int]]:
    kinds = Counter[str]()
    titles = list(TitleLines(century(), keep_unknown=keep_unknown).read(text, kinds, is_cut=is_cut))
    return titles, dict(kinds)


def test_century_has_the_papers_lists() -> None:
    topics = century()
    assert {name: len(entries) for name, entries in topics.categories.items()} == {
        "conflict": 11,
        "oppression": 11,
        "discrimination": 15,
        "reform": 22,
    }
    assert "independence" not in topics.categories["reform"]
    assert (topics.titles, len(topics.sub_regions)) == (40, 24)
    concepts = load("terms", TermSourcesConfig, ["out=x"]).concepts["themes"]
    assert {name: len(entries) for name, entries in concepts.items()} == {
        "conflict": 11,
        "oppression": 11,
        "discrimination": 15,
        "reform": 23,
    }
    for category, entries in topics.categories.items():
        assert set(concepts[category]) - set(entries) == ({"independence"} if category == "reform" else set())


def test_lines_are_read_in_fences_and_brackets_with_commas_and_in_any_case() -> None:
    text = f"```jsonl\n[\n{line('A')},\n\n{line('B', 'REFORM', 'Protest', 'eastern asia')}\n]\n```\n"
    titles, kinds = read(text)
    assert titles == [
        ListedTitle("A", "reform", "protest", "Eastern Asia"),
        ListedTitle("B", "reform", "protest", "Eastern Asia"),
    ]
    assert kinds == {"valid": 2}


def test_an_object_over_several_lines_counts_as_one() -> None:
    spread = json.dumps(json.loads(line("A")), indent=2)
    titles, kinds = read(f"Here:\n{spread},\n{line('B')}\n{spread} and\n{{\n", is_cut=True)
    assert [title.page_title for title in titles] == ["A", "B"]
    # the second is not an object but six lines: a brace, four strings with colons, and a brace with words
    assert kinds == {"valid": 2, "not_json": 7, "cut": 1}


def test_lines_that_are_dropped_are_counted_by_kind() -> None:
    cases = [
        ("Here is the list:", "not_json"),
        ("1. " + line("A"), "not_json"),
        ('{"page_title": "A"', "not_json"),
        ("[" + line("A") + "]", "not_an_object"),
        ('"A"', "not_an_object"),
        ("NaN", "not_an_object"),
        ('{"page_title": "A"}', "missing_key"),
        (line(["A"]), "wrong_type"),
        (line(None), "wrong_type"),
        (line("  "), "empty_title"),
        (line("A", "peace"), "unknown_category"),
        (line("A", topic="sport"), "unknown_topic"),
        (line("A", topic="war"), "topic_of_other_category"),
        (line("A", sub_region="Asia"), "unknown_sub_region"),
        ("[" * 100_000, "not_json"),
    ]

    def check(text: str, kind: str) -> None:
        titles, kinds = read(f"{line('First')}\n{text}\n{line('Last')}")
        assert [title.page_title for title in titles] == ["First", "Last"]
        assert kinds == {"valid": 2, kind: 1}

    check_cases(check, cases)


def test_a_cut_line_is_that_of_the_end() -> None:
    assert read(line("A") + '\n{"page_ti', is_cut=True)[1] == {"valid": 1, "cut": 1}
    assert read(line("A") + "\n" + line("B"), is_cut=True)[1] == {"valid": 2}
    assert read(line("A") + '\n{"page_title": "B"}', is_cut=True)[1] == {"valid": 1, "missing_key": 1}
    assert read(line("A") + '\n{"page_ti')[1] == {"valid": 1, "not_json": 1}


def test_a_repeated_title_counts_once_for_each_topic() -> None:
    titles, kinds = read("\n".join([line("A b"), line("a  B"), line("A b", topic="peace")]))
    assert [(title.page_title, title.topic) for title in titles] == [("A b", "protest"), ("A b", "peace")]
    assert kinds == {"valid": 2, "repeated": 1}


def test_unknown_topics_can_be_kept_as_written() -> None:
    titles, kinds = read(line("A", "Reform", "Sport", "Moon"), keep_unknown=True)
    assert titles == [ListedTitle("A", "reform", "Sport", "Moon")]
    assert kinds == {"unknown_topic": 1}


def test_overlap_by_both_definitions() -> None:
    (pair,) = overlaps({"b": {"1", "2", "3", "4"}, "a": {"3", "4", "5"}})
    assert pair == TitleOverlap("a", "b", common=2, either=5, smaller=3)
    assert (pair.of_union, pair.of_smaller) == (2 / 5, 2 / 3)
    (none,) = overlaps({"a": set(), "b": set()})
    assert (none.of_union, none.of_smaller) == (None, None)


def test_long_titles_and_half_characters_are_counted_or_replaced() -> None:
    text = "\n".join([line("x" * 1001), line("y" * 1000), line("Battle of \ud83d"), line("a\u2028b")])
    titles, kinds = read(text)
    assert [title.page_title for title in titles] == ["y" * 1000, "Battle of \ufffd", "a b"]
    assert kinds == {"long_title": 1, "valid": 3}
    unescaped = line("a\u2028b").replace("\\u2028", "\u2028")  # JSON allows it inside a string
    assert [title.page_title for title in read(unescaped)[0]] == ["a b"]
