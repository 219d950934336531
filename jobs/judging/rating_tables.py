"""Open several tables of ratings together, after checking that no two hold the same rating."""

from collections.abc import Sequence

from jobs import tables
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.keys import shared_key
from jobs.store.reading import TableSource, open_table, tables_in

GROUPS = (
    "rubric",
    "question",
    "rater",
    "condition",
    "method",
    "order",
    "sample",
)  # columns of the key with few distinct values


def open_ratings(patterns: Sequence[str]) -> list[TableSource]:
    """Return the tables of ratings that `patterns` (paths, URIs or globs) name, each once, in that order.

    Raises:
        InputError: no such table, or two tables hold the same primary key of `ratings`: averaging both would count
            one rater twice, or mix runs that differ only in their settings.
    """
    uris = dict.fromkeys(locations.absolute(uri) for pattern in patterns for uri in tables_in(pattern))
    sources = [open_table(uri, "ratings") for uri in uris]
    shared = shared_key(sources, tables.table("ratings").key, groups=GROUPS) if len(sources) > 1 else None
    if shared is not None:
        key = ", ".join(f"{name}={value}" for name, value in shared.key.items() if value != "")
        raise InputError(
            f"ratings={shared.first.uri}: has a rating with the same key as one in {shared.second.uri} ({key}); name "
            "one of the two tables, or report each separately"
        )
    return sources
