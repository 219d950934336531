"""Rows of pictures are written when there are many of them or much of their bytes, and at the end."""

from typing import Any

import pyarrow as pa
import pytest

from jobs.workers import image_writer
from jobs.workers.image_writer import ImageWriter


class Written:
    """Stands for a unit's writer; keeps the tables."""

    def __init__(self) -> None:
        self.tables: list[pa.Table] = []

    def write(self, rows: pa.Table) -> None:
        self.tables.append(rows)


def row(name: str, size: int) -> Any:
    return {"image_id": name, "rendition": "original", "status": "ok", "bytes": b"x" * size}


@pytest.mark.parametrize(("rows", "size", "parts"), [(2, 100, ["ab", "cd", "e"]), (9, 3, ["abc", "de"])])
def test_rows_are_written_at_their_limits_in_order(
    monkeypatch: pytest.MonkeyPatch, rows: int, size: int, parts: list[str]
) -> None:
    monkeypatch.setattr(image_writer, "MAX_ROWS", rows)
    monkeypatch.setattr(image_writer, "MAX_BYTES", size)
    written: Any = Written()
    with ImageWriter(written) as writer:
        for name in "abcde":
            writer.add(row(name, 1))
    assert ["".join(table["image_id"].to_pylist()) for table in written.tables] == parts


def test_nothing_is_written_of_what_an_error_ended() -> None:
    written: Any = Written()

    def fail() -> None:
        with ImageWriter(written) as writer:
            writer.add(row("a", 1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert written.tables == []
