"""The loopback S3 server: reachable with its environment alone, on 127.0.0.1 only, and gone when its owner is."""

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pyarrow.fs as pafs
import pytest

from jobs.runtime.command_line import extras
from jobs.store.files.s3 import forget_settings, settings
from jobs.testbed import loopback_s3
from jobs.testbed.loopback_s3 import START_ATTEMPTS, KeptProcess, LoopbackS3, S3Server, free_ports, server_environment

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
    assert {connection.laddr.port for connection in open_ports} <= set(loopback_s3.PORTS)


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
    free = loopback_s3.free_ports
    taken = int(server.endpoint.rsplit(":", 1)[1])
    draws = iter([[taken, *free(9)], free(10)])
    monkeypatch.setattr(loopback_s3, "free_ports", lambda count: next(draws))
    monkeypatch.setattr(loopback_s3, "START_SECONDS", 10.0)
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


class UnstartedServer(S3Server):
    """Fails to start a number of times, and then starts without a process."""

    LISTENERS = ("api", "admin")

    def __init__(self, folder: Path, failures: int = 0, error: type[BaseException] | None = None, **keys: str) -> None:
        super().__init__(folder, **keys)
        self.failures, self.error = failures, error
        self.launched: list[dict[str, int]] = []
        self.stopped = 0

    def _launch(self, ports: Mapping[str, int]) -> str:
        self.launched.append(dict(ports))
        process: Any = SimpleNamespace(pid=len(self.launched), stop=self._count_stop)
        helper: Any = SimpleNamespace(pid=-1, stop=lambda: None)
        self._processes += [helper, process]
        self.log.write_text(f"attempt {len(self.launched)}\n")
        if self.error is not None:
            raise self.error
        if len(self.launched) <= self.failures:
            return "the port was taken"
        self.endpoint = f"http://127.0.0.1:{ports['api']}"
        return ""

    def _count_stop(self) -> None:
        self.stopped += 1


def test_it_starts_once_and_again_after_it_has_ended(tmp_path: Path) -> None:
    server = UnstartedServer(tmp_path / "s3", 0)
    assert server.pid is None
    with pytest.raises(RuntimeError, match="not running"):
        server.environment()
    with server as running:
        assert (running.pid, running.environment()["AWS_ENDPOINT_URL"]) == (1, server.endpoint)
        with pytest.raises(RuntimeError, match=f"this server is already running at {server.endpoint}"):
            server.start()
    assert (len(server.launched), server.stopped, server.endpoint) == (1, 1, "")
    server.stop()
    assert server.stopped == 1
    assert server.start().pid == 2


def test_an_attempt_that_failed_is_repeated_on_other_ports(tmp_path: Path) -> None:
    server = UnstartedServer(tmp_path / "s3", START_ATTEMPTS - 1)
    assert server.start().pid == START_ATTEMPTS
    assert server.stopped == START_ATTEMPTS - 1
    assert all(ports.keys() == {"api", "admin"} and len(set(ports.values())) == 2 for ports in server.launched)
    other = UnstartedServer(tmp_path / "other", START_ATTEMPTS)
    with pytest.raises(RuntimeError, match=rf"the port was taken, {START_ATTEMPTS} attempts\); .*\nattempt 5"):
        other.start()
    assert (other.stopped, other.pid) == (START_ATTEMPTS, None)


