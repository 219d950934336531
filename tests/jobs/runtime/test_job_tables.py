"""Small tables that a driver writes are cut where models read them, so that their rows are shared by GPUs."""

from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.runtime.job_tables import UNIT_ROWS, write_small
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from jobs.store.run_files import read_inputs
from jobs.store.table_plan import RowLimit
from jobs.store.unit_index import read_index
from jobs.store.writer import Reject
from jobs.tables import TABLES
from tests.factories import unit_records


def test_tables_that_models_read_have_units_of_bounded_size(tmp_path: Path) -> None:
    rows = 2 * UNIT_ROWS + 10
    for table, sizes in (("texts", [UNIT_ROWS, UNIT_ROWS, 10]), ("raters", [rows])):
        schema = TABLES[table].schema()
        first = schema.names[0]
        keys = dict.fromkeys(TABLES[table].key, "x")
        content = pa.Table.from_pylist([keys | {first: f"{number:04}"} for number in range(rows)], schema=schema)
        for again in range(2):
            write_small(str(tmp_path / table), content, table=table, identity={}, config={})
            assert [unit["counts"]["rows_out"] for unit in unit_records(tmp_path / table)] == sizes, again
        written = pa.concat_tables(open_table(str(tmp_path / table), table).batches([first]))[first].to_pylist()
        assert written == sorted(written)
        assert len(written) == rows


def test_rejects_are_stored_with_the_first_unit(tmp_path: Path) -> None:
    schema = TABLES["texts"].schema()
    keys = dict.fromkeys(TABLES["texts"].key, "x")
    rows = pa.Table.from_pylist([keys | {"text_id": f"{number}"} for number in range(5)], schema=schema)
    rejects = [Reject("file.csv", line, "no_text", "the text is empty") for line in (2, 9)]
    write_small(str(tmp_path / "texts"), rows, table="texts", identity={}, config={}, unit_rows=2, rejects=rejects)
    records = unit_records(tmp_path / "texts")
    assert [record["counts"]["rejected"] for record in records] == [{"no_text": 2}, {}, {}]
    assert [record["counts"]["rows_in"] for record in records] == [4, 2, 1]
    assert list(open_table(str(tmp_path / "texts")).rejects()) == rejects


def test_a_table_is_written_again_only_if_its_rows_inputs_or_limit_differ(tmp_path: Path) -> None:
    out, schema = str(tmp_path / "raters"), TABLES["raters"].schema()

    def write(*names: str, etag: str = "", **options: Any) -> tuple[dict[str, Any], int]:
        inputs = (Object("/corpus/a", 1, etag),) if etag else ()
        rows = pa.Table.from_pylist([{"rater": name, "kind": "human"} for name in names], schema=schema)
        manifest = write_small(out, rows, table="raters", identity={"x": 1}, config={}, inputs=inputs, **options)
        (unit,) = read_inputs(f"{out}/_run/inputs.jsonl")
        assert (unit.piece, unit.rows) == ("whole", len(names))
        assert manifest["out"] == out
        return manifest, (Path(out) / f"{unit.name}.parquet").stat().st_mtime_ns

    first, changed = write("a", "b")
    assert write("a", "b") == (first | {"seconds": ANY}, changed)
    hashes = {first["identity_hash"]}
    limit = RowLimit(2, 2, 9, per_input=False, noun="rows")
    for names, options in ((("a", "c"), {}), (("a",), {}), (("a",), {"limit": limit}), (("a",), {"etag": "1"})):
        manifest, time = write(*names, **options)
        assert time > changed
        changed, hashes = time, hashes | {manifest["identity_hash"]}
        assert manifest["counts"]["rows_out"] == len(names)
    assert len(hashes) == 5
    manifest, time = write("a", etag="2")
    assert manifest["identity_hash"] in hashes, "the content of an input is not part of the identity"
    assert time > changed


def test_a_table_is_cut_as_asked_or_written_again(tmp_path: Path) -> None:
    """The names of its units are part of its identity."""
    schema = TABLES["texts"].schema()
    keys = dict.fromkeys(TABLES["texts"].key, "x")
    rows = pa.Table.from_pylist([keys | {"text_id": f"{number}"} for number in range(4)], schema=schema)
    for unit_rows, sizes in ((2, [2, 2]), (1, [1] * 4), (4, [4])):
        write_small(f"{tmp_path}/t", rows, table="texts", identity={}, config={}, unit_rows=unit_rows)
        assert [footer.rows for footer in read_index(f"{tmp_path}/t")] == sizes


def test_a_place_with_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(InputError, match="not a table that remine wrote"):
        write_small(str(tmp_path), pa.table({}), table="raters", identity={}, config={})
    assert (tmp_path / "file.txt").exists()


def test_a_table_whose_identity_is_damaged_is_written_again(tmp_path: Path) -> None:
    rows = TABLES["raters"].schema().empty_table()
    write_small(f"{tmp_path}/t", rows, table="raters", identity={}, config={})
    (tmp_path / "t" / "_run" / "identity.json").write_text("{")
    assert write_small(f"{tmp_path}/t", rows, table="raters", identity={}, config={})["complete"]
