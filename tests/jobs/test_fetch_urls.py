"""`fetch source=urls` through Ray, against a real HTTPS server on loopback."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

from actors.ids import content_id
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import record, write_records
from tests.https_server import ADDRESS, Answer, HttpsServer, Seen
from tests.in_process import stages_in_process
from tests.jobs.fetch_alone import fetch_alone
from tests.jobs.running_job import Running
from tests.picture_site import Site, jpeg

ROOT = Path(__file__).parents[2]
FEW_PROCESSES = ["resources.fetch.threads=1"]


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def server(tmp_path: Path, site: Site) -> Iterator[HttpsServer]:
    with HttpsServer(tmp_path, site) as running:
        yield running


def keys(server: HttpsServer, **changed: Any) -> list[str]:
    """Return the source's keys for the test server."""
    at = f"{ADDRESS}:{server.port}"
    keys = {
        "contact": "tests@remine.dev",
        "allow_hosts": f"[localhost:{server.port},thumb.wikimedia.org,upload.wikimedia.org]",
        "testing.allow_addresses": f"[{ADDRESS}]",
        "testing.resolve": f"[{','.join(f'{host}.wikimedia.org:{at}' for host in ('thumb', 'upload'))}]",
        "ca_file": str(server.ca_file),
        "backoff_s": "0.05",
        "mbit_s": "null",
        "credits": "false",
    } | changed
    return ["source=urls", *(f"source.{key}={value}" for key, value in keys.items()), *FEW_PROCESSES]


def rows_of(out: Path | str) -> list[dict[str, Any]]:
    return pa.concat_tables(open_table(str(out), "images").batches()).to_pylist()


@pytest.mark.usefixtures("ray_session")
@pytest.mark.long
def test_records_become_pictures(
    tmp_path: Path, server: HttpsServer, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    big = "https://upload.wikimedia.org/wikipedia/commons/a/ab/Big.jpg"
    urls = [server.url(f"/{number}.jpg") for number in range(12)]
    site.script = {
        "/0.jpg": [Answer(404)],
        "/1.jpg": [Answer(429), Answer(200, jpeg())],
        "/2.jpg": [Answer(500), Answer(500), Answer(200, jpeg())],
    }
    shared = [record("again", image=urls[5]), record("big", image=big), record("big too", image=big)]
    units = [[record(f"t{n}", image=url) for n, url in enumerate(urls)], shared, [record("only", image=urls[6])]]
    write_records(str(tmp_path / "records"), units)
    exclusions = tmp_path / "excluded.txt"
    exclusions.write_text(f"{urls[9].replace('https:', 'HTTP:')}?withdrawn\n{'0' * 32}\n")
    out = tmp_path / "images"
    arguments = [*keys(server, attempts=2), f"input={tmp_path}/records", f"out={out}", "width=300"]
    arguments += [f"exclusions={exclusions}", "resources.fetch.actors=2", "resources.fetch.num_cpus=0.3", "unit_rows=5"]
    assert cli.main("fetch", arguments) == 0
    message = capsys.readouterr().out
    assert f"1 missing (gone), for example {urls[0]}: HTTP 404" in message
    assert f"1 error (server), for example {urls[2]}: " in message
    assert f"exclusions: 1 of 2 entries match no picture here, for example {'0' * 32}" in message

    rows = rows_of(out)
    assert [row["source_url"] for row in rows] == [*urls, big]  # the records' order, each picture once
    assert [row["image_id"] for row in rows] == [content_id(row["source_url"]) for row in rows]
    status = {row["source_url"]: (row["status"], row["error_kind"]) for row in rows}
    assert status.pop(urls[0]) == ("missing", "gone")
    assert status.pop(urls[2]) == ("error", "server")
    assert status.pop(urls[9]) == ("reported", "excluded")
    assert set(status.values()) == {("ok", None)}
    assert {row["width"] for row in rows if row["status"] == "ok"} == {300}
    manifest = open_table(str(out)).counts()
    assert (manifest.rows_in, manifest.rows_out, dict(manifest.filtered)) == (16, 13, {"same_picture": 3})
    assert max(server.counted().values()) == 2
    assert "/9.jpg" not in server.counted()
    assert server.most_connections <= 4  # two hosts, two connections each, both workers together
    assert cli.main("verify", [f"input={out}"]) == 0
    names = [footer.unit.name for footer in open_table(str(out)).footers]
    assert names == [*(f"unit0-{first:09}" for first in (0, 5, 10)), "unit1", "unit2"]

    # once more: nothing is asked; then the one error, and nothing else
    before = len(server.seen)
    assert cli.main("fetch", arguments) == 0
    assert len(server.seen) == before
    capsys.readouterr()
    with stages_in_process():
        assert cli.main("fetch", [*arguments, "retry=[error]"]) == 0
    message = capsys.readouterr().out
    assert "(server)" not in message
    assert "1 missing (gone), for example" in message
    assert "exclusions: 1 of 2 entries match no picture here" in message
    assert server.paths()[before:] == ["/2.jpg"]
    again = rows_of(out)
    assert [row for row in again if row["source_url"] != urls[2]] == [
        row for row in rows if row["source_url"] != urls[2]
    ]
    assert {row["source_url"]: row["status"] for row in again}[urls[2]] == "ok"


def test_a_width_of_thousands_of_digits_is_unknown_and_stops_nothing(tmp_path: Path, server: HttpsServer) -> None:
    widths = ["400", "9" * 5000, "\u00b2", "9" * 5000]
    rows = [record(f"t{n}", image=server.url(f"/{n}.jpg")) | {"original_width": w} for n, w in enumerate(widths)]
    write_records(str(tmp_path / "records"), [rows])
    fetch_alone(f"{tmp_path}/records", f"{tmp_path}/images", port=server.port, ca_file=str(server.ca_file), width=300)
    assert [row["status"] for row in rows_of(tmp_path / "images")] == ["ok"] * 4


def start_alone(arguments: dict[str, Any], log: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "tests.jobs.fetch_alone", json.dumps(arguments)]
    with log.open("wb") as stream:
        return subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=subprocess.STDOUT)


