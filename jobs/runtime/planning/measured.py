"""Committed measurements of rates (`conf/measured/`), for the plan of a run that has not done any units."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from jobs.runtime.configuration.config_files import read_named
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.runtime.planning.gpus import Gpu, read_gpus

CPU = "cpu"
STAGES = [name for name, stage in vars(Resources()).items() if isinstance(stage, StageResources)]
MACHINES_DIFFER = 1.5  # of two machines with two cores each, one ran the demo in 44 to 46 s, the other in 60 to 68


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
    return read_named("resources.measured", name, _parse, folder="measured", noun="measurements")


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


def _parse(content: Any) -> list[Measurement]:
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
