"""The right answers to ranked queries, from a user's file, and their ranks in tables of lists."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.corpora.delimited import read_dialect, records
from jobs.corpora.user_tables import batches, find_file, select_columns
from jobs.errors import InputError
from jobs.store.reading import TableSource

RANKED = {"links": ("image_id", "node_id"), "neighbors": ("query_id", "item_id")}  # table -> query, answer


@dataclass
class GoldColumns:
    """Names of the columns of `gold`."""

    query: str = "image_id"  # the query's id
    answer: str = "node_id"  # the id of a right answer to it


@dataclass(frozen=True)
class GoldAnswers:
    """The right answers to queries.

    Attributes:
        right: query -> its right answers.
        group: query -> its group; empty without groups.
    """

    right: dict[str, set[str]]
    group: dict[str, str]


def read_gold(uri: str, columns: GoldColumns, group_by: str | None, *, encoding: str | None = None) -> GoldAnswers:
    """Read a CSV, TSV or Parquet file with one row per query and right answer.

    Args:
        group_by: the column with the query's group; None: no groups.

    Raises:
        InputError: the file or a column is missing, there are no rows, a query or an answer is empty, or a query is in
            two groups.
    """
    uri = find_file("gold", uri).uri
    wanted = {"query": [columns.query], "answer": [columns.answer]} | ({"group": [group_by]} if group_by else {})
    right: dict[str, set[str]] = defaultdict(set)
    group: dict[str, str] = {}
    row = 0
    for batch in batches(uri, [name for names in wanted.values() for name in names], encoding=encoding):
        rows = select_columns(uri, batch, wanted, {})
        cells = (rows[name].to_pylist() for name in ("query", "answer"))
        groups = rows["group"].to_pylist() if group_by else [None] * rows.num_rows
        for query, answer, name in zip(*cells, groups, strict=True):
            row += 1
            if query is None or answer is None:
                position, empty = _empty_cell(uri, columns, row, columns.answer if query else columns.query, encoding)
                raise InputError(f"{position}: {empty} is empty; fill it in or delete the row", place=uri)
            right[query].add(answer)
            if group_by and group.setdefault(query, name or "") != (name or ""):
                raise InputError(
                    f"{query} is in two groups of {group_by}: {group[query]!r} and {name or ''!r}", place=uri
                )
    if not right:
        raise InputError("the file has no rows", place=uri)
    return GoldAnswers(dict(right), group)


def _empty_cell(uri: str, columns: GoldColumns, row: int, column: str, encoding: str | None) -> tuple[str, str]:
    """Return the position of the first empty query or answer, and its column.

    Batches have no line numbers: a delimited file is read again to find the line, which may differ from the row because
    fields may contain line breaks and empty lines are skipped. In Parquet, the position is the row, from 1.
    """
    if not uri.lower().endswith(".parquet"):
        names = (columns.query, columns.answer)
        for line, cells in records(uri, read_dialect(uri, encoding=encoding), names):
            if empty := [name for name in names if not cells[name].strip()]:
                return f"line {line}", empty[0]
    return f"row {row}", column


def ranks_of(source: TableSource, right: Mapping[str, set[str]]) -> dict[str, list[int]]:
    """Return the ascending ranks of right answers by query, for queries of `right` that have a list.

    The ranks are empty if the list has no right answer.
    """
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
