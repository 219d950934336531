"""What a run spends on its machines while it works, and the budget at which it ends (`budget=`)."""

import math
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from jobs.errors import InputError, RunError

if TYPE_CHECKING:
    from jobs.runtime.planning.estimates import Cluster

_BUDGET = re.compile(r"(\d+(?:\.\d+)?)\s*(h|min)?")
_HOURS_PER = {"h": 1.0, "min": 1 / 60}
LEAST_LEFT = 1e-3  # of an amount or of an hour: with less, no further step begins
_KEPT = "completed units are kept, and the same command continues, with a new budget"


class Spending:
    """Counts the price of the machines that a run is planned on, from its start, and ends the run at its budget.

    All machines count from the start, although an autoscaler starts them one after another: the run never costs more
    than this says, apart from disks, requests and transfers.

    Args:
        cluster: the machines.
        budget: an amount in the currency of `resources.prices`, such as 200, or a time, such as 12h or 90min; None: no
            limit.
        job: the name of the job, for its metrics.
        wait_s: longest time until machines that are not yet there have booted, installed packages and loaded a model.

    Attributes:
        lost_machines: names of the machines that were lost during the run (`jobs.runtime.cluster.ray_internals`).

    Raises:
        InputError: the budget is neither, or an amount of money without prices of the machines.
    """

    def __init__(self, cluster: "Cluster", budget: str | None, *, wait_s: float = 0.0, job: str = "") -> None:
        self.cluster, self._budget, self._wait_s, self.job = cluster, budget, wait_s, job
        self.lost_machines: list[str] = []
        self._most_hours = math.inf if budget is None else _hours(budget, cluster.per_hour, cluster.unpriced)
        self._began = time.monotonic()

    def begin(self) -> None:
        """Count from now."""
        self._began = time.monotonic()

    @property
    def is_shown(self) -> bool:
        """Whether there is anything to tell during the run: money or a budget."""
        return bool(self.cluster.per_hour or self._budget)

    def plan_lines(self) -> list[str]:
        """Return the lines of a plan about the start of the machines and the budget."""
        lines = []
        if self._wait_s and self.cluster.prices:
            price = f"{self.cluster.prices.currency} {self._wait_s / 3600 * self.cluster.per_hour:,.2f}"
            lines.append(
                f"start  at most {self._wait_s / 60:,.0f} min and {price} more, until machines have booted, installed "
                "packages and downloaded a model (resources.wait_s)"
            )
        if self._budget is not None:
            hours = f"{math.floor(self._most_hours * 60) / 60:,.2f} hours of all machines, after which the run ends"
            lines.append(f"budget {self._budget}: {hours}; {_KEPT}")
        return lines

    def text(self) -> str:
        """Return what has been spent so far, such as `at most USD 3.20 of budget=200`."""
        hours, prices = self._hours(), self.cluster.prices
        minutes = f"{hours * 60:,.1f} min"
        so_far = f"at most {prices.currency} {hours * self.cluster.per_hour:,.2f}" if prices else minutes
        return f"{so_far} of budget={self._budget}" if self._budget else so_far

    def figures(self) -> dict[str, float]:
        """Return the metrics `remine_spent` and `remine_budget_share`, as far as there are prices and a budget."""
        hours, figures = self._hours(), {}
        if self.cluster.prices:
            figures["remine_spent"] = hours * self.cluster.per_hour
        if self._budget:
            figures["remine_budget_share"] = hours / self._most_hours
        return figures

    def check(self) -> None:
        """Raise RunError if the budget has been reached."""
        if self._hours() >= self._most_hours:
            minutes = f"{self._hours() * 60:,.1f} minutes"
            raise RunError(f"reached after {minutes} ({self.text()}); {_KEPT}", key="budget", value=self._budget)

    def _hours(self) -> float:
        return (time.monotonic() - self._began) / 3600


def left_of(budget: str, manifest: Mapping[str, Any], seconds: float) -> str:
    """Return what is left of a pipeline's budget after a step.

    Args:
        manifest: of the step, or its manifests by table; the price per second of its machines comes from them.
        seconds: the time that the step took now.

    Raises:
        RunError: nothing is left.
    """
    tables = [manifest, *(value for value in manifest.values() if isinstance(value, Mapping))]
    took: Mapping[str, Any] = next((table["actual"] for table in tables if table.get("actual")), {})
    per_hour = 3600 * (took.get("money") or 0.0) / (took.get("seconds") or math.inf)
    match = _BUDGET.fullmatch(budget)
    unit = match[2] if match else None
    amount = _hours(budget, 1.0)  # in hours or in the currency
    left = amount - seconds / 3600 * (1.0 if unit else per_hour)
    if left < LEAST_LEFT:
        raise RunError(f"reached; {_KEPT}", key="budget", value=budget)
    return f"{left * 60:.3f}min" if unit else f"{left:.4f}"


def check_budget(budget: str | None, *, has_prices: bool) -> None:
    """Check a pipeline's budget before its first step.

    Raises:
        InputError: as `Spending`.
    """
    if budget is not None:
        _hours(budget, 1.0 if has_prices else 0.0)


def _hours(budget: str, per_hour: float, unpriced: str = "") -> float:
    match = _BUDGET.fullmatch(str(budget).strip())
    if match is None or not (amount := float(match[1])):
        raise InputError(
            "must be an amount of money above 0, such as 200, or a time, such as 12h or 90min",
            key="budget",
            value=budget,
        )
    if match[2]:
        return amount * _HOURS_PER[match[2]]
    if not per_hour:
        why = unpriced or "the machines of this run have no prices (resources.prices is null)"
        raise InputError(f"{why}; give a time instead, such as 12h", key="budget", value=budget)
    return amount / per_hour
