"""Counts and examples of rows whose status is not ok, by status and kind; at most `MOST_KINDS` kinds."""

from collections.abc import Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.fetching.signed_urls import without_secrets
from actors.status import Status
from jobs.store.json_types import FailureJson

MOST_KINDS = 50  # other kinds are counted together
OTHER_KINDS = "other kinds"
MESSAGE_LENGTH, WHERE_LENGTH = 200, 300  # characters kept
_WHERE = ("source_url", "item_id", "image_id")  # columns that let a person find a row, the best first


class Failure(NamedTuple):
    """Rows of one status and kind; `where` (a URL, file or id) and `message` are taken from an example."""

    rows: int
    where: str
    message: str


Failures = dict[str, Failure]  # "status/kind" -> failure; the kind may be empty


def failures_of(rows: pa.Table) -> Failures:
    """Return the failures in `rows`; empty without the columns `status`, `error_kind` and `error_message`."""
    if not {"status", "error_kind", "error_message"} <= set(rows.column_names):
        return {}
    failed = rows.filter(pc.not_equal(rows["status"], Status.OK.value))
    if not failed.num_rows:
        return {}
    where = next((name for name in _WHERE if name in failed.column_names), failed.column_names[0])
    columns = {"status": failed["status"], "kind": failed["error_kind"], "where": failed[where]}
    described = pa.table({**columns, "message": failed["error_message"]})
    first = pc.ScalarAggregateOptions(skip_nulls=False, min_count=0)
    grouped = described.group_by(["status", "kind"], use_threads=False).aggregate(
        [("status", "count"), ("where", "first", first), ("message", "first", first)]
    )
    failures: Failures = {}
    for group in grouped.to_pylist():
        texts = (str(group[name] or "") for name in ("where_first", "message_first"))
        example_where, example_message = map(without_secrets, texts)
        failure = Failure(group["status_count"], example_where[:WHERE_LENGTH], example_message[:MESSAGE_LENGTH])
        add(failures, {f"{group['status']}/{group['kind'] or ''}": failure})
    return failures


def add(total: Failures, more: Mapping[str, Failure]) -> None:
    """Add `more` to `total`. Of two examples the first in text order is kept, so that their order does not matter."""
    for name, failure in more.items():
        key = name if name in total or len(total) < MOST_KINDS else f"{name.partition('/')[0]}/{OTHER_KINDS}"
        rows = failure.rows + (total[key].rows if key in total else 0)
        example = min(failure, total.get(key, failure), key=lambda candidate: (candidate.where, candidate.message))
        total[key] = example._replace(rows=rows)


def to_json(failures: Mapping[str, Failure]) -> dict[str, FailureJson]:
    """Return the failures as JSON values."""
    return {
        name: {"rows": failure.rows, "where": failure.where, "message": failure.message}
        for name, failure in failures.items()
    }


def from_json(data: Mapping[str, FailureJson]) -> Failures:
    """Return the failures from their JSON values."""
    return {name: Failure(**failure) for name, failure in data.items()}


def lines(data: Mapping[str, FailureJson], *, most: int) -> list[str]:
    """Return one line for each of the `most` frequent kinds, to be read by people."""
    failures = sorted(from_json(data).items(), key=lambda entry: (-entry[1].rows, entry[0]))
    text = []
    for name, failure in failures[:most]:
        status, _, kind = name.partition("/")
        label = f"{failure.rows:,} {status}{f' ({kind})' if kind else ''}"
        message = f": {failure.message}" if failure.message else ""
        text.append(f"{label}, for example {failure.where}{message}")
    if len(failures) > most:
        text.append(f"(+{len(failures) - most:,} more kinds)")
    return text
