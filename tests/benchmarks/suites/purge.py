"""Removing 1,000 pictures from a run of a million rows: records, images, vectors and ratings.

The pictures are drawn over the whole run, so that every unit is rewritten: the worst case. In `one unit` they are
neighbours.
"""

import hashlib
import shutil
import tempfile
import time
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

PICTURES: dict[Size, int] = {"smoke": 2_000, "default": 250_000, "full": 1_000_000}  # four rows each
UNIT, DIM, BYTES = 10_000, 64, 1_000
LISTED = 1_000  # a tenth of the pictures of the smoke test
TABLES = ("records", "images", "embeddings", "ratings")


def prepare(workdir: Path, size: Size) -> None:
    """Write the tables of a run and the two lists."""
    import numpy as np

    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import Unit
    from jobs.store.writer import UnitWriter
    from jobs.tables import table

    pictures = PICTURES[size]
    firsts = range(0, pictures, UNIT)
    for name in TABLES:
        dim = DIM if name == "embeddings" else None
        units = [Unit(f"{first:09}", (), rows=min(UNIT, pictures - first)) for first in firsts]
        plan = TablePlan(f"{workdir}/R/{name}", name, {"by": "benchmark"}, units, {}, {}, derived=True, dim=dim)
        run = open_run(plan, resume=True, overwrite=False, retry=[])
        for task, first in zip(run.todo, firsts, strict=True):
            numbers = range(first, min(first + UNIT, pictures))
            with UnitWriter(run.target, task) as writer:
                writer.counts.rows_in = len(numbers)
                writer.write(_rows(name, numbers, table(name, dim=dim).schema()))
        run.finish()
    drawn = np.random.default_rng(1).choice(pictures, min(LISTED, pictures // 10), replace=False).tolist()
    _write_list(workdir / "spread.txt", drawn)
    _write_list(workdir / "near.txt", range(len(drawn)))


def _rows(name: str, numbers: Sequence[int], schema: Any) -> Any:
    import numpy as np
    import pyarrow as pa

    from actors.ids import content_id

    urls = [f"https://pictures.example/{number}.jpg" for number in numbers]
    ids = [content_id(url) for url in urls]
    draw = np.random.default_rng(numbers[0])
    by_table: dict[str, dict[str, list[Any]]] = {
        "records": {"record_id": ids, "image_id": ids, "image_url": urls,
                    "page_title": [f"Title of {number}" for number in numbers]},
        "images": {"image_id": ids, "source_url": urls, "status": ["ok"] * len(ids), "rendition": ["w300"] * len(ids),
                   "bytes": [draw.bytes(BYTES) for _ in ids]},
        "embeddings": {"item_id": ids, "kind": ["image"] * len(ids), "status": ["ok"] * len(ids),
                       "embedding": list(draw.normal(size=(len(ids), DIM)).astype(np.float16))},
        "ratings": {"item_id": ids, "rater": ["m"] * len(ids), "value": ["1"] * len(ids), "status": ["ok"] * len(ids)}
        | {key: ["x"] * len(ids) for key in ("target", "rubric", "question", "condition", "method", "order")}
        | {"sample": [0] * len(ids)},
    }  # fmt: skip
    columns = by_table[name]
    missing = {field.name: pa.nulls(len(ids), field.type) for field in schema if field.name not in columns}
    arguments = {key: pa.array(values, schema.field(key).type) for key, values in columns.items()}
    return pa.table({field.name: (arguments | missing)[field.name] for field in schema}, schema=schema)


def _write_list(path: Path, numbers: Sequence[int]) -> None:
    from actors.ids import content_id

    path.write_text("".join(f"{content_id(f'https://pictures.example/{number}.jpg')}\n" for number in numbers))


def spread(workdir: Path, size: Size) -> Result:
    """Purge pictures of all units, then verify that nothing is left."""
    return _purge(workdir, "spread.txt")


def near(workdir: Path, size: Size) -> Result:
    """Purge pictures of one unit."""
    return _purge(workdir, "near.txt")


def _purge(workdir: Path, listed: str) -> Result:
    from jobs.runtime.command_line import cli

    with tempfile.TemporaryDirectory(dir=workdir.parent) as folder:
        shutil.copytree(workdir / "R", f"{folder}/R")
        keys = [f"input={folder}/R", f"exclusions={workdir}/{listed}"]
        seconds = {}
        begun = time.process_time()
        for job in ("purge", "verify"):
            started = time.perf_counter()
            if code := cli.main(job, keys):
                raise RuntimeError(f"{job} ended with {code}")
            seconds[f"seconds of {job}"] = time.perf_counter() - started
        rows, digest = _left(Path(folder) / "R")
    result = Result(rows=rows, digest=digest, wall_s=seconds["seconds of purge"], cpu_s=time.process_time() - begun)
    result.apart.update(seconds)
    return result


def filtered(workdir: Path, size: Size) -> Result:
    """The rows that stay, by a filter of pyarrow over the same tables."""
    gone = set((workdir / "spread.txt").read_text().split())
    rows, digest = _left(workdir / "R", without=gone)
    return Result(rows=rows, digest=digest)


def _left(root: Path, *, without: Set[str] = frozenset()) -> tuple[int, str]:
    """Return the number of ids that the tables have, and a digest of them in order."""
    import pyarrow.parquet as pq

    rows, digest = 0, hashlib.sha256()
    for name in TABLES:
        key = "item_id" if name in ("embeddings", "ratings") else "image_id"
        for file in sorted((root / name).glob("*.parquet")):
            ids = [name for name in pq.read_table(file, columns=[key])[key].to_pylist() if name not in without]
            rows += len(ids)
            digest.update("".join(ids).encode())
    return rows, digest.hexdigest()


BENCHMARK = Benchmark(
    name="purge",
    about=__doc__,
    bound="rewriting every unit",
    prepare=prepare,
    contenders=(
        Contender(name="filter", function=f"{__name__}:filtered", about="ids without the listed ones, nothing written"),
        Contender(name="remine", function=f"{__name__}:spread", about="jobs.purge and jobs.verify, ids of all units"),
        Contender(name="one unit", function=f"{__name__}:near", compared=False, about="the same, ids of one unit"),
    ),
    reference="filter",
    targets=(Target(metric="cpu_s", contender="remine", at_most=120),),
    repeats={"smoke": 1, "default": 1, "full": 1},
    packages=("pyarrow",),
)
