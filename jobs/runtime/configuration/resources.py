"""How Ray is reached, the resources of the stages, and a check before a run that the cluster has them.

Resources come from the configuration (`resources=laptop|gpu-node|gpus-8|cluster`), never from the driver's machine.
CPUs are Ray's logical CPUs, which determine what runs at the same time; `threads` is the number of threads of a
process.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from jobs.errors import InputError

CLUSTER = "the cluster"  # in messages: a cluster that the run has joined
MACHINE = "this machine"  # in messages: the run would start Ray here
LEAST = {"tasks": 1, "actors": 1, "max_actors": 1, "num_cpus": 0, "num_gpus": 0, "memory_gb": 0, "batch_size": 1,
         "max_in_flight": 1, "threads": 1, "row_timeout_s": 1}  # fmt: skip


@dataclass
class RayConfig:
    """Keys for connecting to Ray or starting it."""

    address: str | None = None  # null: $RAY_ADDRESS if set, else start Ray on this machine
    num_cpus: int | None = None  # logical CPUs of a Ray started here; null: all of the machine's
    verbose: bool = False  # show Ray's own log lines and progress bars


@dataclass
class TaskResources:
    """CPUs of one Ray task."""

    num_cpus: float = 0.25  # logical CPUs per task


@dataclass
class PartResources(TaskResources):
    """Ray tasks that each work on a part of a table: how many run at a time, and the CPUs of each."""

    tasks: int = 2  # that run at a time


@dataclass
class StageResources:
    """A pool of actors: its size, the resources of each actor, and how much work it gets at a time."""

    actors: int = 1  # size of the pool; its initial size if max_actors is larger
    max_actors: int | None = None  # size to which the pool grows while all actors are busy; null: it does not grow
    num_cpus: float = 0.3  # logical CPUs per actor
    num_gpus: float = 0.0  # GPUs per actor; 0.5 puts two actors on one GPU
    memory_gb: float | None = None  # memory reserved per actor for scheduling; null: none
    batch_size: int = 64  # rows of a model's batch; a call has one batch, eight for embed on GPUs and engine=vllm
    max_in_flight: int = 2  # units queued per actor; more units hide latency but take object store memory
    threads: int | None = None  # per process; null: all cores of the machine
    row_timeout_s: float | None = 3600.0  # longest time of a row, and of a unit without progress; null: no limit

    @property
    def is_single(self) -> bool:
        """Whether the pool is one actor without a GPU."""
        return self.most_actors == 1 and not self.num_gpus

    @property
    def most_actors(self) -> int:
        """The size to which the pool can grow."""
        return max(self.actors, self.max_actors or 1)

    def joined_with(self, earlier: "StageResources") -> "StageResources":
        """Return this pool with the CPUs and memory of `earlier` added, for actors that also run the stage before."""
        reserved = [gb for gb in (self.memory_gb, earlier.memory_gb) if gb is not None]
        memory_gb = sum(reserved) if reserved else None
        times = (self.row_timeout_s, earlier.row_timeout_s)
        longest = None if None in times else max(seconds for seconds in times if seconds is not None)
        num_cpus = self.num_cpus + earlier.num_cpus
        return replace(self, num_cpus=num_cpus, memory_gb=memory_gb, row_timeout_s=longest)


@dataclass
class NodeType:
    """A kind of machine that a cluster can start."""

    num_cpus: float = 0.0
    num_gpus: float = 0.0
    memory_gb: float | None = None  # memory available to Ray; null: not checked


@dataclass
class Resources:
    """Resources of all stages of all jobs, and settings of Ray itself."""

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
    reduce: PartResources = field(default_factory=PartResources)
    # of a Ray started here; null: Ray's default, about a third of the memory
    object_store_memory_gb: float | None = 1.0
    wait_s: int = 60  # longest time that a pool may be without an actor; the run starts with the first actor
    autoscaling: bool = False  # the cluster may grow: the run waits up to wait_s for missing resources
    prices: str | None = None  # a file of conf/prices, or the path of your own .yaml: plan=true prints the cost
    # a file of conf/measured, or the path of your own .yaml: plan=true estimates from it before any unit is done
    measured: str | None = "rates"
    gpu: str | None = None  # a kind of conf/gpus.yaml, for plan=true; null: the GPU of the machines in `prices`
    # machines that the cluster can start, if Ray does not know them
    node_types: list[NodeType] = field(default_factory=list)


def check(resources: Resources) -> None:
    """Check that every value is large enough for a stage to work.

    Raises:
        InputError: a value is too small; names the key and the smallest allowed value.
    """
    for field_ in fields(resources):
        name, stage = field_.name, getattr(resources, field_.name)
        if not isinstance(stage, StageResources | TaskResources):
            continue
        for key, least in LEAST.items():
            value = getattr(stage, key, None)
            if value is not None and value < least:
                raise InputError(f"must be at least {least}", key=f"resources.{name}.{key}", value=value)


@dataclass(frozen=True)
class Demand:
    """The minimum that a pool or a kind of task needs to make progress."""

    stage: str
    count: int
    num_cpus: float
    num_gpus: float
    memory_gb: float = 0.0

    @property
    def bundle(self) -> dict[str, float]:
        """Return the resources of one actor or task, with the keys of `ray.cluster_resources()`."""
        return bundle(self.num_cpus, self.num_gpus, self.memory_gb)

    def __str__(self) -> str:
        parts = [f"{n:g} {kind}" for n, kind in ((self.num_cpus, "CPU"), (self.num_gpus, "GPU")) if n]
        return f"{self.stage} {self.count} x {' + '.join(parts) or 'nothing'}"


def demands(resources: Resources, stages: list[str], *, streamed: bool) -> list[Demand]:
    """Return the minimum for each pool and, if rows are streamed, for one read task and one write task."""
    pools: list[StageResources] = [getattr(resources, stage) for stage in stages]
    needs = [
        Demand(stage, p.actors, p.num_cpus, p.num_gpus, p.memory_gb or 0.0)
        for stage, p in zip(stages, pools, strict=True)
    ]
    if not streamed:
        return needs
    read, write = (Demand(name, 1, getattr(resources, name).num_cpus, 0) for name in ("read", "write"))
    return [read, *needs, write]


def preflight(
    needs: Sequence[Demand], available: Mapping[str, float], *, autoscaling: bool, place: str = CLUSTER
) -> None:
    """Check that the stages fit the cluster; Ray would wait without a message.

    Args:
        needs: the minimum of each stage.
        available: totals, as in `ray.cluster_resources()` (keys "CPU", "GPU").
        autoscaling: the cluster may grow, so that its current total does not matter.
        place: the cluster or machine, for the message.

    Raises:
        InputError: a pool has no actors, or more CPUs or GPUs are needed than available; lists the sum.
    """
    if empty := next((demand for demand in needs if demand.count < 1), None):
        raise InputError("must be at least 1", key=f"resources.{empty.stage}.actors", value=empty.count)
    if autoscaling:
        return
    for kind, need in (("CPU", [d.count * d.num_cpus for d in needs]), ("GPU", [d.count * d.num_gpus for d in needs])):
        total = available.get(kind, 0.0)
        if sum(need) > total + 1e-9:
            asking = [demand for demand, n in zip(needs, need, strict=True) if n]
            listed = ", ".join(map(str, asking))
            largest = needs[need.index(max(need))]
            raise InputError(
                f"{_largest_key(largest, kind, total)}: this run needs {sum(need):g} {kind}{'s' * (sum(need) != 1)} "
                f"({listed}) and {place} has {total:g}; {_remedy(kind, total, place, [d.stage for d in asking])}"
            )


def _largest_key(demand: Demand, kind: str, total: float) -> str:
    """Return the key, with its value, that makes a stage ask for most of `kind`: `actors` if one actor would fit."""
    of_one = demand.num_cpus if kind == "CPU" else demand.num_gpus
    if demand.count > 1 and of_one <= total:
        return f"resources.{demand.stage}.actors={demand.count}"
    return f"resources.{demand.stage}.num_{kind.lower()}s={of_one:g}"


def _remedy(kind: str, total: float, place: str, stages: Sequence[str]) -> str:
    if place == CLUSTER and not total:  # only the head exists
        return "if it starts machines when they are asked for, use resources=cluster, which waits for them"
    if place == MACHINE:
        return f"use resources=laptop, name a cluster with ray.address= or $RAY_ADDRESS, or lower {_keys(kind, stages)}"
    return f"use resources=laptop, or lower {_keys(kind, stages)}"


def _keys(kind: str, stages: Sequence[str]) -> str:
    """Return the keys of the stages that determine how much of `kind` they need."""
    name = f"num_{kind.lower()}s"
    if len(stages) > 1:
        return f"resources.STAGE.actors or resources.STAGE.{name} of {', '.join(stages)}"
    return f"resources.{stages[0]}.actors or resources.{stages[0]}.{name}"


def bundle(num_cpus: float, num_gpus: float, memory_gb: float | None) -> dict[str, float]:
    """Return resources with the keys of `ray.cluster_resources()`; without "memory" if `memory_gb` is None."""
    memory = {} if memory_gb is None else {"memory": memory_gb * 2**30}
    return {"CPU": num_cpus, "GPU": num_gpus, **memory}


def check_machines(needs: Sequence[Demand], machines: Sequence[Mapping[str, float]]) -> None:
    """Check that one actor of each stage fits on one machine; Ray would wait for such a machine forever.

    Args:
        needs: the minimum of each stage.
        machines: the resources of each machine, and of each kind that an autoscaler can start, with the keys of
            `ray.cluster_resources()`; the memory of a machine without "memory" is not checked. Empty: unknown.

    Raises:
        InputError: no machine is large enough for an actor; names the actor's keys and the machines.
    """
    for need in needs:
        if machines and not any(_fits(need.bundle, machine) for machine in machines):
            listed = " and ".join(f"resources.{need.stage}.{key}" for key in _too_large(need, machines))
            kinds = sorted({_describe(machine) for machine in machines})
            raise InputError(
                f"{listed}: no machine can fit one actor (available or startable: {'; '.join(kinds)}); lower what it "
                "needs, use larger machines, or correct resources.node_types"
            )


def startable(resources: Resources) -> list[Mapping[str, float]]:
    """Return the resources of each of the `node_types`, as in `check_machines`; empty without autoscaling."""
    if not resources.autoscaling:
        return []
    return [bundle(kind.num_cpus, kind.num_gpus, kind.memory_gb) for kind in resources.node_types]


def _too_large(need: Demand, machines: Sequence[Mapping[str, float]]) -> list[str]:
    """Return the keys, with values, that alone are too large for any machine; all of them if only their sum is."""
    values = {
        f"num_cpus={need.num_cpus:g}": bundle(need.num_cpus, 0, None),
        f"num_gpus={need.num_gpus:g}": bundle(0, need.num_gpus, None),
        f"memory_gb={need.memory_gb:g}": bundle(0, 0, need.memory_gb),
    }
    asked = {key: alone for key, alone in values.items() if any(alone.values())}
    too_large = [key for key, alone in asked.items() if not any(_fits(alone, machine) for machine in machines)]
    return too_large or list(asked)


def _fits(bundle: Mapping[str, float], machine: Mapping[str, float]) -> bool:
    return all(
        need <= machine.get(kind, 0.0) + 1e-9
        for kind, need in bundle.items()
        if need and (kind != "memory" or kind in machine)
    )


def _describe(machine: Mapping[str, float]) -> str:
    parts = [f"{machine[kind]:g} {kind}" for kind in ("CPU", "GPU") if machine.get(kind)]
    if machine.get("memory"):
        parts.append(f"{machine['memory'] / 2**30:.0f} GiB")
    return " + ".join(parts) or "nothing"
