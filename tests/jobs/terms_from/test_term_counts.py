"""Counts of a table of terms: where each is from, and their order."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.terms_from.term_counts import COUNTS, distinct_terms, keep_counts, show_counts
from tests.factories import write_units

TALLIES: dict[str, dict[str, int]] = {
    "total": {"entities": 3, "names_changed": 2},
    "concept": {"war": 1, "art": 1, "flood": 2},
    "type": {"event": 3},
    "theme": {"b": 1, "a": 2},
    "period": {"before 1900": 3},
    "linked_by": {"part of": 1},
    "name_kind": {"alias": 4, "label": 3},
}


def table(folder: Path) -> str:
    """Terms in two units, of which one has another case and one is repeated in another unit."""
    units = [["Great War", "great war", "Straße"], ["GREAT WAR", "STRASSE", "Émile"], ["émile", "ΟΔΟΣ", "οδος"]]
    key = dict.fromkeys(["concept", "entity_id", "response_id"], "")
    rows = [[{"term": term, "source": "knowledge_graph", **key} for term in terms] for terms in units]
    return write_units(folder / "terms", "terms", rows)


def test_terms_that_differ_in_case_alone_are_one(tmp_path: Path) -> None:
    """Sigma has another form at a word's end, which `str.lower` knows and Arrow does not."""
    assert distinct_terms(table(tmp_path)) == 5  # great war, straße, strasse, émile, οδος
    assert distinct_terms(write_units(tmp_path / "none", "terms", [[]])) == 0


def test_counts_are_those_of_the_papers_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept: dict[str, Any] = {}
    run: Any = SimpleNamespace(
        target=SimpleNamespace(out=table(tmp_path)), keep=lambda name, data: kept.update({name: json.loads(data)})
    )
    counts = keep_counts(run, {"counts": {"rows_out": 7, "tallies": TALLIES}})
    assert kept == {COUNTS: counts}
    assert counts == {
        "entities": 3,
        "rows": 7,
        "distinct_terms": 5,
        "names_changed_by_punctuation_or_space": 2,
        "entities_by_concept": {"flood": 2, "art": 1, "war": 1},
        "entities_by_type": {"event": 3},
        "entities_by_theme": {"a": 2, "b": 1},
        "entities_by_period": {"before 1900": 3},
        "entities_by_property": {"part of": 1},
        "terms_by_kind_of_name": {"alias": 4, "label": 3},
    }
    assert list(counts["entities_by_concept"]) == ["flood", "art", "war"]  # most first, then by name
    show_counts(counts)
    printed = capsys.readouterr().out
    assert "3 entities, 5 distinct terms; 2 names changed" in printed
    titles = ("entities by concept (table 6)", "entities by type (table 7)", "entities by theme",
              "entities by property", "terms by kind of name")  # fmt: skip
    places = [printed.index(title) for title in titles]
    assert places == sorted(places)
    assert [word in printed for word in ("flood", "event", "part of", "alias")] == [True] * 4


def test_a_table_without_entities_has_counts_of_nothing(tmp_path: Path) -> None:
    uri = write_units(tmp_path / "none", "terms", [[]])
    run: Any = SimpleNamespace(target=SimpleNamespace(out=uri), keep=lambda *_: None)
    counts = keep_counts(run, {"counts": {"rows_out": 0, "tallies": {}}})
    assert not any(counts.values())
