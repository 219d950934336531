"""A local S3 server whose processes do not run: its attempts to start, environment, keys, ports and messages."""

import os
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.testbed import s3_server
from jobs.testbed.s3_server import START_ATTEMPTS, KeptProcess, S3Server, free_ports, server_environment


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
    assert set(ports) <= set(s3_server.PORTS)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(s3_server, "PORTS", range(port, port + 1))
        with pytest.raises(RuntimeError, match=f"^fewer than 1 free ports from {port} to {port}$"):
            free_ports(1)


def test_waiting_ends_with_the_process_or_after_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_server, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(s3_server, "START_SECONDS", 0.4)
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
    shorter = s3_server.KEEPER.replace(f"wait({s3_server.STOP_SECONDS})", "wait(0.2)")
    assert shorter != s3_server.KEEPER
    monkeypatch.setattr(s3_server, "KEEPER", shorter)
    for program, status, words in ((quick, 0, "ready\nasked\n"), (stubborn, 1, "ready\n")):
        (tmp_path / "log").write_text("")
        process = start(tmp_path, program + rest)
        until = time.monotonic() + 60
        while "ready" not in (tmp_path / "log").read_text() and time.monotonic() < until:
            time.sleep(0.02)
        assert process.status() is None
        process.stop()
        assert (process.status(), (tmp_path / "log").read_text()) == (status, words)
