"""The tables of a run that rows of its ratings are joined with."""

import glob
from collections.abc import Sequence
from typing import NamedTuple

from jobs.errors import InputError
from jobs.inventory.found import FoundTable, find_tables
from jobs.store import locations
from jobs.store.run_files import IDENTITY, run_uri


class RatedRun(NamedTuple):
    """Uris of tables.

    Attributes:
        ratings, items: all of them; no trial (`limit=`) where there are others.
        records, images: the one with the most rows; None if there is none.
    """

    ratings: list[str]
    items: list[str]
    records: str | None
    images: str | None


def find_rated_run(place: str) -> RatedRun | None:
    """Return the tables below the folder `place`; None if it is a glob, a table, or has tables of ratings only.

    Raises:
        InputError: none of the tables below has ratings.
    """
    uri = locations.absolute(place)
    if glob.has_magic(place) or locations.exists(run_uri(uri, IDENTITY)):
        return None
    try:
        tables = find_tables(uri)
    except InputError:  # nothing there: who opens the ratings says so
        return None
    by_kind = {kind: _whole([table for table in tables if table.name == kind]) for kind in {t.name for t in tables}}
    if set(by_kind) == {"ratings"}:
        return None
    if "ratings" not in by_kind:
        raise InputError(f"ratings={place}: has tables {', '.join(sorted(by_kind))}, and none of ratings")
    uris = {kind: [table.uri for table in by_kind.get(kind, ())] for kind in ("ratings", "items")}
    return RatedRun(uris["ratings"], uris["items"], _largest(by_kind, "records"), _largest(by_kind, "images"))


def _whole(tables: Sequence[FoundTable]) -> list[FoundTable]:
    return [table for table in tables if "limit" not in table.identity] or list(tables)


def _largest(by_kind: dict[str, list[FoundTable]], kind: str) -> str | None:
    return max(by_kind.get(kind, ()), key=lambda table: table.rows).uri if by_kind.get(kind) else None
