"""Records that repeat the picture of an earlier one, found in passes of any size."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from jobs.corpora import repeats
from jobs.errors import InputError
from jobs.store.reading import TableSource, open_table
from tests.factories import record, write_units


def records(folder: Path, *units: list[str | None]) -> TableSource:
    rows: list[list[dict[str, Any]]] = [
        [record(f"{number}-{row}") | {"image_id": name} for row, name in enumerate(unit)]
        for number, unit in enumerate(units)
    ]
    return open_table(write_units(folder / "records", "records", rows))


def repeated(source: TableSource, **keys: int) -> dict[str, list[bool]]:
    return {unit: marks.tolist() for unit, marks in repeats.find(source, **keys).items()}


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
        repeats.find(records(tmp_path, ["p", None]))


def test_rows_of_a_unit_are_read_without_repeats(tmp_path: Path) -> None:
    marks = {"u": np.array([False, True] * 5), "v": np.array([True])}
    file = tmp_path / repeats.FILE
    file.write_bytes(repeats.encoded(marks))
    rows = pa.table({"n": range(10)})
    assert repeats.without(rows, str(file), "u")["n"].to_pylist() == [0, 2, 4, 6, 8]
    assert repeats.without(rows.slice(3, 4), str(file), "u", first=3)["n"].to_pylist() == [4, 6]
    assert repeats.without(rows, str(file), "other") is rows
    assert repeats.without(rows, None, "u") is rows
    assert len({repeats.fingerprint(np.array(bits)) for bits in ([True, False], [False, True], [True, True])}) == 3
