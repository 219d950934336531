"""What the driver holds of a table does not grow with its shards but by the little that names each of them."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.store.locations import Object
from jobs.store.reading import open_table
from jobs.store.run import Plan, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES

OPEN_AND_CLOSE = """
import json, sys
from jobs.store.reading import open_table
source = open_table(sys.argv[1])
rows = sum(batch.num_rows for batch in source.batches()), source.counts().rows_out
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([*rows, peak]))
"""


def sharded(out: Path, shards: int) -> Path:
    """A table `neighbors` of so many units of two rows, as a scan leaves it."""
    units = [
        Unit(f"{n:032x}", (Object(f"/corpus/part-{n:05}.npy", 10**8, f"{n:032x}"),), rows=100) for n in range(shards)
    ]
    run = open_run(
        Plan(str(out), "neighbors", {"by": "hand"}, units, {}, {}, False), resume=True, overwrite=False, retry=[]
    )
    schema = TABLES["neighbors"].schema()
    rows = [{"query_id": name, "rank": 1, "item_id": "i", "score": 0.5} for name in ("q0", "q1")]
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 2
            writer.counts.tallies["corpus rows"] = {"searched": 100}
            writer.write(pa.Table.from_pylist(rows, schema=schema))
    run.finish()
    return out


def test_footers_of_one_table_share_their_schema(tmp_path: Path) -> None:
    source = open_table(str(sharded(tmp_path / "t", 100)))
    assert len({id(footer.schema) for footer in source.footers}) <= 64 + 1  # those read in the first batch
    assert all(len(footer.written or b"") < 1500 for footer in source.footers)
    assert source.footers[3].record == json.loads(source.footers[3].written or b"")


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_memory_from_10_to_10000_shards(tmp_path: Path) -> None:
    peaks = {}
    for shards in (10, 1000, 10_000):
        table = sharded(tmp_path / str(shards), shards)
        done = subprocess.run(
            [sys.executable, "-c", OPEN_AND_CLOSE, str(table)], capture_output=True, text=True, check=True
        )
        first, second, peaks[shards] = json.loads(done.stdout)
        assert first == second == 2 * shards
    print(f"peak of opening, reading and counting, kB by shards: {peaks}")
    assert peaks[10_000] - peaks[10] < 10_000 * 3.5  # kB: under 3.5 kB a shard
