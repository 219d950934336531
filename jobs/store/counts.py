"""Counts of the rows that a unit read, wrote, filtered and rejected."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

from jobs.store import failures
from jobs.store.failures import Failures
from jobs.store.json_types import CountsJson

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
        failures.add(self.failures, other.failures)
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
            "failures": failures.to_json(self.failures),
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
            failures=failures.from_json(data["failures"]),
        )


def _counter(counts: Mapping[str, int]) -> Counter[str]:
    return Counter(dict(counts))
