"""Everything that uses private interfaces of Ray, which its next release may change.

Without an interface there is less information, and no error; tests/jobs/runtime/cluster/test_ray_internals.py fails.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
from ray._private import worker
from ray.data._internal.execution.execution_callback import ExecutionCallback

from actors.quantities import quantity
from jobs.errors import RunError
from jobs.runtime.process.console import say
from jobs.runtime.prometheus import RUN, JobMetrics

if TYPE_CHECKING:
    from ray.data._internal.execution.streaming_executor import StreamingExecutor

    from jobs.runtime.planning.spending import Spending


LOOK_EVERY_S = 1.0
REPORT_EVERY_S = 60.0
COUNT_EVERY_S = 5.0
# Of Ray's NodeDeathInfo: a node that left by itself, and one that the autoscaler ended because it was idle. With
# another reason, such as that it failed or was withdrawn, a machine counts as lost.
PLANNED_ENDS = (1, 4)
logger = logging.getLogger("ray")
_ACTOR = re.compile(r"MapBatches\((\w+)\)")


@dataclass(frozen=True)
class PoolState:
    """Numbers of a pool's started actors, and of those that wait for a machine, a restart or their constructor."""

    name: str
    started: int
    awaited: int


class StartWatch:
    """Decides, from the states of the pools, what to print and when to give up a run.

    A run starts with the first actor of each pool. Ray Data's own wait (`wait_for_min_actors_s`) waits for the first
    actors of one pool after another, so that a single machine that cannot be obtained would end the run.

    Args:
        wait_s: the longest time that a pool may be without any actor.
        now: monotonic seconds at the start.
    """

    def __init__(self, *, wait_s: float, now: float) -> None:
        self._wait_s, self._began, self._reported = wait_s, now, now
        self._without_since: dict[str, float] = {}

    def look(self, pools: Sequence[PoolState], *, now: float) -> str | None:
        """Return the line to print now; None if there is nothing to print.

        Raises:
            RunError: a pool had no actor for `wait_s`.
        """
        without = {pool.name for pool in pools if not pool.started}
        self._without_since = {name: self._without_since.get(name, now) for name in without}
        for name, since in self._without_since.items():
            if now - since >= self._wait_s:
                raise RunError(
                    f"no actor of {name} could start within resources.wait_s={self._wait_s:g} seconds: no machine of "
                    "the cluster has room for one, or its model takes longer to load; `ray status` shows what is "
                    "missing; the same command resumes the run"
                )
        awaited = [pool for pool in pools if pool.awaited]
        if not awaited or now - self._reported < REPORT_EVERY_S:
            return None
        self._reported = now
        counts = ", ".join(f"{pool.name} {pool.started} of {pool.started + pool.awaited}" for pool in awaited)
        return f"waiting for actors, {now - self._began:.0f} s after the start: {counts} have started"


