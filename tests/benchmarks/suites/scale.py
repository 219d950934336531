"""What a unit costs on a simulated cluster: units per second and the driver's memory, by units, actors and nodes.

Nodes are Ray nodes on this machine whose GPUs are numbers; actors sleep for the time that a model would work. All
processes share this machine's cores, so that the rate of many actors is that of the cores, not of a cluster.
"""

import contextlib
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.harness import Benchmark, Contender, Size
from tests.forwarding import counted_s3

if TYPE_CHECKING:
    import pyarrow as pa

    from jobs.store.writer import UnitTask

ROWS = 8  # of a unit
MOST_UNITS: dict[Size, int] = {"smoke": 10, "default": 10_000, "full": 150_000}
MEMORY = 80 << 20  # bytes of a node's object store, the least that Ray accepts


@dataclass(frozen=True)
class Shape:
    """A run: its units, actors and nodes, and the seconds that an actor sleeps per unit."""

    units: int
    actors: int
    nodes: int = 1
    model_s: float = 0.0
    on_s3: bool = False  # its table, whose requests of the driver are counted

    @property
    def name(self) -> str:
        """The name of the contender."""
        slept = f"_{self.model_s * 1000:.0f}ms" if self.model_s else ""
        return f"units_{self.units}_actors_{self.actors}_nodes_{self.nodes}{slept}{'_s3' if self.on_s3 else ''}"


SHAPES = (
    Shape(10, 2),
    Shape(100, 2),
    Shape(1_000, 2),
    Shape(10_000, 2),
    Shape(150_000, 2),
    Shape(1_000, 4, 2),
    Shape(1_000, 16, 4),
    Shape(400, 2, on_s3=True),
    Shape(2_000, 2, on_s3=True),
    Shape(100, 2, model_s=1.0),
    Shape(400, 8, 4, model_s=1.0),
)


class Sleeper:
    """Returns rows of `images` after a sleep."""

    def __init__(self, *, seconds: float) -> None:
        import pyarrow as pa

        from actors import schemas

        self.INPUTS, self.OUTPUTS = pa.schema({"image_id": pa.string()}), schemas.IMAGES
        self._seconds = seconds

    def __call__(self, batch: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        time.sleep(self._seconds)
        rows = [
            {"image_id": one, "rendition": "w", "attempts": 1, "status": "ok"} for one in batch["image_id"].to_pylist()
        ]
        return pa.Table.from_pylist(rows, schema=self.OUTPUTS)


def read(task: "UnitTask") -> "pa.Table":
    """Return the rows of a unit."""
    import pyarrow as pa

    return pa.table({"image_id": [f"{task.unit.name}-{row}" for row in range(task.unit.rows or 0)]})


def prepare(workdir: Path, size: Size) -> None:
    """Nothing: the rows are made by the readers."""


def measured(shape: Shape, size: Size) -> Result:
    """Run `shape`; the time is that from the first units, two per actor, to the last: actors have started by then."""
    if shape.units > MOST_UNITS[size]:
        raise SkippedError(f"{shape.units:,} units are for a larger size")
    from jobs.runtime import stages
    from jobs.runtime.resources import Resources, StageResources, TaskResources
    from jobs.store.run import TablePlan, open_run, survey
    from jobs.store.units import Unit

    pool = StageResources(actors=shape.actors, num_cpus=0.01, num_gpus=1, batch_size=ROWS)
    tasks = TaskResources(0.5)
    limits = Resources(judge=pool, read=tasks, write=tasks, wait_s=600)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        out = stack.enter_context(_bucket(Path(folder))) if shape.on_s3 else folder
        stack.enter_context(_cluster(shape, limits))
        front = stack.enter_context(counted_s3()) if shape.on_s3 else None  # of this process only
        units = [Unit(f"u{number:06}", (), rows=ROWS) for number in range(shape.units)]
        plan = TablePlan(f"{out}/table", "images", {"by": "scale"}, units, {}, {}, derived=True)
        run = open_run(plan, resume=True, overwrite=False, retry=[])
        read_rows: Any = stages.Read(read, item="image_id", output_item="image_id")
        chain = [stages.Stage("judge", Sleeper, {"seconds": shape.model_s})]
        cpu = time.process_time()
        stages.stream(run, name="scale", read=read_rows, stages=chain, resources=limits)
        cpu = time.process_time() - cpu
        before, finishing = dict(front.requests) if front else {}, time.process_time()
        run.finish()
        finishing = time.process_time() - finishing
        if front:
            total = dict(front.requests)
            print(f"{shape.name}: requests until the last unit {before}, with the end {total}; "
                  f"CPU s of the end {finishing:.2f}", file=sys.stderr)  # fmt: skip
        ended = sorted(end for end, _ in survey(plan).ended())
    first = min(2 * shape.actors, shape.units - 2)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    counted = shape.units - 1 - first
    return Result(rows=counted, digest="", wall_s=ended[-1] - ended[first], cpu_s=cpu, peak_mb=peak)


@contextlib.contextmanager
def _bucket(folder: Path) -> Iterator[str]:
    """A bucket of a server on this machine, in the environment of this process and of those that it starts."""
    from jobs.testbed.loopback_s3 import LoopbackS3

    with LoopbackS3(folder / "s3") as server:
        os.environ.update(server.environment())
        server.create_bucket("scale")
        yield "s3://scale"


@contextlib.contextmanager
def _cluster(shape: Shape, limits: Any) -> Iterator[None]:
    import ray
    from ray.cluster_utils import Cluster

    from jobs.runtime import ray_session
    from jobs.runtime.config import RayConfig

    head = {"num_cpus": 2, "object_store_memory": 200 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(shape.nodes):
            cluster.add_node(num_cpus=1, num_gpus=shape.actors // shape.nodes, object_store_memory=MEMORY)
        ray.init(address=cluster.address, log_to_driver=False)
        ray_session.start(RayConfig(), limits)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


def _contender(shape: Shape) -> Contender:
    globals()[shape.name] = lambda workdir, size: measured(shape, size)
    about = f"{shape.units:,} units, {shape.actors} actors on {shape.nodes} nodes"
    about += f", {shape.model_s:g} s of work per unit" if shape.model_s else ", no work"
    return Contender(name=shape.name, function=f"{__name__}:{shape.name}", compared=False, about=about)


BENCHMARK = Benchmark(
    name="scale",
    about=__doc__.splitlines()[0],
    prepare=prepare,
    contenders=tuple(map(_contender, SHAPES)),
    reference=SHAPES[0].name,
    repeats={"smoke": 1, "default": 1, "full": 1},
    packages=("ray", "pyarrow"),
)
