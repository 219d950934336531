"""A limit takes the first rows of a plan's units, and makes a table with a different identity."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.judging.rating_tables import open_ratings
from jobs.store.files.objects import Object
from jobs.store.identity import stored_identity_hash
from jobs.store.reading import open_table
from jobs.store.run_files import WHOLE, limit_of, trials
from jobs.store.runs.table_run import check_place, open_run
from jobs.store.table_plan import TablePlan, limited, row_limit
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES
from tests.factories import rating, write_file, write_table, write_units
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
    assert str(row_limit(some)) == (f"limit={limit}: the first {len(expected)} of 6 rows" if limit else "None")


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


def test_a_trial_has_the_identity_of_the_whole_but_for_its_limit() -> None:
    whole: dict[str, Any] = {"table": "ratings", "model": "m", "rubric": {"hash": "1"}}
    tables = {
        "ten": whole | {"limit": 10},
        "whole": whole,
        "hundred": whole | {"limit": 100, "exclusions": "x"},
        "alone": whole | {"model": "n", "limit": 10},
        "responses": whole | {"table": "responses", "limit": 10},
    }
    assert trials(tables) == {"ten": "whole", "hundred": "whole"}
    del tables["whole"]
    assert trials(tables) == {"ten": "hundred"}
    assert trials({"a": whole, "b": whole}) == {}


def test_rows_that_a_driver_writes_at_once_are_not_compared() -> None:
    whole: dict[str, Any] = {"table": "items", "links": ["l"], "rows": "1", "units": "1"}
    tables = {"whole": whole, "ten": whole | {"limit": 10, "rows": "2", "units": "2"}, "other": whole | {"rows": "3"}}
    assert trials(tables) == {"ten": "whole"}


def test_tables_made_from_a_trial_are_trials_of_those_made_from_the_whole() -> None:
    def chain(out: str, **limit: int) -> dict[str, Any]:
        records = {"table": "records", "corpus": "c", **limit}
        images = {"table": "images", "input": stored_identity_hash(records)}
        ratings = {"table": "ratings", "of": {"tables": [stored_identity_hash(images), "x"]}, "model": "m"}
        return {f"{out}/records": records, f"{out}/images": images, f"{out}/ratings": ratings}

    names = ("records", "images", "ratings")
    tables = chain("whole") | chain("ten", limit=10) | chain("hundred", limit=100)
    assert trials(tables) == {f"{out}/{name}": f"whole/{name}" for out in ("ten", "hundred") for name in names}
    assert trials(chain("ten", limit=10)) == {}
    assert trials(chain("hundred", limit=100) | chain("ten", limit=10)) == {
        f"ten/{name}": f"hundred/{name}" for name in names
    }
    other = {"ten/more": chain("ten", limit=10)["ten/ratings"] | {"model": "n"}}
    assert "ten/more" not in trials(tables | other), "no table was made from the whole by this model"


def test_the_limit_is_that_of_the_tables_that_a_table_was_made_from(tmp_path: Path) -> None:
    def made_from(name: str, parent: str) -> str:
        source = open_table(parent)
        units = [
            replace(unit, inputs=(*unit.inputs, Object(f"{tmp_path}/others.tsv", 1, "e"))) for unit in source.units()
        ]
        keys = {"input": source.identity}
        run = open_run(TablePlan(f"{tmp_path}/{name}", "ratings", keys, units, {}, {}, derived=True), resume=True,
                       overwrite=False, retry=[])  # fmt: skip
        for task in run.todo:
            with UnitWriter(run.target, task) as writer:
                writer.counts.rows_in = 1
                writer.write(pa.Table.from_pylist([rating("i", "m", "fit", "1")], schema=TABLES["ratings"].schema()))
        run.finish()
        return f"{tmp_path}/{name}"

    trial = write_table(tmp_path / "first", "ratings", [rating("i", "m", "fit", "1")], limit=10)
    whole = write_table(tmp_path / "all", "ratings", [rating("i", "m", "fit", "1")])
    of_trial = made_from("third", made_from("second", trial))
    of_whole = made_from("of_whole", whole)
    assert (limit_of(of_trial), limit_of(of_whole)) == (10, WHOLE)
    with pytest.raises(InputError, match=rf"{of_trial} is a trial run \(limit=10\)"):
        open_ratings([of_whole, of_trial])
    shutil.rmtree(tmp_path / "second")
    assert limit_of(of_trial) == WHOLE


def test_tables_that_are_listed_are_refused_and_the_trial_is_named(tmp_path: Path) -> None:
    rows = [rating(f"i{n}", "m", "fit", "1") for n in range(3)]
    whole = write_table(tmp_path / "whole", "ratings", rows)
    trial = write_table(tmp_path / "trial", "ratings", rows[:1], limit=1)
    more = write_table(tmp_path / "more", "ratings", rows[:2], limit=2)
    other = write_file(tmp_path / "other", "ratings", rows)
    assert [limit_of(table) for table in (whole, trial, more, other)] == [WHOLE, 1, 2, WHOLE]
    for tables, limit in ([whole, trial], 1), ([trial, whole], 1), ([more, trial], 1), ([more, other], 2):
        named = next(table for table in (trial, more) if limit_of(table) == limit)
        with pytest.raises(InputError, match=rf"same key.*{named} is a trial run \(limit={limit}\)"):
            open_ratings(tables)
    with pytest.raises(InputError, match="name one of the two tables"):
        open_ratings([whole, other])
