"""Who takes part in a study: a CSV or Parquet file with a column `rater`, or a table of raters."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.annotation.assignment import Rater
from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.reading import open_table

NAME, LIMIT = "rater", "limit"


def read_raters(uri: str, *, group: str | None, limit: int | None, encoding: str | None = None) -> list[Rater]:
    """The raters in the order of their names; `group` names the column of groups, `limit` holds where none is given.

    Raises:
        InputError: no such column, no rater, one without a group, or a limit that is no number.
    """
    found = [o.uri for o in locations.find(uri)]
    if len(found) == 1 and found[0].lower().endswith(".parquet") and not uri.rstrip("/").endswith("_run"):
        rows = _parquet(found[0])
    elif len(found) == 1:
        rows = _csv(found[0], encoding, group)
    else:
        rows = pa.concat_tables(list(open_table(uri, "raters").batches())).to_pylist()
    header = list(rows[0]) if rows else []
    for column in filter(None, [NAME, group]):
        if column not in header:
            raise InputError(f"raters={uri}: no column {column}; there are {', '.join(header) or 'no rows'}")
    raters = []
    for row in rows:
        name = str(row[NAME] or "").strip()
        if not name:
            raise InputError(f"raters={uri}: a row without a rater")
        of = str(row[group] or "").strip() if group else ""
        if group and not of:
            raise InputError(f"raters={uri}: rater {name!r} has no {group}")
        raters.append(Rater(name, of, _limit(uri, name, row.get(LIMIT), limit)))
    return sorted(raters, key=lambda rater: rater.name)


def _limit(uri: str, name: str, said: object, otherwise: int | None) -> int | None:
    if said is None or not str(said).strip():
        return otherwise
    try:
        number = int(str(said))
    except ValueError as error:
        raise InputError(f"raters={uri}: limit {said!r} of rater {name!r} is no whole number") from error
    if number < 0:
        raise InputError(f"raters={uri}: limit {number} of rater {name!r} is less than 0")
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
            raise InputError(f"{uri}: not a readable Parquet file") from error
    return list(rows)
