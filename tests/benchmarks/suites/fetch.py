"""Fetching small pictures over HTTPS from a server on loopback, limiter off, decoded and written as a table.

Wall and CPU seconds begin after the imports and, for the CPU, leave out the server, reported separately; it runs on the
same cores, so wall seconds include it.
"""

import asyncio
import hashlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil

from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.harness import Benchmark, Contender, Size, Target
from tests.benchmarks.measure import ROOT

PICTURES: dict[Size, int] = {"smoke": 300, "default": 6_000, "full": 50_000}
FEW: dict[Size, int] = {"smoke": 100, "default": 1_000, "full": 1_000}
DISTINCT = 64
UNIT_ROWS = 256  # as curate writes them
WIDTH, HEIGHT = 330, 248
CONNECTIONS, CPUS = 8, 2
UNDER_WAY = 16  # pictures in the hands of the decoders, alone


def prepare(workdir: Path, size: Size) -> None:
    """Write pictures of some 20 kB, a certificate, and records with the URLs of the pictures."""
    from PIL import Image

    from tests.factories import record, write_records

    try:
        import trustme
    except ModuleNotFoundError as error:
        raise SkippedError("trustme is not installed: pip install remine[bench]") from error
    rng = np.random.default_rng(1)
    for number in range(DISTINCT):
        coarse = Image.fromarray(rng.integers(0, 255, (HEIGHT // 16, WIDTH // 16, 3), np.uint8))
        smooth = np.asarray(coarse.resize((WIDTH, HEIGHT), Image.Resampling.BICUBIC)).astype(int)
        noisy = smooth + rng.integers(-12, 12, smooth.shape)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(workdir / f"{number:03}.jpg", quality=85)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(workdir / "ca.pem"))
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(str(workdir / "server.pem"))
    for name, count in (("many", PICTURES[size]), ("few", FEW[size])):
        urls = [f"https://localhost/{number}.jpg" for number in range(count)]
        units = [urls[first : first + UNIT_ROWS] for first in range(0, count, UNIT_ROWS)]
        write_records(str(workdir / name), [[record(url, image=url) for url in unit] for unit in units])


@dataclass
class _Server:
    """The server while it runs."""

    port: int
    process: psutil.Process

    def cpu_s(self) -> float:
        return _cpu_s(self.process)


@contextmanager
def _server(workdir: Path) -> Iterator[_Server]:
    command = [sys.executable, "-m", "tests.benchmarks.picture_server", str(workdir)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield _Server(int(server.stdout.readline()), psutil.Process(server.pid))


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


class _Clock:
    """Seconds since its making: of the wall, of this process and its children's CPUs, and of the server's."""

    def __init__(self, server: _Server | None = None) -> None:
        self._server = server
        self._begun = self._now()

    def _now(self) -> tuple[float, float, float]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        served = self._server.cpu_s() if self._server else 0.0
        alive = [psutil.Process(), *psutil.Process().children(recursive=True)]
        used = sum(_cpu_s(process) for process in alive) + ended.ru_utime + ended.ru_stime
        return time.perf_counter(), used - served, served

    def read(self) -> tuple[float, float, float]:
        wall_s, cpu_s, served_s = (now - begun for now, begun in zip(self._now(), self._begun, strict=True))
        return wall_s, cpu_s, served_s


def _fetched(workdir: Path, name: str, *, width: int = WIDTH) -> Result:
    from jobs.store.reading import open_table
    from tests.jobs.fetch_alone import fetch_alone

    out = tempfile.mkdtemp(prefix="remine-fetch-bench-")
    try:
        with _server(workdir) as server:
            clock = _Clock(server)
            fetch_alone(
                str(workdir / name),
                out,
                port=server.port,
                ca_file=str(workdir / "ca.pem"),
                threads=CPUS,
                connections=CONNECTIONS,
                width=width,
                mbit_s=None,
            )
            seconds = clock.read()
        table = open_table(out, "images")
        rows = (row for batch in table.batches(["source_url", "status", "sha256"]) for row in batch.to_pylist())
        return _result(((row["source_url"], row["sha256"]) for row in rows if row["status"] == "ok"), seconds)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def remine(workdir: Path, size: Size) -> Result:
    """The unit's actor of `jobs.fetch` without Ray: HTTPS, decoding, hashes, parts, Parquet."""
    return _fetched(workdir, "many")


def remine_300(workdir: Path, size: Size) -> Result:
    """Fetch as `remine` does, but resize each picture to a width of 300, as for models, and encode it again."""
    return _fetched(workdir, "many", width=300)


def remine_few(workdir: Path, size: Size) -> Result:
    """Fetch as `remine` does, with fewer pictures, to measure the memory."""
    return _fetched(workdir, "few")


def decoders(workdir: Path, size: Size) -> Result:
    """The decoders alone, the bytes at hand."""
    from actors.fetching.decoders import Decoders

    data = [path.read_bytes() for path in sorted(workdir.glob("*.jpg"))]
    results: list[tuple[str, str]] = []

    async def go() -> None:
        children = Decoders(width=WIDTH, processes=CPUS)
        numbers = iter(range(PICTURES[size]))

        async def some() -> None:
            for number in numbers:
                rendered = await children.decode(data[number % DISTINCT])
                results.append((f"https://localhost/{number}.jpg", rendered.facts.sha256))

        await asyncio.gather(*(some() for _ in range(UNDER_WAY)))
        await children.close()

    clock = _Clock()
    asyncio.run(go())
    return _result(results, clock.read())


def aiohttp_client(workdir: Path, size: Size) -> Result:
    """aiohttp alone: the same pictures fetched, nothing decoded, hashed for the comparison."""
    import ssl

    import aiohttp

    results: list[tuple[str, str]] = []

    async def go(port: int) -> None:
        tls = ssl.create_default_context(cafile=str(workdir / "ca.pem"))
        numbers = iter(range(PICTURES[size]))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS)) as session:

            async def some() -> None:
                for number in numbers:
                    async with session.get(f"https://localhost:{port}/{number}.jpg") as answer:
                        digest = hashlib.sha256(await answer.read()).hexdigest()
                        results.append((f"https://localhost/{number}.jpg", digest))

            await asyncio.gather(*(some() for _ in range(CONNECTIONS)))

    with _server(workdir) as server:
        clock = _Clock(server)
        asyncio.run(go(server.port))
        seconds = clock.read()
    return _result(results, seconds)


def _result(pictures: Iterable[tuple[str, str]], seconds: tuple[float, float, float]) -> Result:
    """sha256 over the sorted (URL, sha256 of the picture); what a `_Clock` read, the server's seconds apart."""
    pairs = sorted(pictures)
    digest = hashlib.sha256("".join(f"{url} {sha}\n" for url, sha in pairs).encode())
    wall_s, cpu_s, served_s = seconds
    result = Result(rows=len(pairs), digest=digest.hexdigest(), wall_s=wall_s, cpu_s=cpu_s)
    if served_s:
        result.apart["CPU seconds of the server"] = served_s
    return result


BENCHMARK = Benchmark(
    name="fetch",
    about=__doc__,
    bound="the decoders, which share the cores with the fetcher and the server; no limit of a host applies",
    prepare=prepare,
    contenders=(
        Contender(name="decoders", function=f"{__name__}:decoders", about="two decoders alone"),
        Contender(name="remine", function=f"{__name__}:remine", about="jobs.fetch's actor"),
        Contender(name="aiohttp", function=f"{__name__}:aiohttp_client", about="nothing decoded or stored"),
        Contender(name="remine_300", function=f"{__name__}:remine_300", compared=False, about="made 300 wide"),
        Contender(name="remine_few", function=f"{__name__}:remine_few", compared=False, about="1,000 pictures"),
    ),
    reference="decoders",
    targets=(
        Target(metric="rows_per_s", contender="remine", against="decoders", at_least=0.8, enough=1000),
        Target(metric="peak_mb", contender="remine", against="remine_few", at_most=1.2),
    ),
    repeats={"smoke": 1, "default": 3, "full": 1},
    packages=("aiohttp", "pillow", "imagehash", "pyarrow"),
)
