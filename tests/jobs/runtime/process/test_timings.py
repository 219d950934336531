"""Times of the phases of a command, in the driver and in workers."""

import functools

import pytest

from jobs.kb import KbConfig
from jobs.runtime.command_line import cli
from jobs.runtime.process import timings
from jobs.runtime.process.timings import FIRST, START, Phases, PhaseTimes, WorkerTimes
from tests.jobs.runtime.ending_stage import LocalBoard


def test_phases_are_printed_in_order_and_workers_last() -> None:
    phases = Phases(lambda: 100.0)
    phases.mark("imports", 101.25)
    phases.mark("Ray", 107.5)
    phases.add_workers({"Judge": {START: 5.0, FIRST: 0.25}})
    assert not phases.is_shown
    assert phases.take_lines() == [
        "time     1.2 s  imports",
        "time     6.2 s  Ray",
        "time            Judge: start 5.0 s, first batch 0.2 s",
    ]
    phases.mark("stages", 108.5)
    assert phases.take_lines() == ["time     1.0 s  stages"]  # of the next step of a pipeline


def test_a_worker_reports_its_start_and_its_first_batch() -> None:
    board = LocalBoard()
    times = WorkerTimes(board, "Judge")
    times.end()
    for _ in range(3):
        times.begin()
        times.end()
    spent = board.of(PhaseTimes).spent()
    assert list(spent["Judge"]) == [START, FIRST]
    board.of(PhaseTimes).spend("Judge", START, 1000.0)
    board.of(PhaseTimes).spend("Judge", START, 1.0)
    assert board.of(PhaseTimes).spent()["Judge"][START] == 1000.0
    WorkerTimes(None, "Judge").end()


def test_each_job_of_a_process_prints_its_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(timings, "DRIVER", Phases(lambda: 0.0))
    for name in ("first", "second"):
        execute = functools.partial(lambda phase, _: timings.DRIVER.mark(phase), f"stage of {name}")
        monkeypatch.setattr(cli, "job", lambda _, execute=execute: cli.Job("kb", KbConfig, execute))
        cli.execute_loaded("kb", KbConfig(timings=True), [])
        phases = [line.split(" s  ")[1] for line in capsys.readouterr().out.splitlines()]
        assert phases == ["imports and configuration", f"stage of {name}"]
