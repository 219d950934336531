"""Models' lists of titles -> terms: counts by model, shares, what a run depends on, and the printed lines."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.configuration.config import load
from jobs.store.reading import open_table
from jobs.terms_from.config import TermSourcesConfig
from jobs.terms_from.model_terms import write_model_terms
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


def terms(folder: Path, *keys: str, out: str = "out") -> dict[str, Any]:
    """Run the job on all tables below `folder`; return the manifest."""
    arguments = ["source=language_model", f"responses=[{folder}/responses/*]", f"out={folder}/{out}", *keys]
    manifest = write_model_terms(load("terms", TermSourcesConfig, arguments))
    assert manifest is not None
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


def test_a_plan_counts_the_responses_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "a", [answer("a", n, line("A")) for n in range(2)])
    write(tmp_path, "b", [answer("b", 0, line("B"))])
    keys = ["source=language_model", f"responses=[{tmp_path}/responses/*]", f"out={tmp_path}/out", "plan=true"]
    assert write_model_terms(load("terms", TermSourcesConfig, keys)) is None
    assert "3 responses" in capsys.readouterr().out
    measured = tmp_path / "measured.yaml"
    pace = {"job": "terms", "pools": [], "device": "cpu", "hardware": "mine", "date": "2026-01-01", "command": "c",
            "work": 10, "counted": "rows", "seconds": [1.0]}  # fmt: skip
    for part, text in (
        ("terms", "measured on mine, 2026-01-01, by c"),
        ("entities", "no measurement of terms terms on CPUs"),
    ):
        measured.write_text(json.dumps([{**pace, "part": part}]))
        write_model_terms(load("terms", TermSourcesConfig, [*keys, f"resources.measured={measured}"]))
        printed = capsys.readouterr().out
        assert text in printed
        assert ("only a run shows it" in printed) == (part != "terms")
    assert not (tmp_path / "out").exists()
    write(tmp_path, "copy", [answer("a", 0, line("A"))])
    with pytest.raises(InputError, match="same key"):
        write_model_terms(load("terms", TermSourcesConfig, keys))
