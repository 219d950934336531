"""The driver prints each kind of workers' warnings once, and the number of all at the end."""

import logging
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from jobs.runtime import worker_warnings
from jobs.runtime.stage_contract import Stage
from jobs.runtime.stage_runners import StageRunner
from jobs.runtime.unit_columns import BEGUN, EXCLUDED, EXPECTED_ROWS, TASK
from jobs.runtime.worker_warnings import MOST_TEXTS, Collected, PrintedWarnings, send_to
from jobs.store.units import Unit
from jobs.store.writer import UnitTask
from tests.jobs.runtime.cluster.numbered_units import NUMBERED


class Same:
    """A stage that returns its rows."""

    INPUTS = OUTPUTS = NUMBERED

    def __call__(self, batch: pa.Table) -> pa.Table:
        return batch


def test_warnings_of_workers_are_printed_once_and_counted() -> None:
    collected, printed, log = Collected(), PrintedWarnings(), logging.getLogger("actors.judge")
    board = SimpleNamespace(tell=lambda method, *arguments: getattr(collected, method)(*arguments))
    task = UnitTask(Unit("u7", ())).to_json()
    try:
        for _ in range(2):  # a process that is used again sends each warning once
            send_to(board)
        worker_warnings.working_on([task])
        log.warning("out of memory on %s\nwith a trace", "cuda:0")
        worker_warnings.working_on([])
        log.info("nothing")
        logging.getLogger("transformers").warning("noise")
        ((line, place),) = printed.new_lines(collected.warnings())
        assert line == "warning of a worker: out of memory on cuda:0"
        assert place["units"] == ["u7"]
        log.warning("out of memory on cuda:0")
        log.warning("engine cascade is not used")
        ((line, place),) = printed.new_lines(collected.warnings())
        assert (line, place["units"]) == ("warning of a worker: engine cascade is not used", [])
        assert printed.new_lines(collected.warnings()) == []
        assert printed.new_lines({}) == []  # the board restarted
        assert printed.summary() == ["2 times: out of memory on cuda:0"]
        for number in range(2 * MOST_TEXTS):
            log.warning("number %d", number)
        assert len(collected.warnings()) == MOST_TEXTS
    finally:
        send_to(None)
    assert not any(isinstance(handler, worker_warnings._Sender) for handler in logging.getLogger("actors").handlers)


def test_a_stage_says_which_units_it_works_on(monkeypatch: pytest.MonkeyPatch) -> None:
    units: list[list[str]] = []
    monkeypatch.setattr(worker_warnings, "working_on", units.append)
    stage = Stage("same", Same, {})
    text = UnitTask(Unit("u7", ())).to_json()
    batch = pa.table({
        "item": ["a", "b"], "number": [1, 2], TASK: [text] * 2, EXPECTED_ROWS: [2, 2],
        EXCLUDED: ["{}"] * 2, BEGUN: [0.0, 0.0],
    })  # fmt: skip
    StageRunner(stage=stage, board=None)(batch)
    assert units[-1] == [text]


def test_a_board_that_is_full_counts_the_warnings_that_it_knows() -> None:
    """Each with the place where it was logged first."""
    collected = Collected()
    for number in range(MOST_TEXTS + 1):
        collected.warn(f"number {number}", {"node": "a"})
    for node in "bc":
        collected.warn("number 0", {"node": node})
    assert collected.warnings()["number 0"] == (3, {"node": "a"})
    assert f"number {MOST_TEXTS}" not in collected.warnings()
    assert f"number {MOST_TEXTS - 1}" in collected.warnings()


def test_the_most_frequent_warnings_are_summed_up_first() -> None:
    printed = PrintedWarnings()
    for counts in ({"rare": 2, "once": 1, "often": 1200}, {"rare": 1, "often": 3}):  # the board restarted in between
        printed.new_lines({text: (count, {}) for text, count in counts.items()})
    assert printed.summary() == ["1,200 times: often", "2 times: rare"]


def test_a_worker_that_is_used_again_keeps_other_handlers_and_forgets_its_units() -> None:
    logger, other = logging.getLogger("jobs"), logging.NullHandler()
    sent: list[tuple[Any, ...]] = []
    board = SimpleNamespace(tell=lambda *arguments: sent.append(arguments))
    logger.addHandler(other)
    try:
        worker_warnings.working_on([UnitTask(Unit("u7", ())).to_json()])
        send_to(board)
        logger.warning("")
        assert sent == [("warn", "", {"units": []})]
        send_to(None)
        assert other in logger.handlers
        logger.warning("x")
        assert len(sent) == 1
    finally:
        send_to(None)
        logger.removeHandler(other)
