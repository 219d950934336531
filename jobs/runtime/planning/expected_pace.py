"""The expected pace of a run on its resources: from the finished units, a measurement, or the size of the model.

Without units and measurement, the time of a model on GPUs has an upper estimate: the products and the reads of memory
that its tokens need, at the share of the GPU's rates (`conf/gpus.yaml`) that the slowest measured engine reached.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from jobs.runtime.configuration.config import Common
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.runtime.planning.estimates import Pace, Spread, pace_of
from jobs.runtime.planning.rate_tables import (
    CPU,
    MACHINES_DIFFER,
    Gpu,
    Measurement,
    Wanted,
    expected_gpu,
    find,
    read_gpus,
    read_measurements,
    read_prices,
)
from jobs.store.pieces import PieceRule, cut_of
from jobs.store.runs.run_units import ROWS, Amounts

CALIBRATION = "plan=calibrate does some units, which are kept, and measures the pace"
# Of a GPU's products and reads; the slowest on an H200 were the judge by `cascade` (0.12 of the products) and
# `generate` (0.16 of the reads), both with 3 B (tests/benchmarks/RECORDS.md).
LEAST_SHARE = 0.1
WRITTEN_TOGETHER = 16  # texts that are written at a time; there were 64, and there are fewer if memory is short
DRIVER_S = 0.012  # seconds of a driver's core per unit (tests/benchmarks/RECORDS.md, Scale)


@dataclass(frozen=True)
class Work:
    """The amount of work per row of a job whose rows differ in work.

    Attributes:
        counted: what is counted.
        per_row: the amount per row.
        pieces: the number of pieces that the whole is divided into, if the pieces are not the units.
    """

    counted: str
    per_row: float
    pieces: int | None = None


@dataclass(frozen=True)
class Passes:
    """The passes through a model per row of its input, at most.

    Attributes:
        parameters: all of the model's, those of experts that a token does not pass included.
        gb: size of its weights, 10^9 bytes.
        read: tokens of prompts.
        written: tokens that it writes.
        parallel: whether an actor with several GPUs uses all of them at the same time.
        basis: where these figures come from, for the plan.
    """

    parameters: float
    gb: float
    read: float
    written: float
    parallel: bool
    basis: str

    def seconds(self, gpu: Gpu) -> float:
        """Return the longest time per row on a GPU (one multiplication and addition per parameter and token)."""
        products = 2 * self.parameters * (self.read + self.written) / (gpu.tflops * 1e12)
        reads = self.written / WRITTEN_TOGETHER * self.gb / (gpu.tb_per_s * 1e3)
        return (products + reads) / LEAST_SHARE


@dataclass(frozen=True)
class Lanes:
    """The number of actors of a pool that work at the same time, and the CPUs or GPUs of each."""

    actors: float
    devices: float

    @property
    def total(self) -> float:
        """The CPUs or GPUs that work."""
        return self.actors * self.devices

    def limited(self, pieces: int) -> "Lanes":
        """Return these lanes with the average number of actors that this number of pieces keeps busy."""
        return replace(self, actors=pieces / math.ceil(pieces / self.actors)) if pieces else self


def lanes_of(pool: StageResources, *, cores: int | None, threads: int | None = None) -> Lanes:
    """Return the lanes of a pool that has grown.

    Args:
        cores: CPUs of the machine, if the whole run is on one whose CPUs are known.
        threads: of an actor, if the pool does not set them and the actor does not use all cores.
    """
    if pool.num_gpus:
        return Lanes(pool.most_actors, pool.num_gpus)
    cpus = float(pool.threads or threads or cores or max(1.0, pool.num_cpus))
    if cores is None:
        return Lanes(pool.most_actors, cpus)
    cpus = min(cpus, cores)
    return Lanes(min(pool.most_actors, cores / cpus), cpus)


def measured_pace(
    measurement: Measurement,
    amounts: Amounts,
    *,
    lanes: Lanes,
    work: Work | None,
    gpu: Gpu | None = None,
    feeders: float = math.inf,
) -> Pace:
    """Return the pace of the remaining work, in what `amounts` counts, at the measured rate.

    Args:
        gpu: the kind of GPU that will be used, if known.
        feeders: cores of the pool that prepares the input of the GPUs.
    """
    units_left = amounts.units - amounts.done
    busy = lanes.limited((work and work.pieces) or units_left).total
    most = amounts.left / (units_left * DRIVER_S) if measurement.pools else math.inf  # what one driver hands out
    low, value, high = measurement.seconds_per_work(gpu)
    per_row = work.per_row if work else 1
    fed = [math.inf] * 3
    if measurement.feeder:
        by_all = feeders * measurement.work / measurement.feeder_s / per_row
        fed = [by_all, by_all / MACHINES_DIFFER, by_all * MACHINES_DIFFER]
    unfed = [busy / seconds / per_row for seconds in (value, high, low)]
    rates = Spread(*(min(*limits, most) for limits in zip(unfed, fed, strict=True)))
    on_gpus = measurement.device != CPU
    source = f"{_count(busy, 'GPU' if on_gpus else 'core')} at the rate {measurement}"
    if on_gpus:
        source += _about_gpu(measurement.device, gpu)
    if fed[0] < unfed[0]:
        source += f"; they wait for {_count(feeders, 'core')} of {measurement.feeder}"
    return Pace(rates, 0, source=source, start_s=measurement.start_s)


def longest_pace(passes: Passes, lanes: Lanes, gpu: Gpu) -> Pace:
    """Return the pace that the passes have at least; its upper end is unknown (infinite)."""
    gpus = lanes.actors * (lanes.devices if passes.parallel else min(lanes.devices, 1.0))
    least = gpus / passes.seconds(gpu)
    source = (
        f"upper estimate, not measured: {passes.basis}, at {LEAST_SHARE:.0%} of the products and reads of "
        f"{_count(gpus, gpu.name)} (conf/gpus.yaml)"
    )
    return Pace(Spread(least, least, math.inf), 0, source=source)


def _count(number: float, noun: str) -> str:
    digits = f"{number:,.3g}"
    return f"{digits} {noun}{'s' * (digits != '1')}"


def _about_gpu(measured: str, gpu: Gpu | None) -> str:
    """Return how the times measured on a GPU were converted to those of the GPU that will be used."""
    if gpu is None:
        return f"; resources.gpu= names another GPU than {measured}"
    if gpu.name == measured:
        return ""
    products, memory = gpu.times_longer_than(read_gpus()[measured])
    return f"; {products:.2g} times as long on {gpu.name}, by the GPUs' products ({memory:.2g} by their memory)"


@dataclass(frozen=True)
class Expectation:
    """Everything that determines the pace of a run, apart from its table.

    Attributes:
        job: the name of the job.
        pools: its stages; empty if the driver does the work.
        config: its configuration, as nested mappings.
        resources: the resources of its stages.
        measurements: the measurements of `resources.measured`.
        gpu: the kind of its GPUs, if known.
        own_cpus: the number of CPUs of this machine if the run uses it, with or without GPUs; None for a cluster.
        work: the amount of work per row, if rows differ in work.
        calibrates: whether a few units can be run first to measure the pace.
        part: the name of the table, for a job that writes several.
        passes: returns the passes through the job's model per row; None if their number is unknown.
    """

    job: str
    pools: Sequence[str]
    config: Mapping[str, Any]
    resources: Resources
    measurements: Sequence[Measurement] = ()
    gpu: Gpu | None = None
    own_cpus: int | None = None
    work: Work | None = None
    calibrates: bool = True
    part: str = ""
    passes: Callable[[], Passes | None] | None = None

    @property
    def cores(self) -> int | None:
        """CPUs of the machine, if the whole run is on one whose CPUs are known and all of its work is theirs."""
        on_gpus = any(getattr(self.resources, pool).num_gpus for pool in self.pools)
        return None if on_gpus else self.own_cpus

    @property
    def _pool(self) -> StageResources | None:
        return getattr(self.resources, self.pools[-1]) if self.pools else None

    def _lanes(self, threads: int | None = None) -> Lanes:
        return lanes_of(self._pool, cores=self.cores, threads=threads) if self._pool else Lanes(1, 1)

    def _actors(self, devices: float | None) -> int:
        """Return the number of actors of the last stage on `devices` CPUs or GPUs; None: of the pool at its largest."""
        most = self._pool.most_actors if self._pool else 1
        return most if devices is None else max(1, math.ceil(most * devices / self._lanes().total))

    def devices(self, units: int) -> float:
        """Return the CPUs or GPUs of the last stage that work on this number of units."""
        pieces = self.work.pieces if self.work and self.work.pieces else units
        return self._lanes().limited(pieces).total

    def pace(self, amounts: Amounts, *, files: Sequence[str], last: Mapping[str, Any]) -> tuple[Pace | None, str]:
        """Return the expected pace, or None and the reason.

        Args:
            files: names of the input's files.
            last: what the last run took (`jobs.runtime.planning.estimates.actual`); empty if unknown.
        """
        left = amounts.units - amounts.done
        if not left:
            return None, ""
        before = devices_of(last, amounts) if amounts.done else None
        if (pace := pace_of(amounts.ended(), together=self._actors(before))) is not None:
            return (pace if before is None else scaled(pace, before=before, now=self.devices(left))), ""
        counted = self.work.counted if self.work else amounts.counted
        on_gpu = self._pool is not None and self._pool.num_gpus > 0
        wanted = Wanted(self.job, self.pools, self.config, files, counted, on_gpu, self.part)
        measurement = find(self.measurements, wanted)
        if measurement is None:
            if on_gpu and self.gpu and self.passes and (passes := self.passes()):
                return longest_pace(passes, self._lanes().limited(left), self.gpu), ""
            remedy = CALIBRATION if self.calibrates else "only a run shows it"
            if on_gpu and self.passes and not self.gpu:
                remedy += "; with the kind of GPU (resources.gpu=), there is an upper estimate"
            return None, f"resources.measured={self.resources.measured} has no measurement of {wanted}; {remedy}"
        lanes = self._lanes(measurement.threads)
        return measured_pace(
            measurement, amounts, lanes=lanes, work=self.work, gpu=self.gpu, feeders=self._feeders(measurement.feeder)
        ), ""

    def _feeders(self, pool: str) -> float:
        """Return the cores of the pool that feeds the last one, once that pool has grown."""
        if not pool:
            return math.inf
        stage: StageResources = getattr(self.resources, pool)
        cores = stage.most_actors * max(stage.num_cpus, stage.threads or 0)
        if self.own_cpus is None:
            return cores
        others = sum(getattr(self.resources, name).num_cpus for name in self.pools if name != pool)
        return max(1.0, min(cores, self.own_cpus - others))


def devices_of(last: Mapping[str, Any], amounts: Amounts) -> float | None:
    """Return the CPUs or GPUs that did the last units; None if an unfinished or unknown run did some of them."""
    devices, ended = last.get("devices"), last.get("ended")
    if not (isinstance(devices, float) and isinstance(ended, float)) or devices <= 0:
        return None
    return devices if ended >= max(at for at, _ in amounts.ended()) else None


def scaled(pace: Pace, *, before: float, now: float) -> Pace:
    """Return the pace of units that were done by `before` CPUs or GPUs, scaled to `now` of them."""
    if before == now:
        return pace
    source = f"times {now / before:.3g} for {now:.3g} CPUs or GPUs instead of {before:.3g}"
    return replace(pace, per_s=pace.per_s * (now / before), source=source)


def cut_for(job: str, cfg: Common, pools: Sequence[str]) -> PieceRule:
    """Return how the units of the job's table are cut: as when it began, or for the actors of its last stage.

    A measurement of the job that counts rows says how many of them an actor does in a minute, at the slowest.

    Raises:
        InputError: the list of the table's units is damaged, or the file of `resources.measured=` or
            `resources.prices=`, or the GPU of `resources.gpu=`, does not exist.
    """
    resources, minute = cfg.resources, None
    pool: StageResources = getattr(resources, pools[-1])
    measurements = read_measurements(resources.measured) if resources.measured else ()
    wanted = Wanted(job, tuple(pools), asdict(cfg), (), ROWS, pool.num_gpus > 0)
    if (measurement := find(measurements, wanted)) is not None:
        prices = read_prices(resources.prices) if resources.prices else None
        gpu = expected_gpu(resources, prices, pool.num_gpus)
        slowest = measurement.seconds_per_work(gpu)[2]
        minute = int(60 * lanes_of(pool, cores=None, threads=measurement.threads).devices / slowest)
    return cut_of(cfg.out, actors=pool.most_actors, overwrite=cfg.overwrite, minute=minute)
