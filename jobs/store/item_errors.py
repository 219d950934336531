"""Counts of items (pictures, questions to a model) that failed because of the run, not because of their input."""

from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from actors.status import INPUT_KINDS, NETWORK_KINDS, Status
from jobs.store import failures
from jobs.store.failures import Failure, Failures

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
        failures.add(self.of_run, other.of_run)
        failures.add(self.of_network, other.of_network)
        return self

    def of_unit(self) -> "ItemErrors":
        """Return the counts of a whole unit: network errors are attributed to the run if no host answered at all.

        Some hosts of a large corpus are always gone. If no host answers, the fault is on this side.
        """
        total = ItemErrors(self.items)
        failures.add(total.of_run, self.of_run)
        if not self.answered and sum(failure.rows for failure in self.of_network.values()) >= LEAST_UNREACHED:
            failures.add(total.of_run, self.of_network)
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
        message = (row["error_message"] or "")[: failures.MESSAGE_LENGTH]
        failure = {f"{Status.ERROR}/{kind}": Failure(1, str(row[where])[: failures.WHERE_LENGTH], message)}
        if kind in NETWORK_KINDS:
            if requests:
                failures.add(counts.of_network, failure)
        elif kind not in INPUT_KINDS:
            failures.add(counts.of_run, failure)
    return counts
