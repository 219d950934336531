"""Rows that end their process in every attempt are found and left out; the loss of a machine is not attributed."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors import schemas
from actors.status import PROCESS_DIED, Reason, failed_reason
from actors.vlm.errors import EngineError
from jobs.errors import RunError
from jobs.runtime import attempts
from jobs.runtime.attempts import STARTS, UNIT_ATTEMPTS, Attempts, mark_failed
from jobs.runtime.stage_contract import Read, Stage
from jobs.runtime.stage_runners import StageRunner, UnitRunner
from jobs.runtime.unit_blocks import UnitReader, UnitSink
from jobs.runtime.unit_columns import TASK, sum_tallies
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask
from tests.jobs.runtime.ending_stage import Ended, LocalBoard, Rater, batch, restarted_until_done


def test_a_row_that_ends_its_process_each_time_is_an_error_after_three(board: LocalBoard) -> None:
    Rater.deaths = {"i2": 99}
    returned, ended = restarted_until_done(board)
    assert ended == 3
    assert returned["status"].to_pylist() == ["ok", "ok", "error", "ok", "ok", "ok"]
    assert returned["error_kind"].to_pylist()[2] == PROCESS_DIED.kind == "process_died"
    assert len(board.records._open) == 1  # what is done is forgotten, but not the row


@pytest.mark.parametrize("counted", [True, False])
def test_rows_at_which_the_stage_raises_are_errors_of_their_kind(
    board: LocalBoard, monkeypatch: pytest.MonkeyPatch, *, counted: bool
) -> None:
    monkeypatch.setattr(Rater, "deaths", {})
    monkeypatch.setattr(Rater, "raises", {"i1": ValueError("cursed\nline 2"), "i4": MemoryError()})
    runner = StageRunner(stage=Stage("judge", Rater, {}), board=board if counted else None)
    returned = runner(batch())
    assert returned["status"].to_pylist() == ["ok", "error", "ok", "ok", "error", "ok"]
    assert returned["error_kind"].to_pylist() == [None, "ValueError", None, None, "out_of_memory", None]
    assert returned["error_message"].to_pylist()[1] == "ValueError: cursed"
    assert sum_tallies(returned) == {"seen": {"rows": 6}}  # nothing twice
    assert not board.records._open or not counted


def test_a_stage_that_raises_at_the_marked_row_or_breaks_its_contract_ends_the_run(board: LocalBoard) -> None:
    class Stubborn(Rater):
        def __call__(self, batch: pa.Table) -> pa.Table:
            raise ValueError("no")

    with pytest.raises(RunError, match="Stubborn fails at row i0: ValueError: no"):
        StageRunner(stage=Stage("judge", Stubborn, {}), board=board)(batch())

    class Short(Rater):
        def __call__(self, batch: pa.Table) -> pa.Table:
            return batch.slice(1)

    with pytest.raises(RunError, match="returned 5 rows for 6"):
        StageRunner(stage=Stage("judge", Short, {}), board=board)(batch())


def test_a_row_that_takes_too_long_is_done_alone_at_once_and_named_so(
    board: LocalBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr("jobs.runtime.attempts.time.monotonic", lambda: clock[0])

    class Slow(Rater):
        def __call__(self, batch: pa.Table) -> pa.Table:
            if ("i2", "ok") in zip(batch["item_id"].to_pylist(), batch["status"].to_pylist(), strict=True):
                clock[0] += 100  # the watch ends the process
                raise Ended
            return batch

    for _ in range(2):  # at the batch and at the row
        with pytest.raises(Ended):
            StageRunner(stage=Stage("judge", Slow, {}), board=board, row_timeout_s=100)(batch())
    returned = StageRunner(stage=Stage("judge", Slow, {}), board=board, row_timeout_s=100)(batch())
    assert returned["error_kind"].to_pylist() == [None, None, "timed_out", None, None, None]


def test_units_that_end_the_process_that_reads_or_writes_them_are_left_out(board: LocalBoard, tmp_path: Path) -> None:
    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    for stage in ("UnitReader", "UnitSink"):
        for _ in range(UNIT_ATTEMPTS):
            board.records.begin(Attempts(board, stage)._key(("u1",)), None)
    task = pa.table({TASK: [UnitTask(Unit("u1", ()), 0, ()).to_json()]})

    def rows(_: UnitTask) -> pa.Table:
        raise AssertionError("the unit must not be attempted again")

    reader = UnitReader(Read(rows, "item_id", "item_id"), target, [Stage("judge", Rater, {})], board)
    assert reader(task).num_rows == 0
    assert board.records.given_up() == {"u1": f"the process that reads it ended 3 times; {attempts.REMEDY}"}
    UnitSink(target, board=board)(task.set_column(0, TASK, task[TASK].dictionary_encode()))
    assert board.records.given_up() == {"u1": f"the process that writes it ended 3 times; {attempts.REMEDY}"}
    assert not list(tmp_path.iterdir())


def test_a_unit_at_which_its_actor_raises_is_left_out_and_the_next_is_done(board: LocalBoard, tmp_path: Path) -> None:
    class Mine:
        def __call__(self, task: UnitTask, *_: Any) -> None:
            if task.unit.name in errors:
                raise errors[task.unit.name]

    errors: dict[str, Exception] = {"u1": ValueError("cursed")}
    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    tasks = pa.table({TASK: [UnitTask(Unit(name, ()), 0, ()).to_json() for name in ("u1", "u2")]})
    UnitRunner(stage=Stage("mine", Mine, {}), board=board, target=target)(tasks)
    assert board.records.given_up() == {"u1": "Mine failed: ValueError: cursed"}
    assert [path.name for path in tmp_path.iterdir()] == ["u2.parquet"]
    assert not board.records._open
    errors["u2"] = OSError("the store is gone")
    with pytest.raises(OSError, match="gone"):
        UnitRunner(stage=Stage("mine", Mine, {}), board=board, target=target)(tasks)
    with pytest.raises(ValueError, match="cursed"):  # nothing counts the units that are left out
        UnitRunner(stage=Stage("mine", Mine, {}), board=None, target=target)(tasks)
    errors["u1"] = EngineError("the engine is dead")
    with pytest.raises(EngineError):  # of the device, not of the unit
        UnitRunner(stage=Stage("mine", Mine, {}), board=board, target=target)(tasks)


def test_several_such_rows_cost_one_end_each(board: LocalBoard) -> None:
    Rater.deaths = {"i1": 99, "i4": 99, "i5": 99}
    returned, ended = restarted_until_done(board)
    assert ended == 5
    assert returned["status"].to_pylist() == ["ok", "error", "ok", "ok", "error", "error"]


def test_machines_that_are_withdrawn_twice_cost_no_row(board: LocalBoard) -> None:
    Rater.deaths = {"i5": 2}
    returned, ended = restarted_until_done(board)
    assert (ended, set(returned["status"].to_pylist())) == (2, {"ok"})


def test_a_stage_that_ends_even_at_the_marked_row_ends_the_run(board: LocalBoard) -> None:
    class Stubborn(Rater):
        def __call__(self, batch: pa.Table) -> pa.Table:
            raise Ended

    runner = StageRunner(stage=Stage("judge", Stubborn, {}), board=board)
    for _ in range(4):
        with pytest.raises(Ended):
            runner(batch())
    with pytest.raises(RunError, match="the process of Stubborn died at row i0;"):
        runner(batch())


def test_a_unit_that_ends_its_process_each_time_is_left_out(board: LocalBoard, tmp_path: Path) -> None:
    for attempt in range(UNIT_ATTEMPTS):
        assert board.records.begin(Attempts(board, "Mine")._key(("unit", "u1")), None) == attempt

    class Mine:
        def __call__(self, *_: Any) -> None:
            raise AssertionError("the unit must not be attempted again")

    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    task = UnitTask(Unit("u1", ()), 0, ())
    UnitRunner(stage=Stage("mine", Mine, {}), board=board, target=target)(pa.table({TASK: [task.to_json()]}))
    assert list(board.records.given_up()) == ["u1"]
    assert not list(tmp_path.iterdir())


def test_a_constructor_that_ends_its_process_each_time_ends_the_run(board: LocalBoard) -> None:
    for _ in range(STARTS):
        with pytest.raises(Ended), Attempts(board, "Judge").start():
            raise Ended
    message = "the process of Judge ended 4 times while it started; there is too little memory"
    with pytest.raises(RunError, match=message), Attempts(board, "Judge").start():
        pass
    board.records._open.clear()
    for _ in range(2 * STARTS):  # a spot machine a day
        with Attempts(board, "Judge").start():
            pass


def test_without_a_board_errors_pass_unchanged() -> None:
    Rater.deaths, Rater.lost = {}, 1
    with pytest.raises(EngineError):
        StageRunner(stage=Stage("judge", Rater, {}), board=None)(batch())


def test_stages_without_an_error_kind_are_given_the_reason_as_the_status() -> None:
    reason = Reason("ValueError", "ValueError: a: b")
    items = pa.table({"item_id": ["a"], "pictures": [[b"x"]], "status": ["ok"]})
    assert failed_reason(mark_failed(items, reason)["status"][0].as_py()) == reason
    texts = pa.table({"text_id": ["a"], "text": ["x"]})
    assert failed_reason(mark_failed(texts, PROCESS_DIED)["status"][0].as_py()) == PROCESS_DIED
    assert [failed_reason(status) for status in (None, "ok", "error", "process_died")] == [None] * 4
    pixels = schemas.DECODED_PICTURES.empty_table().to_pylist() or [{"item_id": "a", "pixels": b"x", "status": "ok"}]
    marked = mark_failed(pa.Table.from_pylist(pixels, schema=schemas.DECODED_PICTURES), reason).to_pylist()[0]
    assert (marked["status"], marked["error_kind"], marked["error_message"]) == ("error", *reason)
    assert marked["pixels"] is None
