"""Each kind of fault is found and named; a good table passes."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import (
    verify,
)
from jobs.errors import InputError, RunError
from jobs.runtime.command_line import cli
from jobs.store import keys
from jobs.store.json_types import FOOTER_KEY
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_faults import Fault
from jobs.store.table_plan import RowLimit, TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES
from jobs.verify import FAULTS_SHOWN
from tests.factories import picture, rating, record, write_records, write_table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A good table of two units, a reject in each, and an empty unit."""
    out = tmp_path / "records"
    write_records(str(out), [[record("a"), record("b")], [record("c")], []], rejected=1)
    return out


def check(table: Path) -> Any:
    return cli.execute("verify", [f"input={table}"])


def test_one_unit_and_one_row_are_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(str(tmp_path / "one"), [[record("a")]])
    check(tmp_path / "one")
    assert "table records, 1 unit, 1 row, no faults" in capsys.readouterr().out


def faults(table: Path, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(RunError, match=r"records: \d+ fault"):
        check(table)
    return capsys.readouterr().err


def rewrite(path: Path, *, rows: pa.Table | None = None, **changes: Any) -> None:
    """Rewrite the object with other rows or another footer."""
    read = pq.read_table(path)
    footer = json.loads(pq.read_metadata(path).metadata[FOOTER_KEY]) | changes
    metadata = {**read.schema.metadata, FOOTER_KEY: json.dumps(footer).encode()}
    pq.write_table((read if rows is None else rows).replace_schema_metadata(metadata), path)


def test_a_good_table_passes(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(table) == {"units": 3, "rows": 3}
    printed = capsys.readouterr().out
    assert "3 units, 3 rows, no faults" in printed
    assert "6 in = 3 out + 3 rejected as malformed" in printed


def test_all_tables_below_a_folder_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b/c", "d"):
        write_records(str(tmp_path / name), [[record(f"{name}1"), record(f"{name}2")], [record(f"{name}3")]])
    assert cli.main("verify", [str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"verify: {tmp_path}: 3 tables, no faults"
    assert cli.execute("verify", [f"input={tmp_path}"]) == {"units": 6, "rows": 9}
    for name in ("a", "d"):  # the tables after one with faults are checked, too
        unit = next((tmp_path / name).glob("*.parquet"))
        unit.write_bytes(unit.read_bytes()[:-1])
    assert cli.main("verify", [str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert f"verify: {tmp_path}/b/c: table records, 2 units, 3 rows, no faults" in printed.out
    assert f"{tmp_path}: 2 of 3 tables have faults: {tmp_path}/a, {tmp_path}/d" in printed.err.splitlines()[-1]
    assert cli.main("verify", [str(tmp_path), "repair=true"]) == 0
    assert len(list(tmp_path.glob("*/_run/damaged.*"))) == 2


def test_a_key_in_two_units_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "records"
    same, null = record("a", record_id="twice"), record("b", record_id="once")
    write_records(str(out), [[same, null], [same]])
    assert "key {'record_id': 'twice'} occurs 2 times" in faults(out, capsys)


def test_the_first_faults_are_printed_and_the_others_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    units = [[record(f"r{number}")] for number in range(FAULTS_SHOWN + 1)]
    write_records(str(tmp_path / "records"), units)
    for file in (tmp_path / "records").glob("*.parquet"):
        file.write_bytes(file.read_bytes()[:-1])
    printed = faults(tmp_path / "records", capsys).splitlines()
    assert [line.split()[0] for line in printed] == ["fault:"] * FAULTS_SHOWN + ["…"]
    assert printed[-1].split()[2] == "2"  # a unit, and that units are missing


def test_keys_are_compared_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = str(tmp_path / "records")
    rows = [record(str(i), record_id=str(i % 40)) for i in range(44)]
    write_records(out, [rows[:40], rows[40:]])
    monkeypatch.setattr(keys, "HASHES_PER_PART", 10)
    assert keys.duplicate_keys(open_table(out), ["record_id"]) == {(str(i),): 2 for i in range(4)}


def test_counts_that_do_not_fit_the_rows_are_found(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = table / "unit0.parquet"
    counts = json.loads(pq.read_metadata(victim).metadata[FOOTER_KEY])["counts"]
    rewrite(victim, counts=counts | {"rows_out": 1})
    fault_lines = faults(table, capsys)
    assert "unit0.parquet: has 2 rows, its footer says 1" in fault_lines
    assert "unit0.parquet: does not balance" in fault_lines
    assert "the manifest's counts are not the sum of the footers'" in fault_lines


def test_rows_that_were_dropped_are_found(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = table / "unit0.parquet"
    rewrite(victim, rows=pq.read_table(victim).slice(0, 1))
    assert "unit0.parquet: has 1 row, its footer says 2" in faults(table, capsys)


def test_deleted_rejects_are_found(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table / "_rejects" / "unit1.0.parquet").unlink()
    assert "unit1.parquet: 1 rejected, 0 stored" in faults(table, capsys)


def test_missing_units_are_found(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table / "unit1.parquet").unlink()
    assert "1 of 3 units are missing, the first is unit1" in faults(table, capsys)
    (table / "unit0.parquet").unlink()
    (table / "unit2.parquet").unlink()
    assert "3 of 3 units are missing" in faults(table, capsys)


def test_without_damage_a_repair_removes_nothing(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A message recommends it only for damage."""
    (table / "_run" / "units.jsonl").unlink()
    with pytest.raises(RunError, match=r"records: 1 fault$"):
        check(table)
    assert cli.execute("verify", [f"input={table}", "repair=true"]) == {"set_aside": 0}
    again = "0 damaged files set aside; run the command that writes the table again"
    assert capsys.readouterr().out == f"verify: {table}: {again}\n"
    (table / "unit0.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunError, match=r"records: 2 faults; repair=true sets damaged units aside"):
        check(table)


def test_parts_of_a_table_whose_keys_repeat_are_not_checked(table: Path) -> None:
    """As in the folder `_partial` that `retrieve` merges."""
    write_records(str(table / "_partial"), [[record("a")], [record("a")]])
    assert cli.execute("verify", [f"input={table}"]) == {"units": 3, "rows": 3}
    assert cli.execute("verify", [f"input={table.parent}"]) == {"units": 3, "rows": 3}


def test_the_limit_of_a_table_is_printed(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = table / "_run" / "manifest.json"
    limit = RowLimit(3, 3, 904, per_input=False, noun="rows")
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"limit": limit.to_json()}))
    check(table)
    assert capsys.readouterr().out.endswith("  limit=3: the first 3 of 904 rows; the table has no more\n")


def test_an_object_of_others_is_named(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"x": [1]}), table / "stranger.parquet")
    assert "stranger.parquet: not written by remine" in faults(table, capsys)


def test_a_file_of_others_that_cannot_be_read_is_kept_by_repair(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (table / "mine.parquet").write_text("notes")
    assert cli.main("verify", [f"input={table}", "repair=true"]) == 1
    assert "mine.parquet: damaged, not a readable Parquet file, and no unit of this table" in capsys.readouterr().err
    assert (table / "mine.parquet").read_text() == "notes"


def test_an_edited_identity_is_removed_by_repair(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = table / "_run" / "identity.json"
    victim.write_text(json.dumps(json.loads(victim.read_text()) | {"model": "a better one"}))
    assert cli.main("verify", [f"input={table}", "repair=true"]) == 0
    assert not victim.exists()
    assert len(list(table.glob("*.parquet"))) == 3


def test_an_object_that_is_cut_off_is_named(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = table / "unit0.parquet"
    victim.write_bytes(victim.read_bytes()[:-20])
    fault_lines = faults(table, capsys)
    assert "unit0.parquet: damaged" in fault_lines
    assert "1 of 3 units are missing, the first is unit0" in fault_lines


def test_a_unit_that_is_there_twice_is_found(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table / "copy.parquet").write_bytes((table / "unit1.parquet").read_bytes())
    fault_lines = faults(table, capsys)
    assert "copy.parquet: contains unit unit1" in fault_lines
    assert "occurs 2 times" in fault_lines


@pytest.mark.parametrize("name", ["identity.json", "inputs.jsonl", "manifest.json", "units.jsonl"])
def test_a_file_of_the_run_that_is_damaged_is_named(table: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    victim = table / "_run" / name
    victim.write_bytes(victim.read_bytes()[:-9])
    assert f"_run/{name}: damaged (" in faults(table, capsys)


def test_an_identity_that_was_edited_is_found(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = table / "_run" / "identity.json"
    victim.write_text(json.dumps(json.loads(victim.read_text()) | {"model": "a better one"}))
    assert "identity.json is not the configuration of any object" in faults(table, capsys)


def test_a_folder_of_tables_is_refused_as_a_table(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_records(str(tmp_path / "ratings" / name), [[record(name)]])
    with pytest.raises(InputError, match=r"a folder of several tables: one, two; name one of them"):
        open_table(str(tmp_path / "ratings"))


def test_a_unit_under_another_name_or_from_another_run_is_found(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (table / "unit1.parquet").rename(table / "copy.parquet")
    assert "copy.parquet: contains unit unit1" in faults(table, capsys)
    (table / "copy.parquet").rename(table / "unit1.parquet")
    rewrite(table / "unit1.parquet", identity="another")
    assert "written with another configuration" in faults(table, capsys)


def test_a_unit_that_nobody_asked_for_is_found(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(str(tmp_path / "other"), [[], [], [], [record("d")]])
    (tmp_path / "other" / "unit3.parquet").rename(table / "unit3.parquet")
    fault_lines = faults(table, capsys)
    assert "unit unit3 is not in the list of inputs" in fault_lines
    assert "does not list the units and generations" in fault_lines


def test_a_missing_column_is_found(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = table / "unit0.parquet"
    rewrite(victim, rows=pq.read_table(victim).drop_columns(["terms"]))
    assert "its schema is not that of table records" in faults(table, capsys)


def test_a_lost_manifest_is_found(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (table / "_run" / "manifest.json").unlink()
    assert "no _run/manifest.json" in faults(table, capsys)


def test_damaged_pages_are_a_fault_and_no_traceback(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    victim = table / "unit0.parquet"
    content = bytearray(victim.read_bytes())
    content[4:60] = bytes(56)
    victim.write_bytes(content)
    assert "its rows cannot be read" in faults(table, capsys)


def test_statuses_that_the_footer_does_not_count_are_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "records"
    run = open_run(
        TablePlan(str(out), "images", {}, [Unit("u", ())], {}, {}, derived=False),
        resume=True,
        overwrite=False,
        retry=[],
    )
    rows = [{"image_id": str(i), "rendition": "original", "status": "ok"} for i in range(3)]
    with UnitWriter(run.target, run.todo[0]) as writer:
        writer.counts.rows_in = 3
        writer.write(pa.Table.from_pylist(rows, schema=TABLES["images"].schema()))
    run.finish()
    assert check(out) == {"units": 1, "rows": 3}
    read = pq.read_table(out / "u.parquet")
    place = read.column_names.index("status")
    lied = read.set_column(place, read.schema.field(place), pa.array(["ok", "ok", "error"]))
    rewrite(out / "u.parquet", rows=lied)
    assert "statuses {'ok': 2, 'error': 1}, its footer says {'ok': 3}" in faults(out, capsys)


def test_a_place_without_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no table here"):
        check(tmp_path)


def test_no_changed_byte_of_the_rows_goes_unnoticed(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    victim = table / "unit0.parquet"
    good, rows = victim.read_bytes(), pq.read_table(victim)
    end = len(good) - 8 - int.from_bytes(good[-8:-4], "little")
    count = 0
    for place in range(4, end, 31):  # in all columns; the headers of pages have no checksum, but hold no rows
        victim.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        if cli.main("verify", [f"input={table}"]) == 1:
            count += 1
            assert "unit0.parquet: " in capsys.readouterr().err
        else:
            assert pq.read_table(victim).equals(rows)
    assert count > (end // 31) * 0.6
    chunk = pq.ParquetFile(victim).metadata.row_group(0).column(0)
    last = chunk.dictionary_page_offset + chunk.total_compressed_size - 1
    victim.write_bytes(good[:last] + bytes([good[last] ^ 1]) + good[last + 1 :])
    assert cli.main("curate", [f"input={table}", f"out={tmp_path}/never"]) == 1  # readers notice it too
    assert f"{victim}: damaged" in capsys.readouterr().err


def repaired(table: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Repair the table; return what was printed."""
    assert cli.main("verify", [f"input={table}", "repair=true"]) == 0
    return capsys.readouterr().out


def test_repair_removes_what_is_damaged_and_the_next_run_writes_only_that(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = open_table(str(table))
    rows, counts = pa.concat_tables(good.batches()).sort_by("record_id"), good.counts()
    assert "nothing to repair" in repaired(table, capsys)
    content = bytearray((table / "unit0.parquet").read_bytes())
    content[40] ^= 255
    (table / "unit0.parquet").write_bytes(content)
    (table / "unit2.parquet").write_bytes(b"PAR1")
    (table / "_run" / "identity.json").write_bytes(b"{")
    kept = (table / "unit1.parquet").stat().st_mtime_ns
    repair_lines = repaired(table, capsys)
    aside = {"unit0.parquet": content, "unit2.parquet": b"PAR1", "_run.identity.json": b"{"}
    assert [name for name in aside if f"to {table}/_run/damaged.{name}: damaged" not in repair_lines] == []
    assert {name: (table / "_run" / f"damaged.{name}").read_bytes() for name in aside} == aside
    assert not list((table / "_rejects").glob("unit0.*"))
    write_records(str(table), [[record("a"), record("b")], [record("c")], []], rejected=1)
    assert (table / "unit1.parquet").stat().st_mtime_ns == kept
    assert check(table) == {"units": 3, "rows": 3}
    mended = open_table(str(table))
    assert pa.concat_tables(mended.batches()).sort_by("record_id").equals(rows)
    assert mended.counts() == counts


def test_repair_touches_no_object_of_others_and_keeps_what_it_cannot_mend(
    table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq.write_table(pa.table({"x": [1]}), table / "stranger.parquet")
    before = sorted(path.name for path in table.rglob("*"))
    assert cli.main("verify", [f"input={table}", "repair=true"]) == 1
    assert "stranger.parquet: not written by remine" in capsys.readouterr().err
    assert sorted(path.name for path in table.rglob("*")) == before


def test_what_is_left_of_listed_pictures_is_named_by_table_and_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = [picture(number) for number in range(3)]
    names = [row["image_id"] for row in images]
    answers = [rating(names[0], rater, "q", "yes") for rater in ("ann", "bo")]
    texts = [{"text_id": "t", "role": "note", "text": f"See {names[0]}."}]
    for table, rows in (("images", images), ("ratings", answers), ("texts", texts)):
        write_table(tmp_path / "R" / table, table, rows)
    (tmp_path / "R" / "page.html").write_text(f"<p>{names[1]}</p>")
    listed = tmp_path / "R" / "list.txt"  # is not checked itself

    def left(*entries: str) -> list[str]:
        listed.write_text("\n".join(entries))
        with pytest.raises(RunError, match=r"R: \d+ faults?$"):
            cli.execute("verify", [f"input={tmp_path}/R", f"exclusions={listed}"])
        return capsys.readouterr().err.replace(f"{tmp_path}/R/", "").splitlines()

    assert left(names[0]) == [
        "  fault: images: has 1 row about a picture of the list",
        "  fault: ratings: has 2 rows about a picture of the list",
        "  fault: texts: mentions such a picture in texts of 1 other rows",
    ]
    assert left("https://elsewhere.example/x.jpg", names[1])[-1] == "  fault: page.html: mentions a picture of the list"
    listed.write_text("https://elsewhere.example/x.jpg\n")
    counts = cli.execute("verify", [f"input={tmp_path}/R", f"exclusions={listed}"])
    assert counts == {"tables": 3, "rows": 6}
    assert (
        f"3 tables, 6 rows, 16 other files: nothing about the 1 entry of exclusions={listed}" in capsys.readouterr().out
    )


def test_the_first_faults_are_printed_and_a_repair_is_offered_if_it_helps(capsys: pytest.CaptureFixture[str]) -> None:
    verify._refuse("R", [])
    many = [Fault(f"f{n}", "broken") for n in range(verify.FAULTS_SHOWN + 2)]
    for faults, message in ((many, rf"^R: {len(many)} faults$"), ([*many[:1], Fault("g", "b", "g")], "repair=true")):
        with pytest.raises(RunError, match=message):
            verify._refuse("R", faults)
        shown = capsys.readouterr().err.splitlines()
        first = [f"  fault: {fault}" for fault in faults[: verify.FAULTS_SHOWN]]
        assert shown == [*first, *(["  … and 2 more"] if faults is many else [])]
    with pytest.raises(RunError):
        verify._refuse("R", many[: verify.FAULTS_SHOWN])
    assert "more" not in capsys.readouterr().err
