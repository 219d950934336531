"""Why a cluster cannot be joined: told at once, with what to do about it."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.runtime import joining, ray_session
from tests.jobs.runtime.ray_head import environment, ray_head

ROOT = Path(__file__).parents[3]
TOKEN = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("10.0.0.1:6379", ("10.0.0.1", 6379)),
        ("ray://head:10001", ("head", 10001)),
        ("[::1]:6379", ("::1", 6379)),
        ("auto", None),
        ("local", None),
        ("host:port", None),
        ("host:99999", None),
    ],
)
def test_host_and_port_of_an_address(address: str, place: tuple[str, int] | None) -> None:
    assert joining.endpoint(address) == place


def test_an_address_where_nothing_listens_is_refused_by_key() -> None:
    with socket.socket() as other, socket.socket() as listening:
        other.bind(("127.0.0.1", 0))  # taken and silent, so that nothing else can listen there
        with pytest.raises(InputError, match=r"^ray\.address=x: "):
            joining.check_reachable(f"127.0.0.1:{other.getsockname()[1]}", name=joining.address_setting("x", "x"))
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        joining.check_reachable(f"127.0.0.1:{listening.getsockname()[1]}", name="ray.address=x")
    with pytest.raises(InputError, match=r"^RAY_ADDRESS=no\.invalid:1: "):
        joining.check_reachable("no.invalid:1", name=joining.address_setting("no.invalid:1", None))


class AuthenticationError(Exception):
    """Named as Ray's."""


def refused(said: str) -> ConnectionError:
    """As `ray.init` raises it: the reason is in the text of the cause."""
    error = ConnectionError("Failed to connect to Ray cluster at 10.0.0.1:6379")
    error.__cause__ = RuntimeError(f"Failed to connect to GCS. Last connection error: Traceback\n{said}")
    return error


BAD_TOKEN = "ray.exceptions.AuthenticationError: RPC error: InvalidAuthToken: missing or incorrect"


@pytest.mark.parametrize(
    ("error", "settings", "named"),
    [
        (refused(BAD_TOKEN), {}, ["RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token"]),
        (refused(BAD_TOKEN), {"RAY_AUTH_MODE": "disabled", "RAY_AUTH_TOKEN": TOKEN}, ["RAY_AUTH_MODE=token"]),
        (refused(BAD_TOKEN), {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": TOKEN}, ["the token of RAY_AUTH_TOKEN;"]),
        (refused(BAD_TOKEN), {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": "f"}, ["RAY_AUTH_TOKEN_PATH=f;"]),
        (AuthenticationError("no token"), {"RAY_AUTH_MODE": "token"}, ["there is no token", "~/.ray/auth_token"]),
        (refused("TimedOut"), {}, ["Failed to connect to Ray cluster"]),
        (ConnectionError(""), {}, ["(ConnectionError)"]),
    ],
    ids=["mode unset", "mode disabled", "wrong token", "wrong file", "no token", "no answer", "no words"],
)
def test_what_a_refused_driver_needs(
    error: Exception, settings: dict[str, str], named: list[str], tmp_path: Path
) -> None:
    said = joining.refusal(error, name="ray.address=a", environment={"HOME": str(tmp_path), **settings})
    assert said.startswith("ray.address=a: ")
    assert [words for words in named if words not in said] == []
    assert "\n" not in said
    assert TOKEN not in said


def test_the_token_of_the_home_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN)
    known = {"HOME": str(tmp_path), "RAY_AUTH_MODE": "token"}
    assert "the token of ~/.ray/auth_token;" in joining.refusal(refused(BAD_TOKEN), name="a", environment=known)


def test_a_shutdown_that_hangs_ends_with_the_processes_it_waits_for() -> None:
    killed = threading.Event()

    def gone() -> None:
        raise ProcessLookupError

    ray_session.bounded(killed.wait, kill=[gone, killed.set], seconds=0.05)
    assert killed.is_set()
    never = threading.Event()
    ray_session.bounded(lambda: None, kill=[never.set], seconds=60)
    assert not never.is_set()


@pytest.mark.timeout(600)
def test_a_cluster_that_requires_a_token(tmp_path: Path) -> None:
    """The commands of README against a cluster of Ray 2.60, which `ray start` makes with tokens."""
    (tmp_path / "part.tsv").write_text(
        "language\tpage_url\timage_url\tpage_title\tis_main_image\nen\thttp://p\thttps://i\tA riot\ttrue\n"
    )
    (tmp_path / "terms.txt").write_text("riot\n")
    out = tmp_path / "out"

    def mined(address: str, **settings: str) -> subprocess.CompletedProcess[str]:
        keys = [f"corpus.path={tmp_path}/part.tsv", f"terms.path={tmp_path}/terms.txt", f"out={out}"]
        return subprocess.run(
            [sys.executable, "-m", "jobs.mine", *keys, f"ray.address={address}"],
            cwd=ROOT,
            env=environment(tmp_path, PYTHONPATH=str(ROOT), **settings),
            capture_output=True,
            text=True,
            check=False,
        )

    with ray_head(environment(tmp_path, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN)) as address:
        without = mined(address)
        assert without.returncode == 2, without.stderr
        assert without.stderr.startswith(f"error: ray.address={address}: ")
        assert "RAY_AUTH_MODE=token" in without.stderr
        assert len(without.stderr.splitlines()) == 1  # none of Ray's own
        assert not out.exists()
        right = mined(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=TOKEN)
        assert right.returncode == 0, right.stderr
        assert list(out.glob("*.parquet"))


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
