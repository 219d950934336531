"""Records cut into units, and records that repeat a picture."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.corpora.records import (
    REPEATS_FILE,
    cut,
    encode_repeats,
    find_repeats,
    open_records,
    read_records,
    record_columns,
    repeats_version,
    without_repeats,
)
from jobs.errors import InputError
from jobs.store.pieces import UnitPieces
from jobs.store.reading import TableSource, open_table
from jobs.store.units import Unit
from tests.cases import check_cases
from tests.factories import record, write_records, write_units
from tests.forwarding import counted_s3


def expected_repeats(uri: str) -> dict[str, list[bool]]:
    """Unit -> which of its records repeat an earlier picture, in one pass over all of them."""
    seen: set[str] = set()
    repeated = {}
    for footer in open_table(uri, "records").footers:
        marks = []
        for image_id in pq.read_table(footer.object.uri, columns=["image_id"])["image_id"].to_pylist():
            marks.append(image_id in seen)
            seen.add(image_id)
        if any(marks):
            repeated[footer.unit.name] = marks
    return repeated


def write_repeating(uri: str, *, units: int = 6, rows: int = 50, pictures: int = 60) -> None:
    """Records of few pictures in random order."""
    rng = np.random.default_rng(3)
    drawn = [
        [record(f"{u}-{n}", image=f"https://i/{rng.integers(pictures)}") for n in range(rows)] for u in range(units)
    ]
    write_records(uri, drawn)


def test_repeated_pictures_are_found_whatever_the_passes(tmp_path: Path) -> None:
    uri = str(tmp_path / "records")
    write_repeating(uri)
    expected = expected_repeats(uri)
    assert expected
    for pass_rows in (10**6, 70, 11):
        marks = find_repeats(open_table(uri, "records"), pass_rows=pass_rows)
        assert {name: unit.tolist() for name, unit in marks.items()} == expected
    kept = tmp_path / "repeats.json"
    kept.write_bytes(encode_repeats(marks))
    rows = pa.table({"n": list(range(50))})
    for name, repeated in expected.items():
        left = [n for n, again in enumerate(repeated) if not again]
        assert without_repeats(rows, str(kept), name)["n"].to_pylist() == left
        part = without_repeats(rows.slice(13, 20), str(kept), name, first=13)["n"].to_pylist()
        assert part == [n for n in left if 13 <= n < 33]
    assert without_repeats(rows, None, "x") is rows


def test_a_table_is_read_once_for_its_repeats_however_long_it_is(s3: str) -> None:
    write_repeating(f"{s3}/repeats")
    source, asked = open_table(f"{s3}/repeats", "records"), []
    with counted_s3() as front:
        for pass_rows in (10**6, 11):
            front.requests.clear()
            find_repeats(source, pass_rows=pass_rows)
            asked.append(front.requests["GET"])
    assert asked[0] == asked[1] >= 6


def test_units_cover_each_picture_once_in_the_order_of_the_records(tmp_path: Path) -> None:
    uri = str(tmp_path / "records")
    write_repeating(uri)
    parents = [footer.unit.name for footer in open_table(uri, "records").footers]
    ids = [row["image_id"] for batch in open_table(uri, "records").batches(["image_id"]) for row in batch.to_pylist()]
    for unit_rows in (1, 7, 49, 50, 1000):
        records = open_records(uri, unit_rows, {})
        kept = tmp_path / "repeats.json"
        kept.write_bytes(encode_repeats(records.repeated))
        read = {unit.name: read_records(unit, ["image_id", "image_url"], str(kept)) for unit in records.units}
        assert [row for rows in read.values() for row in rows["image_id"].to_pylist()] == list(dict.fromkeys(ids))
        assert list(read) == sorted(read)  # tables are read in the order of these names
        assert {unit.parent for unit in records.units} == set(parents)
        for unit in records.units:
            first, last = unit.extra["from"], unit.extra["to"]
            assert 0 < last - first <= unit_rows
            assert unit.rows == read[unit.name].num_rows
            assert (unit.rows or 0) + sum(unit.extra.get("filtered", {}).values()) == last - first
            assert (unit.name == unit.parent) == (last - first == 50)
            assert read[unit.name].column_names == ["image_id", "image_url"]


def test_a_version_covers_the_rows_and_which_of_them_repeat(tmp_path: Path) -> None:
    write_repeating(uri := str(tmp_path / "records"))
    table = open_table(uri, "records")
    marks = find_repeats(table)
    whole = {unit.name: unit.version for unit in cut(table.units(), {}, 50, {})}
    assert whole == {unit.name: unit.version for unit in table.units()}  # as their parents'
    changed = {unit.name for unit in cut(table.units(), marks, 50, {}) if unit.version != whole[unit.name]}
    assert changed == set(marks)
    parts = list(cut(table.units(), marks, 20, {}))
    assert len({unit.version for unit in parts}) == len(parts) == 18
    other = marks | {parts[-1].parent: ~marks[parts[-1].parent]}
    for old, new in zip(parts, cut(table.units(), other, 20, {}), strict=True):
        assert (old.version != new.version) == (old.parent == parts[-1].parent)


def test_a_unit_of_records_without_rows_is_a_unit(tmp_path: Path) -> None:
    write_records(str(tmp_path / "records"), [[], [record("a")]])
    records = open_records(str(tmp_path / "records"), 1, {})
    assert [(unit.name, unit.rows) for unit in records.units] == [("unit0", 0), ("unit1", 1)]
    assert read_records(records.units[0], ["image_id"], None).num_rows == 0


def test_units_without_rows_of_a_begun_table_have_names_of_their_own() -> None:
    """A purge left two of four rows; the table has four units, of which a trial wrote the first."""
    parent = Unit("u", (), rows=2)
    units = list(cut([parent], {}, 1, {"u": UnitPieces(4, {0: "first"})}))
    assert [(unit.name, unit.rows) for unit in units] == [
        ("first", 1), ("u-000000001", 1), ("u-000000002-2", 0), ("u-000000002-3", 0)
    ]  # fmt: skip
    assert [unit.extra["number"] for unit in units] == [0, 1, 2, 3]
    (whole,) = cut([parent], {}, 5, {})
    assert whole.name == "u"


def records(folder: Path, *units: list[str | None]) -> TableSource:
    rows: list[list[dict[str, Any]]] = [
        [record(f"{number}-{row}") | {"image_id": name} for row, name in enumerate(unit)]
        for number, unit in enumerate(units)
    ]
    return open_table(write_units(folder / "records", "records", rows))


def repeated(source: TableSource, **keys: int) -> dict[str, list[bool]]:
    return {unit: marks.tolist() for unit, marks in find_repeats(source, **keys).items()}


@pytest.mark.parametrize("pass_rows", [1, 3, 100])
def test_the_first_record_of_a_picture_in_the_order_of_the_table_stays(tmp_path: Path, pass_rows: int) -> None:
    source = records(tmp_path, ["p", "q", "p"], ["r"], [], ["s", "p", "s", "q"])
    assert repeated(source, pass_rows=pass_rows) == {
        "unit0": [False, False, True],
        "unit3": [False, True, True, True],
    }


def test_ids_that_share_a_half_are_different_pictures(tmp_path: Path) -> None:
    zero, one = "0" * 16, "1" * 16
    assert repeated(records(tmp_path, [zero + zero, zero + one, one + one])) == {}


def test_a_record_without_an_image_id_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="1 records have no image_id"):
        find_repeats(records(tmp_path, ["p", None]))


def test_rows_of_a_unit_are_read_without_repeats(tmp_path: Path) -> None:
    marks = {"u": np.array([False, True] * 5), "v": np.array([True])}
    file = tmp_path / REPEATS_FILE
    file.write_bytes(encode_repeats(marks))
    rows = pa.table({"n": range(10)})
    assert without_repeats(rows, str(file), "u")["n"].to_pylist() == [0, 2, 4, 6, 8]
    assert without_repeats(rows.slice(3, 4), str(file), "u", first=3)["n"].to_pylist() == [4, 6]
    assert without_repeats(rows, str(file), "other") is rows
    assert without_repeats(rows, None, "u") is rows
    assert len({repeats_version(np.array(bits)) for bits in ([True, False], [False, True], [True, True])}) == 3


def test_columns_of_records() -> None:
    cases = [
        ({"wikipedia_url": "https://w/1"}, {"page_url": "https://w/1"}),
        ({"wit_split": "validation"}, {"split": "val"}),
        ({"wit_split": "test"}, {"split": "test"}),
        (
            {"century_method": " with_knowledge_graph; "},
            {"methods": ["knowledge_graph"], "credited_method": "knowledge_graph"},
        ),
        (
            {"century_method": "with_foundation_model;manually_curated;other"},
            {"methods": ["language_model", "manual", "other"]},
        ),
        ({"wikipedia_url": "", "title": "x"}, {}),
    ]

    def check(row: dict[str, str], columns: dict[str, Any]) -> None:
        assert record_columns(row) == columns

    check_cases(check, cases)
