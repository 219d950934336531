"""Damaged objects and run files: found as such by readers, by `verify` and when a run is resumed; never a traceback."""

import contextlib
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import verify
from jobs.errors import InputError, RunError
from jobs.runtime.command_line import cli
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.footers import Footer, read_footer
from jobs.store.json_types import FOOTER_KEY, FooterJson, fits
from jobs.store.reading import open_table
from jobs.store.run_files import read_inputs, read_json, read_manifest
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.unit_index import read_index
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES
from tests.cases import check_cases
from tests.factories import record, write_records

UNITS = [Unit("unit0", (), rows=2), Unit("unit1", (), rows=1)]
WRONG_VALUES: list[Any] = [None, [], {}, "x", -1, 0.5, True, [None], {"x": None}]


def plan(out: Path, *, by: str = "hand") -> TablePlan:
    """Return the plan that `write_records` makes of two units."""
    return TablePlan(str(out), "records", {"by": by}, UNITS, {}, {}, derived=False)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    out = tmp_path / "records"
    write_records(str(out), [[record("a"), record("b")], [record("c")]], rejected=1)
    return out


def todo(out: Path, **options: Any) -> list[str]:
    run = open_run(plan(out), resume=True, overwrite=options.get("overwrite", False), retry=[])
    return [task.unit.name for task in run.todo]


def faults_of(out: Path) -> str:
    """Return the message of `verify` about the table; empty if it finds no fault."""
    try:
        verify.execute(verify.VerifyConfig(input=str(out)))
    except (InputError, RunError) as error:
        return str(error)
    return ""


def object_of(path: Path) -> Object:
    return Object(str(path), path.stat().st_size, "")


def rows_read(out: Path) -> int:
    return sum(batch.num_rows for batch in open_table(str(out), "records").batches())


def damaged(good: bytes, *, times: int, seed: int) -> Iterator[bytes]:
    """`good` with some bytes of its footer, or of the length and the magic behind it, replaced."""
    draw = random.Random(seed)
    begin = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    for _ in range(times):
        damaged = bytearray(good)
        first = draw.randrange(begin, len(good))
        last = min(len(good), first + draw.choice([1, 1, 1, 2, 8, 64, 500]))
        damaged[first:last] = draw.randbytes(last - first)
        yield bytes(damaged)


def test_a_damaged_footer_is_rejected_or_can_be_read_whole(table: Path) -> None:
    victim = table / "unit0.parquet"
    count = 0
    for content in damaged(victim.read_bytes(), times=800, seed=1):
        victim.write_bytes(content)
        footer = read_footer(object_of(victim))
        count += footer is None
        if footer is not None and footer.record is not None:
            assert footer.counts.balances() in (True, False)
            assert isinstance(footer.unit.version, str)
    assert count > 400


