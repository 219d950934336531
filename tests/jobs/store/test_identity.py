"""The hash of an identity is the same in each version and process; exclusions are not part of it."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from jobs.store.identity import describe_change, flatten, identity_hash, stored_identity_hash
from jobs.store.runs.table_run import PACKAGES, code_hash, versions
from tests.cases import check_cases
from tests.conftest import ROOT


def test_the_hash_is_frozen() -> None:
    """Frozen: another value would make every existing table one of another configuration."""
    assert identity_hash({"b": {"ü": 1.0, "n": None}, "a": ["x", True]}) == "b231fc986928c418b18154015f985c5a"


def test_the_order_of_keys_exclusions_and_the_name_of_the_table_do_not_matter() -> None:
    identity: dict[str, Any] = {"a": 1, "b": [2, 3]}
    same = identity_hash(identity)
    assert identity_hash({"b": [2, 3], "a": 1}) == identity_hash(identity | {"exclusions": "x"}) == same
    assert stored_identity_hash(identity | {"table": "images", "exclusions": "y"}) == same
    others: list[dict[str, Any]] = [
        identity | {"table": "images"},
        {"a": 1, "b": [3, 2]},
        {"a": "1", "b": [2, 3]},
        {"a": 1},
    ]
    assert same not in map(identity_hash, others)


def test_the_leaves_of_nested_values_have_dotted_keys() -> None:
    nested = {"a": {"b": {"c": 1}, "d": {}}, "e": [{"f": 2}], "g": None}
    assert flatten(nested) == {"a.b.c": 1, "a.d": {}, "e": [{"f": 2}], "g": None}
    assert flatten({}) == {"": {}}


def test_versions_are_of_the_code_python_and_what_is_installed() -> None:
    installed = versions()
    assert list(installed)[:2] == ["python", "code"]
    assert set(installed) <= {"python", "code", *PACKAGES}
    assert all(installed.values())


def test_the_code_is_identified_by_each_byte_of_its_sources(tmp_path: Path) -> None:
    for folder in ("jobs", "actors"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "trained"))
    assert code_hash(tmp_path) == versions()["code"], "the files, not their place"
    changed = ("jobs/judge.py", "jobs/store/runs/table_run.py", "actors/vlm/scoring.py", "jobs/page/page.html.j2")
    hashes = {code_hash(tmp_path)}
    for path in changed:
        content = (tmp_path / path).read_bytes()
        (tmp_path / path).write_bytes(content[:-2] + b"#" + content[-1:])
        hashes.add(code_hash(tmp_path))
        (tmp_path / path).write_bytes(content)
    (tmp_path / "jobs" / "judge.py").rename(tmp_path / "jobs" / "judges.py")
    hashes.add(code_hash(tmp_path))
    assert len(hashes) == 2 + len(changed)
    with pytest.raises(RuntimeError, match="has no source files"):
        code_hash(tmp_path / "jobs")


A, B = "38932c0f84bb8d1e4ac9f3a3f3c9f2bd", "9eba846c6c4d3f0fa5b8c7d6e5f4a3b2"
RUBRIC = {"name": "mood", "questions": [{"name": "shown", "text": "Calm?"}]}
LONGER = {"name": "mood", "questions": [{"name": "shown", "text": "Is it calm?"}]}

CASES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any] | None, dict[str, Any], str]] = [
    ({"match": "word"}, {"match": "exact"}, {}, {}, "match was 'word', now 'exact'"),
    ({"k": 4}, {"k": 4, "limit": 10}, {}, {}, "limit was not set, now 10"),
    (
        {"match": "word", "terms": A}, {"match": "exact", "terms": B}, {}, {}, "match was 'word', now 'exact'",
    ),
    (
        {"k": 4, "score": "a"}, {"k": 5, "score": "b"}, {}, {}, "k was 4, now 5 (also differing: score)",
    ),
    (
        {"terms": A}, {"terms": B},
        {"out": "R/a", "terms": {"path": "t.csv", "source": "manual"}, "resources": {"mine": 1}},
        {"out": "R/b", "terms": {"path": "t.csv", "source": "other"}, "resources": {"mine": 2}},
        "terms.source was 'manual', now 'other'",
    ),
    (
        {"terms": A}, {"terms": B}, {"terms": {"path": "t.csv"}}, {"terms": {"path": "t.csv"}},
        "terms.path=t.csv has other content than when the table was written",
    ),
    (
        {"rubric": {"name": "mood", "hash": A}}, {"rubric": {"name": "mood", "hash": B}},
        {"rubric": RUBRIC}, {"rubric": LONGER},
        "rubric.questions[0].text was 'Calm?', now 'Is it calm?'",
    ),
    (
        {"input": A}, {"input": B}, None, {"input": "R/images"},
        "input=R/images has other content than when the table was written",
    ),
    (
        {"input": A}, {"input": B}, {"input": "R/old"}, {"input": "R/new"}, "input was 'R/old', now 'R/new'",
    ),
    (
        {"terms": None}, {"terms": B}, {"terms": {"path": None}}, {"terms": {"path": "t.csv"}},
        "terms.path was null, now 't.csv'",
    ),
    (
        {"k": 1, "terms": A}, {"k": 1}, {"terms": {"path": "t.csv"}}, {}, "terms.path was 't.csv', now not set",
    ),
    (
        {"terms": A, "in": A}, {"terms": B, "in": B}, None, {"in": "R"},
        "in=R has other content than when the table was written (also differing: terms)",
    ),
    (
        {"key": "64abdcf4"}, {"key": "ef896930"}, {}, {}, "key has other content than when the table was written",
    ),
    (
        {"columns": {"questions": None}}, {"columns": {"questions": {"calm": "c"}}}, {}, {},
        "columns.questions.calm was not set, now 'c'",
    ),
    (
        {"columns": {"questions": {"calm": "c"}}}, {"columns": {"questions": None}}, {}, {},
        "columns.questions.calm was 'c', now not set",
    ),
    (
        {"columns": A}, {"columns": B}, {"columns": {"questions": {}}}, {"columns": {"questions": {"a": "b"}}},
        "columns.questions.a was not set, now 'b'",
    ),
    ({"day": "20260101"}, {"day": "20260102"}, {}, {}, "day was '20260101', now '20260102'"),
    ({"x": {"a": None}}, {"x": {"a": True}}, {}, {}, "x.a was null, now true"),
    (
        {"text": "short"}, {"text": "x" * 100}, {}, {}, f"text was 'short', now '{'x' * 59}…",
    ),
]  # fmt: skip


def test_the_sentence() -> None:
    def check(
        written: dict[str, Any],
        planned: dict[str, Any],
        config: dict[str, Any] | None,
        planned_config: dict[str, Any],
        sentence: str,
    ) -> None:
        message = describe_change(written, planned, written_config=config, planned_config=planned_config)
        assert message == sentence
        assert not re.search("[0-9a-f]{16}", message)

    check_cases(check, CASES)
