"""Cost of a unit on a simulated cluster: units per second and the driver's memory, by units, actors and nodes.

Nodes are Ray nodes on this machine with simulated GPUs; actors sleep for the time that a model would work. All
processes share this machine's cores, so that the rate of many actors is that of the cores, not of a cluster. Nodes of
`lean` shapes lack the agents that Ray starts on each (dashboard, metrics, environments of jobs: 125 MB and 3.5 s of
CPU), and have no CPUs, so that units are read and written on the head and a node has no process but its actors.
"""

import contextlib
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
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
MOST_UNITS: dict[Size, int] = {"smoke": 10, "default": 8_000, "full": 150_000}
MEMORY = 80 << 20  # bytes of a node's object store, the least that Ray accepts
ACTOR_BYTES, FREE_BYTES = 180 << 20, 4 << 30  # of an actor's process with its node; left to others
POLL_S = 0.2
PORTS = {  # of the agents of a node, which write them to files; -1: there is none
    "dashboard_agent": {"metrics_agent_port": -1, "metrics_export_port": -1, "dashboard_agent_listen_port": -1},
    "runtime_env_agent": {"runtime_env_agent_port": 1},
}
PATIENT = {  # Ray's settings for many processes on two cores
    "worker_register_timeout_seconds": 1800,  # they need minutes to start; by default Ray ends them after one
    "enable_worker_prestart": False,
    "prestart_worker_first_driver": False,
    "health_check_timeout_ms": 120_000,
    "health_check_failure_threshold": 20,
    "worker_niceness": 0,  # instead of 15, with which the nodes' own processes go first
    # What 64 nodes and as many actors do whether or not there is work, 1.1 cores by default
    "memory_monitor_refresh_ms": 0,
    "raylet_report_resources_period_milliseconds": 2000,
    "metrics_report_interval_ms": 120_000,
    "task_events_report_interval_ms": 0,
    "event_stats": False,
}
STAND_IN = """
import os, sys, time
for argument in sys.argv[2:]:
    name, port = argument.split("=")
    path = f"{sys.argv[1]}/{name}_{os.environ['RAY_NODE_ID']}"
    with open(path + ".new", "w") as file:
        file.write(port)
    os.rename(path + ".new", path)
while os.getppid() != 1:
    time.sleep(5)
"""


@dataclass(frozen=True)
class Shape:
    """A run: its units, actors and nodes, and the seconds that an actor sleeps per unit."""

    units: int
    actors: int
    nodes: int = 1
    model_s: float = 0.0
    on_s3: bool = False  # its table, whose requests of the driver are counted
    lean: bool = False  # nodes without agents and CPUs

    @property
    def name(self) -> str:
        """The name of the contender."""
        slept = f"_{self.model_s * 1000:.0f}ms" if self.model_s else ""
        extras = f"{'_s3' if self.on_s3 else ''}{'_lean' if self.lean else ''}"
        return f"units_{self.units}_actors_{self.actors}_nodes_{self.nodes}{slept}{extras}"


SHAPES = (
    Shape(10, 2),
    Shape(100, 2),
    Shape(1_000, 2),
    Shape(8_000, 2),  # 11.5 M pictures (jobs.store.pieces)
    Shape(45_000, 2),  # the same in units of 256
    Shape(150_000, 2),
    Shape(1_000, 4, 2),
    Shape(1_000, 16, 4),
    Shape(400, 2, on_s3=True),
    Shape(2_000, 2, on_s3=True),
    Shape(100, 2, model_s=1.0),
    Shape(400, 8, 4, model_s=1.0),
    Shape(1_344, 64, 16, model_s=20.0, lean=True),
)


class Sleeper:
    """Returns rows of `images` after a sleep, as soon as all actors have started.

    Args:
        started: a folder, in which each actor makes a file.
        actors: how many there will be.
    """

    def __init__(self, *, seconds: float, started: str, actors: int) -> None:
        import pyarrow as pa

        from actors import schemas

        self.INPUTS, self.OUTPUTS = pa.schema({"image_id": pa.string()}), schemas.IMAGES
        self._seconds, self._started, self._actors = seconds, Path(started), actors
        (self._started / str(os.getpid())).touch()

    def __call__(self, batch: "pa.Table") -> "pa.Table":
        import pyarrow as pa

        while self._actors:
            if len(list(self._started.iterdir())) >= self._actors:
                self._actors = 0
            else:
                time.sleep(POLL_S)
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
    """Run `shape`; the time is that from the first units, two per actor, to the last."""
    if shape.units > MOST_UNITS[size]:
        raise SkippedError(f"{shape.units:,} units are for a larger size")
    import psutil

    if (needed := shape.actors * ACTOR_BYTES + FREE_BYTES) > (free := psutil.virtual_memory().available):
        raise SkippedError(f"{shape.actors} actors need {needed / 1e9:.0f} GB of memory, {free / 1e9:.0f} are free")
    from jobs.runtime import stages
    from jobs.runtime.configuration.resources import Resources, StageResources, TaskResources
    from jobs.store.runs.table_run import open_run, survey
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import Unit

    pool = StageResources(actors=shape.actors, num_cpus=0.0 if shape.lean else 0.01, num_gpus=1, batch_size=ROWS)
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
        started = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        kwargs = {"seconds": shape.model_s, "started": str(started), "actors": shape.actors}
        chain = [stages.Stage("judge", Sleeper, kwargs)]
        look = _Look(started, shape.actors)
        cpu = time.process_time()
        stages.stream(run, name="scale", read=read_rows, stages=chain, resources=limits)
        cpu = time.process_time() - cpu - look.cpu_s
        before, finishing = dict(front.requests) if front else {}, time.process_time()
        run.finish()
        finishing = time.process_time() - finishing
        if front:
            total = dict(front.requests)
            print(f"{shape.name}: requests until the last unit {before}, with the end {total}; "
                  f"CPU s of the end {finishing:.2f}", file=sys.stderr)  # fmt: skip
        ended = sorted(end for end, _ in survey(plan).ended())
    first = min(2 * shape.actors - 1, shape.units - 2)  # the last of the second unit of each actor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    counted = shape.units - 1 - first
    seconds = ended[-1] - ended[first]
    result = Result(rows=counted, digest="", wall_s=seconds, cpu_s=cpu, peak_mb=peak)
    result.apart["driver's CPU ms per unit"] = 1000 * cpu / shape.units
    result.apart["s until all actors had started"] = look.started_s
    result.apart["GB of all processes then"] = look.memory_gb
    if shape.model_s:
        # Each actor works on whole units: the time of the last ones is that of the fullest actor.
        result.apart["share of the time in which actors worked"] = counted * shape.model_s / shape.actors / seconds
    return result


