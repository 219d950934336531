"""Merge at the end of `retrieve` in the driver: from the 10 nearest of each unit of a corpus to the 10 nearest of all.

Queries are in units of 256, as `embed` writes them; the figures are those of the merge, of which the results are part.
"""

import hashlib
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.clock import Clock
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

if TYPE_CHECKING:
    from jobs.retrieval.queries import QueryUnit

K, UNIT = 10, 256
QUERIES_AT_ONCE = 50_000  # written at a time
MOST_ROWS: dict[Size, int] = {"smoke": 1_000_000, "default": 64_000_000, "full": 640_000_000}


@dataclass(frozen=True)
class Shape:
    """A search: its queries and the units of its corpus."""

    queries: int
    units: int

    @property
    def rows(self) -> int:
        """The rows that are merged."""
        return self.queries * self.units * K

    def __str__(self) -> str:
        return f"{self.queries}_queries_{self.units}_units"


COMPARED = Shape(10_000, 6)
SHAPES = (COMPARED, Shape(1_000_000, 6), Shape(100_000, 64), Shape(1_000_000, 64))


def prepare(workdir: Path, size: Size) -> None:
    """Write the neighbors of each unit of the corpora."""
    for shape in SHAPES:
        if shape.rows <= MOST_ROWS[size]:
            _write_neighbors(workdir / str(shape), shape)


def _write_neighbors(folder: Path, shape: Shape) -> None:
    from jobs.retrieval.queries import CORPUS_TALLY
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import Unit
    from jobs.store.writer import UnitWriter
    from jobs.tables import TABLES

    schema = TABLES["neighbors"].schema()
    units = [Unit(f"c{number:03}", ()) for number in range(shape.units)]
    run = open_run(
        TablePlan(str(folder), "neighbors", {"by": "merge"}, units, {}, {}, derived=False),
        resume=True,
        overwrite=False,
        retry=[],
    )
    for number, task in enumerate(run.todo):
        draw = np.random.default_rng(number)
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = shape.queries * K
            writer.counts.tallies[CORPUS_TALLY] = {"searched": 10 * K}
            for first in range(0, shape.queries, QUERIES_AT_ONCE):
                count = min(QUERIES_AT_ONCE, shape.queries - first)
                scores = -np.sort(-draw.random((count, K)), axis=1).reshape(-1)
                columns = {
                    "query_id": _ids(first, first + count).take(pa.array(np.repeat(np.arange(count), K))),
                    "rank": pa.array(np.tile(np.arange(1, K + 1, dtype=np.int32), count)),
                    "item_id": _hex_ids(draw.bytes(16 * count * K)),
                    "score": scores,
                    "probability": pa.nulls(count * K, pa.float64()),
                }
                writer.write(pa.table(columns, schema=schema))
    run.finish()


def _ids(first: int, last: int) -> pa.Array:
    return _hex_ids(b"".join(hashlib.md5(b"%d" % number).digest() for number in range(first, last)))


def _hex_ids(data: bytes) -> pa.Array:
    """Ids of 16 bytes each."""
    offsets = np.arange(0, 2 * len(data) + 1, 32, dtype=np.int32)
    return pa.StringArray.from_buffers(len(data) // 16, pa.py_buffer(offsets), pa.py_buffer(data.hex().encode()))


def _query_units(queries: int) -> Iterator["QueryUnit"]:
    from jobs.retrieval.queries import QueryUnit

    for first in range(0, queries, UNIT):
        yield QueryUnit(_ids(first, min(first + UNIT, queries)), Counter(), {})


def merged(workdir: Path, shape: Shape, size: Size) -> Result:
    """The project's merge."""
    _check(shape, size)
    from jobs.retrieval.corpus_search import merge
    from jobs.store.reading import open_table
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import Unit

    clock, units = Clock(), list(_query_units(shape.queries))
    with tempfile.TemporaryDirectory(dir=workdir) as folder:
        cut = [Unit(f"q{number:06}", (), rows=unit.rows) for number, unit in enumerate(units)]
        plan = TablePlan(f"{folder}/out", "neighbors", {"by": "merge"}, cut, {}, {}, derived=False)
        run = open_run(plan, resume=True, overwrite=False, retry=[])
        partial = open_table(str(workdir / str(shape)), "neighbors")
        with clock:
            merge(run, partial, units, k=K, calibration=None)
        rows = int(run.finish()["counts"]["rows_out"])
        digest = ""
        if shape == COMPARED:
            digest = _digest(pa.concat_tables(open_table(plan.out, "neighbors").batches(["query_id", "item_id"])))
    return Result(rows=rows, digest=digest, wall_s=clock.wall_s, cpu_s=clock.cpu_s)


def sorted_whole(workdir: Path, shape: Shape, size: Size) -> Result:
    """All rows in memory, sorted at once."""
    _check(shape, size)
    from jobs.store.reading import open_table

    clock = Clock()
    with clock:
        rows = pa.concat_tables(
            open_table(str(workdir / str(shape)), "neighbors").batches(["query_id", "item_id", "score"])
        )
        order = rows.sort_by([("query_id", "ascending"), ("score", "descending"), ("item_id", "ascending")])
        best = order.take(pa.array(np.flatnonzero(np.arange(len(order)) % (K * shape.units) < K)))
    ids = _ids(0, shape.queries)
    place = np.argsort(np.argsort(ids.to_numpy(zero_copy_only=False)))
    taken = (place[:, None] * K + np.arange(K)).reshape(-1)
    return Result(rows=len(best), digest=_digest(best.take(pa.array(taken))), wall_s=clock.wall_s, cpu_s=clock.cpu_s)


def _check(shape: Shape, size: Size) -> None:
    if shape.rows > MOST_ROWS[size]:
        raise SkippedError(f"{shape.rows:,} rows are for a larger size")


def _digest(rows: pa.Table) -> str:
    """Of the items in the order of the queries and their ranks."""
    digest = hashlib.sha256()
    for query, item in zip(rows["query_id"].to_pylist(), rows["item_id"].to_pylist(), strict=True):
        digest.update(f"{query} {item}\n".encode())
    return digest.hexdigest()


def _contender(function: Callable[[Path, Shape, Size], Result], verb: str, shape: Shape) -> Contender:
    name = f"{verb}_{shape}"
    globals()[name] = lambda workdir, size: function(workdir, shape, size)
    about = f"{shape.queries:,} queries, {shape.units} units of the corpus"
    return Contender(name=name, function=f"{__name__}:{name}", compared=shape == COMPARED, about=about)


BENCHMARK = Benchmark(
    name="retrieve_merge",
    about=__doc__,
    bound="reading the candidates of all units",
    prepare=prepare,
    contenders=(
        _contender(sorted_whole, "sort", COMPARED),
        *(_contender(merged, "merge", shape) for shape in SHAPES),
    ),
    reference=f"sort_{COMPARED}",
    targets=tuple(Target(metric="peak_mb", contender=f"merge_{shape}", at_most=2000) for shape in SHAPES[1:]),
    repeats={"smoke": 1, "default": 1, "full": 1},
    packages=("numpy", "pyarrow"),
)
