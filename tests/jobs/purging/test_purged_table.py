"""Conditions under which a command keeps a purged table rather than rewriting it."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobs.purging.purged_table import purged_table
from jobs.store.counts import PURGED
from jobs.store.table_plan import TablePlan
from tests.factories import write_table


def plan(out: Path, **identity: str) -> TablePlan:
    keys = {"by": "hand", "input": "v1", **identity}
    return TablePlan(str(out), "items", keys, [], {"out": str(out), "seed": 0}, {}, derived=False)


def purged(out: Path, planned: TablePlan, **changes: Any) -> bool:
    """Return whether a table is kept whose manifest has these changes."""
    write_table(out, "items", [{"item_id": "a"}], input="v1")
    path = out / "_run" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest |= {"config": {"out": "elsewhere", "seed": 0}, "complete": True, **changes}
    manifest["counts"]["filtered"] = changes.get("filtered", {PURGED: 1})
    path.write_text(json.dumps(manifest))
    kept = purged_table(planned, ["input", "queries"])
    assert kept in (None, manifest)
    return kept is not None


def test_only_a_whole_purged_table_of_another_input_is_kept(tmp_path: Path) -> None:
    cases: dict[str, tuple[dict[str, str], dict[str, Any], bool]] = {
        "another input": ({"input": "v2"}, {}, True),
        "the same": ({}, {}, False),  # nothing to keep it for: it continues
        "another key": ({"by": "machine"}, {}, False),
        "both": ({"input": "v2", "by": "machine"}, {}, False),
        "never purged": ({"input": "v2"}, {"filtered": {}}, False),
        "not complete": ({"input": "v2"}, {"complete": False}, False),
        "another setting": ({"input": "v2"}, {"config": {"out": "x", "seed": 1}}, False),
        "a setting of the run": ({"input": "v2"}, {"config": {"out": "x", "seed": 0, "ray": {"cpus": 2}}}, True),
        "a new setting": ({"input": "v2"}, {"config": {"out": "x"}}, False),
    }
    results = {
        name: purged(tmp_path / name, plan(tmp_path / name, **identity), **changes)
        for name, (identity, changes, _) in cases.items()
    }
    assert results == {name: kept for name, (*_, kept) in cases.items()}


def test_without_a_table_there_is_none_to_keep(tmp_path: Path) -> None:
    assert purged_table(plan(tmp_path / "none"), ["input"]) is None
    write_table(tmp_path / "broken", "items", [{"item_id": "a"}])
    (tmp_path / "broken" / "_run" / "manifest.json").unlink()
    assert purged_table(replace(plan(tmp_path / "broken"), identity={}), ["input"]) is None
