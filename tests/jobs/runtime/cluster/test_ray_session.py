"""Joining a cluster that cannot be joined: the error comes at once and says what to do."""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.resources import NodeType, RayConfig, Resources
from tests.cases import check_cases

ROOT = Path(__file__).parents[4]
TOKEN = "0123456789abcdef" * 4


def test_host_and_port_of_an_address() -> None:
    expected = {
        "10.0.0.1:6379": ("10.0.0.1", 6379),
        "ray://head:10001": ("head", 10001),
        "[::1]:6379": ("::1", 6379),
        "auto": None,
        "local": None,
        "host:port": None,
        "host:99999": None,
    }
    assert {address: ray_session.endpoint(address) for address in expected} == expected


def test_an_address_where_nothing_listens_is_refused_by_key() -> None:
    with socket.socket() as other, socket.socket() as listening:
        other.bind(("127.0.0.1", 0))  # taken and silent, so that nothing else can listen there
        with pytest.raises(InputError, match=r"^ray\.address=x: "):
            ray_session.check_reachable(
                f"127.0.0.1:{other.getsockname()[1]}", name=ray_session.address_setting("x", "x")
            )
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        ray_session.check_reachable(f"127.0.0.1:{listening.getsockname()[1]}", name="ray.address=x")
    with pytest.raises(InputError, match=r"^RAY_ADDRESS=no\.invalid:1: "):
        ray_session.check_reachable("no.invalid:1", name=ray_session.address_setting("no.invalid:1", None))


class AuthenticationError(Exception):
    """Named as Ray's."""


def refused(message: str) -> ConnectionError:
    """Return an error as `ray.init` raises it: the reason is in the text of the cause."""
    error = ConnectionError("Failed to connect to Ray cluster at 10.0.0.1:6379")
    error.__cause__ = RuntimeError(f"Failed to connect to GCS. Last connection error: Traceback\n{message}")
    return error


BAD_TOKEN = "ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: missing or incorrect"


def test_what_a_refused_driver_needs(tmp_path: Path) -> None:
    cases = {
        "mode unset": (
            refused(BAD_TOKEN),
            {},
            ["RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token"],
        ),
        "mode disabled": (
            refused(BAD_TOKEN),
            {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": TOKEN},
            ["RAY_AUTH_MODE=token"],
        ),
        "wrong token": (
            refused(BAD_TOKEN),
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN},
            ["the token of RAY_AUTH_TOKEN;"],
        ),
        "wrong file": (
            refused(BAD_TOKEN),
            {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "f"},
            ["RAY_AUTH_TOKEN_PATH=f;"],
        ),
        "no token": (
            AuthenticationError("no token"),
            {"RAY_AUTH_MODE": "token"},
            ["there is no token", "~/.ray/auth_token"],
        ),
        "no answer": (refused("TimedOut"), {}, ["Failed to connect to Ray cluster"]),
        "no words": (ConnectionError(""), {}, ["(ConnectionError)"]),
    }

    def check(error: Exception, settings: dict[str, str], named: list[str]) -> None:
        message = ray_session.refusal(error, name="ray.address=a", environment={"HOME": str(tmp_path), **settings})
        assert message.startswith("ray.address=a: ")
        assert [words for words in named if words not in message] == []
        assert "\n" not in message
        assert TOKEN not in message

    check_cases(check, cases)


def test_the_token_of_the_home_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN)
    columns = {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token"}
    assert "the token of ~/.ray/auth_token;" in ray_session.refusal(refused(BAD_TOKEN), name="a", environment=columns)


def test_a_shutdown_that_hangs_ends_with_the_processes_it_waits_for() -> None:
    killed = threading.Event()

    def gone() -> None:
        raise ProcessLookupError

    ray_session.bounded(killed.wait, kill=[gone, killed.set], seconds=0.05)
    assert killed.is_set()
    never = threading.Event()
    ray_session.bounded(lambda: None, kill=[never.set], seconds=60)
    assert not never.is_set()


def test_a_start_that_takes_ray_too_long_is_repeated_and_leaves_no_process() -> None:
    starts: list[subprocess.Popen[bytes]] = []

    def slow_at_first() -> None:
        starts.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]))
        if len(starts) < 3:
            raise Exception("The current node timed out during startup. This could happen …")

    try:
        ray_session._repeat_if_slow(slow_at_first)
        assert [process.wait() for process in starts[:2]] == [-signal.SIGKILL] * 2
        assert starts[2].poll() is None
    finally:
        for process in starts:
            process.kill()
            process.wait()

    calls: list[str] = []

    def fails(message: str) -> Callable[[], None]:
        def start_ray() -> None:
            calls.append(message)
            raise RuntimeError(message)

        return start_ray

    for message, expected in (("no space left", 1), (ray_session.SLOW_START, ray_session.START_TRIES)):
        with pytest.raises(RuntimeError, match=message):
            ray_session._repeat_if_slow(fails(message))
        assert calls.count(message) == expected


