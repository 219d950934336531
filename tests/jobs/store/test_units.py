"""Units are written one per line and read one at a time."""

import json
from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.store import run_files
from jobs.store.files.objects import Object
from jobs.store.units import Unit, check_distinct, unit_of_file

UNITS = [
    Unit("one", (), rows=0),
    Unit(
        'zwö \\ " ] }', tuple(Object(f"/corpus/[{n}],{{", n, "e") for n in range(5)), "[1]", None, {"parts": [[0, 1]]}
    ),
    Unit("three", (Object("s3://b/ключ\u2028", 1, ""),), rows=7),
]


@pytest.mark.parametrize("units", [[], UNITS[:1], UNITS], ids=len)
def test_units_are_read_as_they_were_written(units: list[Unit], tmp_path: Path) -> None:
    path = tmp_path / "inputs.jsonl"
    path.write_bytes(b"".join(run_files.to_lines(units, Unit.to_json)))
    assert [(unit, unit.extra) for unit in run_files.read_inputs(str(path))] == [(unit, unit.extra) for unit in units]
    first, *others = path.read_text("utf-8").split("\n")[:-1]
    assert int(first) == len(units)
    assert [json.loads(line) for line in others] == [unit.to_json() for unit in units]


def test_a_version_and_a_name_depend_on_all_that_they_are_made_of() -> None:
    source = Object("/corpus/a", 10, "e")
    others = [source._replace(size=11), source._replace(etag="f")]
    versions = [Unit("u", (file,)).version for file in (source, *others)]
    versions += [Unit("u", (source,), "rows 0-1").version, Unit("u", (source,), extra={"limit": 3}).version]
    versions += [Unit("u", (source, source)).version]
    assert len(set(versions)) == 6
    moved = Unit("v", (source._replace(uri="/corpus/b"),), rows=5, extra={"parent": "p"})
    assert moved.version == versions[0], "names, places and numbers of rows do not matter"
    names = [unit_of_file(file).name for file in (source, *others, source._replace(uri="/corpus/b"))]
    names.append(unit_of_file(source, piece="rows 0-1").name)
    assert len(set(names)) == 5
    assert unit_of_file(source, rows=7) == Unit(names[0], (source,), "whole", 7)


def test_the_bytes_of_a_unit_are_those_of_its_inputs_unless_it_covers_some() -> None:
    inputs = (Object("/a", 10, ""), Object("/b", 5, ""))
    assert [Unit("u", inputs, extra=extra).bytes for extra in ({}, {"bytes": 3}, {"bytes": 0})] == [15, 3, 0]
    assert [Unit("u", (), extra=extra).parent for extra in ({}, {"parent": "p"})] == ["u", "p"]


def test_a_unit_is_read_before_a_later_line_is_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "inputs.jsonl"
    path.write_bytes(b"".join(run_files.to_lines(UNITS[:2], Unit.to_json)) + b"{")
    units = run_files.read_inputs(str(path))
    assert [next(units).name for _ in range(2)] == [unit.name for unit in UNITS[:2]]
    with pytest.raises(InputError, match=r"inputs\.jsonl: damaged"):
        next(units)


def test_two_units_of_one_name_are_refused_by_the_input() -> None:
    twins = [Unit("a", (Object(f"/corpus/{n}", n, ""),)) for n in range(2)]
    check_distinct(twins[:1])
    with pytest.raises(InputError, match="/corpus/1: duplicate input"):
        check_distinct(twins)