def test_a_start_that_is_interrupted_leaves_no_process(tmp_path: Path) -> None:
    server = UnstartedServer(tmp_path / "s3", 0, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        server.start()
    assert (server.stopped, server.pid) == (1, None)


def test_names_that_are_no_bucket_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = UnstartedServer(tmp_path / "s3", 0)
    created: list[str] = []
    monkeypatch.setattr(server, "filesystem", lambda: SimpleNamespace(create_dir=created.append))
    for name in ("ab", "a" * 64, "-abc", "abc-", "Abc", "a_bc", "äbc", "a.bc"):
        with pytest.raises(ValueError, match="use 3 to 63 characters"):
            server.create_bucket(name)
    for name in ("abc", "a" * 63, "a-1-c"):
        server.create_bucket(name)
    assert created == ["abc", "a" * 63, "a-1-c"]


def test_the_environment_overrides_the_users_keys_and_keeps_their_exceptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "intranet.example,,127.0.0.1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("S3_KEY", "mine")
    server = UnstartedServer(tmp_path, access_key="a", secret_key="s")
    server.endpoint = "http://127.0.0.1:20000"
    assert server.environment() == {
        "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "s", "AWS_SESSION_TOKEN": "",
        "AWS_ENDPOINT_URL": server.endpoint, "AWS_ENDPOINT_URL_S3": server.endpoint, "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "intranet.example,127.0.0.1", "no_proxy": "127.0.0.1",
    }  # fmt: skip
    environment = server_environment()
    assert environment["NO_PROXY"] == "intranet.example,,127.0.0.1"
    assert not {name for name in environment if name.startswith(("AWS_", "S3_"))}


def test_keys_are_drawn_for_each_server(tmp_path: Path) -> None:
    def keys() -> tuple[str, str]:
        server = UnstartedServer(tmp_path)
        return server.access_key, server.secret_key

    first, second = keys(), keys()
    assert not set(first) & set(second)
    assert min(map(len, first)) >= 20


def test_ports_are_distinct_and_have_no_listener(monkeypatch: pytest.MonkeyPatch) -> None:
    ports = free_ports(10)
    assert len(set(ports)) == 10
    assert set(ports) <= set(loopback_s3.PORTS)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(loopback_s3, "PORTS", range(port, port + 1))
        with pytest.raises(RuntimeError, match=f"^fewer than 1 free ports from {port} to {port}$"):
            free_ports(1)


def test_waiting_ends_with_the_process_or_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loopback_s3, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(loopback_s3, "START_SECONDS", 0.4)
    server, asked = UnstartedServer(tmp_path), list[int]()

    def is_ready() -> bool:
        asked.append(1)
        return len(asked) == 3

    statuses: list[int | None] = [None, None]
    server._processes = [SimpleNamespace(status=lambda n=n: statuses[n]) for n in range(2)]  # type: ignore[misc]
    assert (server._wait(is_ready), len(asked)) == ("", 3)
    assert server._wait(lambda: False) == "not ready after 0 s"
    statuses[1] = 1
    assert server._wait(lambda: True) == "it ended with status 1"


def test_the_last_lines_of_the_log_are_shown(tmp_path: Path) -> None:
    server = UnstartedServer(tmp_path)
    server.log.write_bytes(b"".join(b"line %d \xff\n" % number for number in range(30)))
    assert server._last_lines().splitlines() == [f"line {number} \ufffd" for number in range(10, 30)]


def ended(process: KeptProcess) -> int | None:
    until = time.monotonic() + 60
    while process.status() is None and time.monotonic() < until:
        time.sleep(0.02)
    return process.status()


def start(folder: Path, program: str, **keys: str) -> KeptProcess:
    environment = {"PATH": os.environ["PATH"], **keys}
    leftovers = [f"{folder}/*.sock", f"{folder}/absent-*"]
    return KeptProcess(
        [sys.executable, "-c", program], log=folder / "log", environment=environment, leftovers=leftovers
    )


def test_output_is_appended_and_leftovers_are_removed(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("earlier\n")
    for name in ("one.sock", "other.sock", "data"):
        (tmp_path / name).touch()
    process = start(tmp_path, "import os; print(os.getpid(), os.environ.get('KEY'), os.environ.get('HOME'))", KEY="k")
    assert ended(process) == 0
    assert (tmp_path / "log").read_text() == f"earlier\n{process.pid} k None\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "log"]
    process.stop()


def test_a_failure_is_status_1_and_a_missing_program_has_no_pid(tmp_path: Path) -> None:
    failing = start(tmp_path, "raise SystemExit(7)")
    assert (ended(failing), failing.pid is not None) == (1, True)
    absent = KeptProcess([f"{tmp_path}/absent"], log=tmp_path / "log", environment={})
    assert (ended(absent), absent.pid) == (1, None)
    assert "FileNotFoundError" in (tmp_path / "log").read_text()
    for process in (failing, absent):
        process.stop()


def test_a_process_is_asked_to_end_and_then_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = "import signal, sys, time; signal.signal(15, lambda *_: (print('asked'), sys.exit(0)))\n"
    stubborn = "import signal, time; signal.signal(15, signal.SIG_IGN)\n"
    rest = "print('ready', flush=True); time.sleep(60)"
    shorter = loopback_s3.KEEPER.replace(f"wait({loopback_s3.STOP_SECONDS})", "wait(0.2)")
    assert shorter != loopback_s3.KEEPER
    monkeypatch.setattr(loopback_s3, "KEEPER", shorter)
    for program, status, words in ((quick, 0, "ready\nasked\n"), (stubborn, 1, "ready\n")):
        (tmp_path / "log").write_text("")
        process = start(tmp_path, program + rest)
        until = time.monotonic() + 60
        while "ready" not in (tmp_path / "log").read_text() and time.monotonic() < until:
            time.sleep(0.02)
        assert process.status() is None
        process.stop()
        assert (process.status(), (tmp_path / "log").read_text()) == (status, words)
