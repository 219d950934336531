"""A limit takes the first rows of a plan's units, and makes a table with a different identity."""

from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.store.limits import limited, taken
from jobs.store.reading import open_table
from jobs.store.runs.table_run import check_place
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from tests.factories import write_units
from tests.jobs.store import small_runs
from tests.jobs.store.small_runs import complete


def planned(*rows: int | None, **extra: object) -> TablePlan:
    units = [Unit(f"u{number}", (), rows=n, extra=dict(extra)) for number, n in enumerate(rows)]
    return TablePlan("out", "node_images", {"x": 1}, units, {}, {}, derived=True)


def test_the_first_rows_of_units_with_known_rows() -> None:
    plan = limited(planned(4, 4, 4, filtered={"draw": 2}), 6)
    assert [(unit.name, unit.rows, unit.limit) for unit in plan.units] == [("u0", 4, None), ("u1", 2, 2)]
    assert [dict(unit.extra) for unit in plan.units] == [{"filtered": {"draw": 2}}, {"limit": 2}]
    assert plan.identity == {"x": 1, "limit": 6}
    assert plan.limit is not None
    assert plan.limit.to_json() == {"limit": 6, "rows": 6, "of": 12, "each_file": False, "noun": "rows"}
    assert str(plan.limit) == "limit=6: the first 6 of 12 rows"


def test_the_first_rows_of_each_file_of_unknown_length() -> None:
    plan = limited(planned(None, None), 3, noun="records")
    assert [(unit.name, unit.limit) for unit in plan.units] == [("u0", 3), ("u1", 3)]
    assert plan.limit is not None
    assert plan.limit.to_json() == {"limit": 3, "rows": None, "of": None, "each_file": True, "noun": "records"}
    assert str(plan.limit) == "limit=3: the first 3 records of each file"


def test_units_are_counted_until_there_are_enough() -> None:
    counted = []

    def count(unit: Unit) -> int:
        counted.append(unit.name)
        return {"u0": 2, "u1": 0, "u2": 3, "u3": 9}[unit.name]

    plan = limited(planned(40, 40, 40, 40), 4, noun="pictures", count=count)
    assert [(unit.name, unit.rows, unit.limit) for unit in plan.units] == [
        ("u0", 2, None),
        ("u1", 0, None),
        ("u2", 2, 2),
    ]
    assert counted == ["u0", "u1", "u2"]
    assert str(plan.limit) == "limit=4: the first 4 pictures"


@pytest.mark.parametrize("limit", [None, 1, 3, 4, 9])
def test_a_table_with_its_first_rows_only(tmp_path: Path, limit: int | None) -> None:
    rows = [{"node_id": "n", "image_id": str(number)} for number in range(6)]
    table = open_table(write_units(tmp_path / "t", "node_images", [rows[:3], rows[3:]]))
    some = table.first(limit)
    expected = [str(number) for number in range(6)][:limit]
    assert [i for batch in some.batches(["image_id"]) for i in batch["image_id"].to_pylist()] == expected
    assert some.rows == sum(unit.rows or 0 for unit in some.units()) == len(expected)
    assert str(taken(some)) == (f"limit={limit}: the first {len(expected)} of 6 rows" if limit else "None")


def test_limits_of_groups_of_units_and_of_tables_without_rows() -> None:
    plan = limited(planned(2, 2, 2, 2), 3, by=lambda unit: unit.name in ("u0", "u1"))
    assert [(unit.name, unit.rows) for unit in plan.units] == [("u0", 2), ("u1", 1), ("u2", 2), ("u3", 1)]
    assert [unit.name for unit in limited(planned(0), 3).units] == ["u0"]


def test_a_unit_has_another_version_with_another_limit() -> None:
    (whole,), (one,), (two,) = (limited(planned(9), n).units for n in (None, 1, 2))
    assert len({unit.version for unit in (whole, one, two)}) == 3


def test_a_plan_without_a_limit_is_the_same_and_a_limited_one_is_not_cut_again() -> None:
    plan = planned(4)
    assert limited(plan, None) is plan
    once = limited(plan, 2)
    assert limited(once, 2) is once
    with pytest.raises(InputError, match=r"^limit=0: must be at least 1"):
        limited(plan, 0)


def test_a_table_is_not_continued_with_another_limit(tmp_path: Path) -> None:
    whole, ten = small_runs.plan(f"{tmp_path}/whole"), limited(small_runs.plan(f"{tmp_path}/ten"), 10)
    assert complete(whole)["limit"] is None
    assert complete(ten)["limit"]["limit"] == 10

    def refused(plan: TablePlan) -> str:
        with pytest.raises(InputError) as caught:
            check_place(plan, resume=True, overwrite=False, retry=[])
        return str(caught.value)

    assert "limit was 10, now not set" in refused(small_runs.plan(f"{tmp_path}/ten"))
    assert "limit was not set, now 10" in refused(limited(whole, 10))
