"""Each check of a table by itself: which faults, of which files, and what a repair may remove."""

import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobs.store import table_faults
from jobs.store.files.objects import Object
from jobs.store.footers import read_footer
from jobs.store.json_types import FOOTER_KEY
from jobs.store.reading import open_table
from jobs.store.table_faults import Fault
from tests.factories import image_row, record, write_records, write_table, write_units


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Units of two, one and no rows, a reject in each."""
    out = tmp_path / "records"
    write_records(str(out), [[record("a"), record("b")], [record("c")], []], rejected=1)
    return out


def change(path: Path, **changes: Any) -> None:
    """Write the object again with another footer."""
    rows = pq.read_table(path)
    data = json.dumps(footer_of(path) | changes).encode()
    pq.write_table(rows.replace_schema_metadata({**rows.schema.metadata, FOOTER_KEY: data}), path)


def footer_of(path: Path) -> dict[str, Any]:
    footer: dict[str, Any] = json.loads(pq.read_metadata(path).metadata[FOOTER_KEY])
    return footer


def problems(faults: Any) -> list[tuple[str, str, str | None]]:
    """Return the names of the place and of the damaged file, and the problem, of each fault."""
    return [(Path(fault.place).name, fault.problem, fault.damaged and Path(fault.damaged).name) for fault in faults]


def every_fault(table: Path) -> list[tuple[str, str, str | None]]:
    source = open_table(str(table))
    checks = (table_faults.footer_faults, table_faults.run_faults, table_faults.row_faults)
    return problems(fault for check in checks for fault in check(source))


def test_a_sound_table_has_no_fault(table: Path, tmp_path: Path) -> None:
    assert list(table_faults.damage(str(table))) == every_fault(table) == []
    fault = Fault("place", "problem")
    assert (str(fault), fault.damaged, fault.missing) == ("place: problem", None, False)
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "f.parquet").write_bytes(b"x")
    assert list(table_faults.damage(str(tmp_path / "none"))) == [], "nothing was written there"


def test_missing_units_are_counted_and_the_first_is_named(table: Path) -> None:
    for name in ("unit1", "unit2"):
        (table / f"{name}.parquet").unlink()
    (fault,) = table_faults.damage(str(table))
    assert (fault.place, fault.damaged, fault.missing) == (str(table), None, True)
    assert fault.problem.startswith("2 of 3 units are missing, the first is unit1; run the command")
    change(table / "unit0.parquet", version="another")
    (fault,) = table_faults.damage(str(table))
    assert fault.problem.startswith("3 of 3 units are missing, the first is unit0; "), "of another version"


def test_objects_that_cannot_be_read(table: Path) -> None:
    """A broken unit can be written again, and a broken file of others is kept."""
    (table / "unit1.parquet").write_bytes(b"broken")
    (table / "mine.parquet").write_bytes(b"broken")
    pq.write_table(pq.read_table(table / "unit0.parquet").replace_schema_metadata(None), table / "plain.parquet")
    others, plain, unit, missing = sorted(
        problems(table_faults.damage(str(table))), key=lambda fault: fault[0] == "records"
    )
    assert others == (
        "mine.parquet",
        "damaged, not a readable Parquet file, and no unit of this table; move it elsewhere if you need it",
        None,
    )
    assert plain == ("plain.parquet", "not written by remine", None)
    assert unit == ("unit1.parquet", "damaged, not a readable Parquet file", "unit1.parquet")
    assert missing[1].startswith("1 of 3 units are missing, the first is unit1")


def test_objects_of_several_configurations(table: Path) -> None:
    """Objects are compared with identity.json, or with the first one without it; it goes if it is of no object."""
    other = "written with another configuration than the other objects"
    change(table / "unit1.parquet", identity="other")
    assert problems(table_faults.damage(str(table))) == [("unit1.parquet", other, "unit1.parquet")]
    change(table / "unit0.parquet", identity="other")
    names = ["unit0.parquet", "unit1.parquet"]
    assert problems(table_faults.damage(str(table))) == [(name, other, name) for name in names]
    kept = (table / "_run" / "identity.json").read_text()
    (table / "_run" / "identity.json").unlink()
    assert problems(table_faults.damage(str(table))) == [("unit2.parquet", other, "unit2.parquet")]
    (table / "_run" / "identity.json").write_text(kept)
    none = "_run/identity.json is not the configuration of any object"
    change(table / "unit2.parquet", identity="third")
    assert problems(table_faults.damage(str(table))) == [("records", none, None)], "nobody knows which is right"
    change(table / "unit2.parquet", identity="other")
    assert problems(table_faults.damage(str(table))) == [("records", none, "identity.json")]


def test_an_object_without_a_record_is_the_only_fault_of_it(table: Path) -> None:
    first, second = (table / f"unit{number}.parquet" for number in range(2))
    counts = footer_of(second)["counts"]
    change(second, counts=counts | {"rows_out": 3, "rows_in": 4})
    rows = pq.read_table(first)
    without = {key: value for key, value in rows.schema.metadata.items() if key != FOOTER_KEY}
    pq.write_table(rows.replace_schema_metadata(without), first)
    footers = [read_footer(Object(str(path), path.stat().st_size, "")) for path in (first, second)]
    source: Any = SimpleNamespace(uri=str(table), footers=footers)
    assert problems(table_faults.footer_faults(source)) == [
        ("unit0.parquet", "not written by remine", None),
        ("unit1.parquet", "has 1 row, its footer says 3", "unit1.parquet"),
    ]


def test_counts_that_do_not_fit(table: Path) -> None:
    counts = footer_of(table / "unit0.parquet")["counts"]
    change(table / "unit0.parquet", counts=counts | {"rows_out": 3, "rows_in": 4})
    expected = [("unit0.parquet", "has 2 rows, its footer says 3", "unit0.parquet")]
    source = open_table(str(table))
    assert problems(table_faults.footer_faults(source)) == expected
    assert problems(table_faults.run_faults(source)) == [
        ("records", "the manifest's counts are not the sum of the footers'", "manifest.json")
    ]
    change(table / "unit0.parquet", counts=counts | {"rows_in": 4})
    ((name, problem, damaged),) = problems(table_faults.footer_faults(open_table(str(table))))
    assert (name, damaged) == ("unit0.parquet", "unit0.parquet")
    assert problem.startswith("does not balance: Counts(rows_in=4, rows_out=2")


def test_rejects_that_do_not_fit(table: Path, tmp_path: Path) -> None:
    first, second, third = sorted((table / "_rejects").iterdir())
    shutil.copy(pq_of_two(tmp_path), first)
    second.write_bytes(b"broken")
    third.unlink()
    faults = problems(table_faults.footer_faults(open_table(str(table))))
    assert faults == [
        (f"unit{number}.parquet", f"1 rejected, {stored} stored in _rejects", f"unit{number}.parquet")
        for number, stored in enumerate((2, 0, 0))
    ]


def pq_of_two(folder: Path) -> Path:
    """Write a file of two rejects; return its path."""
    write_records(str(folder / "two"), [[record("a")]], rejected=2)
    return next((folder / "two" / "_rejects").iterdir())


def test_lists_of_units_that_do_not_fit(table: Path) -> None:
    written = table / "_run" / "units.jsonl"
    change(table / "unit0.parquet", generation=7)
    shutil.move(next((table / "_rejects").glob("unit0.*")), table / "_rejects" / "unit0.7.parquet")
    problem = "_run/units.jsonl does not list the units and generations that exist"
    assert problems(table_faults.run_faults(open_table(str(table)))) == [("records", problem, "units.jsonl")]
    written.unlink()
    (fault,) = table_faults.run_faults(open_table(str(table)))
    assert (fault.problem, fault.missing, fault.damaged) == ("no _run/units.jsonl", True, None)


def test_rows_are_checked_before_their_keys(tmp_path: Path) -> None:
    rows = [image_row("u", status=status, rendition=name) for status, name in (("ok", "r"), ("error", "s"))]
    table = Path(write_units(tmp_path / "images", "images", [rows, [rows[0]]]))
    source = open_table(str(table))
    ((place, problem, damaged),) = problems(table_faults.row_faults(source))
    assert (place, damaged) == ("images", None)
    assert problem == f"key {{'image_id': '{rows[0]['image_id']}', 'rendition': 'r'}} occurs 2 times"
    counts = footer_of(table / "unit1.parquet")["counts"]
    change(table / "unit1.parquet", counts=counts | {"status": {"error": 1}})
    assert problems(table_faults.row_faults(open_table(str(table)))) == [
        ("unit1.parquet", "statuses {'ok': 1}, its footer says {'error': 1}", "unit1.parquet")
    ], "the keys are not read"


def test_files_of_the_run_that_are_missing_or_damaged(table: Path) -> None:
    source = open_table(str(table))
    for name in ("identity.json", "inputs.jsonl", "manifest.json", "units.jsonl"):
        whole = (table / "_run" / name).read_bytes()
        (table / "_run" / name).write_bytes(b"broken")
        ((place, _, damaged),) = problems(table_faults.run_faults(source))
        assert (place, damaged) == (name, name)
        (table / "_run" / name).unlink()
        (fault,) = table_faults.run_faults(source)
        assert (fault.problem, fault.damaged, fault.missing) == (f"no _run/{name}", None, True)
        (table / "_run" / name).write_bytes(whole)
    assert list(table_faults.run_faults(source)) == []


def test_a_repair_sets_damaged_files_aside_once_with_their_rejects(table: Path) -> None:
    unit, manifest = str(table / "unit1.parquet"), str(table / "_run" / "manifest.json")
    faults = [Fault(unit, "x", unit), Fault(unit, "y", unit), Fault("p", "z"), Fault("m", "x", manifest)]
    aside = {name: f"{table}/_run/damaged.{name}" for name in ("_run.manifest.json", "unit1.parquet")}
    assert table_faults.set_aside(str(table), faults) == {
        manifest: aside["_run.manifest.json"], unit: aside["unit1.parquet"]
    }  # fmt: skip
    left = {path.relative_to(table).as_posix().split(".")[0] for path in table.rglob("*.parquet")}
    assert left == {"unit0", "unit2", "_rejects/unit0", "_rejects/unit2", "_run/damaged"}
    assert not Path(manifest).exists()
    assert table_faults.set_aside(str(table), []) == {}
    (table / "unit1.parquet").write_text("damaged again")
    assert table_faults.set_aside(str(table), faults[:1]) == {unit: f"{table}/_run/damaged.1.unit1.parquet"}


def test_a_repair_sets_aside_the_rejects_of_a_unit_whose_name_has_a_dot(table: Path) -> None:
    for name in ("x.y.parquet", "_rejects/x.y.0.parquet", "_rejects/x.0.parquet"):
        (table / name).write_text("x")
    unit = str(table / "x.y.parquet")
    assert list(table_faults.set_aside(str(table), [Fault(unit, "x", unit)])) == [unit]
    assert sorted(path.name for path in table.rglob("x.*")) == ["x.0.parquet"]


def test_the_sound_part_has_what_can_be_read(table: Path, tmp_path: Path) -> None:
    pq.write_table(pq.read_table(table / "unit0.parquet").replace_schema_metadata(None), table / "plain.parquet")
    (table / "unit0.parquet").write_bytes(b"broken")
    (table / "unit2.parquet").unlink()
    source = table_faults.sound_part(str(table))
    assert source is not None
    assert (source.name, source.rows, [footer.unit.name for footer in source.footers]) == ("records", 1, ["unit1"])
    (table / "unit1.parquet").unlink()
    assert table_faults.sound_part(str(table)) is None
    whole = table_faults.sound_part(write_table(tmp_path / "one", "records", [record("a")]))
    assert whole is not None
    assert Counter(footer.rows for footer in whole.footers) == {1: 1}
