"""What a job is going to write: the table, its units and its identity, and how much of them for a trial run.

`limit=n` makes a table from the first n rows of its input, for a trial run. The limit cuts the planned units and is
part of the table's identity: a table with a limit can only be continued with the same limit. If the numbers of rows of
the units are known, the first n rows of the input are read, and no units after them are planned. If the numbers of rows
of files are unknown before reading, the first n rows of each file are read (`Unit.limit`; the worker that reads the
file stops there). Rows after the limit are neither filtered nor rejected: they do not count.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from jobs.errors import InputError
from jobs.store.files.objects import CompactList
from jobs.store.units import LIMIT, Unit


@dataclass(frozen=True)
class RowLimit:
    """The rows that a limit takes.

    Attributes:
        limit: the value of the key.
        rows: the rows that are read; None if unknown before reading.
        total: the rows of the whole input; None if unknown.
        per_input: the limit applies to each file, not to the whole input.
        noun: what is counted.
    """

    limit: int
    rows: int | None
    total: int | None
    per_input: bool
    noun: str

    def __str__(self) -> str:
        """Return what was taken: `limit=10: the first 10 of 904 rows`."""
        if self.rows is not None and self.total is not None:
            return f"limit={self.limit}: the first {self.rows:,} of {self.total:,} {self.noun}"
        if self.rows is not None:
            return f"limit={self.limit}: the first {self.rows:,} {self.noun}"
        return f"limit={self.limit}: the first {self.limit:,} {self.noun}{' of each file' if self.per_input else ''}"

    @staticmethod
    def from_json(content: dict[str, Any]) -> "RowLimit":
        """Return the instance for the content of a manifest's key `limit`."""
        return RowLimit(
            content["limit"], content["rows"], content["of"], per_input=content["each_file"], noun=content["noun"]
        )

    def to_json(self) -> dict[str, Any]:
        """Return the content for the manifest's key `limit`."""
        return {
            "limit": self.limit,
            "rows": self.rows,
            "of": self.total,
            "each_file": self.per_input,
            "noun": self.noun,
        }


@dataclass(frozen=True)
class TablePlan:
    """A table to write.

    Attributes:
        out: the folder or prefix to write to.
        table: its name in `jobs.tables`.
        identity: everything that changes the rows, and nothing else, as JSON values.
        units: the units to write.
        config: the job's configuration, for the manifest.
        metadata: strings for the schema of its objects.
        derived: the units are those of a parent table, and a changed input becomes a new generation of its unit. If
            False, changed inputs are refused.
        dim: length of the vectors, for a table of embeddings.
        models: names and revisions of models, for the manifest.
        files: additional files of `_run/`, written when the run is first opened.
        limit: how many rows `limit=` takes; None without a limit (`limited`).
    """

    out: str
    table: str
    identity: dict[str, Any]
    units: Sequence[Unit]
    config: dict[str, Any]
    metadata: dict[str, str]
    derived: bool
    dim: int | None = None
    models: dict[str, str] | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    limit: RowLimit | None = None


class LimitedRows(Protocol):
    """One or several tables that can be read up to a limit, such as `jobs.store.reading.TableSource`."""

    @property
    def limit(self) -> int | None:
        """The number of rows that are read, from the first one; None for all."""

    @property
    def rows(self) -> int:
        """The number of rows that are read."""

    def first(self, limit: int | None) -> "LimitedRows":
        """Return the same rows with another limit."""


def check_limit(limit: int | None) -> None:
    """Raise InputError for a limit that is not allowed."""
    if limit is not None and limit < 1:
        raise InputError("must be at least 1, or null for all rows", key="limit", value=limit)


def limited(
    plan: TablePlan,
    limit: int | None,
    *,
    noun: str = "rows",
    by: Callable[[Unit], object] = lambda _: None,
    count: Callable[[Unit], int] | None = None,
) -> TablePlan:
    """Return `plan` with the first rows of its units; unchanged without a limit.

    Args:
        noun: what the rows are called.
        by: returns a value per unit; units with different values have separate limits, such as those of several models.
        count: returns the counted number of a unit, if it is not the number of rows; called until there are enough.

    Raises:
        InputError: the limit is not at least 1.
    """
    check_limit(limit)
    if limit is None or plan.limit is not None:
        return plan
    units = CompactList(_cut(plan.units, limit, by, count))
    rows, total = (_rows(units), None) if count else (_rows(units), _rows(plan.units))
    taken = RowLimit(limit, rows, total, per_input=rows is None, noun=noun)
    return replace(plan, units=units, identity={**plan.identity, "limit": limit}, limit=taken)


def first_rows(units: Iterable[Unit], limit: int) -> CompactList[Unit]:
    """Return the units that have the first rows; the last of them has a limit."""
    return CompactList(_cut(units, limit, lambda _: None, None))


def row_limit(table: LimitedRows, *, noun: str = "rows") -> RowLimit | None:
    """Return how many rows of a table its limit takes; None without a limit."""
    if table.limit is None:
        return None
    return RowLimit(table.limit, table.rows, table.first(None).rows, per_input=False, noun=noun)


def _rows(units: Iterable[Unit]) -> int | None:
    rows = [unit.rows for unit in units]
    return sum(row for row in rows if row is not None) if None not in rows else None


def _cut(
    units: Iterable[Unit], limit: int, by: Callable[[Unit], object], count: Callable[[Unit], int] | None
) -> Iterator[Unit]:
    left: dict[object, int] = {}
    for unit in units:
        key = by(unit)
        if unit.rows is None:
            yield _first_of(unit, limit)
        elif left.setdefault(key, limit):
            rows = count(unit) if count else unit.rows
            first = min(left[key], rows)
            left[key] -= first
            yield replace(unit if first == rows else _first_of(unit, first), rows=first)


def _first_of(unit: Unit, rows: int) -> Unit:
    # Rows that the plan leaves out of a unit may come after the limit.
    extra = {name: value for name, value in unit.extra.items() if name != "filtered"}
    return replace(unit, extra={**extra, LIMIT: rows})
