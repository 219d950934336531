"""Models' lists of titles -> terms: counts by model, shares, what a run depends on, and the printed lines."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.configuration.config import load
from jobs.runtime.outcomes import Manifest, show
from jobs.store.reading import open_table
from jobs.terms_from.descriptions import TopicList
from jobs.terms_from.model_terms import ListedTitle, TitleLines, TitleOverlap, overlaps, write_model_terms
from jobs.terms_from.terms_config import TermSourcesConfig
from tests.cases import check_cases
from tests.factories import rows_of, write_units


def line(title: str, topic: str = "war", sub_region: str = "none") -> str:
    return json.dumps({"sub_region": sub_region, "category": "conflict", "topic": topic, "page_title": title})


def answer(model: str, sample: int, text: str | None, status: str = "ok") -> dict[str, Any]:
    return {
        "response_id": f"{model}{sample}", "item_id": "i", "model": model, "prompt": "p", "sample": sample,
        "text": text, "status": status,
    }  # fmt: skip


def write(folder: Path, name: str, *units: Sequence[dict[str, Any]]) -> str:
    return write_units(folder / "responses" / name, "responses", units)


def terms(folder: Path, *keys: str, out: str = "out") -> Manifest:
    """Run the job on all tables below `folder`, print its result and return the manifest."""
    arguments = ["source=language_model", f"responses=[{folder}/responses/*]", f"out={folder}/{out}", *keys]
    manifest = write_model_terms(load("terms", TermSourcesConfig, arguments))
    assert isinstance(manifest, Manifest)
    show(manifest)
    return manifest


def counts_of(folder: Path, out: str = "out") -> dict[str, Any]:
    counts: dict[str, Any] = json.loads((folder / out / "terms" / "_run" / "title_counts.json").read_text())
    return counts


def test_a_model_without_any_line_has_no_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a", [answer("a", 0, "```json\n[\n]\n```"), answer("a", 1, "\n")])
    write(tmp_path, "b", [answer("b", 0, line("One"))])
    manifest = terms(tmp_path)
    counts = counts_of(tmp_path)
    assert counts["models"]["a"] == {"distinct_titles": 0, "lines": {}, "valid_share": None}
    assert counts["models"]["b"] == {"distinct_titles": 1, "lines": {"valid": 1}, "valid_share": 1.0}
    assert counts["overlap"] == [], "a lists no title"
    assert (manifest["counts"]["rows_in"], manifest["counts"]["filtered"]) == (1, {})
    printed = capsys.readouterr().out
    assert "  a: undefined of lines valid (no lines); 0 titles\n" in printed
    assert "  b: 100.0% of lines valid (1 valid); 1 titles\n" in printed


def test_lines_are_counted_by_model_over_all_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = "\n".join([line("One"), line("one"), line("Two"), "no json"])
    write(tmp_path, "a", [answer("a", 0, first)], [answer("a", 1, f"{line('ONE')}\n{line('Three', 'no topic')}")])
    others = [answer("b", 0, line("two")), answer("b", 1, line("Four")), answer("b", 2, "cannot", "refused")]
    write(tmp_path, "b", [*others, answer("b", 3, None), answer("b", 4, f"{line('Five')}\n{{", "truncated")])
    counts = terms(tmp_path)["counts"]
    assert counts["filtered"] == {
        "repeated": 1, "not_json": 1, "unknown_topic": 1, "response_refused": 1, "response_ok": 1, "cut": 1,
    }  # fmt: skip
    assert (counts["rows_out"], counts["rows_in"]) == (6, 12)
    assert counts["tallies"]["responses"] == {"ok": 5, "refused": 1, "truncated": 1}
    shares = counts_of(tmp_path)
    assert shares["distinct_titles"] == 4
    assert shares["responses"] == {"ok": 5, "refused": 1, "truncated": 1}
    assert shares["models"] == {
        "a": {
            "distinct_titles": 2,
            "lines": {"not_json": 1, "repeated": 1, "unknown_topic": 1, "valid": 3},
            "valid_share": 4 / 6,
        },
        "b": {"distinct_titles": 3, "lines": {"cut": 1, "valid": 3}, "valid_share": 3 / 4},
    }
    assert shares["overlap"] == [
        {"first": "a", "second": "b", "common": 1, "either": 4, "smaller": 2, "of_union": 1 / 4, "of_smaller": 1 / 2}
    ]
    printed = capsys.readouterr().out
    assert "  4 distinct titles; responses: 5 ok, 1 refused, 1 truncated\n" in printed
    assert "  a: 66.7% of lines valid (1 not_json, 1 repeated, 1 unknown_topic, 3 valid); 2 titles\n" in printed
    assert "  a and b: 1 titles in common, 25.0% of all 4, 50.0% of the smaller list's 2\n" in printed


def test_rows_name_their_response(tmp_path: Path) -> None:
    write(tmp_path, "a", [answer("a", 3, f"{line('One', sub_region='eastern asia')}\n{line('Two', 'My topic')}")])
    terms(tmp_path, "unknown=keep")
    rows = {row["term"]: row for row in rows_of(f"{tmp_path}/out/terms")}
    one = {name: rows["One"][name] for name in ("source", "concept", "entity_id", "response_id", "theme", "model")}
    assert one == {
        "source": "language_model", "concept": "war", "entity_id": "", "response_id": "a3", "theme": "conflict",
        "model": "a",
    }  # fmt: skip
    assert (rows["One"]["sample"], rows["One"]["sub_region"]) == (3, "Eastern Asia")
    assert rows["Two"]["concept"] == "My topic"
    counts = open_table(f"{tmp_path}/out/terms").counts()
    assert (counts.rows_in, counts.filtered) == (2, {})
    terms(tmp_path, out="dropped")
    assert [row["term"] for row in rows_of(f"{tmp_path}/dropped/terms")] == ["One"]
    with pytest.raises(InputError, match="unknown was"):
        terms(tmp_path)


def test_a_limit_takes_the_first_responses(tmp_path: Path) -> None:
    write(tmp_path, "a", [answer("a", n, line(f"A{n}")) for n in range(2)], [answer("a", 2, line("A2"))])
    write(tmp_path, "b", [answer("b", 0, line("B0"))])
    assert terms(tmp_path, "limit=1")["limit"]["noun"] == "responses"
    assert [row["term"] for row in rows_of(f"{tmp_path}/out/terms")] == ["A0"]
    terms(tmp_path, "limit=3", out="three")
    assert {row["term"] for row in rows_of(f"{tmp_path}/three/terms")} == {"A0", "A1", "A2"}


def test_a_plan_counts_the_responses_and_writes_nothing(tmp_path: Path) -> None:
    write(tmp_path, "a", [answer("a", n, line("A")) for n in range(2)])
    write(tmp_path, "b", [answer("b", 0, line("B"))])
    keys = ["source=language_model", f"responses=[{tmp_path}/responses/*]", f"out={tmp_path}/out", "plan=true"]

    def planned(*more: str) -> str:
        return "\n".join(write_model_terms(load("terms", TermSourcesConfig, [*keys, *more])).lines)

    assert "3 responses" in planned()
    measured = tmp_path / "measured.yaml"
    pace = {"job": "terms", "pools": [], "device": "cpu", "hardware": "mine", "date": "2026-01-01", "command": "c",
            "work": 10, "counted": "rows", "seconds": [1.0]}  # fmt: skip
    for part, text in (
        ("terms", "measured on mine, 2026-01-01, by c"),
        ("entities", "no measurement of terms terms on CPUs"),
    ):
        measured.write_text(json.dumps([{**pace, "part": part}]))
        printed = planned(f"resources.measured={measured}")
        assert text in printed
        assert ("only a run shows it" in printed) == (part != "terms")
    assert not (tmp_path / "out").exists()
    write(tmp_path, "copy", [answer("a", 0, line("A"))])
    with pytest.raises(InputError, match="same key"):
        write_model_terms(load("terms", TermSourcesConfig, keys))


def century() -> TopicList:
    return TopicList.from_dict(load("terms", TermSourcesConfig, ["out=x"]).topics)


def title_line(
    title: object, category: str = "reform", topic: str = "protest", sub_region: str = "Eastern Asia"
) -> str:
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
    text = f"```jsonl\n[\n{title_line('A')},\n\n{title_line('B', 'REFORM', 'Protest', 'eastern asia')}\n]\n```\n"
    titles, kinds = read(text)
    assert titles == [
        ListedTitle("A", "reform", "protest", "Eastern Asia"),
        ListedTitle("B", "reform", "protest", "Eastern Asia"),
    ]
    assert kinds == {"valid": 2}


def test_an_object_over_several_lines_counts_as_one() -> None:
    spread = json.dumps(json.loads(title_line("A")), indent=2)
    titles, kinds = read(f"Here:\n{spread},\n{title_line('B')}\n{spread} and\n{{\n", is_cut=True)
    assert [title.page_title for title in titles] == ["A", "B"]
    # the second is not an object but six lines: a brace, four strings with colons, and a brace with words
    assert kinds == {"valid": 2, "not_json": 7, "cut": 1}


def test_lines_that_are_dropped_are_counted_by_kind() -> None:
    cases = [
        ("Here is the list:", "not_json"),
        ("1. " + title_line("A"), "not_json"),
        ('{"page_title": "A"', "not_json"),
        ("[" + title_line("A") + "]", "not_an_object"),
        ('"A"', "not_an_object"),
        ("NaN", "not_an_object"),
        ('{"page_title": "A"}', "missing_key"),
        (title_line(["A"]), "wrong_type"),
        (title_line(None), "wrong_type"),
        (title_line("  "), "empty_title"),
        (title_line("A", "peace"), "unknown_category"),
        (title_line("A", topic="sport"), "unknown_topic"),
        (title_line("A", topic="war"), "topic_of_other_category"),
        (title_line("A", sub_region="Asia"), "unknown_sub_region"),
        ("[" * 100_000, "not_json"),
    ]

    def check(text: str, kind: str) -> None:
        titles, kinds = read(f"{title_line('First')}\n{text}\n{title_line('Last')}")
        assert [title.page_title for title in titles] == ["First", "Last"]
        assert kinds == {"valid": 2, kind: 1}

    check_cases(check, cases)


def test_a_cut_line_is_that_of_the_end() -> None:
    assert read(title_line("A") + '\n{"page_ti', is_cut=True)[1] == {"valid": 1, "cut": 1}
    assert read(title_line("A") + "\n" + title_line("B"), is_cut=True)[1] == {"valid": 2}
    assert read(title_line("A") + '\n{"page_title": "B"}', is_cut=True)[1] == {"valid": 1, "missing_key": 1}
    assert read(title_line("A") + '\n{"page_ti')[1] == {"valid": 1, "not_json": 1}


def test_a_repeated_title_counts_once_for_each_topic() -> None:
    titles, kinds = read("\n".join([title_line("A b"), title_line("a  B"), title_line("A b", topic="peace")]))
    assert [(title.page_title, title.topic) for title in titles] == [("A b", "protest"), ("A b", "peace")]
    assert kinds == {"valid": 2, "repeated": 1}


def test_unknown_topics_can_be_kept_as_written() -> None:
    titles, kinds = read(title_line("A", "Reform", "Sport", "Moon"), keep_unknown=True)
    assert titles == [ListedTitle("A", "reform", "Sport", "Moon")]
    assert kinds == {"unknown_topic": 1}


def test_overlap_by_both_definitions() -> None:
    (pair,) = overlaps({"b": {"1", "2", "3", "4"}, "a": {"3", "4", "5"}})
    assert pair == TitleOverlap("a", "b", common=2, either=5, smaller=3)
    assert (pair.of_union, pair.of_smaller) == (2 / 5, 2 / 3)
    (none,) = overlaps({"a": set(), "b": set()})
    assert (none.of_union, none.of_smaller) == (None, None)


def test_long_titles_and_half_characters_are_counted_or_replaced() -> None:
    text = "\n".join(
        [title_line("x" * 1001), title_line("y" * 1000), title_line("Battle of \ud83d"), title_line("a\u2028b")]
    )
    titles, kinds = read(text)
    assert [title.page_title for title in titles] == ["y" * 1000, "Battle of \ufffd", "a b"]
    assert kinds == {"long_title": 1, "valid": 3}
    unescaped = title_line("a\u2028b").replace("\\u2028", "\u2028")  # JSON allows it inside a string
    assert [title.page_title for title in read(unescaped)[0]] == ["a b"]
