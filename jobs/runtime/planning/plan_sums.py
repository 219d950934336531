"""The sums over several planned tables.

Intervals of estimates are added as if all estimates were too high or too low together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from jobs.runtime.outcomes import PlannedTable
from jobs.runtime.planning import estimates
from jobs.runtime.planning.estimates import NOTHING, Requests, Spread


@dataclass
class PlanSums:
    """The sums over tables."""

    units: int = 0
    done: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: Spread = NOTHING
    cpu_hours: Spread = NOTHING
    gpu_hours: Spread = NOTHING
    money: Spread | None = None
    currency: str = ""
    unpriced: int = 0  # tables whose machines have no price
    requests: Requests = field(default_factory=Requests)

    def add(self, table: PlannedTable) -> bool:
        """Add a table; return False if its time is unknown."""
        amounts, estimated = table.amounts, table.estimated
        self.units += amounts.units
        self.done += amounts.done
        self.rows += amounts.rows
        self.bytes += amounts.bytes
        if estimated is None:  # a job without an estimate, which takes seconds
            return True
        self.requests += estimated.requests
        if estimated.seconds is None or estimated.cpu_hours is None or estimated.gpu_hours is None:
            return False
        self.seconds += estimated.seconds
        self.cpu_hours += estimated.cpu_hours
        self.gpu_hours += estimated.gpu_hours
        self.unpriced += bool(estimated.cluster.unpriced)
        if estimated.money is not None and estimated.cluster.prices is not None:
            self.money = estimated.money + (self.money or NOTHING)
            self.currency = estimated.cluster.prices.currency
        return True

    def lines(self) -> Iterator[str]:
        """Yield the sums, one per line."""
        yield f"time   {estimates.hours(self.seconds)}"
        yield f"CPUs   {estimates.amount(self.cpu_hours, 1)} CPU-hours"
        if self.gpu_hours.high:
            yield f"GPUs   {estimates.amount(self.gpu_hours, 1)} GPU-hours"
        if requests := estimates.requests_text(self.requests):
            yield f"S3     {requests}"
        if self.money is not None:
            lack = f", without {self.unpriced} whose machines have no price" if self.unpriced else ""
            yield f"money  {self.currency} {estimates.amount(self.money, 2)}{lack}"
