"""Counts of the rows that a unit read, wrote, filtered and rejected, with examples of failures.

Items (pictures, questions to a model) that failed because of the run, not because of their input, are counted apart.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.compute as pc

from actors.fetching.signed_urls import without_secrets
from actors.status import INPUT_KINDS, NETWORK_KINDS, Status
from jobs.store.json_types import CountsJson, FailureJson


class Failure(NamedTuple):
    """Rows of one status and kind; `where` (a URL, file or id) and `message` are taken from an example."""

    rows: int
    where: str
    message: str


Failures = dict[str, Failure]  # "status/kind" -> failure; the kind may be empty

MOST_KINDS = 50  # of status and kind; others are counted together
OTHER_KINDS = "other kinds"
MESSAGE_LENGTH, WHERE_LENGTH = 200, 300  # characters kept
_WHERE = ("source_url", "item_id", "image_id")  # columns that let a person find a row, the best first
PURGED = "purged"  # in `filtered`: rows that `purge` removed later


@dataclass
class Counts:
    """Counts of the rows of a unit, or of all units of a table.

    Attributes:
        rows_in: rows read; must equal `rows_out` + filtered + rejected.
        rows_out: rows written.
        filtered: rule -> rows that it removed.
        rejected: reason -> parts of the input that could not become a row.
        status: status -> rows written.
        tallies: name -> key -> number; additional counts of stages.
        failures: rows whose status is not ok, by status and kind, with an example of each.
    """

    rows_in: int = 0
    rows_out: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    status: Counter[str] = field(default_factory=Counter)
    tallies: dict[str, dict[str, int]] = field(default_factory=dict)
    failures: Failures = field(default_factory=dict)

    def balances(self) -> bool:
        """Return whether every row that was read is accounted for, and every row written has a status if any has."""
        accounted = self.rows_out + self.filtered.total() + self.rejected.total()
        return self.rows_in == accounted and (not self.status or self.status.total() == self.rows_out)

    def __iadd__(self, other: "Counts") -> Self:
        self.rows_in += other.rows_in
        self.rows_out += other.rows_out
        self.filtered += other.filtered
        self.rejected += other.rejected
        self.status += other.status
        for name, tally in other.tallies.items():
            total = self.tallies.setdefault(name, {})
            for key, n in tally.items():
                total[key] = total.get(key, 0) + n
        add_failures(self.failures, other.failures)
        return self

    def to_json(self) -> CountsJson:
        """Return the counts as JSON values."""
        return {
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "filtered": dict(self.filtered),
            "rejected": dict(self.rejected),
            "status": dict(self.status),
            "tallies": self.tallies,
            "failures": failures_to_json(self.failures),
        }

    @staticmethod
    def from_json(data: CountsJson) -> "Counts":
        """Return the counts from their JSON values."""
        return Counts(
            data["rows_in"],
            data["rows_out"],
            filtered=_counter(data["filtered"]),
            rejected=_counter(data["rejected"]),
            status=_counter(data["status"]),
            tallies=data["tallies"],
            failures=failures_from_json(data["failures"]),
        )


def _counter(counts: Mapping[str, int]) -> Counter[str]:
    return Counter(dict(counts))


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
        add_failures(failures, {f"{group['status']}/{group['kind'] or ''}": failure})
    return failures


def add_failures(total: Failures, more: Mapping[str, Failure]) -> None:
    """Add `more` to `total`. Of two examples the first in text order is kept, so that their order does not matter."""
    for name, failure in more.items():
        key = name if name in total or len(total) < MOST_KINDS else f"{name.partition('/')[0]}/{OTHER_KINDS}"
        rows = failure.rows + (total[key].rows if key in total else 0)
        example = min(failure, total.get(key, failure), key=lambda candidate: (candidate.where, candidate.message))
        total[key] = example._replace(rows=rows)


def failures_to_json(failures: Mapping[str, Failure]) -> dict[str, FailureJson]:
    """Return the failures as JSON values."""
    return {
        name: {"rows": failure.rows, "where": failure.where, "message": failure.message}
        for name, failure in failures.items()
    }


def failures_from_json(data: Mapping[str, FailureJson]) -> Failures:
    """Return the failures from their JSON values."""
    return {name: Failure(**failure) for name, failure in data.items()}


def failure_lines(data: Mapping[str, FailureJson], *, most: int) -> list[str]:
    """Return one line for each of the `most` frequent kinds, to be read by people."""
    failures = sorted(failures_from_json(data).items(), key=lambda entry: (-entry[1].rows, entry[0]))
    text = []
    for name, failure in failures[:most]:
        status, _, kind = name.partition("/")
        label = f"{failure.rows:,} {status}{f' ({kind})' if kind else ''}"
        message = f": {failure.message}" if failure.message else ""
        text.append(f"{label}, for example {failure.where}{message}")
    if len(failures) > most:
        text.append(f"(+{len(failures) - most:,} more kinds)")
    return text


_ITEM = ("item_id", "image_id")  # columns whose values identify items; the first that a table has is used
LEAST_UNREACHED = 10  # number of pictures of a unit from which no answer at all means that the network is down


@dataclass
class ItemErrors:
    """The items of a unit, or of all units that a run wrote.

    Attributes:
        items: the number of items.
        of_run: "error/kind" -> items that failed because of the run.
        of_network: the same for `actors.status.NETWORK_KINDS`, in tables with the number of requests for a picture.
        answered: items for which a host gave another answer.
    """

    items: int = 0
    of_run: Failures = field(default_factory=dict)
    of_network: Failures = field(default_factory=dict)
    answered: int = 0

    @property
    def failed(self) -> int:
        """The number of items that failed because of the run."""
        return sum(failure.rows for failure in self.of_run.values())

    def __iadd__(self, other: "ItemErrors") -> Self:
        self.items += other.items
        self.answered += other.answered
        add_failures(self.of_run, other.of_run)
        add_failures(self.of_network, other.of_network)
        return self

    def of_unit(self) -> "ItemErrors":
        """Return the counts of a whole unit: network errors are attributed to the run if no host answered at all.

        Some hosts of a large corpus are always gone. If no host answers, the fault is on this side.
        """
        total = ItemErrors(self.items)
        add_failures(total.of_run, self.of_run)
        if not self.answered and sum(failure.rows for failure in self.of_network.values()) >= LEAST_UNREACHED:
            add_failures(total.of_run, self.of_network)
        return total


def count_errors(rows: pa.Table) -> ItemErrors:
    """Return the counts of a batch; empty for a table without statuses. All rows of an item are in the same batch."""
    names = set(rows.column_names)
    if not {"status", "error_kind", "error_message"} <= names:
        return ItemErrors()
    item = next((name for name in _ITEM if name in names), rows.column_names[0])
    counts = ItemErrors(pc.count_distinct(rows[item]).as_py())
    is_error = pc.equal(rows["status"], Status.ERROR.value)
    requests = "attempts" in names
    if requests:
        of_network = pc.and_(is_error, pc.is_in(rows["error_kind"], pa.array(sorted(NETWORK_KINDS))))
        requested = pc.fill_null(pc.greater(rows["attempts"], 0), fill_value=False)
        counts.answered = pc.sum(pc.and_not(requested, of_network)).as_py() or 0
    where = "source_url" if "source_url" in names else item
    failed = rows.filter(is_error).select(list(dict.fromkeys([item, where, "error_kind", "error_message"])))
    for row in {row[item]: row for row in failed.to_pylist()}.values():
        kind = row["error_kind"] or ""
        message = (row["error_message"] or "")[:MESSAGE_LENGTH]
        failure = {f"{Status.ERROR}/{kind}": Failure(1, str(row[where])[:WHERE_LENGTH], message)}
        if kind in NETWORK_KINDS:
            if requests:
                add_failures(counts.of_network, failure)
        elif kind not in INPUT_KINDS:
            add_failures(counts.of_run, failure)
    return counts
