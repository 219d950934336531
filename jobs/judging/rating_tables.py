"""Opening several tables of ratings together, after checking that no two have the same rating."""

from collections.abc import Sequence

from jobs.store.keys import refuse_shared_keys
from jobs.store.reading import TableSource, open_tables

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
    """Return the tables of ratings at `patterns` (paths, URIs or globs), each once, in that order.

    Raises:
        InputError: a table does not exist, or two tables have the same primary key of `ratings`: averaging both would
            count one rater twice, or mix runs that differ only in their settings.
    """
    sources = open_tables(patterns, "ratings")
    refuse_shared_keys(sources, groups=GROUPS, row="rating")
    return sources
