"""Estimates of what is left of a run: time, CPU-hours, GPU-hours, requests and money, from its expected pace.

A pace holds for the machines, model and pictures with which it was measured: those of the finished units, or those of a
measurement in `conf/measured/` (`jobs.runtime.planning.expected_pace`). To get one before a long run, use
`plan=calibrate`: some units are done for real and kept.
"""

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from actors.quantities import quantity
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.runtime.outcomes import PlannedTable
from jobs.runtime.planning.rate_tables import Prices, UnpricedError, machines_for
from jobs.store.files.locations import is_s3
from jobs.store.runs.run_units import Amounts

LEAST_UNITS = 5  # consecutive units that the pace of one actor needs
MOST_UNITS = 1000  # a pace is computed from the last of them
PAUSE_S, PAUSE_FACTOR = 120.0, 20.0  # a longer gap, and this many times the usual round: the run was interrupted
RESAMPLES, COVERAGE = 2000, 0.9
# Requests to S3 (measured by tests/jobs/runtime/planning/test_requests.py): for each object that a unit reads; for
# the footer of each object, when a run is opened and when it ends; and for a unit's object while it is written.
GETS_PER_INPUT, GETS_PER_FOOTER, PUTS_PER_UNIT = 5, 1, 1


@dataclass(frozen=True)
class Spread:
    """A value, with an interval of `COVERAGE`; of an upper estimate, the value is the upper end."""

    value: float
    low: float
    high: float

    def __mul__(self, factor: float) -> "Spread":
        return Spread(self.value * factor, self.low * factor, self.high * factor)

    def __add__(self, other: "Spread") -> "Spread":
        return Spread(self.value + other.value, self.low + other.low, self.high + other.high)

    def text(self, shown: Callable[[float], str]) -> str:
        """Return the value with its interval, or what it is at most; `shown` writes a number."""
        if self.low < self.value == self.high:
            return f"at most {shown(self.value)}"
        return f"{shown(self.value)} ({shown(self.low)} to {shown(self.high)})"

    def to_json(self) -> dict[str, float]:
        """Return the interval as JSON values."""
        return {"value": round(self.value, 4), "low": round(self.low, 4), "high": round(self.high, 4)}


