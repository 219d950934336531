"""Reader of a study's participants: a CSV or Parquet file with a column `rater`, or a table of raters."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from actors.untrusted import cell_text
from jobs.annotation.assignment import Rater
from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.reading import open_table

NAME, LIMIT = "rater", "limit"


def read_raters(uri: str, *, group: str | None, limit: int | None, encoding: str | None = None) -> list[Rater]:
    """Return the raters, sorted by name.

    Args:
        group: name of the column of groups.
        limit: maximum number of tasks for raters without their own limit.

    Raises:
        InputError: a column is missing, a name or group is empty, or a limit is not a number.
    """
    files = [o.uri for o in locations.find(uri)]
    if len(files) == 1 and files[0].lower().endswith(".parquet"):
        rows = _parquet(files[0])
    elif len(files) == 1:
        rows = _csv(files[0], encoding, group)
    else:
        rows = [row for batch in open_table(uri, "raters").batches() for row in batch.to_pylist()]
    header = list(rows[0]) if rows else []
    for column in filter(None, [NAME, group]):
        if column not in header:
            raise InputError(
                f"raters={uri}: no column {column}; its columns are {', '.join(header) or 'unknown, it has no rows'}"
            )
    raters = []
    for row in rows:
        name = _text(row[NAME])
        if not name:
            raise InputError(f"raters={uri}: column {NAME} is empty in a row; name every rater")
        group_name = _text(row[group]) if group else ""
        if group and not group_name:
            raise InputError(f"raters={uri}: rater {name!r} has no {group}; every rater must have one")
        raters.append(Rater(name, group_name, _limit(uri, name, row.get(LIMIT), limit)))
    return sorted(raters, key=lambda rater: rater.name)


def _text(cell: object) -> str:
    return cell_text(cell) or ""


def _limit(uri: str, name: str, cell: object, default: int | None) -> int | None:
    if not _text(cell):
        return default
    try:
        number = int(_text(cell))
    except ValueError as error:
        raise InputError(f"raters={uri}: limit {cell!r} of rater {name!r} is not a whole number") from error
    if number < 0:
        raise InputError(f"raters={uri}: limit {number} of rater {name!r} must be at least 0")
    return number


def _csv(uri: str, encoding: str | None, group: str | None) -> list[dict[str, object]]:
    dialect = delimited.read_dialect(uri, encoding=encoding, encoding_key="raters_encoding")
    columns = [NAME, *([group] if group else []), *(name for name in dialect.header if name == LIMIT)]
    return [dict(row) for _, row in delimited.records(uri, dialect, columns)]


def _parquet(uri: str) -> list[dict[str, object]]:
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_file(path) as stream:
        try:
            rows: Sequence[dict[str, object]] = pq.read_table(stream).to_pylist()
        except (pa.ArrowException, OSError) as error:
            raise InputError("not a readable Parquet file; replace it with a complete copy", place=uri) from error
    return list(rows)
