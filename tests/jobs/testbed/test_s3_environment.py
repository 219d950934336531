"""What servers on the loopback interface share: environments, keys, ports, logs and the wait for a server."""

import socket
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs.testbed import s3_server
from jobs.testbed.s3_server import S3Server, free_ports, server_environment


class ServerWithoutProcess(S3Server):
    """A server that is never started."""

    LISTENERS = ()

    def _launch(self, ports: Mapping[str, int]) -> str:
        raise NotImplementedError


def test_the_environment_overrides_the_users_keys_and_keeps_their_exceptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "intranet.example,,127.0.0.1")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("S3_KEY", "mine")
    server = ServerWithoutProcess(tmp_path, access_key="a", secret_key="s")
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
        server = ServerWithoutProcess(tmp_path)
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
    server, asked = ServerWithoutProcess(tmp_path), list[int]()

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
    server = ServerWithoutProcess(tmp_path)
    server.log.write_bytes(b"".join(b"line %d \xff\n" % number for number in range(30)))
    assert server._last_lines().splitlines() == [f"line {number} \ufffd" for number in range(10, 30)]
