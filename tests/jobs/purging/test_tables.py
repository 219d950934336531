"""The tables of a run that is purged, and their lists of exclusions."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.purging.tables import check_list, open_tables_below
from jobs.runtime.selection.exclusions import KEPT, Exclusions
from tests.factories import rating, write_table, write_units


def test_a_list_must_have_every_picture_that_a_table_excludes(tmp_path: Path) -> None:
    for name, kept in {"images": "x\ny\n", "ratings": "x\n"}.items():
        (tmp_path / name / "_run").mkdir(parents=True)
        (tmp_path / name / "_run" / KEPT).write_text(kept)
    tables: list[Any] = [SimpleNamespace(uri=str(tmp_path / name)) for name in ("images", "ratings", "without list")]

    def listed(*names: str) -> Exclusions:
        return Exclusions(names, tuple(frozenset({name}) for name in names))

    check_list(tables, listed("x", "y", "new"))
    with pytest.raises(InputError, match=r"(?s)exclusions=.*images.*\(1 marks"):
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
