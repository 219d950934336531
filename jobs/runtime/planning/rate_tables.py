"""The tables of rates that a plan uses: speeds of GPUs, measurements of jobs, and prices of machines and requests.

They are `conf/gpus.yaml`, which converts measurements on one kind of GPU to another; the committed measurements of
`conf/measured/`, for a run that has not done any units; and `conf/prices/`.
"""

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import yaml

from jobs.errors import InputError
from jobs.runtime.configuration.config_files import CONF, read_named
from jobs.runtime.configuration.resources import Resources, StageResources

CPU = "cpu"
STAGES = [name for name, stage in vars(Resources()).items() if isinstance(stage, StageResources)]
MACHINES_DIFFER = 1.5  # of two machines with two cores each, one ran the demo in 44 to 46 s, the other in 60 to 68


@dataclass(frozen=True)
class Gpu:
    """A kind of GPU.

    Attributes:
        tflops: dense products in bfloat16, 10^12 FLOP per second.
        tb_per_s: reads of its memory, 10^12 bytes per second.
        gb: size of its memory, 10^9 bytes.
    """

    name: str
    tflops: float
    tb_per_s: float
    gb: float

    def times_longer_than(self, other: "Gpu") -> tuple[float, float]:
        """Return how many times as long work takes as on `other`, if limited by products and if limited by memory."""
        return other.tflops / self.tflops, other.tb_per_s / self.tb_per_s


@functools.cache
def read_gpus() -> dict[str, Gpu]:
    """Return the kinds of `conf/gpus.yaml` by name."""
    content = yaml.safe_load((CONF / "gpus.yaml").read_text(encoding="utf-8"))
    return {name: Gpu(name, **figures) for name, figures in content.items()}


def gpu_named(name: str, *, key: str) -> Gpu:
    """Return the kind `name`.

    Args:
        key: the key whose value is `name`, for the message.

    Raises:
        InputError: `conf/gpus.yaml` has no such kind.
    """
    if (gpu := read_gpus().get(name)) is None:
        raise InputError(f"must be one of {', '.join(read_gpus())} (conf/gpus.yaml), or null", key=key, value=name)
    return gpu


def expected_gpu(resources: Resources, prices: "Prices | None", gpus_of_one: float) -> Gpu | None:
    """Return the kind of GPU that will be used, from `resources.gpu` or the machines with prices; None if unknown.

    Args:
        prices: the content of `resources.prices`.
        gpus_of_one: GPUs of the actor that needs most of them.

    Raises:
        InputError: `conf/gpus.yaml` has no such kind.
    """
    if resources.gpu is not None:
        return gpu_named(resources.gpu, key="resources.gpu")
    name = gpu_of(prices, gpus_of_one) if prices and gpus_of_one else None
    return gpu_named(name, key=f"resources.prices={resources.prices}: gpu") if name else None


@dataclass(frozen=True)
class Measurement:
    """The time that an amount of a job's work took.

    Attributes:
        job: the name of the job.
        part: which table this is about, for a job that writes several.
        keys: dotted keys of the job, and the values that they had.
        pools: the stages that did the work; empty if the driver did it.
        suffix: of the names of the input's files.
        device: `cpu`, or the name of the GPU in `conf/gpus.yaml`.
        hardware: the machine.
        date: when it was measured.
        command: the command that measured it.
        work, counted: the amount, and what is counted: rows, bytes, or multiplications of numbers of vectors.
        seconds: for each round, the seconds of one core or one GPU.
        threads: of an actor on CPUs; None: as many as its pool has.
        feeder: the pool that prepares the input of GPUs, if their work may wait for it.
        feeder_s: seconds of one core of that pool for `work`.
        start_s: seconds from the opening of the table to the beginning of the first unit.
        note: the circumstances, for the plan.
    """

    job: str
    device: str
    hardware: str
    date: str
    command: str
    work: float
    counted: str
    seconds: tuple[float, ...]
    pools: tuple[str, ...]
    part: str = ""
    keys: Mapping[str, Any] = field(default_factory=dict)
    suffix: str = ""
    threads: int | None = None
    feeder: str = ""
    feeder_s: float = 0.0
    start_s: float = 0.0
    note: str = ""

    def seconds_per_work(self, gpu: Gpu | None = None) -> tuple[float, float, float]:
        """Return the least, median and largest of the rounds, the outer two widened by `MACHINES_DIFFER`.

        Args:
            gpu: the kind of GPU that will be used, if known. The median is scaled by the rates of products, and the
                interval includes what the rates of memory would give.
        """
        products, memory = gpu.times_longer_than(read_gpus()[self.device]) if gpu else (1.0, 1.0)
        low = min(self.seconds) / MACHINES_DIFFER * min(products, memory)
        high = max(self.seconds) * MACHINES_DIFFER * max(products, memory)
        return low / self.work, statistics.median(self.seconds) * products / self.work, high / self.work

    def __str__(self) -> str:
        note = f"; {self.note}" if self.note else ""
        return f"measured on {self.hardware}, {self.date}, by {self.command}{note}"


