"""Lines that jobs print: plans with their sizes, sums of rows, and counts by frequency."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.runtime.configuration.resources import Demand
from jobs.runtime.planning import summary
from jobs.store.files.objects import Object
from jobs.store.units import Unit
from tests.jobs.store.small_runs import begin, plan, write


def test_a_plan_says_what_would_be_read_in_decimal_units(tmp_path: Path) -> None:
    shared = Object("/corpus/a", 1_500_000_000, "1")
    units = [Unit("u", (shared,), rows=1200), Unit("v", (shared, Object("/corpus/b", 40_000_000, "1")), rows=34)]
    planned = plan(str(tmp_path / "out"), units=units, limit="the first 9 rows")
    whole = summary.plan_of("judge", planned, [Demand("judge", 2, 1, 0)], note="a note", lines=["more"])
    printed = whole.lines
    assert printed[:4] == [
        f"judge: would write table node_images to {tmp_path}/out",
        "  reads  2 units, 1,234 rows, 1,540.0 MB; a note",  # an input that two units read counts once
        "  done   0 of 2 units",
        "  the first 9 rows",
    ]
    assert (printed[4][:9], printed[-1]) == ("  uses   ", "  more")
    assert not (tmp_path / "out").exists()
    assert [table.out for table in whole.planned] == [planned.out]
    assert summary.plan_of("judge", planned).lines[1] == "  reads  2 units, 1,234 rows, 1,540.0 MB"


@pytest.mark.parametrize(("config", "overwrite", "done"), [
    ({}, None, 1), ({"overwrite": True}, None, 0), ({}, True, 0), ({"overwrite": True}, False, 1),
])  # fmt: skip
def test_a_table_that_would_be_deleted_has_nothing_done(
    tmp_path: Path, config: dict[str, Any], overwrite: bool | None, done: int
) -> None:
    out = str(tmp_path / "out")
    run = begin(plan(out))
    write(run, run.todo[0])
    assert (
        f"  done   {done} of 3 units" in summary.plan_of("judge", plan(out, config=config), overwrite=overwrite).lines
    )


def test_rows_add_up_with_ok_first() -> None:
    counts = {
        "rows_in": 1500, "rows_out": 1000, "filtered": {"b": 300, "a": 150}, "rejected": {"z": 20, "malformed": 30},
        "status": {"error": 10, "ok": 980, "blocked": 10},
        "failures": {"blocked/robots": {"rows": 10, "where": "https://h", "message": "not allowed"}},
    }  # fmt: skip
    assert summary.reconciliation(counts).splitlines() == [
        "  1,500 in = 1,000 out + 150 filtered by a + 300 filtered by b + 30 rejected as malformed + 20 rejected as z",
        "  1,000 asked = 980 ok + 10 blocked + 10 error",
        "    10 blocked (robots), for example https://h: not allowed",
    ]
    kinds = {
        f"error/{number:02}": {"rows": 1, "where": "w", "message": ""} for number in range(summary.FAILURE_LINES + 3)
    }
    *shown, more = summary.reconciliation(counts | {"failures": kinds}).splitlines()[2:]
    assert (len(shown), more) == (summary.FAILURE_LINES, "    (+3 more kinds)")


def test_the_most_frequent_entries_come_first_and_others_are_counted() -> None:
    assert summary.tally_lines("few", {"b": 1, "c": 1000, "a": 1}) == ["  few: c 1,000, a 1, b 1"]
    assert summary.tally_lines("none", {}) == []
    (every,) = summary.tally_lines("all", {f"n{number:02}": 1 for number in range(summary.TALLY_LINES)})
    assert every.endswith(f"n{summary.TALLY_LINES - 1:02} 1")
    (many,) = summary.tally_lines("many", {f"n{number:02}": 1 for number in range(summary.TALLY_LINES + 2)})
    assert many.endswith("n09 1 (+2 more)")


def test_a_long_run_is_compared_with_its_estimate(monkeypatch: Any) -> None:
    monkeypatch.setattr(summary.estimates, "comparison_lines", lambda expected, took: ["as long as", "expected"])
    counts = {"rows_in": 1, "rows_out": 1, "filtered": {}, "rejected": {}, "status": {}, "failures": {}}

    def printed(took: float, high: float, limit: str | None = None) -> list[str]:
        run: Any = SimpleNamespace(
            target=SimpleNamespace(out="R/t"), done_before=2, units=[1], plan=SimpleNamespace(limit=limit)
        )
        manifest = {
            "counts": counts,
            "seconds": 4321.0,
            "estimate": {"seconds": {"high": high}},
            "actual": {"seconds": took},
        }
        return summary.result_lines("judge", manifest, run)

    short = ["judge: R/t", "  1 in = 1 out", "  1 unit, 2 done before, 4,321.0 s"]
    assert printed(summary.LONG_S - 1, summary.LONG_S - 1) == short
    assert printed(summary.LONG_S, 0) == printed(0, summary.LONG_S) == [*short, "  as long as", "  expected"]
    assert printed(0, 0, "the first row")[2] == "  the first row; the table has no more"
