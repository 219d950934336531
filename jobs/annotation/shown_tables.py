"""Several tables of one kind read as one: the items, texts, responses or pictures of all parts of a study."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from jobs.errors import InputError
from jobs.store.files.objects import Object
from jobs.store.reading import TableSource, open_tables


@dataclass(frozen=True)
class Tables:
    """Tables of one name, ordered by address; `limit` is how many rows are read (see `first`), None for all."""

    sources: tuple[TableSource, ...]
    limit: int | None = None

    def first(self, limit: int | None) -> "Tables":
        """Return the tables limited to their first rows, counted over all tables; None: all rows."""
        sources, left = [], limit
        for source in self.sources:
            sources.append(source.first(left))
            left = None if left is None else left - sources[-1].rows
        return Tables(tuple(sources), limit)

    @property
    def rows(self) -> int:
        """The number of rows in all tables."""
        return sum(source.rows for source in self.sources)

    @property
    def name(self) -> str:
        """The tables' name in `jobs.tables`."""
        return self.sources[0].name

    @property
    def uri(self) -> str:
        """The tables' addresses, for messages."""
        return ", ".join(source.uri for source in self.sources)

    @property
    def identity(self) -> str:
        """Hash of everything that the rows depend on."""
        return content_id(*(source.identity for source in self.sources))

    @property
    def objects(self) -> Iterator[Object]:
        """The data objects of all tables."""
        return (footer.object for source in self.sources for footer in source.footers)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the rows of all tables."""
        for source in self.sources:
            yield from source.batches(columns)


def open_shown(key: str, value: Any, *expected: str) -> Tables | None:
    """Return the tables in `key=value`: a table, a glob of tables, or a list of both; None if the value is null.

    Raises:
        InputError: the value is none of these, a table does not exist, or tables have different names.
    """
    patterns = [value] if isinstance(value, str) else value
    if value is None or patterns == []:
        return None
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise InputError(f"{key}={value}: must be a table, a glob of tables, or a list of them: {key}=[A,B]")
    sources = sorted(open_tables(patterns, *expected), key=lambda source: source.uri)
    if len(names := sorted({source.name for source in sources})) > 1:
        raise InputError(f"{key}={value}: holds tables of {' and '.join(names)}; run annotate once for each")
    return Tables(tuple(sources))
