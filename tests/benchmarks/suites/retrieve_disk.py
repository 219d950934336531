"""A file of float16 vectors outside the page cache, searched for 4 queries: the rate next to that of reading it."""

import os
import time
from pathlib import Path

from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target
from tests.benchmarks.suites import retrieve

ROWS: dict[Size, int] = {"smoke": 20_000, "default": 1_000_000, "full": 5_000_000}
QUERIES, BUFFER = 4, 8 << 20


def prepare(workdir: Path, size: Size) -> None:
    """See `retrieve`."""
    retrieve.write_vectors(workdir, ROWS[size], queries=QUERIES)


def reading(workdir: Path, size: Size) -> Result:
    """Read the file and do nothing with it."""
    _forget(workdir / retrieve.CORPUS)
    buffer = bytearray(BUFFER)
    began = time.perf_counter()
    with (workdir / retrieve.CORPUS).open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return Result(rows=0, digest="", wall_s=time.perf_counter() - began)


def remine(workdir: Path, size: Size) -> Result:
    """The project's reader and search, as a worker of `retrieve` uses them."""
    _forget(workdir / retrieve.CORPUS)
    _, clock = retrieve.scanned(workdir)
    return Result(rows=0, digest="", wall_s=clock.wall_s, cpu_s=clock.cpu_s)


def _forget(path: Path) -> None:
    """Drop the file from the page cache; where the system does not do so, both contenders read from memory."""
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


BENCHMARK = Benchmark(
    name="retrieve-disk",
    about=__doc__,
    bound="the disk: `reading` reads the same file and computes nothing",
    prepare=prepare,
    contenders=(
        Contender(name="reading", function=f"{__name__}:reading", compared=False, about="8 MB at a time"),
        Contender(name="remine", function=f"{__name__}:remine", compared=False, about="exact search, two threads"),
    ),
    reference="reading",
    targets=(Target(metric="wall_s", contender="reading", against="remine", at_least=0.8),),
    packages=("numpy", "torch"),
)
