"""Find the entities of a Wikidata-like dump that are instances of a concept's classes, in gzip and in bzip2.

Seconds are those of the reading itself, after the imports, which take longer than the smaller dumps.
"""

import bz2
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.benchmarks import wikidata_like
from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.harness import Benchmark, Contender, Size, Target
from tests.benchmarks.suites.mine import decompressed

ENTITIES: dict[Size, int] = {"smoke": 300, "default": 3000, "full": 100_000}
READ_BYTES = 1 << 20


def prepare(workdir: Path, size: Size) -> None:
    """Write the dumps."""
    wikidata_like.write_dumps(workdir, entities=ENTITIES[size])


def timed(read: Callable[[], Iterable[str]]) -> Result:
    """The result of a function that returns ids, with its own seconds."""
    begun, cpu = time.perf_counter(), time.process_time()
    ids = sorted(read())
    spent = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - begun}
    return Result(rows=len(ids), digest=hashlib.sha256(" ".join(ids).encode()).hexdigest(), **spent)


def gzip_alone(workdir: Path, size: Size) -> Result:
    """Decompress the gzip file and look at nothing."""
    from isal import igzip  # noqa: F401 (imported before the clock starts)

    return timed(lambda: [decompressed(workdir / "dump.json.gz").digest])


def bzip2_alone(workdir: Path, size: Size) -> Result:
    """Decompress the bzip2 file and look at nothing."""

    def read() -> list[str]:
        with bz2.open(workdir / "dump.json.bz2") as file:
            while file.read(READ_BYTES):
                pass
        return []

    return timed(read)


def json_loop(workdir: Path, size: Size) -> Result:
    """python-isal, and the standard library's parser for each line."""
    return _loop(workdir, json.loads)


def orjson_loop(workdir: Path, size: Size) -> Result:
    """The same with orjson."""
    try:
        import orjson
    except ModuleNotFoundError as error:
        raise SkippedError("orjson is not installed: pip install remine[bench]") from error
    return _loop(workdir, orjson.loads)


def simdjson_loop(workdir: Path, size: Size) -> Result:
    """The same with simdjson, which builds Python objects only of what is used."""
    import simdjson

    return _loop(workdir, simdjson.Parser().parse)


def classes_gzip(workdir: Path, size: Size) -> Result:
    """The first pass of `terms`, as a worker makes it."""
    return _classes(workdir, "dump.json.gz")


def classes_bzip2(workdir: Path, size: Size) -> Result:
    """The same of the bzip2 file."""
    return _classes(workdir, "dump.json.bz2")


def entities_gzip(workdir: Path, size: Size) -> Result:
    """The second pass, as a worker makes it: every entity counted, names, dates and links written."""
    return _entities(workdir, "dump.json.gz")


def entities_bzip2(workdir: Path, size: Size) -> Result:
    """The same of the bzip2 file."""
    return _entities(workdir, "dump.json.bz2")


def _loop(workdir: Path, parse: Callable[[bytes], Any]) -> Result:
    """Return, with a plain loop, the items of which a class is below the concept's."""
    from isal import igzip

    below = set(_below(wikidata_like.CONCEPT_CLASS))

    def read() -> Iterator[str]:
        with igzip.open(workdir / "dump.json.gz", "rb") as file:
            for line in file:
                text = line.strip(b"[],\n") if len(line) < 4 else line.rstrip(b",\n")
                if not text:
                    continue
                entity = parse(text)
                claims, labels = entity["claims"], entity["labels"]
                numbers = [
                    statement["mainsnak"]["datavalue"]["value"]["numeric-id"]
                    for name in ("P31", "P279")
                    if name in claims
                    for statement in claims[name]
                    if statement["rank"] != "deprecated" and statement["mainsnak"]["snaktype"] == "value"
                ]
                named = any(code in labels for code in ("en", "mul", "en-gb")) or "enwiki" in entity["sitelinks"]
                if named and any(number in below for number in numbers):
                    yield entity["id"]
                del entity, claims, labels

    return timed(read)


def _classes(workdir: Path, name: str) -> Result:
    from jobs.workers.wikidata import ClassUnit

    worker = ClassUnit(graph=_graph(), titles=frozenset({"Concept"}), step=10**6)
    return _written(worker, workdir / name, "class_edges")


