"""What is left of a run in time, GPU-hours and money, from the pace of the units that are done.

A pace holds for the machines, model and pictures with which it was measured. To have one before a long run, start the
run, interrupt it after some units, which are kept, and ask for the plan.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from jobs.runtime.prices import Prices, machines_for
from jobs.runtime.resources import Resources, StageResources

LEAST_UNITS = 5  # in a row, for a pace
PAUSE_S, PAUSE_FACTOR = 120.0, 20.0  # a longer gap, and this many times the usual one: the run was interrupted
RESAMPLES, COVERAGE = 2000, 0.9


@dataclass(frozen=True)
class Pace:
    """Rows per second, with an interval of `COVERAGE` (bootstrap over the units), and the units it rests on."""

    rows_per_s: float
    low: float
    high: float
    units: int


def pace_of(ended: Sequence[tuple[float, int]]) -> Pace | None:
    """The pace of the last uninterrupted stretch of work; None if it has fewer than `LEAST_UNITS` units.

    Args:
        ended: for each unit the second since 1970 at which it was written, and its rows.
    """
    stretch = _last_stretch(sorted(ended))
    gaps = [(later - earlier, rows) for (earlier, _), (later, rows) in pairwise(stretch)]
    if len(gaps) + 1 < LEAST_UNITS or sum(seconds for seconds, _ in gaps) <= 0:
        return None
    draws = random.Random(0)
    resampled = sorted(_rate(draws.choices(gaps, k=len(gaps))) for _ in range(RESAMPLES))
    tail = round(RESAMPLES * (1 - COVERAGE) / 2)
    return Pace(_rate(gaps), resampled[tail], resampled[-tail - 1], len(stretch))


def lines(
    *,
    ended: Sequence[tuple[float, int]],
    rows_left: int | None,
    stages: Sequence[StageResources],
    resources: Resources,
    prices: Prices | None,
) -> list[str]:
    """The lines of a plan about what is left.

    Args:
        ended: as for `pace_of`.
        rows_left: rows of the units that are not done; None if unknown.
        stages: the pools of the run.
        prices: of the machines; None: no line about money.
    """
    if rows_left == 0:
        return []
    pace = pace_of(ended)
    if pace is None or rows_left is None:
        return [f"time   unknown: it is estimated from the pace of at least {LEAST_UNITS} done units"]
    seconds = [rows_left / rate for rate in (pace.rows_per_s, pace.high, pace.low)]
    percent = round(100 * COVERAGE)
    text = [
        f"pace   {pace.rows_per_s:,.2f} rows/s over the last {pace.units:,} units ({percent} % interval "
        f"{pace.low:,.2f} to {pace.high:,.2f})",
        f"time   {_hours(seconds[0])} for {rows_left:,} rows on the machines of these units ({_hours(seconds[1])} to "
        f"{_hours(seconds[2])})",
    ]
    gpus = sum(_most(stage) * stage.num_gpus for stage in stages)
    hours = [value / 3600 for value in seconds]
    if gpus:
        text.append(
            f"GPUs   {hours[0] * gpus:,.1f} GPU-hours on {gpus:g} ({hours[1] * gpus:,.1f} to {hours[2] * gpus:,.1f})"
        )
    if prices is not None:
        cpus = (
            sum(_most(stage) * stage.num_cpus for stage in stages) + resources.read.num_cpus + resources.write.num_cpus
        )
        text.append(_money(prices, hours, cpus=cpus, gpus=gpus))
    return text


def _money(prices: Prices, hours: Sequence[float], *, cpus: float, gpus: float) -> str:
    machines = machines_for(prices, cpus=cpus, gpus=gpus)
    per_hour = sum(count * machine.per_hour for machine, count in machines)
    listed = ", ".join(f"{count} x {machine.name}" for machine, count in machines)
    most, least = per_hour * hours[2], per_hour * hours[1]
    return (
        f"money  {prices.currency} {per_hour * hours[0]:,.2f} ({least:,.2f} to {most:,.2f}) for {listed} at "
        f"{per_hour:,.2f} per hour ({prices.region}, prices of {prices.date})"
    )


def _last_stretch(ended: Sequence[tuple[float, int]]) -> Sequence[tuple[float, int]]:
    gaps = sorted(later - earlier for (earlier, _), (later, _) in pairwise(ended))
    if not gaps:
        return ended
    pause = max(PAUSE_S, PAUSE_FACTOR * gaps[len(gaps) // 2])
    first = max((n + 1 for n, (one, other) in enumerate(pairwise(ended)) if other[0] - one[0] > pause), default=0)
    return ended[first:]


def _rate(gaps: Sequence[tuple[float, int]]) -> float:
    return sum(rows for _, rows in gaps) / max(sum(seconds for seconds, _ in gaps), 1e-9)


def _most(stage: StageResources) -> int:
    return max(stage.actors, stage.max_actors or 0)


def _hours(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 60}:{minutes % 60:02} h"
