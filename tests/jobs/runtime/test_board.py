"""The counters of runs on the board, without Ray: what is added, sent and forgotten."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.runtime import board as board_module
from jobs.runtime.board import REPORT_EVERY_S, Board, Reporter, Totals
from jobs.store.counts import ItemErrors


def test_a_run_that_ended_leaves_neither_counters_nor_attempts() -> None:
    """Another run with the same name begins at 0; the counters of other runs stay."""
    board = Board()
    for run in ("first", "second"):
        board.add(run, "judge", 2, 1, {"retries": 3})
        board.call(run, "give_up", "unit", "reason")
    board.forget("first")
    assert (board.read("first")[1], board.call("first", "given_up")) == ({}, {})
    assert board.read("second")[1] == {"judge": (2, 1, Counter(retries=3))}
    assert board.call("second", "given_up") == {"unit": "reason"}


def test_each_run_has_warnings_times_and_errors_of_its_workers() -> None:
    board = Board()
    for _ in range(2):
        board.call("first", "warn", "slow", {"actor": "a"})
        board.call("first", "spend", "a", "start", 2.0)
        errors = board.call("first", "add_errors", ItemErrors(3))
    assert board.call("first", "warnings") == {"slow": (2, {"actor": "a"})}
    assert board.call("first", "spent") == {"a": {"start": 2.0}}
    assert errors.items == 6
    assert (board.call("second", "warnings"), board.call("second", "spent")) == ({}, {})
    assert board.call("second", "add_errors", ItemErrors(1)).items == 1


def test_counters_are_added_by_run_and_stage() -> None:
    board = Board()
    for stage, done in (("judge", 1), ("decode", 2), ("judge", 4)):
        board.add("run", stage, done, 1, {"retries": done})
    assert board.read("run")[1] == {"judge": (5, 2, Counter(retries=5)), "decode": (2, 1, Counter(retries=2))}


def test_totals_add_the_counters_of_every_board_that_was_lost() -> None:
    totals = Totals()
    results = [totals.update(life, {"judge": (done, 0, Counter(n=done))}) for life, done in
               (("a", 1), ("a", 3), ("b", 2), ("c", 4), ("c", 5))]  # fmt: skip
    assert [of_time["judge"][0] for of_time in results] == [1, 3, 5, 9, 10]
    assert totals.update("d", {}) == {"judge": (10, 0, Counter(n=10))}


def test_a_reporter_sends_each_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most every half second; notes alone are sent, too; each sending is a sign of progress."""
    seconds, sent, progress = [10.0], [], []
    monkeypatch.setattr(board_module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    board: Any = SimpleNamespace(add=lambda *counts: sent.append(counts))
    reporter = Reporter(board, "judge", lambda: progress.append(seconds[0]))
    reporter.add(1)
    reporter.add(2, errors=1, retries=3)
    assert sent == [("judge", 1, 0, {})]
    seconds[0] += REPORT_EVERY_S
    reporter.add(0, retries=1)
    assert sent[1:] == [("judge", 2, 1, {"retries": 4})]
    seconds[0] += REPORT_EVERY_S
    reporter.add(0, pauses=2)
    reporter.flush()
    assert sent[2:] == [("judge", 0, 0, {"pauses": 2})]
    assert progress == [10.0, 10.5, 11.0, 11.0]
