"""The loopback S3 server: reachable with its environment alone, on 127.0.0.1 only, and gone when its owner is."""

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pyarrow.fs as pafs
import pytest

from jobs.runtime.command_line import extras
from jobs.store.files.s3 import forget_settings, settings
from jobs.testbed import loopback_s3, s3_server
from jobs.testbed.loopback_s3 import LoopbackS3

ROOT = Path(__file__).parents[3]
CLIENTS = """
import pyarrow.fs, s3fs
fs, path = pyarrow.fs.FileSystem.from_uri("s3://shelf/from-arrow")
with fs.open_output_stream(path) as out:
    out.write(b"arrow")
other = s3fs.S3FileSystem()
other.pipe("shelf/from-s3fs", b"fsspec")
print(other.cat("shelf/from-arrow").decode(), fs.open_input_stream("shelf/from-s3fs").read().decode())
"""
OWNER = """
import sys, time
from pathlib import Path
from jobs.testbed.loopback_s3 import LoopbackS3
print(LoopbackS3(Path(sys.argv[1])).start().pid, flush=True)
time.sleep(60)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackS3]:
    with LoopbackS3(tmp_path_factory.mktemp("s3")) as running:
        running.create_bucket("shelf")
        yield running


def gone(pid: int, *, seconds: float = 20) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


def test_pyarrow_and_s3fs_need_only_the_environment(server: LoopbackS3) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    # what a user may have set, and what must not win
    kept |= {"AWS_SESSION_TOKEN": "stale", "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", CLIENTS],
        env=kept | server.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["arrow", "fsspec"], done.stderr


def test_wrong_secret_is_refused(server: LoopbackS3) -> None:
    stranger = pafs.S3FileSystem(
        access_key=server.access_key, secret_key="wrong", endpoint_override=server.endpoint, region="us-east-1"
    )
    with pytest.raises(OSError, match=r"403|SIGNATURE|ACCESS_DENIED"):
        stranger.get_file_info(pafs.FileSelector("shelf"))


def test_create_only_if_absent_has_one_winner(server: LoopbackS3) -> None:
    botocore = pytest.importorskip("botocore.session")

    def put(body: int) -> int:
        client = botocore.Session().create_client(
            "s3",
            endpoint_url=server.endpoint,
            region_name="us-east-1",
            aws_access_key_id=server.access_key,
            aws_secret_access_key=server.secret_key,
        )
        try:
            answer = client.put_object(Bucket="shelf", Key="once", Body=str(body).encode(), IfNoneMatch="*")
        except client.exceptions.ClientError as error:
            answer = error.response
        return int(answer["ResponseMetadata"]["HTTPStatusCode"])

    with ThreadPoolExecutor(4) as pool:
        statuses = sorted(pool.map(put, range(4)))
    assert statuses == [200, 412, 412, 412]


def test_listens_on_loopback_only(server: LoopbackS3) -> None:
    assert server.pid is not None
    open_ports = [c for c in psutil.Process(server.pid).net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert {connection.laddr.ip for connection in open_ports} == {"127.0.0.1"}
    assert {connection.laddr.port for connection in open_ports} <= set(s3_server.PORTS)


def test_keys_are_private_and_never_logged(server: LoopbackS3) -> None:
    assert stat.S_IMODE((server.folder / "identities.json").stat().st_mode) == 0o600
    assert server.secret_key not in server.log.read_text(errors="replace")


def test_buckets_are_made_only_on_request(server: LoopbackS3) -> None:
    with pytest.raises(OSError, match=r"(?i)bucket"), server.filesystem().open_output_stream("absent/key") as out:
        out.write(b"x")
    for name in ("ab", "Shelf", "under_score", "-x-"):
        with pytest.raises(ValueError, match="bucket name"):
            server.create_bucket(name)


@pytest.mark.long
def test_stop_ends_the_server_and_a_new_start_finds_the_objects(tmp_path: Path) -> None:
    server = LoopbackS3(tmp_path)
    with pytest.raises(RuntimeError, match="not running"):
        server.environment()
    with server:
        server.create_bucket("kept")
        with server.filesystem().open_output_stream("kept/key") as out:
            out.write(b"still here")
        with pytest.raises(RuntimeError, match="already running"):
            server.start()
        pid = server.pid
    assert pid is not None
    assert gone(pid)
    assert server.pid is None
    server.stop()
    with server:
        assert server.filesystem().open_input_stream("kept/key").read() == b"still here"


def test_server_dies_with_its_killed_owner(tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    assert psutil.pid_exists(pid)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert gone(pid)


@pytest.mark.long
def test_two_start_at_once_from_threads_that_end(tmp_path: Path) -> None:
    servers = [LoopbackS3(tmp_path / str(i)) for i in range(2)]
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(LoopbackS3.start, servers))
        for server in servers:
            server.create_bucket("own")
        assert len({server.endpoint for server in servers}) == 2
    finally:
        for server in servers:
            server.stop()


@pytest.mark.long
def test_taken_ports_are_drawn_again(server: LoopbackS3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = s3_server.free_ports
    taken = int(server.endpoint.rsplit(":", 1)[1])
    draws = iter([[taken, *free(9)], free(10)])
    monkeypatch.setattr(s3_server, "free_ports", lambda count: next(draws))
    monkeypatch.setattr(s3_server, "START_SECONDS", 10.0)
    with LoopbackS3(tmp_path) as second:
        second.create_bucket("own")
        assert second.endpoint != server.endpoint


def test_a_start_that_fails_shows_the_end_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "weed"
    program.write_text("#!/bin/sh\necho the disk is full >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(loopback_s3, "server_program", lambda: program)
    with pytest.raises(RuntimeError, match=r"(?s)ended with status.*the disk is full"):
        LoopbackS3(tmp_path / "s3").start()


def test_missing_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_s3.metadata, "files", lambda name: None)
    with pytest.raises(ModuleNotFoundError) as raised:
        LoopbackS3(tmp_path).start()
    assert "'.[demo]'" in str(extras.hint(raised.value))


def test_variables_are_restored_and_settings_follow_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://mine.example")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    forget_settings()
    before = dict(os.environ)
    values = {
        "AWS_ENDPOINT_URL_S3": "http://demo.example",
        "AWS_SESSION_TOKEN": "",
        "AWS_REQUEST_CHECKSUM_CALCULATION": None,
    }

    def fail() -> None:
        with loopback_s3.temporary_environment(values):
            assert {name: os.environ.get(name) for name in values} == values
            assert settings()["endpoint"] == "http://demo.example"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert dict(os.environ) == before
    assert settings()["endpoint"] == "http://mine.example"
    monkeypatch.undo()
    forget_settings()