def flaky(fails: set[str]) -> Callable[[Seen], Answer]:
    """Return a handler with which a third of the pictures fail at the first request: 503, 500, or a short body."""
    faults = [
        Answer(503, b"", (("Retry-After", "0"),)),
        Answer(500),
        Answer(200, jpeg()[:99], (("Content-Length", "3000"),)),
    ]

    def answer(seen: Seen) -> Answer:
        number = int(seen.path.strip("/").removesuffix(".jpg"))
        if number % 3 == 0 and seen.path not in fails:
            fails.add(seen.path)
            return faults[number // 3 % 3]
        return Answer(200, jpeg())

    return answer


@pytest.mark.long
@pytest.mark.parametrize("pictures", [120, pytest.param(5000, marks=pytest.mark.torture)])
def test_a_killed_worker_refetches_one_unit_at_most(
    tmp_path: Path, server: HttpsServer, site: Site, pictures: int
) -> None:
    site.default = flaky(set())
    urls = [server.url(f"/{number}.jpg") for number in range(pictures)]
    records, out = str(tmp_path / "records"), tmp_path / "images"
    units = [urls[first : first + 100] for first in range(0, pictures, 100)]
    write_records(records, [[record(url, image=url) for url in unit] for unit in units])
    arguments = {"records": records, "out": str(out), "port": server.port, "ca_file": str(server.ca_file)}
    unit_rows = 20  # a fifth of a unit of the records
    arguments |= {"connections": 3, "backoff_s": 0.01, "unit_rows": unit_rows}
    kills = (0.3, 0.6) if pictures > 1000 else (0.42,)  # in the midst of a unit
    for share in kills:
        child = start_alone(arguments, tmp_path / "log")
        until = time.monotonic() + 120
        while len(server.seen) < share * pictures:
            assert child.poll() is None, (tmp_path / "log").read_text()
            assert time.monotonic() < until
            time.sleep(0.002)
        child.kill()
        child.wait(30)
    child = start_alone(arguments, tmp_path / "log")
    assert child.wait(240) == 0, (tmp_path / "log").read_text()

    rows = rows_of(out)
    assert {row["source_url"]: row["status"] for row in rows} == dict.fromkeys(urls, "ok")
    assert len(rows) == pictures
    assert server.most_connections <= 3
    counted = server.counted()
    expected = {f"/{number}.jpg": 2 if number % 3 == 0 else 1 for number in range(pictures)}
    again = {path: (times, expected[path]) for path, times in counted.items() if times > expected[path]}
    assert len(again) <= len(kills) * unit_rows, again
    assert all(times <= expected[path] + 2 for path, times in counted.items())


@pytest.mark.torture
@pytest.mark.usefixtures("ray_session")  # so that no other test that starts one runs at the same time
def test_ctrl_c_and_the_same_command_again(tmp_path: Path, server: HttpsServer, site: Site) -> None:
    pictures = 120

    async def slow(seen: Seen) -> Answer:
        await asyncio.sleep(0.02)
        return Answer(200, jpeg())

    site.default = slow
    urls = [server.url(f"/{number}.jpg") for number in range(pictures)]
    records, out = str(tmp_path / "records"), tmp_path / "images"
    write_records(records, [[record(url, image=url) for url in urls[first : first + 40]] for first in (0, 40, 80)])
    arguments = [
        *keys(server, connections=2),
        f"input={records}",
        f"out={out}",
        "resources.fetch.num_cpus=0.3",
        "unit_rows=10",
    ]
    first = Running("fetch", arguments, tmp_path / "first.log")
    try:
        first.wait_for(lambda: len(server.seen) > 55)  # some units are written, one half fetched
        first.family |= set(psutil.Process(first.process.pid).children(recursive=True))
        os.killpg(first.process.pid, signal.SIGINT)  # as a terminal does
        assert first.process.wait(60) == 130, first.log.read_text()
        assert "run the same command again to resume" in first.log.read_text()
        assert first.left_over() == []
    finally:
        first.end()
    asked = len(server.seen)
    assert asked < pictures
    with stages_in_process():
        assert cli.main("fetch", arguments) == 0
    assert {row["source_url"]: row["status"] for row in rows_of(out)} == dict.fromkeys(urls, "ok")
    again = [path for path, times in server.counted().items() if times > 1]
    assert len(again) <= 10, again  # one unit
    assert set(server.counted().values()) <= {1, 2}


@pytest.mark.torture
@pytest.mark.timeout(900)
def test_workers_and_drivers_killed_in_a_real_run(tmp_path: Path, server: HttpsServer, site: Site) -> None:
    pictures = 5000
    site.default = flaky(set())
    urls = [server.url(f"/{number}.jpg") for number in range(pictures)]
    records, out = str(tmp_path / "records"), tmp_path / "images"
    units = [urls[first : first + 250] for first in range(0, pictures, 250)]
    write_records(records, [[record(url, image=url) for url in unit] for unit in units])
    arguments = [*keys(server, connections=4, backoff_s=0.02), f"input={records}", f"out={out}"]
    arguments += ["resources.fetch.actors=2", "resources.fetch.num_cpus=0.3", "unit_rows=50"]

    first = Running("fetch", arguments, tmp_path / "first.log")
    try:
        first.wait_for(lambda: len(server.seen) > pictures // 4, seconds=300)
        workers = [
            process
            for process in psutil.Process(first.process.pid).children(recursive=True)
            if "FetchUnit" in " ".join(process.cmdline())
        ]
        assert workers
        workers[0].kill()  # Ray starts another, which continues the unit
        first.wait_for(lambda: len(server.seen) > pictures // 2, seconds=300)
        first.send(signal.SIGKILL)
        assert first.left_over() == []
    finally:
        first.end()
    second = Running("fetch", arguments, tmp_path / "second.log")
    try:
        assert second.process.wait(600) == 0, second.log.read_text()
    finally:
        second.end()

    rows = rows_of(out)
    assert len(rows) == pictures
    assert {row["source_url"]: row["status"] for row in rows} == dict.fromkeys(urls, "ok")
    assert server.most_connections <= 4
    counted = server.counted()
    again = [path for number in range(pictures) if counted[path := f"/{number}.jpg"] > 1 + (number % 3 == 0)]
    assert len(again) <= 3 * 50, again  # the unit of one worker, then those of both
    assert cli.main("verify", [f"input={out}"]) == 0
