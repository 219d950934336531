"""The driver's memory for a table grows by only a few dozen bytes per shard."""

import json
import pickle
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.store.files.objects import CompactList, Object
from jobs.store.reading import open_table
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES

READ = """
from jobs.store.reading import open_table
source = open_table(sys.argv[1])
rows = sum(batch.num_rows for batch in source.batches()), source.counts().rows_out
"""
RESUME_AND_FINISH = """
from tests.jobs.store.test_memory import opened
run = opened(sys.argv[1], int(sys.argv[2]))
rows = len(run.todo) + 2 * run.done_before, run.finish()["counts"]["rows_out"]
"""
PEAK = """
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([*rows, peak]))
"""
STEPS = """
import json, sys
from tests.jobs.store.test_memory import peaks_of_steps
print(json.dumps(peaks_of_steps(sys.argv[1], int(sys.argv[2]))))
"""
SHARDS = (10, 1000, 10_000)


def opened(out: str, shards: int) -> TableRun:
    """Return the run of a table `neighbors` of so many units, as a scan of a corpus opens it."""
    units = CompactList(
        Unit(f"{n:032x}", (Object(f"/corpus/part-{n:05}.npy", 10**8, f"{n:032x}"),), rows=100) for n in range(shards)
    )
    return open_run(
        TablePlan(out, "neighbors", {"by": "hand"}, units, {}, {}, False), resume=True, overwrite=False, retry=[]
    )


def sharded(out: Path, shards: int) -> Path:
    """Write a table of two rows per unit."""
    run = opened(str(out), shards)
    schema = TABLES["neighbors"].schema()
    rows = [{"query_id": name, "rank": 1, "item_id": "i", "score": 0.5} for name in ("q0", "q1")]
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 2
            writer.counts.tallies["corpus rows"] = {"searched": 100}
            writer.write(pa.Table.from_pylist(rows, schema=schema))
    run.finish()
    return out


def test_footers_are_held_small_and_share_their_schema(tmp_path: Path) -> None:
    sizes = {
        shards: len(pickle.dumps(open_table(str(sharded(tmp_path / str(shards), shards))))) for shards in (64, 256)
    }
    assert sizes[256] - sizes[64] < 192 * 100  # bytes; as Python objects over a kilobyte each
    source = open_table(str(tmp_path / "256"))
    assert len(source.footers.schemas) == 1
    assert source.footers[3].record == json.loads(source.footers[3].written or b"")
    assert [f.unit.name for f in source.footers] == [f"{n:032x}" for n in range(256)]


def peak_of(step: Callable[[], object]) -> int:
    """Return the peak of Python's memory while `step` runs, in bytes."""
    tracemalloc.start()
    step()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def peaks_of_steps(out: str, shards: int) -> dict[str, int]:
    """Return the peak of opening, resuming and finishing the table of `sharded`, in bytes."""
    steps: dict[str, Callable[[], object]] = {
        "open": lambda: open_table(out),
        "resume": lambda: opened(out, shards),
        "finish": lambda: opened(out, shards).finish(),
    }
    return {name: min(peak_of(step) for _ in range(3)) for name, step in steps.items()}


@pytest.mark.long
def test_what_passes_is_not_held(tmp_path: Path) -> None:
    """Opening, resuming and finishing, in what Python itself takes at most; in a process without other threads."""
    peaks = {}
    for shards in (100, 400):
        out = str(sharded(tmp_path / str(shards), shards))
        done = subprocess.run(
            [sys.executable, "-c", STEPS, out, str(shards)], capture_output=True, text=True, check=True
        )
        peaks[shards] = json.loads(done.stdout)
    grown = {name: (peaks[400][name] - peaks[100][name]) / 300 for name in peaks[100]}
    print(f"bytes a shard: {grown}")
    # Of a manifest, as of any file, up to a megabyte passes at a time: 0.3 kB a shard as long as there are so few.
    assert max(grown["open"], grown["resume"], grown["finish"] - 300) < 250


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("tables")
    return {shards: sharded(folder / str(shards), shards) for shards in SHARDS}


@pytest.mark.torture
@pytest.mark.timeout(900)
@pytest.mark.parametrize("step", [READ, RESUME_AND_FINISH], ids=["read", "resume and finish"])
def test_memory_from_10_to_10000_shards(tables: dict[int, Path], step: str) -> None:
    peaks = {}
    for shards, table in tables.items():
        script = f"import json, sys\n{step}{PEAK}"
        done = subprocess.run(
            [sys.executable, "-c", script, str(table), str(shards)], capture_output=True, text=True, check=True
        )
        first, second, peaks[shards] = json.loads(done.stdout)
        assert first == second == 2 * shards
    print(f"peak, kB by shards: {peaks}")
    # Half of what it grows by are the heaps of two threads, which a few hundred shards fill as well.
    assert peaks[10_000] - peaks[10] < 10_000 * 0.7  # kB; 0.56 to 0.61 kB a shard were measured