@dataclass(frozen=True)
class Wanted:
    """The work that a measurement is needed for.

    Attributes:
        config: the job's configuration, as nested mappings.
        files: names of the input's files.
        on_gpu: the last stage works on GPUs.
        part: which table this is about, for a job that writes several.
    """

    job: str
    pools: Sequence[str]
    config: Mapping[str, Any]
    files: Sequence[str]
    counted: str
    on_gpu: bool
    part: str = ""

    def __str__(self) -> str:
        part = f" {self.part}" if self.part else ""
        return f"{self.job}{part} on {'GPUs' if self.on_gpu else 'CPUs'} with these keys and this input"


def read_measurements(name: str) -> list[Measurement]:
    """Read the file `name` of `conf/measured/`, or the file at a path that ends with .yaml.

    Raises:
        InputError: no such file, or it is not a table of measurements.
    """
    return read_named("resources.measured", name, _parse_measurements, folder="measured", noun="measurements")


def find(measurements: Sequence[Measurement], wanted: Wanted) -> Measurement | None:
    """Return the last of the measurements that is of the wanted work; None if there is none."""
    return next((measurement for measurement in reversed(measurements) if _is_of(measurement, wanted)), None)


def _is_of(measurement: Measurement, wanted: Wanted) -> bool:
    return (
        (measurement.job, measurement.part, measurement.counted) == (wanted.job, wanted.part, wanted.counted)
        and (measurement.device != CPU) == wanted.on_gpu
        and measurement.pools == tuple(wanted.pools)
        and all(_value(wanted.config, key) == value for key, value in measurement.keys.items())
        and all(name.endswith(measurement.suffix) for name in wanted.files)
    )


