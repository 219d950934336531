"""Processes that end with their owner: their output, their status, and what they leave."""

import os
import sys
import time
from pathlib import Path

import pytest

from jobs.testbed import kept_process
from jobs.testbed.kept_process import KeptProcess


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
    shorter = kept_process.KEEPER.replace(f"wait({kept_process.STOP_SECONDS})", "wait(0.2)")
    assert shorter != kept_process.KEEPER
    monkeypatch.setattr(kept_process, "KEEPER", shorter)
    for program, status, words in ((quick, 0, "ready\nasked\n"), (stubborn, 1, "ready\n")):
        (tmp_path / "log").write_text("")
        process = start(tmp_path, program + rest)
        until = time.monotonic() + 60
        while "ready" not in (tmp_path / "log").read_text() and time.monotonic() < until:
            time.sleep(0.02)
        assert process.status() is None
        process.stop()
        assert (process.status(), (tmp_path / "log").read_text()) == (status, words)