def _entities(workdir: Path, name: str) -> Result:
    from jobs.workers.wikidata import EntityUnit

    with tempfile.TemporaryDirectory() as folder:
        classes = Path(folder) / "classes.npz"
        classes.write_bytes(_tree().to_bytes())
        worker = EntityUnit(graph=_graph(), concepts=["concept"], classes=str(classes), step=10**6)
        return _written(worker, workdir / name, "entities")


def _written(worker: Any, path: Path, table: str) -> Result:
    """The entities that a worker writes of a whole file, after a check that it rejected nothing."""
    import pyarrow as pa

    from jobs.runtime.board import Reporter
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.writer import UnitWriter
    from jobs.tables import TABLES
    from jobs.terms_from import dump
    from jobs.terms_from.dump import TermsSource
    from tests.factories import rows_of

    units = dump.units(TermsSource("wikidata", str(path), unit_mb=1 << 20))
    with tempfile.TemporaryDirectory() as folder:
        plan = TablePlan(f"{folder}/out", table, {}, units, {}, {}, derived=False)
        run = open_run(plan, resume=True, overwrite=False, retry=[])

        with UnitWriter(run.target, run.todo[0]) as writer:  # imports what a first unit imports
            worker(replace(run.todo[0], unit=_first_lines(path, Path(folder))), writer, Reporter(None, "terms"))
            row = dict.fromkeys(TABLES[table].key, "x")
            writer.write(pa.Table.from_pylist([row], schema=TABLES[table].schema()))
            writer.counts.rows_in += 1

        def read() -> list[str]:
            for task in run.todo:
                with UnitWriter(run.target, task) as writer:
                    worker(task, writer, Reporter(None, "terms"))
                    if writer.counts.rejected:
                        raise ValueError(f"rejects in a clean dump: {writer.counts}")
            run.finish()
            return [row["entity_id"] for row in rows_of(f"{folder}/out") if row.get("links", True)]

        return timed(read)


def _first_lines(path: Path, folder: Path) -> Any:
    """Return a unit with the first entities of a dump."""
    import gzip

    from jobs.terms_from import dump
    from jobs.terms_from.dump import TermsSource

    with gzip.open(path) if path.suffix == ".gz" else bz2.open(path) as file:
        lines = [next(file) for _ in range(10)]
    (folder / "first.json").write_bytes(b"".join(lines))
    return dump.units(TermsSource("wikidata", str(folder / "first.json")))[0]


def _below(root: int) -> Iterator[int]:
    """Yield the classes below a class: n is a subclass of n // 2."""
    for number in range(root, wikidata_like.CLASSES + 1):
        above = number
        while above > root:
            above //= 2
        if above == root:
            yield number


def _tree() -> Any:
    import numpy as np

    from jobs.terms_from.class_tree import ClassTree

    number = np.arange(1, wikidata_like.CLASSES + 1)
    concept = np.isin(number, list(_below(wikidata_like.CONCEPT_CLASS)))[:, None]
    return ClassTree(number, concept, np.zeros(len(number), np.int8))


def _graph() -> dict[str, Any]:
    from jobs.runtime.configuration.config import load
    from jobs.terms_from.terms_config import TermSourcesConfig

    graph: dict[str, Any] = load("terms", TermSourcesConfig, ["out=x"]).graph
    return graph


def _contender(function: Callable[[Path, Size], Result], *, compared: bool = True) -> Contender:
    about = (function.__doc__ or "").splitlines()[0]
    return Contender(name=function.__name__, function=f"{__name__}:{function.__name__}", compared=compared, about=about)


BENCHMARK = Benchmark(
    name="terms",
    about=__doc__,
    bound="decompression for bzip2, parsing for gzip",
    prepare=prepare,
    contenders=(
        _contender(gzip_alone, compared=False),
        _contender(classes_gzip, compared=False),
        _contender(entities_gzip),
        _contender(simdjson_loop),
        _contender(orjson_loop),
        _contender(json_loop),
        _contender(bzip2_alone, compared=False),
        _contender(classes_bzip2, compared=False),
        _contender(entities_bzip2),
    ),
    reference="gzip_alone",
    input_version=2,
    targets=(
        Target(metric="cpu_s", contender="entities_bzip2", against="bzip2_alone", at_most=1.3),
        Target(metric="cpu_s", contender="orjson_loop", against="entities_gzip", at_least=1),
        Target(metric="cpu_s", contender="json_loop", against="entities_gzip", at_least=2),
        Target(metric="peak_mb", contender="entities_gzip", at_most=250),
    ),
    packages=("isal", "orjson", "pysimdjson", "pyarrow"),
)