class MachineWatch:
    """Counts the machines of a cluster, and names those that are lost."""

    def __init__(self) -> None:
        self._alive: dict[str, str] = {}
        self._most = 0

    def look(self, nodes: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return the names of the machines that were lost since the last call.

        Args:
            nodes: as `ray.nodes()` returns them, dead ones included for a while.
        """
        alive = {node["NodeID"]: _machine_name(node) for node in nodes if node["Alive"]}
        ended = {node["NodeID"] for node in nodes if not node["Alive"] and node.get("DeathReason") in PLANNED_ENDS}
        lost = [name for node, name in self._alive.items() if node not in alive and node not in ended]
        self._alive, self._most = alive, max(self._most, len(alive))
        return lost

    @property
    def is_shown(self) -> bool:
        """Whether there have been several machines."""
        return self._most > 1

    @property
    def number(self) -> int:
        """The number of machines that were up at the last call."""
        return len(self._alive)

    def text(self, *, gpus: float, idle: float) -> str:
        """Return how many machines are up and how many GPUs no actor holds."""
        machines = quantity(self.number, "machine")
        return f"{machines} up, {idle:g} of {gpus:g} GPUs idle" if gpus else f"{machines} up"


def _machine_name(node: Mapping[str, Any]) -> str:
    """Return a machine's address, and the beginning of the id that Ray's dashboard and logs have."""
    return f"{node['NodeManagerAddress']} (node {node['NodeID'][:8]})"


class ActorWatch(ExecutionCallback):
    """Applies the watches to each step of an execution of Ray Data, and prints and limits what the run spends."""

    def __init__(self, *, wait_s: float, spending: "Spending | None" = None) -> None:
        self._wait_s, self._spending = wait_s, spending
        self._metrics = JobMetrics(spending.job if spending else "", RUN)
        self._told = self._counted = time.monotonic()
        self._watch: StartWatch | None = None
        self._machines = MachineWatch()
        self._looked = 0.0

    def on_execution_step(self, executor: "StreamingExecutor") -> None:
        """Look at the pools, at most once a second.

        Raises:
            RunError: as `StartWatch.look`, or the budget is reached; Ray Data ends the execution with it.
        """
        now = time.monotonic()
        if now - self._looked < LOOK_EVERY_S:
            return
        self._looked = now
        self._watch = self._watch or StartWatch(wait_s=self._wait_s, now=now)
        if line := self._watch.look(list(_states(executor._topology or {})), now=now):
            say(line, err=True, level="info")
        if self._spending is not None:
            self._spending.check()
        if now - self._counted >= COUNT_EVERY_S:
            self._counted = now
            self._count_machines()
        if now - self._told >= REPORT_EVERY_S:
            self._told = now
            parts = []
            if self._spending is not None and self._spending.is_shown:
                parts.append(f"spent so far: {self._spending.text()}")
            if self._machines.is_shown:
                parts.append(self._machines.text(**_gpus()))
            if parts:
                say("; ".join(parts), err=True, level="info")

    def _count_machines(self) -> None:
        """Name lost machines, and export what the run spends and how many machines are up."""
        for name in self._machines.look(ray.nodes()):
            up = quantity(self._machines.number, "machine")
            say(f"lost machine {name}; {up} up, which do its unfinished units again", err=True, level="warning")
            if self._spending is not None:
                self._spending.lost_machines.append(name)
        figures = self._spending.figures() if self._spending is not None else {}
        figures["remine_machines"] = self._machines.number
        if (gpus := _gpus())["gpus"]:
            figures["remine_idle_gpus"] = gpus["idle"]
        for name, value in figures.items():
            self._metrics.gauge(name, value)


def _gpus() -> dict[str, float]:
    """Return the number of GPUs of the cluster, and of those that no actor holds."""
    return {"gpus": ray.cluster_resources().get("GPU", 0.0), "idle": ray.available_resources().get("GPU", 0.0)}


def _states(operators: Mapping[Any, Any]) -> Iterator[PoolState]:
    """Yield the states of the pools that still have work."""
    for operator in operators:
        if not operator.get_autoscaling_actor_pools() or operator.has_execution_finished():
            continue
        info = operator.get_actor_info()
        match = _ACTOR.search(operator.name)
        yield PoolState(match[1] if match else operator.name, info.running, info.pending + info.restarting)


def machine_resources(num_cpus: float | None) -> dict[str, float] | None:
    """Return the resources of a Ray started here, with the keys of `ray.cluster_resources()`; None if unknown."""
    try:
        from ray._private.resource_and_label_spec import ResourceAndLabelSpec

        spec = ResourceAndLabelSpec(num_cpus=num_cpus, memory=1, object_store_memory=1)
        spec.resolve(is_head=True, node_ip_address="127.0.0.1")
    except Exception:  # without it the check is made after the start
        return None
    return {"CPU": float(spec.num_cpus or 0), "GPU": float(spec.num_gpus or 0)}


def startable_machines() -> list[Mapping[str, float]]:
    """Return the resources of each kind of machine that the autoscaler can start; empty if Ray does not know.

    Some autoscalers tell Ray, but the open-source ones of Ray 2.60 do not.
    """
    from ray._private.state import state

    config = state.get_cluster_config()  # Ray Data uses it for the same purpose
    groups = config.node_group_configs if config else ()
    return [dict(group.resources) for group in groups if group.max_count and group.resources]


def processes() -> list[Any]:
    """Return the processes of a Ray that was started here, each with a method `kill`; empty if unknown."""
    node = getattr(worker, "_global_node", None)
    return [info.process for infos in getattr(node, "all_processes", {}).values() for info in infos]


def log_folder() -> Path | None:
    """Return the folder of the logs of Ray on this machine; None if unknown, as for a driver outside its cluster."""
    folder = getattr(getattr(worker, "_global_node", None), "get_logs_dir_path", None)
    return Path(folder()) if folder is not None else None


def print_to_logger() -> None:
    """Have what Ray prints on the driver, even with log_to_driver=False, written to the logger `ray`."""
    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda data, *_, **__: logger.info("\n".join(data.get("lines", ())))
