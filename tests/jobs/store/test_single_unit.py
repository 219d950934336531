"""Small tables that a driver writes are cut where models read them, so that their rows are shared by GPUs."""

from pathlib import Path

import pyarrow as pa

from jobs.store.reading import open_table
from jobs.store.single_unit import UNIT_ROWS, write_small
from jobs.store.writer import Reject
from jobs.tables import TABLES


def test_tables_that_models_read_have_units_of_bounded_size(tmp_path: Path) -> None:
    rows = 2 * UNIT_ROWS + 10
    for table, sizes in (("texts", [UNIT_ROWS, UNIT_ROWS, 10]), ("raters", [rows])):
        schema = TABLES[table].schema()
        first = schema.names[0]
        keys = dict.fromkeys(TABLES[table].key, "x")
        content = pa.Table.from_pylist([keys | {first: f"{number:04}"} for number in range(rows)], schema=schema)
        for again in range(2):
            manifest = write_small(str(tmp_path / table), content, table=table, identity={}, config={})
            assert [unit["counts"]["rows_out"] for unit in manifest["units"]] == sizes, again
        written = pa.concat_tables(open_table(str(tmp_path / table), table).batches([first]))[first].to_pylist()
        assert written == sorted(written)
        assert len(written) == rows


def test_rejects_are_stored_with_the_first_unit(tmp_path: Path) -> None:
    schema = TABLES["texts"].schema()
    keys = dict.fromkeys(TABLES["texts"].key, "x")
    rows = pa.Table.from_pylist([keys | {"text_id": f"{number}"} for number in range(5)], schema=schema)
    rejects = [Reject("file.csv", line, "no_text", "the text is empty") for line in (2, 9)]
    manifest = write_small(
        str(tmp_path / "texts"), rows, table="texts", identity={}, config={}, unit_rows=2, rejects=rejects
    )
    assert [unit["counts"]["rejected"] for unit in manifest["units"]] == [{"no_text": 2}, {}, {}]
    assert [unit["counts"]["rows_in"] for unit in manifest["units"]] == [4, 2, 1]
    assert list(open_table(str(tmp_path / "texts")).rejects()) == rejects
