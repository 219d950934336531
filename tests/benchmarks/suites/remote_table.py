"""Time of the driver for a table of many units on S3: its end, its opening, and reading a column of all units.

The server is on this machine; each request of the driver waits 30 ms on the way, as in a region, in a thread of this
process that also counts them. The CPU seconds are those of doing the same once more without that.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.child import Result
from tests.benchmarks.clock import Clock
from tests.benchmarks.harness import Benchmark, Contender, Size
from tests.forwarding import counted_s3

if TYPE_CHECKING:
    from jobs.store.reading import TableSource
    from jobs.store.runs.table_run import TableRun

UNITS: dict[Size, int] = {"smoke": 8, "default": 512, "full": 4096}
ROWS, WRITERS, DELAY_S = 8, 8, 0.03
TABLE = "s3://remote/table"


def prepare(workdir: Path, size: Size) -> None:
    """Nothing: each contender writes the table."""


def finish(workdir: Path, size: Size) -> Result:
    """The end of the run, which reads the footers for the manifest."""
    return _measured(workdir, size, lambda run: run.finish())


def opening(workdir: Path, size: Size) -> Result:
    """Opening the complete table."""
    from jobs.store.reading import open_table

    return _measured(workdir, size, lambda _: open_table(TABLE), ended=True)


def column(workdir: Path, size: Size) -> Result:
    """Reading a column of all units, one after the other."""
    from jobs.store.reading import open_table

    table: list[TableSource] = []

    def read(_: "TableRun") -> None:
        rows = sum(batch.num_rows for batch in table[0].batches(["image_id"]))
        assert rows == UNITS[size] * ROWS

    return _measured(workdir, size, read, ended=True, before=lambda: table.append(open_table(TABLE)))


def _measured(
    workdir: Path,
    size: Size,
    work: "Callable[[TableRun], object]",
    *,
    ended: bool = False,
    before: Callable[[], None] = lambda: None,
) -> Result:
    """Call `work` on a run whose units are written, and which has ended if `ended`."""
    from jobs.testbed.loopback_s3 import LoopbackS3

    with LoopbackS3(workdir / f"s3-{time.time_ns()}") as server:
        os.environ.update(server.environment())
        server.create_bucket("remote")
        run = _written(UNITS[size])
        if ended:
            run.finish()
        before()
        clock, direct = Clock(), Clock()
        with counted_s3(delay_s=DELAY_S) as front, clock:
            work(run)
        with direct:
            work(run)
    asked = ", ".join(f"{n / UNITS[size]:.2f} {method}" for method, n in sorted(front.requests.items()))
    wall_ms, cpu_ms = (seconds / UNITS[size] * 1000 for seconds in (clock.wall_s, direct.cpu_s))
    print(
        f"{UNITS[size]} units; per unit: {wall_ms:.2f} ms, {cpu_ms:.2f} ms of CPU; requests: {asked}", file=sys.stderr
    )
    return Result(rows=UNITS[size], digest="", wall_s=clock.wall_s, cpu_s=direct.cpu_s)


def _written(units: int) -> "TableRun":
    """Return a run whose units are written."""
    from concurrent.futures import ThreadPoolExecutor

    import pyarrow as pa

    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import Unit
    from jobs.store.writer import UnitTask, UnitWriter

    listed = [Unit(f"u{number:06}", (), rows=ROWS) for number in range(units)]
    plan = TablePlan(TABLE, "node_images", {"by": "remote_table"}, listed, {}, {}, derived=True)
    run = open_run(plan, resume=True, overwrite=False, retry=[])

    def write(task: UnitTask) -> None:
        ids = [f"{task.unit.name}-{row}" for row in range(ROWS)]
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = ROWS
            writer.write(pa.table({"node_id": ids, "image_id": ids}))

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, run.todo))
    return run


BENCHMARK = Benchmark(
    name="remote_table",
    about=__doc__.splitlines()[0],
    bound="the delay of a request (30 ms) and, for CPU seconds, parsing footers",
    prepare=prepare,
    contenders=tuple(
        Contender(name=name, function=f"{__name__}:{name}", compared=False, about=about)
        for name, about in (
            ("finish", "the end of a run"),
            ("opening", "opening the table"),
            ("column", "a column of all units"),
        )
    ),
    reference="finish",
    repeats={"smoke": 1, "default": 1, "full": 1},
    packages=("pyarrow",),
)
