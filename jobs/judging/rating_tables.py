"""Several tables of ratings opened together, without a rating that two of them hold."""

from collections.abc import Sequence

from jobs import tables
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.keys import shared_key
from jobs.store.reading import TableSource, open_table, tables_in

GROUPS = ("rubric", "question", "rater", "condition", "method", "order", "sample")  # of the key: few different values


def open_ratings(patterns: Sequence[str]) -> list[TableSource]:
    """The tables of ratings that `patterns` (places or globs) name, each once, in that order.

    Raises:
        InputError: no such table, or a primary key of `ratings` that two of them hold: averaging both would count
            one rater twice, or mix runs that only their settings tell apart.
    """
    places = dict.fromkeys(locations.absolute(uri) for pattern in patterns for uri in tables_in(pattern))
    sources = [open_table(place, "ratings") for place in places]
    found = shared_key(sources, tables.table("ratings").key, groups=GROUPS) if len(sources) > 1 else None
    if found is not None:
        shown = ", ".join(f"{name}={value}" for name, value in found.key.items() if value != "")
        raise InputError(
            f"ratings={found.first.uri} and {found.second.uri} hold a rating of the same key ({shown}); give one of "
            "them, or report each by itself"
        )
    return sources
