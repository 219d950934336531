"""The driver prints each kind of workers' warnings once, and the number of all at the end."""

import logging
from types import SimpleNamespace

import pyarrow as pa
import pytest

from jobs.runtime import stage_workers, worker_warnings
from jobs.runtime.stage_contract import Stage
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
        "item": ["a", "b"], "number": [1, 2], stage_workers.TASK: [text] * 2, stage_workers.EXPECTED_ROWS: [2, 2],
        stage_workers.EXCLUDED: ["{}"] * 2, stage_workers.BEGUN: [0.0, 0.0],
    })  # fmt: skip
    stage_workers.StageRunner(stage=stage, board=None)(batch)
    assert units[-1] == [text]
