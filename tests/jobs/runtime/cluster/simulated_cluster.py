"""Runs of stages on a cluster simulated on this machine, whose nodes join and leave and have no real GPUs.

Each scenario is called in the process of the cluster (`tests.jobs.runtime.cluster.cluster_process`) with a new folder,
and returns what happened.
"""

import contextlib
import io
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from ray.cluster_utils import Cluster
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors import schemas
from actors.devices import MissingDeviceError
from actors.vlm.errors import EngineError
from jobs.errors import InputError, RunError
from jobs.runtime import board, stages
from jobs.runtime.board import StageCounts
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.resources import Demand, NodeType, RayConfig, Resources, StageResources, TaskResources
from jobs.store.reading import open_table
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask
from tests.jobs.runtime.cluster.cluster_process import add_node

UNITS, ROWS = 16, 3
LOSSES = 4
PICTURES = pa.schema({"image_id": pa.string()})


class Draw:
    """Keeps a file for each call (the node and the actor) and works while there is a file `hold` next to them.

    Args:
        failing: node and number of a GPU on which each call fails.
        driverless: the node on which the constructor fails.
    """

    INPUTS = PICTURES
    OUTPUTS = schemas.IMAGES

    def __init__(self, *, log: str, failing: tuple[str, str] = ("", ""), driverless: str = "") -> None:
        self._log = Path(log)
        context = ray.get_runtime_context()
        self._fails = failing == (context.get_node_id(), *context.get_accelerator_ids()["GPU"])
        if driverless == context.get_node_id():
            raise MissingDeviceError("torch finds no CUDA device")

    def __call__(self, batch: pa.Table) -> pa.Table:
        if self._fails:
            raise EngineError("CUDA error: an illegal memory access was encountered")
        context = ray.get_runtime_context()
        (self._log / f"{time.time_ns()}-{os.getpid()}").write_text(f"{context.get_node_id()} {context.get_actor_id()}")
        while (self._log.parent / "hold").exists():
            time.sleep(0.05)
        rows = [
            {"image_id": one, "rendition": "w", "attempts": 1, "status": "ok"} for one in batch["image_id"].to_pylist()
        ]
        return pa.Table.from_pylist(rows, schema=schemas.IMAGES)


def read(task: UnitTask) -> pa.Table:
    return pa.table({"image_id": [f"{task.unit.name}-{row}" for row in range(ROWS)]})


def opened(out: Path, units: int) -> TableRun:
    cut = [Unit(f"u{number:03}", (), rows=ROWS) for number in range(units)]
    plan = TablePlan(str(out), "images", {"test": "cluster"}, cut, {}, {}, derived=True)
    return open_run(plan, resume=True, overwrite=False, retry=[])


def resources(*, gpus: float = 1, most: int = 3, wait_s: int = 300) -> Resources:
    pool = StageResources(actors=1, max_actors=most, num_cpus=0.5, num_gpus=gpus, batch_size=ROWS, max_in_flight=1)
    tasks = TaskResources(0.5)
    return Resources(judge=pool, read=tasks, write=tasks, wait_s=wait_s, autoscaling=True)


class Running(threading.Thread):
    """A run in a thread: nodes must be added by the main one."""

    def __init__(self, folder: Path, limits: Resources, *, units: int = UNITS, **settings: Any) -> None:
        super().__init__()
        self._settings = settings
        self._log, self._table = folder / "calls", folder / "table"
        self._log.mkdir(parents=True)
        ray_session.start(RayConfig(), limits)
        self.run_, self._limits, self.error = opened(self._table, units), limits, ""

    def run(self) -> None:
        chain = [stages.Stage("judge", Draw, {"log": str(self._log), **self._settings})]
        try:
            stages.stream(
                self.run_,
                name="test",
                read=stages.Read(read, item="image_id", output_item="image_id"),
                stages=chain,
                resources=self._limits,
            )
        except RunError as error:
            self.error = str(error)

    def hold(self) -> None:
        """Calls that have begun do not end from now on."""
        (self._log.parent / "hold").touch()

    def release(self) -> None:
        """Calls end from now on."""
        (self._log.parent / "hold").unlink()

    def wait_for_calls(self, count: int, *, node: Any = None) -> None:
        """Wait until so many calls have begun (on `node`), or the run has ended."""
        while self.is_alive() and (self.nodes().total() if node is None else self.nodes()[node.node_id]) < count:
            time.sleep(0.1)

    def nodes(self) -> Counter[str]:
        """Return the number of calls on each node."""
        return Counter(line.split()[0] for line in self._lines())

    def actors(self) -> set[str]:
        """Return the actors of all calls; one that restarts keeps its name."""
        return {line.split()[1] for line in self._lines()}

    def result(self) -> dict[str, Any]:
        """Wait for the end; what became of the table."""
        self.join()
        if self.error:
            return {"error": self.error}
        complete = self.run_.finish()["complete"]
        rows = pa.concat_tables(open_table(str(self._table), "images").batches(["image_id", "status"])).to_pylist()
        ids = {row["image_id"] for row in rows if row["status"] == "ok"}
        return {"error": "", "complete": complete, "rows": len(rows), "distinct": len(ids)}

    def _lines(self) -> list[str]:
        return [line for path in self._log.iterdir() if len((line := path.read_text()).split()) == 2]