class _Look:
    """Record, in a thread, when all actors had started, and the memory of all processes at that time."""

    def __init__(self, started: Path, actors: int) -> None:
        self.started_s = self.memory_gb = math.nan
        self.cpu_s = 0.0  # that the look itself took
        self._started, self._actors, self._begun = started, actors, time.perf_counter()
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        import psutil

        while len(list(self._started.iterdir())) < self._actors:
            time.sleep(POLL_S)
        self.started_s = time.perf_counter() - self._begun
        memory = 0
        for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                memory += process.memory_full_info().pss
        self.memory_gb = memory / 1e9
        self.cpu_s = time.thread_time()


@contextlib.contextmanager
def _bucket(folder: Path) -> Iterator[str]:
    """Start a server on this machine with a bucket, and set it in the environment of this process and its children."""
    from jobs.testbed.loopback_s3 import LoopbackS3

    with LoopbackS3(folder / "s3") as server:
        os.environ.update(server.environment())
        server.create_bucket("scale")
        yield "s3://scale"


@contextlib.contextmanager
def _cluster(shape: Shape, limits: Any) -> Iterator[None]:
    import ray
    from ray.cluster_utils import Cluster

    from jobs.runtime.cluster import ray_session
    from jobs.runtime.configuration.resources import RayConfig

    os.environ.setdefault("RAY_num_workers_soft_limit", "8")  # more than CPUs, as in cluster.yaml
    head: dict[str, Any] = {"num_cpus": 2, "object_store_memory": 200 << 20, "include_dashboard": False}
    if shape.lean:
        head["_system_config"] = PATIENT
    cluster = Cluster(initialize_head=True, head_node_args=head)
    node: dict[str, Any] = {
        "num_cpus": 0 if shape.lean else 1,
        "num_gpus": shape.actors // shape.nodes,
        "object_store_memory": MEMORY,
    }
    try:
        with _without_agents() if shape.lean else contextlib.nullcontext():
            for _ in range(shape.nodes):
                cluster.add_node(**node)
        ray.init(address=cluster.address, log_to_driver=False)
        ray_session.start(RayConfig(), limits)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


@contextlib.contextmanager
def _without_agents() -> Iterator[None]:
    """Within the context, nodes start with small processes that only write the ports that Ray waits for."""
    from ray._private import services

    start = services.start_ray_process

    def command_of(name: str, folder: str) -> str:
        ports = [f"{port}={number}" for port, number in PORTS[name].items()]
        return subprocess.list2cmdline([sys.executable, "-S", "-I", stand_in.name, folder, *ports])

    def leaner(command: list[str], process_type: str, *args: Any, **kwargs: Any) -> Any:
        folder = next((text.partition("=")[2] for text in command if text.startswith("--session_dir=")), "")
        for name in PORTS if process_type == "raylet" else ():
            option = f"--{name}_command="
            command = [option + command_of(name, folder) if text.startswith(option) else text for text in command]
        return start(command, process_type, *args, **kwargs)

    with tempfile.NamedTemporaryFile("w", suffix=".py") as stand_in:
        stand_in.write(STAND_IN)
        stand_in.flush()
        services.start_ray_process = leaner
        try:
            yield
        finally:
            services.start_ray_process = start


def _contender(shape: Shape) -> Contender:
    globals()[shape.name] = lambda workdir, size: measured(shape, size)
    about = f"{shape.units:,} units, {shape.actors} actors on {shape.nodes} nodes"
    about += " without agents" if shape.lean else ""
    about += f", {shape.model_s:g} s of work per unit" if shape.model_s else ", no work"
    return Contender(name=shape.name, function=f"{__name__}:{shape.name}", compared=False, about=about)


BENCHMARK = Benchmark(
    name="scale",
    about=__doc__.splitlines()[0],
    bound="the driver and Ray's processes, which share the cores; actors sleep for the time of a model",
    prepare=prepare,
    contenders=tuple(map(_contender, SHAPES)),
    reference=SHAPES[0].name,
    repeats={"smoke": 1, "default": 1, "full": 1},
    packages=("ray", "pyarrow"),
)