NOTHING = Spread(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Pace:
    """Work per second, with an interval of `COVERAGE` (bootstrap over the units), and the number of these units.

    Attributes:
        units: 0 if the pace does not come from the run's units; its interval then has no coverage.
        source: the measurement, or how the pace of the units was scaled.
        start_s: seconds before the first unit begins.
    """

    per_s: Spread
    units: int
    source: str = ""
    start_s: float = 0.0


@dataclass(frozen=True)
class Requests:
    """Numbers of requests to S3: requests that write or list, and requests that read."""

    put: int = 0
    get: int = 0

    def __add__(self, other: "Requests") -> "Requests":
        return Requests(self.put + other.put, self.get + other.get)

    def price(self, prices: Prices) -> float:
        """Return the price, in the currency of `prices`."""
        return self.put / 1000 * prices.put_per_1000 + self.get / 1000 * prices.get_per_1000


@dataclass(frozen=True)
class Cluster:
    """The GPUs that a run occupies, and the machines that provide its CPUs and GPUs.

    Attributes:
        cpus: all CPUs of the machine, or the CPUs of the pools.
        machines: their names and numbers; empty without prices.
        unpriced: why the machines have no prices although prices are set; empty otherwise.
        capacity: CPUs and GPUs of the machines that work; without prices, those of the pools.
    """

    gpus: float
    prices: Prices | None = None
    machines: tuple[tuple[str, int], ...] = ()
    per_hour: float = 0.0
    cpus: float = 0.0
    unpriced: str = ""
    capacity: tuple[float, float] = (0.0, 0.0)

    @property
    def number(self) -> int:
        """The number of machines, with that of the head; 0 without prices."""
        return sum(count for _, count in self.machines)


@dataclass(frozen=True)
class Forecast:
    """The remaining work of a run.

    Attributes:
        left, counted: the work that is left, in rows, bytes or units (`jobs.store.runs.run_units.Amounts`).
        pace: the expected pace; None if it is unknown.
        unknown: why the pace is unknown.
    """

    left: int
    counted: str
    pace: Pace | None
    requests: Requests
    cluster: Cluster
    unknown: str = ""

    @property
    def seconds(self) -> Spread | None:
        """The time that is left; None if no pace is known."""
        if not self.left:
            return NOTHING
        if self.pace is None:
            return None
        rate, start = self.pace.per_s, self.pace.start_s
        value, low, high = (start + self.left / per_s for per_s in (rate.value, rate.high, rate.low))
        return Spread(value, low if math.isfinite(rate.high) else 0.0, high)

    @property
    def gpu_hours(self) -> Spread | None:
        """The time that is left on all GPUs of the run."""
        return self.seconds and self.seconds * (self.cluster.gpus / 3600)

    @property
    def cpu_hours(self) -> Spread | None:
        """The time that is left on all CPUs of the run."""
        return self.seconds and self.seconds * (self.cluster.cpus / 3600)

    @property
    def machine_hours(self) -> Spread | None:
        """The time that is left on all machines; None without prices, which name them."""
        return self.seconds and self.seconds * (self.cluster.number / 3600) if self.cluster.number else None

    @property
    def money(self) -> Spread | None:
        """The price of machines and requests; None without prices or a pace."""
        if self.cluster.prices is None or self.seconds is None:
            return None
        price = self.requests.price(self.cluster.prices)
        return self.seconds * (self.cluster.per_hour / 3600) + Spread(price, price, price)

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as JSON values, for the manifest."""
        figures = {
            "seconds": self.seconds,
            "cpu_hours": self.cpu_hours,
            "gpu_hours": self.gpu_hours,
            "machine_hours": self.machine_hours,
            "money": self.money,
        }
        return {
            "left": self.left,
            "counted": self.counted,
            "coverage": COVERAGE if self.pace and self.pace.units else None,
            "units": self.pace and self.pace.units,
            "source": self.pace and self.pace.source,
            **{name: value and value.to_json() for name, value in figures.items()},
            "requests": {"put": self.requests.put, "get": self.requests.get},
            "currency": self.cluster.prices and self.cluster.prices.currency,
        }


@dataclass
class PlanSums:
    """The sums over planned tables; intervals are added as if all estimates were too high or too low together."""

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
        yield f"time   {hours(self.seconds)}"
        yield f"CPUs   {amount(self.cpu_hours, 1)} CPU-hours"
        if self.gpu_hours.high:
            yield f"GPUs   {amount(self.gpu_hours, 1)} GPU-hours"
        if requests := requests_text(self.requests):
            yield f"S3     {requests}"
        if self.money is not None:
            lack = f", without {self.unpriced} whose machines have no price" if self.unpriced else ""
            yield f"money  {self.currency} {amount(self.money, 2)}{lack}"


def pace_of(ended: Iterable[tuple[float, int]], *, together: int = 1) -> Pace | None:
    """Return the pace of the last uninterrupted stretch of work; None if it has too few units.

    Actors that begin at the same time end their units at the same time, so the time from one unit to the next is either
    zero or that of a whole unit. The pace is therefore computed from the time between each unit and the one that is as
    many units later as there are actors, in at least `LEAST_UNITS` - 1 such rounds.

    Args:
        ended: for each unit the second since 1970 at which it was written, and its work.
        together: the number of actors.
    """
    stretch = _last_stretch(sorted(ended)[-MOST_UNITS:], together)
    rounds = [
        (
            stretch[last][0] - stretch[last - together][0],
            sum(work for _, work in stretch[last - together + 1 : last + 1]),
        )
        for last in range(together, len(stretch))
    ]
    if len(rounds) + 1 < LEAST_UNITS or sum(seconds for seconds, _ in rounds) <= 0:
        return None
    draws = random.Random(0)
    count = max(1, round((len(stretch) - 1) / together))  # rounds that do not overlap
    resampled = sorted(_rate(draws.choices(rounds, k=count)) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - COVERAGE) / 2)
    rate = Spread(_rate(rounds), resampled[tail], resampled[-tail - 1])
    return Pace(rate, len(stretch)) if rate.low > 0 else None


def cluster_of(
    stages: Sequence[StageResources], resources: Resources, prices: Prices | None, *, cores: int | None = None
) -> Cluster:
    """Return what a run occupies once these pools have grown; without pools, one core of the head.

    Args:
        cores: CPUs of the machine, if the whole run is on one whose CPUs are known.
    """
    gpus = sum(stage.most_actors * stage.num_gpus for stage in stages)
    cpus = sum(stage.most_actors * stage.num_cpus for stage in stages)
    if stages:
        cpus += resources.read.num_cpus + resources.write.num_cpus
    used = (cores or cpus) if stages else 1.0
    largest = max((stage.num_gpus for stage in stages), default=0.0)
    try:
        machines = machines_for(prices, cpus=cpus, gpus=gpus, gpus_of_one=largest) if prices else []
    except UnpricedError as error:
        return Cluster(gpus, cpus=used, unpriced=str(error), capacity=(cpus, gpus))
    per_hour = sum(count * machine.per_hour for machine, count in machines)
    names = tuple((machine.name, count) for machine, count in machines)
    workers = [(machine, count) for machine, count in machines if not machine.head]
    of_machines = (
        sum(count * machine.num_cpus for machine, count in workers),
        sum(count * machine.num_gpus for machine, count in workers),
    )
    return Cluster(gpus, prices, names, per_hour, used, capacity=of_machines if workers else (cpus, gpus))


def estimate(
    amounts: Amounts,
    *,
    out: str,
    cluster: Cluster,
    pace: Pace | None,
    unknown: str = "",
    get_bytes: int | None = None,
) -> Forecast:
    """Return what is left of a table at `out`, at a pace.

    Args:
        unknown: why there is no pace.
        get_bytes: the bytes of an input that a request reads; None if a unit reads its inputs with few requests.
    """
    requests = Requests()
    units_left = amounts.units - amounts.done
    if is_s3(out):
        footers = (amounts.units + amounts.done) * GETS_PER_FOOTER if units_left else 0
        requests += Requests(put=units_left * PUTS_PER_UNIT, get=footers)
    requests += Requests(get=amounts.inputs_left * GETS_PER_INPUT)
    if get_bytes:
        requests += Requests(get=math.ceil(amounts.remote_bytes_left / get_bytes))
    return Forecast(amounts.left, amounts.counted, pace, requests, cluster, unknown)


def lines(estimated: Forecast) -> list[str]:
    """Return the lines of a plan about what is left."""
    if not estimated.left:
        return []
    text, cluster, work = [], estimated.cluster, f"{estimated.left:,} {estimated.counted}"
    if estimated.pace is None:
        text.append(f"time   unknown for {work}: {estimated.unknown}")
    else:
        pace, seconds = estimated.pace, estimated.seconds
        assert seconds is not None
        rate = f"pace   {_rounded(pace.per_s.value)} {estimated.counted}/s"
        interval = f"{_rounded(pace.per_s.low)} to {_rounded(pace.per_s.high)}"
        if not math.isfinite(pace.per_s.high):
            text.append(f"{rate} or more: {pace.source}")
        elif pace.units:
            basis = f"over the last {quantity(pace.units, 'unit')} ({round(100 * COVERAGE)} % interval {interval})"
            text.append(f"{rate} {basis}{pace.source and ', '}{pace.source}")
        else:
            text.append(f"{rate} ({interval}): {pace.source}")
        text.append(f"time   {hours(seconds)} for {work}")
    if cluster.cpus and estimated.cpu_hours is not None:
        text.append(f"CPUs   {amount(estimated.cpu_hours, 1)} CPU-hours on {cluster.cpus:g}")
    if cluster.gpus and estimated.gpu_hours is not None:
        text.append(f"GPUs   {amount(estimated.gpu_hours, 1)} GPU-hours on {cluster.gpus:g}")
    if requests := requests_text(estimated.requests):
        text.append(f"S3     {requests}")
    if cluster.unpriced:
        text.append(f"money  unknown: {cluster.unpriced}")
    if cluster.prices is not None:
        machines = ", ".join(f"{count} x {name}" for name, count in cluster.machines)
        price = f"{cluster.per_hour:,.2f} per hour for {machines}"
        if estimated.money is not None:
            price = f"{amount(estimated.money, 2)} at {price}, and requests"
        text.append(
            f"money  {cluster.prices.currency} {price} ({cluster.prices.region}, prices of {cluster.prices.date})"
        )
    return text


def actual(cluster: Cluster, seconds: float, work: int, counted: str, devices: float) -> dict[str, Any]:
    """Return what a run that ends now took, with the keys of `Forecast.to_json`; the price covers only the machines.

    Args:
        devices: the CPUs or GPUs of its last stage.
    """
    prices = cluster.prices
    return {
        "done": work,
        "counted": counted,
        "devices": float(devices),
        "ended": time.time(),
        "seconds": round(seconds, 3),
        "cpu_hours": round(seconds / 3600 * cluster.cpus, 4),
        "gpu_hours": round(seconds / 3600 * cluster.gpus, 4),
        "machine_hours": round(seconds / 3600 * cluster.number, 4),
        "money": prices and round(seconds / 3600 * cluster.per_hour, 4),
        "currency": prices and prices.currency,
    }


def comparison(estimated: Mapping[str, Any], took: Mapping[str, Any]) -> str:
    """Return a text that compares a run's estimate with what it took, from a manifest; empty if it took nothing."""
    parts = [
        f"{actual} {noun}{expected and ', estimated '}{expected}"
        for noun, expected, actual in _compared(estimated, took)
    ]
    if parts and (source := estimated.get("source")):
        parts.append(f"estimate: {source}")
    return "; ".join(parts)


def comparison_lines(estimated: Mapping[str, Any], took: Mapping[str, Any]) -> list[str]:
    """Return a table that compares a run's estimate with what it took, one line per figure."""
    rows = [("", "estimated", "took"), *_compared(estimated, took)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return [*lines, f"estimate: {estimated['source'] or 'from the units of earlier runs'}"]


def _compared(estimated: Mapping[str, Any], took: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, estimate and actual value of each figure of a run; no estimate is an empty text."""
    if "left" in estimated and took.get("done"):
        yield str(took["counted"]), f"{estimated['left']:,}", f"{took['done']:,}"
    nouns = {
        "seconds": "s",
        "cpu_hours": "CPU-hours",
        "gpu_hours": "GPU-hours",
        "machine_hours": "machine-hours",
        "money": took.get("currency"),
    }
    for name, noun in nouns.items():
        digits = 1 if name == "seconds" else 2
        if (value := took.get(name)) and (name == "seconds" or round(value, digits)):
            expected = estimated.get(name)
            yield str(noun), amount(Spread(**expected), digits) if expected else "", f"{value:,.{digits}f}"


def _rounded(number: float) -> str:
    """Return a number with three significant digits, without an exponent if it is large."""
    text = f"{number:.3g}"
    return f"{float(text):,.0f}" if number >= 1000 else text


def hours(seconds: Spread) -> str:
    """Return a time with its interval, in hours and minutes."""
    return seconds.text(_clock)


def amount(interval: Spread, digits: int) -> str:
    """Return a number with its interval."""
    return interval.text(lambda number: f"{number:,.{digits}f}")


def requests_text(requests: Requests) -> str:
    """Return the numbers of requests; empty if there are none."""
    parts = [f"{n:,} {name}" for name, n in (("PUT", requests.put), ("GET", requests.get)) if n]
    return f"about {' and '.join(parts)} requests" if parts else ""


def _last_stretch(ended: Sequence[tuple[float, int]], together: int) -> Sequence[tuple[float, int]]:
    rounds = sorted(later - earlier for (earlier, _), (later, _) in zip(ended, ended[together:], strict=False))
    if not rounds:
        return ended
    pause = max(PAUSE_S, PAUSE_FACTOR * rounds[len(rounds) // 2])
    first = max((n + 1 for n, (one, other) in enumerate(pairwise(ended)) if other[0] - one[0] > pause), default=0)
    return ended[first:]


def _rate(rounds: Sequence[tuple[float, int]]) -> float:
    return sum(work for _, work in rounds) / max(sum(seconds for seconds, _ in rounds), 1e-9)


def _clock(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02} h"
