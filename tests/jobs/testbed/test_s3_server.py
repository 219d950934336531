"""Starts of a local S3 server whose processes do not run: its attempts, its ports, and what it says."""

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.testbed.s3_server import START_ATTEMPTS, S3Server


class UnstartedServer(S3Server):
    """Fails to start a number of times, and then starts without a process."""

    LISTENERS = ("api", "admin")

    def __init__(self, folder: Path, failures: int, error: type[BaseException] | None = None) -> None:
        super().__init__(folder)
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