def _value(config: Mapping[str, Any], key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _parse_measurements(content: Any) -> list[Measurement]:
    return [_measurement(entry) for entry in content]


def _measurement(entry: Mapping[str, Any]) -> Measurement:
    lists = {name: tuple(entry[name]) for name in ("seconds", "pools")}
    measurement = Measurement(**{**entry, **lists, "date": str(entry["date"])})
    numbers = [measurement.work, *measurement.seconds]
    if not (measurement.seconds and all(isinstance(n, int | float) and 0 < n < float("inf") for n in numbers)):
        raise ValueError(f"{measurement.job}: work and seconds must be numbers above 0")
    if not (isinstance(measurement.start_s, int | float) and 0 <= measurement.start_s < float("inf")):
        raise ValueError(f"{measurement.job}: start_s must be a number from 0")
    if measurement.device not in (CPU, *read_gpus()):
        raise ValueError(f"{measurement.job}: device must be {CPU}, or one of conf/gpus.yaml: {', '.join(read_gpus())}")
    feeder_s = measurement.feeder_s
    if bool(measurement.feeder) != (isinstance(feeder_s, int | float) and 0 < feeder_s < float("inf")):
        raise ValueError(f"{measurement.job}: feeder_s must be a number above 0 if feeder is set, and absent if not")
    if not isinstance(measurement.keys, Mapping) or (measurement.threads is not None and measurement.threads < 1):
        raise ValueError(f"{measurement.job}: keys must be a mapping, and threads at least 1")
    if not all(isinstance(key, str) for key in measurement.keys):
        raise ValueError(f"{measurement.job}: the names in keys must be text")
    stages = [*measurement.pools, *([measurement.feeder] if measurement.feeder else [])]
    if unknown := [stage for stage in stages if stage not in STAGES]:
        raise ValueError(f"{measurement.job}: {unknown[0]} is not a stage; must be one of {', '.join(STAGES)}")
    if wrong := [
        f.name for f in fields(measurement) if f.type is str and not isinstance(getattr(measurement, f.name), str)
    ]:
        raise ValueError(f"{measurement.job}: {wrong[0]} must be text")
    return measurement


class UnpricedError(Exception):
    """The prices do not cover the machines that a run uses; the message says what is missing."""


@dataclass(frozen=True)
class Machine:
    """A kind of machine; the machine of the head does no work."""

    name: str
    per_hour: float
    num_cpus: float = 0.0
    num_gpus: float = 0.0
    gpu: str | None = None  # its kind in conf/gpus.yaml
    head: bool = False


@dataclass(frozen=True)
class Prices:
    """Prices in a currency, with their date and region: of machines per hour, and of requests to S3 per thousand."""

    date: str
    region: str
    currency: str
    machines: tuple[Machine, ...]
    put_per_1000: float = 0.0
    get_per_1000: float = 0.0
    source: str = ""  # the name or path of the file


def read_prices(name: str) -> Prices:
    """Read the file `name` of `conf/prices/`, or the file at a path that ends with .yaml.

    Raises:
        InputError: no such file, or it is not a table of prices.
    """
    return replace(read_named("resources.prices", name, _parse_prices, folder="prices", noun="prices"), source=name)


def _parse_prices(content: Any) -> Prices:
    machines = tuple(Machine(**machine) for machine in content["machines"])
    requests: dict[str, Any] = {
        f"{kind}_per_1000": float(price) for kind, price in content.get("requests_per_1000", {}).items()
    }
    if not all(price >= 0 for price in (*requests.values(), *(machine.per_hour for machine in machines))):
        raise ValueError("a price below 0")
    if wrong := [m.name for m in machines if not all(0 <= number < math.inf for number in (m.num_cpus, m.num_gpus))]:
        raise ValueError(f"{wrong[0]}: num_cpus and num_gpus must be numbers from 0")
    return Prices(str(content["date"]), str(content["region"]), str(content["currency"]), machines, **requests)


def machines_for(prices: Prices, *, cpus: float, gpus: float, gpus_of_one: float = 0.0) -> list[tuple[Machine, int]]:
    """Return the kinds of machines, with their numbers, that provide this many CPUs and GPUs, and the head.

    The kind with the cheapest GPU provides the GPUs; the kind with the cheapest CPU provides the CPUs that are still
    needed.

    Args:
        gpus_of_one: GPUs of the actor that needs most of them, which must be in one machine.

    Raises:
        UnpricedError: the prices include no machine with such GPUs, or none with CPUs.
    """
    chosen = {machine: 1 for machine in prices.machines if machine.head}
    workers = [machine for machine in prices.machines if not machine.head]
    if gpus:
        kind = _cheapest_gpus(prices, gpus_of_one)
        if kind is None:
            raise _lacks(prices, f"num_gpus of at least {max(gpus_of_one, 1):g}", f"{gpus:g} GPUs")
        chosen[kind] = math.ceil(gpus / kind.num_gpus)
        cpus -= chosen[kind] * kind.num_cpus
    if cpus > 0:
        kind = _cheapest_cpus([machine for machine in workers if machine.num_cpus], prices, cpus)
        chosen[kind] = chosen.get(kind, 0) + math.ceil(cpus / kind.num_cpus)
    return list(chosen.items())


def gpu_of(prices: Prices, gpus_of_one: float) -> str | None:
    """Return the kind of the GPUs that `machines_for` chooses; None if the prices do not have it."""
    machine = _cheapest_gpus(prices, gpus_of_one)
    return machine.gpu if machine else None


def _cheapest_gpus(prices: Prices, gpus_of_one: float) -> Machine | None:
    fitting = [
        machine
        for machine in prices.machines
        if not machine.head and machine.num_gpus and machine.num_gpus >= gpus_of_one
    ]
    return min(fitting, key=lambda machine: machine.per_hour / machine.num_gpus, default=None)


def _cheapest_cpus(machines: Sequence[Machine], prices: Prices, cpus: float) -> Machine:
    """Return the machine with the cheapest CPU, without GPUs if there is one."""
    if not machines:
        raise _lacks(prices, "num_cpus above 0", f"{cpus:g} CPUs more than the machines with GPUs")
    without_gpus = [machine for machine in machines if not machine.num_gpus]
    return min(without_gpus or machines, key=lambda machine: machine.per_hour / machine.num_cpus)


def _lacks(prices: Prices, key: str, need: str) -> UnpricedError:
    return UnpricedError(
        f"resources.prices={prices.source} has no machine with {key}, and the run uses {need}; add one to a file of "
        "your own"
    )
