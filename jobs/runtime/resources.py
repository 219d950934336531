"""What each stage may use, and the check before the start that the cluster has it.

Resources come from the config (`resources=laptop|gpu-node|cluster`), never from the driver's own machine.
CPUs are Ray's logical ones: they decide what runs at the same time, `threads` what a process really uses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from jobs.errors import InputError

LEAST = {"actors": 1, "max_actors": 1, "num_cpus": 0, "num_gpus": 0, "batch_size": 1, "max_in_flight": 1, "threads": 1}


@dataclass
class TaskResources:
    """A kind of task: logical CPUs each."""

    num_cpus: float = 0.25


@dataclass
class StageResources:
    """A pool of actors: how many, what each asks for, and how much it is given at a time."""

    actors: int = 1  # size of the pool at the start; the size always, unless max_actors is larger
    max_actors: int | None = None  # the pool grows up to here while its actors are at work; null: it does not
    num_cpus: float = 0.3  # logical CPUs each
    num_gpus: float = 0.0  # GPUs each; 0.5 puts two on one
    memory_gb: float | None = None  # reserved for scheduling, null: not reserved
    batch_size: int = 64  # rows an actor works on at a time
    max_in_flight: int = 2  # units queued for one actor; more hides latency, costs object store memory
    threads: int | None = None  # null: what the machine has


@dataclass
class Resources:
    """All stages of all jobs; `object_store_memory_gb` and `wait_s` concern Ray itself."""

    read: TaskResources = field(default_factory=TaskResources)
    write: TaskResources = field(default_factory=TaskResources)
    mine: StageResources = field(default_factory=StageResources)
    fetch: StageResources = field(default_factory=StageResources)
    decode: StageResources = field(default_factory=StageResources)
    embed: StageResources = field(default_factory=StageResources)
    search: StageResources = field(default_factory=StageResources)
    judge: StageResources = field(default_factory=StageResources)
    kb: StageResources = field(default_factory=StageResources)
    link: StageResources = field(default_factory=StageResources)
    object_store_memory_gb: float | None = 1.0  # of a Ray started here; null: Ray's default, a third of the memory
    wait_s: int = 60  # longest wait for the first actors of a pool, all of them
    autoscaling: bool = False  # the cluster may grow: what is missing now is waited for, up to wait_s


def check(resources: Resources) -> None:
    """Refuse what no stage could work with.

    Raises:
        InputError: with the key and the least that it can be.
    """
    for name in (each.name for each in fields(resources)):
        stage = getattr(resources, name)
        if not isinstance(stage, StageResources | TaskResources):
            continue
        for key, least in LEAST.items():
            value = getattr(stage, key, None)
            if value is not None and value < least:
                raise InputError(f"resources.{name}.{key}={value}: at least {least}")


@dataclass(frozen=True)
class Demand:
    """What one pool or kind of task needs at the least to make progress."""

    stage: str
    count: int
    num_cpus: float
    num_gpus: float

    def __str__(self) -> str:
        parts = [f"{n:g} {what}" for n, what in ((self.num_cpus, "CPU"), (self.num_gpus, "GPU")) if n]
        return f"{self.stage} {self.count} x {' + '.join(parts) or 'nothing'}"


def demands(resources: Resources, stages: list[str], *, streamed: bool) -> list[Demand]:
    """What the stages ask for: the pools and, where rows are streamed through them, one read and one write task."""
    pools: list[StageResources] = [getattr(resources, stage) for stage in stages]
    asked = [Demand(stage, p.actors, p.num_cpus, p.num_gpus) for stage, p in zip(stages, pools, strict=True)]
    if not streamed:
        return asked
    read, write = (Demand(name, 1, getattr(resources, name).num_cpus, 0) for name in ("read", "write"))
    return [read, *asked, write]


def preflight(
    asked: Sequence[Demand], available: Mapping[str, float], *, autoscaling: bool, place: str = "the cluster"
) -> None:
    """Refuse to start what could never run; Ray would wait in silence instead.

    Args:
        asked: what the stages need at least.
        available: the total, as `ray.cluster_resources()` gives it (keys "CPU", "GPU").
        autoscaling: the cluster may grow, so that its present total decides nothing.
        place: what has `available`, for the message.

    Raises:
        InputError: a pool of no actors, or more CPUs or GPUs needed than there are, with the sum written out.
    """
    if nobody := next((d for d in asked if d.count < 1), None):
        raise InputError(f"resources.{nobody.stage}.actors={nobody.count}: at least 1")
    if autoscaling:
        return
    for kind, need in (("CPU", [d.count * d.num_cpus for d in asked]), ("GPU", [d.count * d.num_gpus for d in asked])):
        have = available.get(kind, 0.0)
        if sum(need) > have + 1e-9:
            listed = ", ".join(str(d) for d, n in zip(asked, need, strict=True) if n)
            raise InputError(
                f"this run needs {sum(need):g} {kind}s ({listed}) and {place} has {have:g}; "
                f"use resources=laptop, or lower resources.<stage>.actors or num_{kind.lower()}s"
            )
