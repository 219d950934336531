"""The order of a table's units: that in which they were frozen, whatever the order of the plan."""

from pathlib import Path

from jobs.store.frozen_units import in_frozen_order
from jobs.store.limits import Taken
from tests.jobs.store.small_runs import complete, plan, unit


def test_further_units_of_a_trial_come_after_those_that_were_frozen(tmp_path: Path) -> None:
    out, limit = str(tmp_path / "table"), Taken(5, 5, 9, per_input=False, noun="rows")
    frozen = [unit(name, derived=True) for name in ("c", "b")]
    complete(plan(out, units=frozen, derived=True, limit=limit))
    planned = plan(out, units=[unit(name, derived=True) for name in "abcd"], derived=True, limit=limit)
    assert [unit.name for unit in in_frozen_order(out, planned)] == ["c", "b", "a", "d"]
