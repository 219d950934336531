"""Rows of entities are written some at a time, each once."""

from typing import Any

import pyarrow as pa
import pytest

from jobs.workers import wikidata


class Writer:
    """Stands for a unit's writer; keeps the ids of each table."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []

    def write(self, rows: pa.Table) -> None:
        self.written.append(rows["entity_id"].to_pylist())


class Report:
    """Keeps the numbers of rows that were reported."""

    def __init__(self) -> None:
        self.matched: list[int] = []

    def add(self, steps: int, *, matched: int) -> None:
        assert steps == 0
        self.matched.append(matched)


def test_rows_are_written_when_there_are_enough_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wikidata, "ROWS_AT_A_TIME", 2)
    writer, report = Writer(), Report()
    arguments: Any = (writer, "entities", report)
    rows = wikidata._BatchedRows(*arguments)
    assert [rows.add({"entity_id": name}) for name in ("a", "a", "b", "c", "c", "c")] == [
        True, False, True, True, False, False
    ]  # fmt: skip
    assert writer.written == [["a", "b"]]
    rows.flush()
    rows.flush()
    assert (writer.written, report.matched) == ([["a", "b"], ["c"]], [2, 1])
    assert rows.add({"entity_id": "a"})  # only rows that are not written yet are compared
