"""Reading a compressed file of a corpus or a dump from S3, of which each request waits 30 ms, as in a region.

The server is on this machine; a thread of this process delays the requests and counts them.
"""

import gzip
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tests.benchmarks.child import Result
from tests.benchmarks.clock import Clock
from tests.benchmarks.harness import Benchmark, Contender, Size
from tests.forwarding import counted_s3

if TYPE_CHECKING:
    from jobs.corpora.wit.streams import ByteSource

    Opened = AbstractContextManager[tuple[ByteSource, bytes]]

MB: dict[Size, int] = {"smoke": 2, "default": 64, "full": 512}  # of text, which gzip makes a quarter smaller
DELAY_S = 0.03
FILE = "s3://remote/part.tsv.gz"


def prepare(workdir: Path, size: Size) -> None:
    """Nothing: each contender writes the file."""


def ahead(workdir: Path, size: Size) -> Result:
    """Read as `mine`, `terms` and `fetch` of tars do: blocks of 8 MB, of which two arrive while one is decompressed."""
    from jobs.corpora.wit.streams import opened

    return _measured(workdir, size, opened)


def as_asked(workdir: Path, size: Size) -> Result:
    """A request for each read of the decompressor, 128 kB."""
    from jobs.corpora.wit.streams import GZIP, ByteSource
    from jobs.store.files import locations

    @contextmanager
    def opened(uri: str) -> "Iterator[tuple[ByteSource, bytes]]":
        fs, path = locations.filesystem(uri)
        with fs.open_input_file(path) as file:
            yield ByteSource(file), GZIP

    return _measured(workdir, size, opened)


def _measured(workdir: Path, size: Size, opened: "Callable[[str], Opened]") -> Result:
    from jobs.corpora.wit.streams import fast_stream
    from jobs.store.files import locations
    from jobs.testbed.loopback_s3 import LoopbackS3

    text = np.random.default_rng(0).integers(0, 64, MB[size] << 20, dtype=np.uint8).tobytes()
    buffer, read = memoryview(bytearray(1 << 20)), 0
    with LoopbackS3(workdir / f"s3-{time.time_ns()}") as server:
        os.environ.update(server.environment())
        server.create_bucket("remote")
        locations.create(FILE, gzip.compress(text, 1))
        clock = Clock()
        with counted_s3(delay_s=DELAY_S) as front, clock, opened(FILE) as (source, kind):
            stream = fast_stream(source, kind)
            while count := stream.readinto(buffer):
                read += count
    assert read == len(text)
    print(f"{sum(front.requests.values())} requests", file=sys.stderr)
    return Result(rows=MB[size], digest=str(read), wall_s=clock.wall_s, cpu_s=clock.cpu_s)


BENCHMARK = Benchmark(
    name="remote_file",
    about=__doc__.splitlines()[0],
    bound="the delay of a request: 30 ms",
    prepare=prepare,
    contenders=(
        Contender(name="ahead", function=f"{__name__}:ahead", about="blocks of 8 MB, read ahead"),
        Contender(name="as_asked", function=f"{__name__}:as_asked", about="a request for each 128 kB"),
    ),
    reference="ahead",
    repeats={"smoke": 1, "default": 3, "full": 1},
    packages=("pyarrow",),
)
