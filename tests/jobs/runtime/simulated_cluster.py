"""Runs stages on a cluster of several nodes with GPUs that do not exist, on this one machine; prints a JSON.

python -m tests.jobs.runtime.simulated_cluster FOLDER
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from ray.cluster_utils import Cluster

from actors import schemas
from jobs.errors import InputError, RunError
from jobs.runtime import ray_session, stages
from jobs.runtime.config import RayConfig
from jobs.runtime.resources import Demand, Resources, StageResources, TaskResources
from jobs.store.reading import open_table
from jobs.store.run import TablePlan, TableRun, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitTask

UNITS, ROWS = 16, 3
SMALL: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
PICTURES = pa.schema({"image_id": pa.string()})


class Draw:
    """Sleeps as a model that works, and keeps a file for each call: the node and the rows."""

    INPUTS = PICTURES
    OUTPUTS = schemas.IMAGES

    def __init__(self, *, log: str) -> None:
        self._log = Path(log)

    def __call__(self, batch: pa.Table) -> pa.Table:
        (self._log / f"{time.time_ns()}-{os.getpid()}").write_text(ray.get_runtime_context().get_node_id())
        time.sleep(0.4)
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


def resources(*, gpus: float, wait_s: int) -> Resources:
    pool = StageResources(actors=1, max_actors=3, num_cpus=0.5, num_gpus=gpus, batch_size=ROWS, max_in_flight=1)
    tasks = TaskResources(0.5)
    return Resources(judge=pool, read=tasks, write=tasks, wait_s=wait_s, autoscaling=True)


class Running(threading.Thread):
    """A run in a thread: nodes must be added by the main one."""

    def __init__(self, out: Path, log: Path, limits: Resources, *, units: int) -> None:
        super().__init__()
        log.mkdir()
        self.run_, self._log, self._limits, self.error = opened(out, units), log, limits, ""

    def run(self) -> None:
        chain = [stages.Stage("judge", Draw, {"log": str(self._log)})]
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

    def wait_for_calls(self, count: int) -> None:
        while self.is_alive() and len(list(self._log.iterdir())) < count:
            time.sleep(0.1)

    def nodes(self) -> Counter[str]:
        return Counter(path.read_text() for path in self._log.iterdir())


def refusal(demand: Demand, limits: Resources) -> str:
    try:
        ray_session.start(RayConfig(), limits, [demand])
    except InputError as error:
        return str(error)
    return ""


def main(folder: Path) -> dict[str, Any]:
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": 200 * 2**20})
    try:
        ray.init(address=cluster.address, log_to_driver=False)
        seen: dict[str, Any] = {}
        limits = resources(gpus=1, wait_s=300)
        ray_session.start(RayConfig(), limits)
        running = Running(folder / "table", folder / "calls", limits, units=UNITS)
        running.start()
        time.sleep(1)
        first = cluster.add_node(num_gpus=1, **SMALL)
        running.wait_for_calls(3)  # with one of the three actors that were asked for
        seen["calls_on_one_node"] = len(running.nodes()) == 1
        cluster.add_node(num_gpus=1, **SMALL)
        while running.is_alive() and len(running.nodes()) < 2:
            time.sleep(0.1)
        cluster.remove_node(first, allow_graceful=False)  # its actor's calls are done again by the others
        running.join()
        seen |= {"error": running.error, "nodes": len(running.nodes())}
        seen["complete"] = running.run_.finish()["complete"]
        ids = pa.concat_tables(open_table(str(folder / "table"), "images").batches(["image_id"]))[
            "image_id"
        ].to_pylist()
        seen["each_row_once"] = len(ids) == len(set(ids)) == UNITS * ROWS

        limits.node_types = []
        seen["two_gpus"] = refusal(Demand("judge", 1, 1, 2), resources(gpus=2, wait_s=2))
        limits = resources(gpus=2, wait_s=2)
        ray_session.start(RayConfig(), limits)
        waiting = Running(folder / "never", folder / "none", limits, units=1)
        waiting.start()
        waiting.join()
        return seen | {"without_actor": waiting.error}
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))), flush=True)
