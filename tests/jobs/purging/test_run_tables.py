"""The tables of a run that is purged, and their lists of exclusions."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.purging.matching import Gone
from jobs.purging.needles import Needles
from jobs.purging.run_tables import check_list, counts_by_table, locked, open_tables_below
from jobs.runtime.selection.exclusions import KEPT, Exclusions
from jobs.store.runs import lock
from tests.factories import rating, write_table, write_units


def test_a_list_must_have_every_picture_that_a_table_excludes(tmp_path: Path) -> None:
    for name, kept in {"images": "x\ny\n", "ratings": "x\n"}.items():
        (tmp_path / name / "_run").mkdir(parents=True)
        (tmp_path / name / "_run" / KEPT).write_text(kept)
    tables: list[Any] = [SimpleNamespace(uri=str(tmp_path / name)) for name in ("images", "ratings", "without list")]

    def listed(*names: str) -> Exclusions:
        return Exclusions(names, tuple(frozenset({name}) for name in names))

    check_list(tables, listed("x", "y", "new"))
    with pytest.raises(InputError, match=r"(?s)exclusions: .*images.*\(1 marks"):
        check_list(tables, listed("x", "new"))
    with pytest.raises(InputError, match=r"\(2 marks"):
        check_list(tables, listed("new"))


def test_tables_without_a_unit_are_left_out(tmp_path: Path) -> None:
    """A search must be complete, because it could not be continued after the purge; other tables may be incomplete."""
    near = {"query_id": "q", "rank": 1, "item_id": "i", "score": 1.0}
    write_table(tmp_path / "R" / "b", "ratings", [rating("i", "m", "q", "1")])
    write_units(tmp_path / "R" / "a", "neighbors", [[near], [near | {"query_id": "p"}]])
    for name in ("c", "d"):
        write_units(tmp_path / "R" / name, "ratings", [[rating(item, "m", "q", "1")] for item in "jk"])
    for name, first in (("c", 0), ("d", 1)):
        for file in sorted((tmp_path / "R" / name).rglob("*.parquet"))[first:]:
            file.unlink()
    tables = open_tables_below(str(tmp_path / "R"), interrupted=False)
    assert [(table.name, Path(table.uri).name) for table in tables] == [
        ("neighbors", "a"), ("ratings", "b"), ("ratings", "d")
    ]  # fmt: skip
    next((tmp_path / "R" / "a").rglob("*.parquet")).unlink()
    with pytest.raises(InputError):
        open_tables_below(str(tmp_path / "R"), interrupted=False)


def test_rows_of_all_units_are_counted_and_tables_without_any_left_out(tmp_path: Path) -> None:
    gone = content_id("gone")
    for name, items in (("a", [gone, "x", gone, "y"]), ("b", ["x", "y"])):
        rows = [rating(item, f"m{n}", "q", "1") | {"comment": f"not {gone}"} for n, item in enumerate(items)]
        write_units(tmp_path / name, "ratings", [rows[:1], rows[1:]])
    write_table(tmp_path / "c", "ratings", [rating("x", "m", "q", "1")])
    needles = Needles(Gone({gone}, pictures={gone}))
    counts = counts_by_table(open_tables_below(str(tmp_path)), needles)
    assert counts == ({str(tmp_path / "a"): 2}, {str(tmp_path / "a"): 2, str(tmp_path / "b"): 2})


def test_locks_are_released_at_the_end(tmp_path: Path) -> None:
    uri = write_table(tmp_path / "R" / "a", "ratings", [])
    with locked(str(tmp_path)):
        assert not lock.acquire(str(uri)), "this process has it already"
    assert lock.acquire(str(uri))
    lock.release(str(uri))