@contextlib.contextmanager
def joined(cluster: Cluster) -> Iterator[None]:
    """This process is a driver of `cluster`; the nodes that were added meanwhile go with it."""
    before = set(cluster.worker_nodes)
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()
        for node in set(cluster.worker_nodes) - before:
            cluster.remove_node(node)


def nodes_join_and_leave(cluster: Cluster, folder: str) -> dict[str, Any]:
    """The run starts with the first GPU, takes the second, and completes when the first is lost."""
    with joined(cluster):
        running = Running(Path(folder), resources())
        running.hold()
        running.start()
        first = add_node(cluster, num_gpus=1)
        running.wait_for_calls(1)  # with one of the three actors that were asked for
        second = add_node(cluster, num_gpus=1)
        running.wait_for_calls(1, node=second)
        cluster.remove_node(first, allow_graceful=False)  # its actor's call is done again by the other
        running.release()
        return running.result() | {"nodes": len(running.nodes())}


def demands_that_no_machine_meets(cluster: Cluster, folder: str) -> dict[str, Any]:
    """Two GPUs per actor: refused where the kinds of machines are known, and awaited where they are not."""
    with joined(cluster):
        limits = resources(gpus=2, wait_s=2)
        limits.node_types = [NodeType(num_cpus=7, num_gpus=1)]
        try:
            ray_session.start(RayConfig(), limits, [Demand("judge", 1, 1, 2)])
            refusal = ""
        except InputError as error:
            refusal = str(error)
        waiting = Running(Path(folder), resources(gpus=2, wait_s=2), units=1)
        waiting.start()
        return {"refusal": refusal, "waited": waiting.result()["error"]}


def an_actor_is_lost_again_and_again(cluster: Cluster, folder: str) -> dict[str, Any]:
    """One actor, whose node is lost `LOSSES` times while it works."""
    with joined(cluster):
        running = Running(Path(folder), resources(most=1))
        running.hold()
        running.start()
        for _ in range(LOSSES):
            node = add_node(cluster, num_gpus=1)
            running.wait_for_calls(1, node=node)
            cluster.remove_node(node, allow_graceful=False)
        running.release()
        add_node(cluster, num_gpus=1)
        return running.result() | {"nodes": len(running.nodes()), "actors": len(running.actors())}


def some_gpus_are_bad(cluster: Cluster, folder: str) -> dict[str, Any]:
    """Of a node's two GPUs one fails at each call, another node's has no driver; the third waits for both."""
    printed = io.StringIO()
    with joined(cluster), contextlib.redirect_stderr(printed):
        pair, single = add_node(cluster, num_gpus=2), add_node(cluster, num_gpus=1)
        settings = {"failing": (pair.node_id, "0"), "driverless": single.node_id}
        running = Running(Path(folder), resources(), **settings)
        running.hold()
        running.start()
        while running.is_alive() and printed.getvalue().count("is not used any more") < 2:
            time.sleep(0.1)
        running.release()
        return running.result() | {"nodes": len(running.nodes())}


def no_gpu_is_good(cluster: Cluster, folder: str) -> dict[str, Any]:
    """The only GPU fails at each call."""
    with joined(cluster):
        node = add_node(cluster, num_gpus=1)
        limits = resources()
        limits.autoscaling = False
        running = Running(Path(folder), limits, failing=(node.node_id, "0"))
        running.start()
        return running.result()


def the_board_is_lost(cluster: Cluster, folder: str) -> dict[str, Any]:
    """The counters of progress are on a node that is lost after some calls."""
    options, printed = board.board_options, io.StringIO()
    with joined(cluster), contextlib.redirect_stderr(printed):
        add_node(cluster, num_gpus=1)
        lost = add_node(cluster)
        _wait_until_placeable(lost)
        board.board_options = lambda node: options(lost.node_id)
        try:
            running = Running(Path(folder), resources())
            running.hold()
            running.start()
            running.wait_for_calls(1)
            life = _board_life()
            cluster.remove_node(lost, allow_graceful=False)
            running.release()
            ended = running.result()
            restarted = _board_life() != life
        finally:
            board.board_options = options
    done = [int(count) for count in re.findall(r"^test judge +(\d+)/", printed.getvalue(), re.MULTILINE)]
    return ended | {"restarted": restarted, "progress": done}


def _probe() -> None:
    """Do nothing; for a task that only has to run somewhere."""


def _wait_until_placeable(node: Any) -> None:
    """Wait until the driver's machine knows of `node`; until then Ray places elsewhere what would rather be there."""
    strategy = NodeAffinitySchedulingStrategy(node.node_id, soft=False)
    probe: Any = ray.remote(_probe)
    while True:
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(probe.options(num_cpus=0, scheduling_strategy=strategy).remote())
            return
        time.sleep(0.1)


def _board_life() -> str:
    """Return a name of the process of the driver's board."""
    run = replace(board.open_board("test"), run="none")
    return run.part(StageCounts).ask(("", {}), StageCounts.read)[0]
