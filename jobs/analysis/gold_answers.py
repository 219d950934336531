"""The right answers of ranked queries, from a file that a person hands in, and their ranks in tables of lists."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.corpora.ratings_file import batches, one_file, select_columns
from jobs.errors import InputError
from jobs.store.reading import TableSource

RANKED = {"links": ("image_id", "node_id"), "neighbors": ("query_id", "item_id")}  # table -> query, answer


@dataclass
class GoldColumns:
    """Names of the columns of `gold`."""

    query: str = "image_id"  # what was searched for
    answer: str = "node_id"  # a right answer to it


@dataclass(frozen=True)
class GoldAnswers:
    """Query -> its right answers (`right`), and query -> its group (`group`, empty without groups)."""

    right: dict[str, set[str]]
    group: dict[str, str]


def read_gold(uri: str, columns: GoldColumns, group_by: str | None, *, encoding: str | None = None) -> GoldAnswers:
    """Read a CSV, TSV or Parquet file with one row per query and right answer.

    Raises:
        InputError: no such file or column, no row, a row without query or answer, or a query in two groups.
    """
    uri = one_file("gold", uri).uri
    wanted = {"query": [columns.query], "answer": [columns.answer]} | ({"group": [group_by]} if group_by else {})
    right: dict[str, set[str]] = defaultdict(set)
    group: dict[str, str] = {}
    row = 0
    for batch in batches(uri, encoding=encoding):
        rows = select_columns(uri, batch, wanted, {})
        cells = (rows[name].to_pylist() for name in ("query", "answer"))
        groups = rows["group"].to_pylist() if group_by else [None] * rows.num_rows
        for query, answer, name in zip(*cells, groups, strict=True):
            row += 1
            if query is None or answer is None:
                empty = columns.answer if query else columns.query
                raise InputError(f"{uri}: row {row} after the header: {empty} is empty")
            right[query].add(answer)
            if group_by and group.setdefault(query, name or "") != (name or ""):
                raise InputError(f"{uri}: {query} is in two groups of {group_by}: {group[query]!r} and {name or ''!r}")
    if not right:
        raise InputError(f"{uri}: no rows after the header")
    return GoldAnswers(dict(right), group)


def ranks_of(source: TableSource, right: Mapping[str, set[str]]) -> dict[str, list[int]]:
    """Query -> ascending ranks of its right answers, for queries with a list; an empty list if none is in it."""
    query_column, answer_column = RANKED[source.name]
    ranks: dict[str, list[int]] = {}
    for batch in source.batches([query_column, "rank", answer_column]):
        cells = (batch[name].to_pylist() for name in (query_column, "rank", answer_column))
        for query, rank, answer in zip(*cells, strict=True):
            if query in right:
                listed = ranks.setdefault(query, [])
                if answer in right[query]:
                    listed.append(rank)
    return {query: sorted(listed) for query, listed in ranks.items()}
