"""A writer of single rows of the table `images`, in bounded memory."""

from types import TracebackType
from typing import Self

from actors import schemas
from actors.rows import ImageRow
from jobs.store.writer import UnitWriter

MAX_ROWS, MAX_BYTES = 256, 16 << 20  # limits of the rows in memory


class ImageWriter:
    """Collects rows and passes them to the unit's writer as tables; a context manager that writes the rest on exit."""

    def __init__(self, writer: UnitWriter) -> None:
        self._writer = writer
        self._rows: list[ImageRow] = []
        self._bytes = 0

    def add(self, row: ImageRow) -> None:
        """Append a row; columns that it lacks are null."""
        self._rows.append(row)
        self._bytes += len(row.get("bytes") or b"")
        if len(self._rows) >= MAX_ROWS or self._bytes >= MAX_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write(schemas.to_table(self._rows, schemas.IMAGES))
            self._rows, self._bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self._flush()
