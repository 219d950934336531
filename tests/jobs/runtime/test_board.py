"""The counters of runs on the board, without Ray: what is added, sent and forgotten."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from jobs.runtime import board as board_module
from jobs.runtime.attempts import Ledger
from jobs.runtime.board import ANSWER_S, REPORT_EVERY_S, Board, Reporter, RunBoard, StageCounts, Totals
from tests.jobs.runtime.ending_stage import LocalBoard


def test_a_run_that_ended_leaves_nothing() -> None:
    """Another run with the same name begins at 0; the parts of other runs stay."""
    board = Board()
    for run in ("first", "second"):
        board.call(run, StageCounts, StageCounts.add, ("judge", 2, 1, {"retries": 3}))
        board.call(run, Ledger, Ledger.give_up, ("unit", "reason"))
    board.forget("first")
    assert board.call("first", StageCounts, StageCounts.read, ())[1] == {}
    assert board.call("first", Ledger, Ledger.given_up, ()) == {}
    assert board.call("second", StageCounts, StageCounts.read, ())[1] == {"judge": (2, 1, Counter(retries=3))}
    assert board.call("second", Ledger, Ledger.given_up, ()) == {"unit": "reason"}


def test_a_part_of_a_board_calls_methods_and_an_answer_that_is_late_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    board, waits = Board(), list[float]()

    def get(answer: Any, timeout: float) -> Any:
        waits.append(timeout)
        if timeout < 1:
            raise TimeoutError
        return answer

    monkeypatch.setattr(ray, "get", get)
    handle: Any = SimpleNamespace(call=SimpleNamespace(remote=board.call))
    run, other = RunBoard(handle), RunBoard(handle)
    run.part(Ledger).tell(Ledger.give_up, "unit", "reason")
    assert run.part(Ledger).ask({}, Ledger.given_up) == {"unit": "reason"}
    assert run.part(Ledger, timeout=0.5).ask({}, Ledger.given_up) == {}
    assert other.part(Ledger).ask({}, Ledger.given_up) == {}
    assert waits == [ANSWER_S, 0.5, ANSWER_S]


def test_counters_are_added_by_stage() -> None:
    counts = StageCounts()
    for stage, done in (("judge", 1), ("decode", 2), ("judge", 4)):
        counts.add(stage, done, 1, {"retries": done})
    assert counts.read()[1] == {"judge": (5, 2, Counter(retries=5)), "decode": (2, 1, Counter(retries=2))}


def test_totals_add_the_counters_of_every_board_that_was_lost() -> None:
    totals = Totals()
    results = [totals.update(life, {"judge": (done, 0, Counter(n=done))}) for life, done in
               (("a", 1), ("a", 3), ("b", 2), ("c", 4), ("c", 5))]  # fmt: skip
    assert [of_time["judge"][0] for of_time in results] == [1, 3, 5, 9, 10]
    assert totals.update("d", {}) == {"judge": (10, 0, Counter(n=10))}


def test_a_reporter_sends_each_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """At most every half second; notes alone are sent, too; each sending is a sign of progress."""
    seconds, progress = [10.0], list[float]()
    monkeypatch.setattr(board_module, "time", SimpleNamespace(monotonic=lambda: seconds[0]))
    board = LocalBoard()
    sent = board.told[StageCounts]
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
