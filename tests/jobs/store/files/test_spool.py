"""Temporary folders of processes that were killed."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobs.store.files import spool
from jobs.store.files.spool import LOCK, UNLOCKED, Spool, sweep

CHILD = """
import sys
from jobs.store.files.spool import Spool
made = Spool("child")
(made.path / "half.parquet").write_bytes(b"x")
print(made.path, flush=True)
sys.stdin.read()
"""
ROOT = Path(__file__).parents[4]


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for temporary files, in this process and in those it starts."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spool.sweep.cache_clear()
    return tmp_path


def start() -> "tuple[subprocess.Popen[str], Path]":
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    return child, Path(child.stdout.readline().strip())


def test_only_what_the_dead_left_is_swept(place: Path) -> None:
    alive, kept = start()
    killed, left = start()
    killed.send_signal(signal.SIGKILL)
    killed.wait(30)
    others = [place / "remine-by-hand", place / "elsewhere-x"]
    for other in others:
        other.mkdir()
        (other / "note").write_text("mine")
    (others[1] / LOCK).touch()
    (place / "remine-link").symlink_to(others[1])
    try:
        assert kept.is_dir()
        assert left.is_dir()
        with Spool("new") as output:
            assert not left.exists()
            assert (kept / "half.parquet").exists()
            assert output.path.is_dir()
            assert output.path.name.startswith("remine-new-")
        assert not output.path.exists()
        assert all((other / "note").exists() for other in others)
    finally:
        assert alive.stdin is not None
        alive.stdin.close()
        assert alive.wait(30) == 0
    assert not kept.exists()  # an ordinary end cleans up


@pytest.mark.parametrize("names", [[], [UNLOCKED]])
def test_a_spool_whose_process_ended_before_its_lock_is_swept_later(place: Path, names: list[str]) -> None:
    left = place / "remine-begun"
    left.mkdir()
    for name in names:
        (left / name).touch()
    sweep(str(place))
    assert left.exists()
    os.utime(left, (1e9, 1e9))
    sweep.cache_clear()
    sweep(str(place))
    assert not left.exists()


def test_the_lock_is_removed_last(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spooled = Spool()
    for name in ("a", "z"):
        (spooled.path / name).mkdir()
        (spooled.path / name / "data").touch()
    monkeypatch.setattr(spooled._folder, "cleanup", lambda: None)  # the process ends here
    spooled.cleanup()
    assert [path.name for path in spooled.path.iterdir()] == [LOCK]
    sweep.__wrapped__(str(place))
    assert not spooled.path.exists()


def test_a_spool_is_never_seen_unlocked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep at every moment of a spool's making leaves it alone."""
    locked = fcntl.flock

    def swept(descriptor: int, variant: int) -> None:
        monkeypatch.setattr(fcntl, "flock", locked)
        spool.sweep.__wrapped__(str(place))
        locked(descriptor, variant)
        spool.sweep.__wrapped__(str(place))

    monkeypatch.setattr(fcntl, "flock", swept)
    with Spool() as output:
        spool.sweep.__wrapped__(str(place))
        assert output.path.is_dir()


def test_without_locks_there_is_a_spool_that_nobody_sweeps(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(descriptor: int, variant: int) -> None:
        raise OSError("no locks here")

    with monkeypatch.context() as patch:
        patch.setattr(fcntl, "flock", refused)
        spooled = Spool()
    spool.sweep.__wrapped__(str(place))
    assert spooled.path.is_dir()
    spooled.cleanup()
    assert not spooled.path.exists()


def test_a_lock_is_not_inherited(place: Path) -> None:
    """A child process does not keep its parent's spool forever."""
    spooled = Spool()
    child = subprocess.Popen(["sleep", "30"])
    try:
        assert spooled._lock is not None
        os.close(spooled._lock)  # as the kernel does at its death
        spooled._lock = None
        spool.sweep.__wrapped__(str(place))
        assert not spooled.path.exists()
    finally:
        child.kill()
        child.wait()
        spooled.cleanup()


def test_what_another_user_left_is_not_swept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = place / f"{spool.PREFIX}left"
    left.mkdir()
    (left / LOCK).touch()
    user = os.getuid()
    for is_own in (False, True):
        monkeypatch.setattr(os, "getuid", lambda is_own=is_own: user if is_own else user + 1)
        spool.sweep.cache_clear()
        spool.sweep(str(place))
        assert left.exists() is not is_own
