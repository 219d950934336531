"""Runs of stages on a cluster that grows by Ray's autoscaler, whose nodes are on this one machine.

Each scenario is called in the process of the cluster, as those of `tests.jobs.runtime.cluster.simulated_cluster`.
"""

import re
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import ray
from ray.cluster_utils import Cluster
from ray.data import DataContext

from actors import schemas
from jobs.errors import InputError
from jobs.runtime import stages
from jobs.runtime.board import Reporter
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.resources import Demand, NodeType, RayConfig, Resources, StageResources, TaskResources
from jobs.runtime.planning.estimates import cluster_of
from jobs.runtime.planning.spending import Spending
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from tests.jobs.runtime.cluster.simulated_cluster import Running, joined, resources

FILES = 12
UNITS = 20


class Miner:
    """Writes a row per unit, whose `rendition` is the node."""

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        time.sleep(2)
        node = ray.get_runtime_context().get_node_id()
        writer.counts.rows_in = 1
        row = {"image_id": task.unit.name, "rendition": node, "attempts": 1, "status": "ok"}
        writer.write(pa.Table.from_pylist([row], schema=schemas.IMAGES))


class Copy:
    """Returns a picture per row."""

    INPUTS = pa.schema({"image_id": pa.string()})
    OUTPUTS = schemas.IMAGES

    def __call__(self, batch: pa.Table) -> pa.Table:
        time.sleep(1)
        rows = [
            {"image_id": one, "rendition": "w", "attempts": 1, "status": "ok"} for one in batch["image_id"].to_pylist()
        ]
        return pa.Table.from_pylist(rows, schema=schemas.IMAGES)


def read_slowly(task: UnitTask) -> pa.Table:
    """Return a row after two seconds, so that Ray Data wants further tasks that read."""
    time.sleep(2)
    return pa.table({"image_id": [task.unit.name]})


def all_gpus_boot_together(cluster: Cluster, folder: str) -> dict[str, Any]:
    """Return a pool of three GPUs on a cluster without any."""
    with joined(cluster):
        running = Running(Path(folder), resources(), units=48)
        running.start()
        return running.result() | {"nodes": len(running.nodes()), "rounds": _launches(cluster, "gpu")}


def mine_grows(cluster: Cluster, folder: str) -> dict[str, Any]:
    """Return a pool of one to three actors with a CPU each, on machines of one CPU."""
    with joined(cluster):
        limits = Resources(autoscaling=True, wait_s=300)
        limits.mine = StageResources(actors=1, max_actors=3, num_cpus=1, max_in_flight=1)
        ray_session.start(RayConfig(), limits)
        units = [Unit(f"f{number:02}", ()) for number in range(FILES)]
        run = open_run(
            TablePlan(folder, "images", {"test": "mine"}, units, {}, {}, derived=True),
            resume=True,
            overwrite=False,
            retry=[],
        )
        stage = stages.Stage("mine", Miner, {})
        stages.process(run, name="test", stage=stage, resources=limits, total=None, counted="rows")
        return {"complete": run.finish()["complete"], "rounds": _launches(cluster, "cpu")}


def machines_of_the_plan(cluster: Cluster, folder: str) -> dict[str, Any]:
    """Return a run that is planned on two CPUs, on machines of one CPU, and the limit that Ray Data had."""
    with joined(cluster):
        limits = Resources(autoscaling=True, wait_s=300, read=TaskResources(0.5), write=TaskResources(0.5))
        limits.mine = StageResources(actors=1, max_actors=2, num_cpus=0.5, max_in_flight=1, batch_size=1)
        ray_session.start(RayConfig(), limits, (), Spending(cluster_of([limits.mine], limits, None), None))
        units = [Unit(f"f{number:02}", (), rows=1) for number in range(UNITS)]
        plan = TablePlan(folder, "images", {"test": "planned"}, units, {}, {}, derived=True)
        run = open_run(plan, resume=True, overwrite=False, retry=[])
        read = stages.Read(read_slowly, item="image_id", output_item="image_id")
        stages.stream(run, name="test", read=read, stages=[stages.Stage("mine", Copy, {})], resources=limits)
        limit = DataContext.get_current().execution_options.resource_limits
        return {"complete": run.finish()["complete"], "launched": sum(_launches(cluster, "cpu")), "CPUs": limit.cpu}


def a_demand_larger_than_any_kind(cluster: Cluster, folder: str) -> dict[str, Any]:
    """Return two GPUs per actor, where machines with one can be started."""
    with joined(cluster):
        limits = resources(gpus=2)
        limits.node_types = [NodeType(num_cpus=1, num_gpus=1)]
        try:
            ray_session.start(RayConfig(), limits, [Demand("judge", 1, 0.5, 2)])
        except InputError as error:
            return {"refusal": str(error)}
        return {"refusal": ""}


def _launches(cluster: Cluster, kind: str) -> list[int]:
    """Return the number of nodes of `kind` that the autoscaler requested, for each round in which it did."""
    head: Any = cluster.head_node
    logs = Path(head.get_logs_dir_path())
    text = "".join(path.read_text("utf-8", "replace") for path in sorted(logs.glob("monitor*.log")))
    return [int(count) for count in re.findall(rf"Launching (\d+) nodes, type {kind}\.", text)]