def test_whatever_byte_of_a_footer_is_wrong_the_errors_are_ours(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = table / "unit0.parquet"
    good = victim.read_bytes()
    refused = redone = 0
    for content in damaged(good, times=150, seed=2):
        victim.write_bytes(content)
        refused += bool(faults_of(table))
        with contextlib.suppress(InputError, RunError):
            rows_read(table)
        names = todo(table)
        assert set(names) <= {"unit0"}
        redone += bool(names)
    assert min(refused, redone) > 75
    victim.write_bytes(good)
    assert rows_read(table) == 3
    capsys.readouterr()


def rewritten(path: Path, record: bytes) -> None:
    """Rewrite the object at `path` with another record in its footer."""
    read = pq.read_table(path)
    pq.write_table(read.replace_schema_metadata({**read.schema.metadata, FOOTER_KEY: record}), path)


def record_of(path: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(pq.read_metadata(path).metadata[FOOTER_KEY])
    return kept


def misshapen(value: Any) -> Iterator[Any]:
    """`value` with one part, however deep, replaced by each of some values or left out."""
    yield from WRONG_VALUES
    if isinstance(value, dict):
        for key, inner in value.items():
            yield {k: v for k, v in value.items() if k != key}
            yield from ({**value, key: output} for output in misshapen(inner))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from ([*value[:place], output, *value[place + 1 :]] for output in misshapen(inner))


@pytest.mark.parametrize("text", [b'{"unit": "', b"\xff\xfe", b"[" * 100_000, b"null", b"7"])
def test_a_record_that_is_not_a_json_object_is_damage(
    text: bytes, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = table / "unit0.parquet"
    rewritten(victim, text)
    assert read_footer(object_of(victim)) is None
    with pytest.raises(InputError, match=rf"{victim}: not a readable Parquet file.*run the command"):
        open_table(str(table))
    assert cli.main("verify", [f"input={table}"]) == 1
    assert f"fault: {victim}: damaged" in capsys.readouterr().err
    assert todo(table) == ["unit0"]


def test_a_footer_that_cannot_be_read_is_not_reported_as_damaged(tmp_path: Path) -> None:
    loop = tmp_path / "unit0.parquet"
    assert read_footer(Object(str(loop), 5, "")) is None
    loop.symlink_to(loop)
    with pytest.raises(OSError, match="symbolic links") as raised:
        read_footer(Object(str(loop), 5, ""))
    assert raised.value.filename == str(loop)


def test_a_record_of_any_other_shape_is_damage_or_is_read(table: Path) -> None:
    victim = table / "unit0.parquet"
    good = record_of(victim)
    good["retired"] = [{key: good[key] for key in ("version", "generation", "counts", "begun", "seconds")}]
    good["unit"]["inputs"] = [{"uri": "u", "size": 1, "etag": "e"}]
    source, schema = object_of(victim), pq.read_schema(victim)
    assert fits(good, FooterJson)
    unfit = 0
    for output in misshapen(good):
        if not fits(output, FooterJson):
            unfit += 1
            continue
        footer = Footer(source, 2, schema, json.dumps(output).encode())
        assert isinstance(footer.unit.version, str)
        assert footer.counts.balances() in (True, False)
    assert unfit > 400


class Inner(TypedDict):
    """Keys of a part of a stored value."""

    a: int


def test_types_of_stored_json() -> None:
    cases = [
        (1, int, True),
        (True, int, False),
        (None, int | None, True),
        ("1", int | None, False),
        (1, float, True),
        (True, float, False),
        ("1", float, False),
        ([], list[int], True),
        ([1, "2"], list[int], False),
        ({}, list[int], False),
        ({"a": 1, "b": 2}, dict[str, int], True),
        ({"a": "1"}, dict[str, int], False),
        ({"a": "1"}, dict[str, Any], True),
        ({"a": 1, "more": ""}, Inner, True),
        ({"b": 1}, Inner, False),
        ([], Inner, False),
        ([{"a": None}], list[Inner], False),
        ([], dict, False),
    ]

    def check(value: Any, expected: Any, fit: bool) -> None:
        assert fits(value, expected) is fit

    check_cases(check, cases)


def read_run_file(path: Path) -> None:
    """Read a file of `_run/` as its readers do, to the end.

    Raises:
        InputError: it is damaged.
    """
    uri = str(path)
    match path.name:
        case "identity.json":
            read_json(uri)
        case "inputs.jsonl":
            list(read_inputs(uri))
        case "units.jsonl":
            list(read_index(str(path.parents[1])))
        case "manifest.json":
            read_manifest(str(path.parents[1]))


def damaged_run_files(name: str, good: bytes) -> Iterator[bytes]:
    """Wrong contents for a file of `_run/`: not JSON, cut off, or with one value replaced or left out."""
    yield from (b"", b"{", b"\xff", b"[" * 100_000)
    if name.endswith(".jsonl"):
        lines = good.splitlines(keepends=True)
        yield from (b"".join(lines[:count]) for count in range(len(lines)))
        for number, line in enumerate(lines):
            for value in misshapen(json.loads(line)):
                yield b"".join([*lines[:number], json.dumps(value).encode() + b"\n", *lines[number + 1 :]])
        return
    content = json.loads(good)
    if name == "manifest.json":
        content = {key: content[key] for key in ("counts", "complete")}  # programs do not read the other keys
    yield from (json.dumps(value).encode() for value in misshapen(content))


RUN_FILES = ["identity.json", "inputs.jsonl", "manifest.json", "units.jsonl"]


@pytest.mark.parametrize("name", RUN_FILES)
def test_a_damaged_run_file_is_reported_by_readers_and_verify(
    name: str, table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = table / "_run" / name
    contents = list(damaged_run_files(name, path.read_bytes()))
    reported = 0
    for content in contents[:: 1 + len(contents) // 120]:
        path.write_bytes(content)
        reported += bool(faults_of(table))
        for act in (rows_read, todo):
            with contextlib.suppress(InputError):
                act(table)
    assert reported > 20


def test_a_list_of_units_that_is_cut_off_is_damaged_wherever_it_is_cut(table: Path) -> None:
    path = table / "_run" / "inputs.jsonl"
    good = path.read_bytes()
    assert [unit.name for unit in read_inputs(str(path))] == ["unit0", "unit1"]
    for end in range(len(good) - 1):
        path.write_bytes(good[:end])
        with pytest.raises(InputError, match=r"inputs\.jsonl: damaged"):
            list(read_inputs(str(path)))


@pytest.mark.parametrize("name", ["inputs.jsonl", "manifest.json", "units.jsonl"])
def test_the_remedy_for_a_damaged_run_file_keeps_what_is_done(name: str, table: Path) -> None:
    path = table / "_run" / name
    before = path.read_bytes()
    path.write_bytes(b"[]\n[]\n")
    with pytest.raises(InputError, match=r"damaged .*; delete it and run the command"):
        read_run_file(path)
    path.unlink()
    run = open_run(plan(table), resume=True, overwrite=False, retry=[])
    assert list(run.todo) == []
    run.finish()
    if name == "manifest.json":
        assert set(json.loads(path.read_bytes())) == set(json.loads(before))
    else:
        assert path.read_bytes() == before
    assert rows_read(table) == 3


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_with_the_name_of_a_unit_is_refused_and_kept(overwrite: bool, table: Path) -> None:
    (table / "unit1.parquet").unlink()
    (table / "unit1.parquet").mkdir()
    before = sorted(p.name for p in table.rglob("*"))
    with pytest.raises(InputError, match=r"unit1\.parquet: a folder has the name of a unit's file"):
        todo(table, overwrite=overwrite)
    assert sorted(p.name for p in table.rglob("*")) == before
    (table / "unit1.parquet").rmdir()
    (table / "other.parquet").mkdir()  # nothing is written there
    assert todo(table) == ["unit1"]


def test_a_folder_that_appears_where_a_unit_is_published_is_an_error_in_a_sentence(table: Path) -> None:
    whole = table.parent / "whole"
    whole.write_bytes(b"content")
    (table / "taken").mkdir()
    with pytest.raises(OSError, match=r".") as raised:
        locations.publish(whole, str(table / "taken"))
    assert raised.value.filename == str(table / "taken")
    assert list(table.glob(".*")) == []


def test_damaged_rows_are_an_error_in_a_sentence(table: Path) -> None:
    victim = table / "unit0.parquet"
    content = bytearray(victim.read_bytes())
    content[4:60] = bytes(56)
    victim.write_bytes(content)
    with pytest.raises(RunError, match=rf"{victim}: damaged"):
        rows_read(table)


def test_an_object_of_another_schema_is_refused(table: Path) -> None:
    victim = table / "unit1.parquet"
    pq.write_table(pq.read_table(victim).drop_columns(["terms"]), victim)
    with pytest.raises(InputError, match=rf"{victim}: its schema is not that of table records"):
        open_table(str(table))


def other_identity(path: Path) -> None:
    rewritten(path, json.dumps(record_of(path) | {"identity": "another"}).encode())


def test_a_table_of_two_configurations_is_refused(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other_identity(table / "unit1.parquet")
    with pytest.raises(InputError, match=r"1 of 2 units .* another configuration .*: unit1; run the command"):
        open_table(str(table))
    assert cli.main("curate", [f"input={table}", f"out={tmp_path}/out"]) == 2
    assert not (tmp_path / "out").exists()
    assert cli.main("verify", [f"input={table}"]) == 1
    assert f"{table}/unit1.parquet: written with another configuration" in capsys.readouterr().err
    run = open_run(plan(table), resume=True, overwrite=False, retry=[])  # the remedy that the sentence names
    (task,) = run.todo
    with UnitWriter(run.target, task) as writer:
        writer.counts.rows_in = 1
        writer.write(pa.Table.from_pylist([record("c")], schema=TABLES["records"].schema()))
    run.finish()
    assert rows_read(table) == 3


def test_units_that_agree_with_each_other_and_not_with_identity_json_are_refused(table: Path) -> None:
    for name in ("unit0.parquet", "unit1.parquet"):
        other_identity(table / name)
    with pytest.raises(InputError, match=r"2 of 2 units .*: unit0, unit1"):
        open_table(str(table))


def test_units_copied_together_by_hand_must_be_of_one_configuration(table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "by hand"
    folder.mkdir()
    for name in ("unit0.parquet", "unit1.parquet"):
        shutil.copy(table / name, folder)
    assert rows_read(folder) == 3
    other_identity(folder / "unit1.parquet")
    with pytest.raises(InputError, match="several configurations are mixed: unit1 and unit0 differ"):
        open_table(str(folder))


def test_a_reader_asks_for_the_identity_once_and_each_footer_once(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    filesystem = locations.filesystem

    def named(uri: str) -> Any:
        asked.append(Path(uri).name)
        return filesystem(uri)

    monkeypatch.setattr(locations, "filesystem", named)
    open_table(str(table))
    assert sorted(asked) == ["identity.json", "inputs.jsonl", "units.jsonl"]
    asked.clear()
    open_table(str(table), indexed=False)
    assert sorted(asked) == ["identity.json", "inputs.jsonl", "unit0.parquet", "unit1.parquet"]
