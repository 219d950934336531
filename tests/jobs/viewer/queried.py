"""Databases of the viewer for tests: tables that are loaded, and the pictures that a view shows."""

from pathlib import Path
from typing import Any

import duckdb

from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.viewer import loading, queries
from jobs.viewer.queries import view_of
from tests.factories import write_table

NOTHING = ExclusionFilter(frozenset())


def loaded(folder: Path, excluded: ExclusionFilter = NOTHING, **tables: list[dict[str, Any]]) -> Any:
    """Return a cursor of a database of these tables."""
    for name, rows in tables.items():
        write_table(folder / name, name, rows)
    connection = duckdb.connect()
    loading.load(connection, loading.open_places([str(folder)]), excluded)
    return connection


def shown(cursor: Any, **view: str) -> list[str]:
    return [row["image_id"] for row in queries.pictures(cursor, view_of(view)).rows]
