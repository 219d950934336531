"""A file of a released data set: its columns with types and descriptions, and its rows as CSV."""

import csv
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Kind = Literal["text", "integer", "boolean", "url"]


@dataclass(frozen=True)
class Column:
    """A column of a released file."""

    description: str
    kind: Kind = "text"


@dataclass(frozen=True)
class ReleasedFile:
    """A file that was written.

    Attributes:
        name: name of the file without suffix, and of the data set's configuration.
        description: what one row is.
        columns: name -> column.
        rows, size, sha256: number of rows, bytes, and the hash of the file.
    """

    name: str
    description: str
    columns: Mapping[str, Column]
    rows: int
    size: int
    sha256: str

    @property
    def path(self) -> str:
        """The path below the folder of the release."""
        return f"data/{self.name}.csv"


def write_csv(
    folder: Path, name: str, description: str, columns: Mapping[str, Column], rows: Iterable[Mapping[str, Any]]
) -> ReleasedFile:
    """Write rows to `folder`/data/NAME.csv and return the file's facts; missing and null values are empty cells.

    Values are written unchanged, even if a spreadsheet program would take one for a formula: programs read the files as
    data, and an escape character would change a text.
    """
    path = folder / "data" / f"{name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    n = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        for n, row in enumerate(rows, start=1):  # noqa: B007
            writer.writerow([_cell(row.get(column)) for column in columns])
    data = path.read_bytes()
    return ReleasedFile(name, description, columns, n, len(data), hashlib.sha256(data).hexdigest())


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else value
