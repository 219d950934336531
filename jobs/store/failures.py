"""Rows whose status is not ok, by status and kind: how many, and the first of each. Bounded, however many rows fail."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status

MOST_KINDS = 50  # told apart; further ones are counted together
OTHER_KINDS = "other kinds"
MESSAGE_LENGTH, WHERE_LENGTH = 200, 300  # characters kept
_WHERE = ("source_url", "item_id", "image_id")  # by which a person finds a row again, the best first


class Failure(NamedTuple):
    """Rows of one status and kind; `where` (a URL, file or id) and `message` are the first one's."""

    rows: int
    where: str
    message: str


Failures = dict[str, Failure]  # "status/kind" -> what is known; the kind may be empty


def failures_of(rows: pa.Table) -> Failures:
    """Of rows with `status`, `error_kind` and `error_message`; none if the table has no such columns."""
    if not {"status", "error_kind", "error_message"} <= set(rows.column_names):
        return {}
    failed = rows.filter(pc.not_equal(rows["status"], Status.OK.value))
    if not failed.num_rows:
        return {}
    where = next((name for name in _WHERE if name in failed.column_names), failed.column_names[0])
    columns = {"status": failed["status"], "kind": failed["error_kind"], "where": failed[where]}
    told = pa.table({**columns, "message": failed["error_message"]})
    first = pc.ScalarAggregateOptions(skip_nulls=False, min_count=0)
    grouped = told.group_by(["status", "kind"], use_threads=False).aggregate(
        [("status", "count"), ("where", "first", first), ("message", "first", first)]
    )
    found: Failures = {}
    for row in grouped.to_pylist():
        place, message = (str(row[name] or "") for name in ("where_first", "message_first"))
        one = Failure(row["status_count"], place[:WHERE_LENGTH], message[:MESSAGE_LENGTH])
        add(found, {f"{row['status']}/{row['kind'] or ''}": one})
    return found


def add(total: Failures, more: Mapping[str, Failure]) -> None:
    """Add `more` to `total`. Of two examples of a kind the first in text order stays, whatever the order of adding."""
    for name, failure in more.items():
        key = name if name in total or len(total) < MOST_KINDS else f"{name.partition('/')[0]}/{OTHER_KINDS}"
        rows = failure.rows + (total[key].rows if key in total else 0)
        example = min(failure, total.get(key, failure), key=lambda one: (one.where, one.message))
        total[key] = example._replace(rows=rows)


def to_json(found: Mapping[str, Failure]) -> dict[str, Any]:
    return {name: failure._asdict() for name, failure in found.items()}


def from_json(data: Mapping[str, Any]) -> Failures:
    return {name: Failure(**failure) for name, failure in data.items()}


def lines(data: Mapping[str, Any], *, most: int) -> list[str]:
    """A line for each of the `most` frequent kinds in the JSON form, for a person."""
    found = sorted(from_json(data).items(), key=lambda entry: (-entry[1].rows, entry[0]))
    made = []
    for name, failure in found[:most]:
        status, _, kind = name.partition("/")
        what = f"{failure.rows:,} {status}{f' ({kind})' if kind else ''}"
        message = f": {failure.message}" if failure.message else ""
        made.append(f"{what}, for example {failure.where}{message}")
    if len(found) > most:
        made.append(f"(+{len(found) - most:,} more kinds)")
    return made
