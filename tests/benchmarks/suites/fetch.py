"""Fetching small pictures over HTTPS from a server on loopback, limiter off, decoded and written as a table."""

import asyncio
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tests.benchmarks.child import Result, SkippedError
from tests.benchmarks.harness import Benchmark, Contender, Size, Target
from tests.benchmarks.measure import ROOT

PICTURES: dict[Size, int] = {"smoke": 300, "default": 6_000, "full": 50_000}
FEW: dict[Size, int] = {"smoke": 100, "default": 1_000, "full": 1_000}
DISTINCT = 64
UNIT_ROWS = 256  # as curate writes them
WIDTH, HEIGHT = 330, 248
CONNECTIONS, PROCESSES = 8, 2
UNDER_WAY = 16  # pictures in the hands of the decoders, alone


def prepare(workdir: Path, size: Size) -> None:
    """Pictures of some 20 kB, a certificate, and records whose URLs name them."""
    from PIL import Image

    from tests.jobs.records import record, write_records

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


@contextmanager
def _server(workdir: Path) -> Iterator[int]:
    command = [sys.executable, "-m", "tests.benchmarks.picture_server", str(workdir)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())


def _fetched(workdir: Path, name: str) -> Result:
    from jobs.store.reading import open_table
    from tests.jobs.fetch_alone import fetch_alone

    out = tempfile.mkdtemp(prefix="remine-fetch-bench-")
    try:
        with _server(workdir) as port:
            ca_file = str(workdir / "ca.pem")
            records, many = str(workdir / name), {"connections": CONNECTIONS, "width": WIDTH}
            fetch_alone(records, out, port=port, ca_file=ca_file, processes=PROCESSES, **many)
        table = open_table(out, "images")
        rows = (row for batch in table.batches(["source_url", "status", "sha256"]) for row in batch.to_pylist())
        return _result((row["source_url"], row["sha256"]) for row in rows if row["status"] == "ok")
    finally:
        shutil.rmtree(out, ignore_errors=True)


def remine(workdir: Path, size: Size) -> Result:
    """The unit's actor of `jobs.fetch` without Ray: HTTPS, decoding, hashes, parts, Parquet. The server counts too."""
    return _fetched(workdir, "many")


def remine_few(workdir: Path, size: Size) -> Result:
    """The same with fewer pictures, for the memory."""
    return _fetched(workdir, "few")


def decoders(workdir: Path, size: Size) -> Result:
    """The decoders alone, the bytes at hand."""
    from actors.decoders import Decoders

    data = [path.read_bytes() for path in sorted(workdir.glob("*.jpg"))]
    found: list[tuple[str, str]] = []

    async def go() -> None:
        children = Decoders(width=WIDTH, processes=PROCESSES)
        numbers = iter(range(PICTURES[size]))

        async def some() -> None:
            for number in numbers:
                rendered = await children.decode(data[number % DISTINCT])
                found.append((f"https://localhost/{number}.jpg", rendered.facts.sha256))

        await asyncio.gather(*(some() for _ in range(UNDER_WAY)))
        await children.close()

    asyncio.run(go())
    return _result(found)


def aiohttp_client(workdir: Path, size: Size) -> Result:
    """aiohttp alone: the same pictures fetched, nothing decoded, hashed for the comparison."""
    import ssl

    import aiohttp

    found: list[tuple[str, str]] = []

    async def go(port: int) -> None:
        tls = ssl.create_default_context(cafile=str(workdir / "ca.pem"))
        numbers = iter(range(PICTURES[size]))
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS)) as session:

            async def some() -> None:
                for number in numbers:
                    async with session.get(f"https://localhost:{port}/{number}.jpg") as answer:
                        digest = hashlib.sha256(await answer.read()).hexdigest()
                        found.append((f"https://localhost/{number}.jpg", digest))

            await asyncio.gather(*(some() for _ in range(CONNECTIONS)))

    with _server(workdir) as port:
        asyncio.run(go(port))
    return _result(found)


def _result(found: Iterable[tuple[str, str]]) -> Result:
    """sha256 over the sorted (URL, sha256 of the picture)."""
    pairs = sorted(found)
    digest = hashlib.sha256("".join(f"{url} {sha}\n" for url, sha in pairs).encode())
    return Result(rows=len(pairs), digest=digest.hexdigest())


BENCHMARK = Benchmark(
    name="fetch",
    about=__doc__,
    prepare=prepare,
    contenders=(
        Contender(name="decoders", function=f"{__name__}:decoders", about="two decoders alone"),
        Contender(name="remine", function=f"{__name__}:remine", about="jobs.fetch's actor and the server"),
        Contender(name="aiohttp", function=f"{__name__}:aiohttp_client", about="client and server, no decoding"),
        Contender(name="remine_few", function=f"{__name__}:remine_few", compared=False, about="1,000 pictures"),
    ),
    reference="decoders",
    targets=(
        Target(metric="wall_s", contender="remine", against="decoders", at_most=1.25),
        Target(metric="peak_mb", contender="remine", against="remine_few", at_most=1.2),
    ),
    packages=("aiohttp", "pillow", "imagehash", "pyarrow"),
)
