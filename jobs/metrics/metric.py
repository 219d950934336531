"""A metric: one number with its interval and what it rests on, or the reason why there is none.

Every module of `jobs.metrics` returns `Metric`s; `metrics_table` makes rows of the table `metrics` of them.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from actors.status import Status
from jobs.metrics.intervals import Interval
from jobs.tables import conform, table


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric of what `dims` says.

    Attributes:
        name: the column `metric` of the table.
        definition: one sentence with its source; it says what `n` counts.
        value: None if it is undefined; then `status` is not ok and `reason` says why.
        n: what it rests on (items, pairs or ratings: see `definition`).
        coverage: rated / asked, in [0, 1]; None if what was asked is not known.
        low, high: 95 % interval made by `interval_method`; all None if there is none, `reason` may say why.
        reason: why it is undefined or has no interval, or what a reader must know before leaning on it (few items).

    Raises:
        ValueError: a value without status ok, a status ok without value, an undefined metric without reason, an
            interval without method, neither an interval nor a reason, or a number that is not finite.
    """

    name: str
    definition: str
    value: float | None
    n: int
    coverage: float | None = None
    low: float | None = None
    high: float | None = None
    interval_method: str | None = None
    status: str = Status.OK
    reason: str | None = None
    dims: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for field_name in ("value", "low", "high", "coverage"):
            if (number := getattr(self, field_name)) is not None:
                if not math.isfinite(number):
                    raise ValueError(f"{self.name}: {field_name} is {number}")
                object.__setattr__(self, field_name, float(number))  # no NumPy scalars: they do not serialise
        object.__setattr__(self, "n", int(self.n))
        if (self.value is None) == (self.status == Status.OK):
            raise ValueError(f"{self.name}: value {self.value} with status {self.status}")
        if self.value is None and not self.reason:
            raise ValueError(f"{self.name}: undefined without a reason")
        if (self.low is None) != (self.interval_method is None):
            raise ValueError(f"{self.name}: an interval has bounds and a method, or neither")
        if self.low is None and not self.reason:
            raise ValueError(f"{self.name}: without an interval and without a reason")

    def at(self, **dims: str) -> "Metric":
        """The same metric with further dims (its own win)."""
        return replace(self, dims={**dims, **self.dims})


def estimated(
    name: str,
    definition: str,
    value: float,
    n: int,
    *,
    coverage: float | None = None,
    interval: Interval,
    dims: Mapping[str, str] | None = None,
) -> Metric:
    """A metric with a value, and its interval or the reason why there is none."""
    return Metric(
        name=name,
        definition=definition,
        value=value,
        n=n,
        coverage=coverage,
        low=interval.low,
        high=interval.high,
        interval_method=interval.method,
        reason=interval.reason,
        dims=dims or {},
    )


def undefined(
    name: str,
    definition: str,
    reason: str,
    *,
    n: int = 0,
    coverage: float | None = None,
    status: str = Status.SKIPPED,
    dims: Mapping[str, str] | None = None,
) -> Metric:
    """A metric without a value: status `missing_input` if nothing was rated, `skipped` if it does not allow for one."""
    return Metric(
        name=name,
        definition=definition,
        value=None,
        n=n,
        coverage=coverage,
        status=status,
        reason=reason,
        dims=dims or {},
    )


def metrics_table(metrics: Iterable[Metric]) -> pa.Table:
    """The metrics as rows of the table `metrics`.

    Raises:
        jobs.tables.TableError: two metrics of one metric have the same dims.
    """
    rows = [row(metric) for metric in metrics]
    return conform(pa.Table.from_pylist(rows, schema=table("metrics").schema()), table("metrics"))


def wide(metrics: Sequence[Metric]) -> tuple[list[str], list[list[Any]]]:
    """The metrics with a column for each dim: names of the columns, all different, and the rows.

    The columns are `metric`, the dims by name, and the other columns of the table `metrics`. A dim that is called as
    one of these is in the column `dim_NAME` (`dim_status`: the ratings' status; `status`: the metric's). Where a metric
    has not got a dim its cell is "".
    """
    dims = sorted({name for metric in metrics for name in metric.dims})
    rest = ["value", "low", "high", "n", "coverage", "status", "reason", "interval_method", "definition"]
    taken = {"metric", *rest, *dims}
    columns = []
    for name in dims:
        own = name if name not in ("metric", *rest) else f"dim_{name}"
        while own != name and own in taken:
            own = f"dim_{own}"
        taken.add(own)
        columns.append(own)
    rows = []
    for metric in metrics:
        cells = row(metric)
        rows.append([metric.name, *(metric.dims.get(name, "") for name in dims), *(cells[name] for name in rest)])
    return ["metric", *columns, *rest], rows


def row(of: Metric) -> dict[str, Any]:
    """A row of the table `metrics`."""
    return {
        "metric": of.name,
        "dims": json.dumps(dict(of.dims), sort_keys=True, ensure_ascii=False, separators=(",", ":")),
        "definition": of.definition,
        "value": of.value,
        "low": of.low,
        "high": of.high,
        "interval_method": of.interval_method,
        "n": of.n,
        "coverage": of.coverage,
        "status": str(of.status),
        "reason": of.reason,
    }
