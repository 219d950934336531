"""The hash of an identity is the same in each version and process; exclusions are not part of it."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from jobs.store.identity import flatten, identity_hash, stored_identity_hash
from jobs.store.runs.versions import PACKAGES, code_hash, versions
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
    changed = ("jobs/judge.py", "jobs/store/runs/versions.py", "actors/vlm/scoring.py", "jobs/page/page.html.j2")
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