def test_as_many_actors_may_fail_to_start_as_there_are_places_twice() -> None:
    head, worker = {"CPU": 0.0, "memory": 1e9}, {"CPU": 4.0, "GPU": 1.0}
    assert ray_session.failed_starts([{"CPU": 4.0}], grows=False) == 0
    assert ray_session.failed_starts([head, worker], grows=False) == 0
    assert ray_session.failed_starts([head, *[worker] * 8], grows=False) == 16
    assert ray_session.failed_starts([{"CPU": 96.0, "GPU": 8.0}], grows=False) == 16
    assert ray_session.failed_starts([head, *[{"GPU": 1.0}] * 2], grows=False) == 4
    assert ray_session.failed_starts([head], grows=True) == 3


@pytest.mark.parametrize(
    ("shown", "fails", "drops", "is_printed"),
    [
        (True, False, False, True),
        (False, False, False, False),
        (False, True, False, True),
        (False, True, True, False),
    ],
)
def test_what_ray_writes_while_it_starts_is_printed_if_the_start_fails(
    capfd: pytest.CaptureFixture[str], shown: bool, fails: bool, drops: bool, is_printed: bool
) -> None:
    expected = pytest.raises(KeyError) if fails else contextlib.nullcontext()
    with expected, ray_session._hold_back_stderr(shown=shown) as held:
        os.write(2, b"a line of the raylet\n")
        if drops:
            held.drop()
        if fails:
            raise KeyError
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "a line of the raylet\n" * is_printed + "later\n"


def test_the_address_of_the_configuration_is_that_of_the_cluster() -> None:
    assert ray_session.address_of(RayConfig(address="10.0.0.1:6379")) == "10.0.0.1:6379"


def test_ray_gets_the_settings_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cluster only its address and what is logged; Ray's own processes end with the command."""
    import ray

    started: list[dict[str, Any]] = []
    watched: list[list[int]] = []
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(ray, "init", lambda **options: started.append(options))
    monkeypatch.setattr(ray_session, "check_reachable", lambda address, *, name: None)
    monkeypatch.setattr(ray_session.local_ray, "end_with_command", lambda pids: watched.append(list(pids)))
    silent = {"log_to_driver": False, "configure_logging": True, "logging_level": logging.ERROR}
    shown = {"log_to_driver": True, "configure_logging": True, "logging_level": logging.INFO}
    local = {"address": "local", "include_dashboard": False}
    ray_session._start_here(RayConfig(), Resources(object_store_memory_gb=None))
    ray_session._start_here(RayConfig(num_cpus=3, verbose=True), Resources(object_store_memory_gb=1.5))
    ray_session._join("10.0.0.1:6379", RayConfig())
    ray_session._join("10.0.0.1:6379", RayConfig(verbose=True))
    assert started == [
        {**local, "num_cpus": None, "object_store_memory": None, **silent},
        {**local, "num_cpus": 3, "object_store_memory": 3 * 2**29, **shown},
        {"address": "10.0.0.1:6379", **silent},
        {"address": "10.0.0.1:6379", **shown},
    ]
    assert watched == [[], []]
    expected = {
        "RAY_num_workers_soft_limit": f"{max(ray_session.IDLE_WORKERS, os.cpu_count() or 1)}",
        "RAY_gcs_server_port_wait_time_s": f"{ray_session.JOIN_TRIES}",
    }
    assert {name: os.environ.get(name) for name in expected} == expected


def test_a_cluster_that_grows_has_its_machines_and_the_kinds_it_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Ray's kinds, those of which machines may start; without them, those of the configuration."""
    import ray
    from ray._private.state import state

    head, worker, lost = {"CPU": 1.0}, {"CPU": 8.0, "GPU": 1.0}, {"CPU": 64.0}
    nodes = [{"Resources": head, "Alive": True}, {"Resources": lost, "Alive": False}]
    kinds = [
        SimpleNamespace(resources=of_kind, max_count=most)
        for of_kind, most in ((worker, 2), ({"CPU": 96.0}, 0), ({}, 3))
    ]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    configured = [NodeType(num_cpus=4)]
    for resources, groups, expected in (
        (Resources(), kinds, [head]),
        (Resources(autoscaling=True), kinds, [head, worker]),
        (Resources(autoscaling=True, node_types=configured), kinds, [head, worker]),
        (Resources(autoscaling=True, node_types=configured), [], [head, {"CPU": 4, "GPU": 0}]),
        (Resources(autoscaling=True, node_types=configured), None, [head, {"CPU": 4, "GPU": 0}]),
        (Resources(autoscaling=True), None, []),  # unknown: not checked
    ):
        config: Any = None if groups is None else SimpleNamespace(node_group_configs=groups)
        monkeypatch.setattr(state, "get_cluster_config", lambda config=config: config)
        assert ray_session._machines(resources) == expected
