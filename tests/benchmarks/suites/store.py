"""Writing and reading a table of pictures, against plain pyarrow and Ray's `write_parquet`, on a local disk.

`remine` plans the table, spools, checks, counts, publishes and records each unit, and writes the manifest; `pyarrow`
writes the same rows to one file per unit with the same codecs. Reading is of all columns. Rows are made before the
clock starts, unit by unit.
"""

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.clock import Clock
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

PICTURES: dict[Size, int] = {"smoke": 2_000, "default": 100_000, "full": 400_000}
UNIT, BYTES = 1_000, 8_000
OUT = "images"


def prepare(workdir: Path, size: Size) -> None:
    """Write the table that is read."""
    _write_remine(str(workdir / OUT), size)


def _units(size: Size) -> Iterator[Any]:
    """Yield the rows of each unit: pictures that zstd cannot compress, as JPEG's bytes cannot be."""
    import numpy as np
    import pyarrow as pa

    from actors.ids import content_id
    from jobs.tables import table

    schema = table("images").schema()
    for first in range(0, PICTURES[size], UNIT):
        draw = np.random.default_rng(first)
        urls = [f"https://pictures.example/{number}.jpg" for number in range(first, first + UNIT)]
        columns: dict[str, list[Any]] = {
            "image_id": [content_id(url) for url in urls],
            "source_url": urls,
            "status": ["ok"] * UNIT,
            "rendition": ["w300"] * UNIT,
            "width": [300] * UNIT,
            "height": [200] * UNIT,
            "bytes": [draw.bytes(BYTES) for _ in urls],
        }
        missing = {field.name: pa.nulls(UNIT, field.type) for field in schema if field.name not in columns}
        values = {name: pa.array(column, schema.field(name).type) for name, column in columns.items()}
        yield pa.table({field.name: (values | missing)[field.name] for field in schema}, schema=schema)


def _write_remine(out: str, size: Size) -> Clock:
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import Unit
    from jobs.store.writer import UnitWriter

    clock = Clock()
    with clock:
        units = [Unit(f"{first:09}", (), rows=UNIT) for first in range(0, PICTURES[size], UNIT)]
        plan = TablePlan(out, "images", {"by": "benchmark"}, units, {}, {}, derived=True)
        run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task, rows in zip(run.todo, _units(size), strict=True):
        with clock, UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(rows)
            writer.write(rows)
    with clock:
        run.finish()
    return clock


def remine_write(workdir: Path, size: Size) -> Result:
    """The project's writer, from the plan to the manifest."""
    with tempfile.TemporaryDirectory(dir=workdir.parent) as out:
        clock = _write_remine(f"{out}/images", size)
        return _result(_rows_of(out), clock)


def pyarrow_write(workdir: Path, size: Size) -> Result:
    """`pyarrow.parquet.write_table`, a file per unit."""
    import pyarrow.parquet as pq

    from jobs.store.writer import compressions

    clock = Clock()
    with tempfile.TemporaryDirectory(dir=workdir.parent) as out:
        for number, rows in enumerate(_units(size)):
            codecs = compressions(rows.schema)
            with clock:
                pq.write_table(rows, f"{out}/{number:09}.parquet", compression=codecs, use_dictionary=["image_id"])
        return _result(_rows_of(out), clock)


def ray_write(workdir: Path, size: Size) -> Result:
    """`ray.data.from_arrow(unit).write_parquet`, all units of a hundred in one dataset, after the start of Ray."""
    if size == "smoke":
        raise SkippedError("starting Ray takes longer than this size")
    import ray
    import ray.data

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    clock = Clock()
    with tempfile.TemporaryDirectory(dir=workdir.parent) as out:
        held: list[Any] = []
        for number, rows in enumerate(_units(size), 1):
            held.append(rows)
            if len(held) == 100 or number * UNIT == PICTURES[size]:
                with clock:
                    ray.data.from_arrow(held).write_parquet(out, compression="zstd")
                held = []
        ray.shutdown()
        return _result(_rows_of(out), clock)


def remine_read(workdir: Path, size: Size) -> Result:
    """The project's reader: opening the table, then every column."""
    from jobs.store.reading import open_table

    clock = Clock()
    with clock:
        batches = list(_lengths(open_table(str(workdir / OUT), "images").batches()))
    return _read(batches, clock)


def pyarrow_read(workdir: Path, size: Size) -> Result:
    """`pyarrow.parquet.ParquetFile.read`, file after file."""
    import pyarrow.parquet as pq

    clock = Clock()
    with clock:
        batches = list(_lengths(pq.ParquetFile(path).read() for path in sorted((workdir / OUT).glob("*.parquet"))))
    return _read(batches, clock)


def _lengths(tables: Iterable[Any]) -> Iterator[tuple[int, int]]:
    for rows in tables:
        yield len(rows), rows.nbytes


def _read(batches: list[tuple[int, int]], clock: Clock) -> Result:
    rows = sum(count for count, _ in batches)
    return Result(rows=rows, digest="", wall_s=clock.wall_s, cpu_s=clock.cpu_s)


def _rows_of(out: str) -> Iterator[tuple[str, bytes]]:
    import pyarrow.parquet as pq

    for path in Path(out).rglob("*.parquet"):
        rows = pq.ParquetFile(path).read(["image_id", "bytes"])
        yield from zip(rows["image_id"].to_pylist(), rows["bytes"].to_pylist(), strict=True)


def _result(rows: Iterable[tuple[str, bytes]], clock: Clock) -> Result:
    lines = sorted(f"{name} {hashlib.md5(data).hexdigest()}" for name, data in rows)
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return Result(rows=len(lines), digest=digest, wall_s=clock.wall_s, cpu_s=clock.cpu_s)


BENCHMARK = Benchmark(
    name="store",
    about=__doc__,
    bound="copying, and for remine by pages with checksums, the copy from spool to table and fsync",
    prepare=prepare,
    contenders=(
        Contender(name="pyarrow", function=f"{__name__}:pyarrow_write", about="writes a file per unit"),
        Contender(name="remine", function=f"{__name__}:remine_write", about="writes, from the plan to the manifest"),
        Contender(name="ray", function=f"{__name__}:ray_write", about="write_parquet"),
        Contender(name="pyarrow_read", function=f"{__name__}:pyarrow_read", compared=False, about="reads"),
        Contender(name="remine_read", function=f"{__name__}:remine_read", compared=False, about="opens and reads"),
    ),
    reference="pyarrow",
    targets=(
        Target(metric="cpu_s", contender="remine", against="pyarrow", at_most=1.05),
        Target(metric="wall_s", contender="remine", against="pyarrow", at_most=1.05),
        Target(metric="cpu_s", contender="remine_read", against="pyarrow_read", at_most=1.05),
        Target(metric="wall_s", contender="remine", against="ray", at_most=1),
    ),
    packages=("pyarrow", "ray"),
)
