"""The tables of a run that its ratings are joined with."""

import glob
from typing import NamedTuple

from jobs.errors import InputError
from jobs.inventory.found import FoundTable, find_tables
from jobs.store.files import locations
from jobs.store.run_files import IDENTITY, run_uri
from jobs.store.table_plan import trials


class RatedRun(NamedTuple):
    """Uris of tables.

    Attributes:
        ratings, items: all such tables except trial runs (`limit=`) of other tables among them.
        records, images: the table with the most rows; None if there is none.
    """

    ratings: list[str]
    items: list[str]
    records: str | None
    images: str | None


def find_rated_run(place: str) -> RatedRun | None:
    """Return the tables below the folder `place`; None if it is a glob or a table, or has only tables of ratings.

    Raises:
        InputError: none of the tables below has ratings.
    """
    uri = locations.absolute(place)
    if glob.has_magic(place) or locations.exists(run_uri(uri, IDENTITY)):
        return None
    try:
        tables = find_tables(uri)
    except InputError:  # nothing there, which opening the ratings reports
        return None
    trial_runs = trials({table.uri: table.identity for table in tables if table.is_complete})
    by_kind: dict[str, list[FoundTable]] = {}
    for table in tables:
        if table.uri not in trial_runs:
            by_kind.setdefault(table.name, []).append(table)
    if set(by_kind) == {"ratings"} and not trial_runs:
        return None
    if "ratings" not in by_kind:
        raise InputError(f"ratings={place}: has tables of {', '.join(sorted(by_kind))}, but none of ratings")
    ratings, items = ([table.uri for table in by_kind.get(kind, ())] for kind in ("ratings", "items"))
    records, images = (
        max(by_kind[kind], key=lambda table: table.rows).uri if kind in by_kind else None
        for kind in ("records", "images")
    )
    return RatedRun(ratings, items, records, images)
