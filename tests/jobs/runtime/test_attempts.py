"""Rows and GPUs that end their process in every attempt are left out; the loss of a machine is not attributed."""

import os
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors import schemas
from actors.devices import MissingDeviceError
from actors.status import PROCESS_DIED, Reason, failed_reason
from actors.vlm.errors import EngineError
from jobs.errors import RunError
from jobs.runtime import attempts
from jobs.runtime.attempts import (
    DEVICE_FAULTS,
    STARTS,
    UNIT_ATTEMPTS,
    Attempts,
    BadDevices,
    Device,
    Ledger,
    mark_failed,
)
from jobs.runtime.board import RunBoard
from jobs.runtime.stage_contract import TASK, Read, Stage, sum_tallies
from jobs.runtime.stage_workers import StageRunner, UnitReader, UnitRunner, UnitSink
from jobs.runtime.worker_reports import REMEDY, WarningCounts
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask
from tests.jobs.runtime.ending_stage import Ended, LocalBoard, Rater, batch, restarted_until_done


def test_a_row_that_ends_its_process_each_time_is_an_error_after_three(board: LocalBoard) -> None:
    Rater.deaths = {"i2": 99}
    returned, ended = restarted_until_done(board)
    assert ended == 3
    assert returned["status"].to_pylist() == ["ok", "ok", "error", "ok", "ok", "ok"]
    assert returned["error_kind"].to_pylist()[2] == PROCESS_DIED.kind == "process_died"
    assert len(board.of(Ledger)._open) == 1  # what is done is forgotten, but not the row


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
    assert not board.of(Ledger)._open or not counted


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
            board.of(Ledger).begin(Attempts(board, stage)._key(("u1",)), None)
    task = pa.table({TASK: [UnitTask(Unit("u1", ()), 0, ()).to_json()]})

    def rows(_: UnitTask) -> pa.Table:
        raise AssertionError("the unit must not be attempted again")

    reader = UnitReader(Read(rows, "item_id", "item_id"), target, [Stage("judge", Rater, {})], board)
    assert reader(task).num_rows == 0
    assert board.of(Ledger).given_up() == {"u1": f"the process that reads it ended 3 times; {REMEDY}"}
    UnitSink(target, board=board)(task.set_column(0, TASK, task[TASK].dictionary_encode()))
    assert board.of(Ledger).given_up() == {"u1": f"the process that writes it ended 3 times; {REMEDY}"}
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
    assert board.of(Ledger).given_up() == {"u1": "Mine failed: ValueError: cursed"}
    assert [path.name for path in tmp_path.iterdir()] == ["u2.parquet"]
    assert not board.of(Ledger)._open
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
        assert board.of(Ledger).begin(Attempts(board, "Mine")._key(("unit", "u1")), None) == attempt

    class Mine:
        def __call__(self, *_: Any) -> None:
            raise AssertionError("the unit must not be attempted again")

    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    task = UnitTask(Unit("u1", ()), 0, ())
    UnitRunner(stage=Stage("mine", Mine, {}), board=board, target=target)(pa.table({TASK: [task.to_json()]}))
    assert list(board.of(Ledger).given_up()) == ["u1"]
    assert not list(tmp_path.iterdir())


def test_a_constructor_that_ends_its_process_each_time_ends_the_run(board: LocalBoard) -> None:
    for _ in range(STARTS):
        with pytest.raises(Ended), Attempts(board, "Judge").start():
            raise Ended
    message = "the process of Judge ended 4 times while it started; there is too little memory"
    with pytest.raises(RunError, match=message), Attempts(board, "Judge").start():
        pass
    board.of(Ledger)._open.clear()
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


def test_a_failed_device_restarts_the_actor_until_it_never_yields_a_result(
    board: LocalBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(_: int) -> None:
        raise Ended

    monkeypatch.setattr(os, "_exit", leave)
    Rater.deaths, Rater.lost = {}, 2
    returned, ended = restarted_until_done(board)
    assert (ended, set(returned["status"].to_pylist())) == (2, {"ok"})
    Rater.lost = DEVICE_FAULTS  # the result in between starts the count anew
    with pytest.raises(RunError, match=r"machine 10\.0\.0\.7, GPU 0 failed 5 times without a result \(CUDA error"):
        restarted_until_done(board)


def test_a_failed_device_restarts_the_actor_while_the_board_restarts(
    board: LocalBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    import ray

    def leave(_: int) -> None:
        raise Ended

    def get(*_: Any, **__: Any) -> Any:
        raise errors.pop()

    errors = [TimeoutError(), ray.exceptions.ActorDiedError()]
    monkeypatch.setattr(os, "_exit", leave)
    handle: Any = SimpleNamespace(call=SimpleNamespace(remote=lambda *_: None))
    attempts = Attempts(RunBoard(handle), "Judge")
    monkeypatch.setattr(ray, "get", get)
    while errors:
        with pytest.raises(Ended):
            attempts.leave(EngineError("CUDA error"))


class Cluster:
    """GPUs of which the lowest free one is given to whom asks next, and the rows that stages returned on them."""

    def __init__(self, board: LocalBoard, monkeypatch: pytest.MonkeyPatch, *, gpus: int) -> None:
        self.free, self.board, self.monkeypatch = list(range(gpus)), board, monkeypatch
        self.holders: list[Device] = []
        monkeypatch.setattr(attempts, "start_holder", self.hold)
        monkeypatch.setattr(attempts, "LEAVE_S", 0)
        monkeypatch.setattr(attempts, "_cluster_gpus", lambda: float(gpus))
        monkeypatch.setattr(attempts, "device_of_process", self.device)
        monkeypatch.setattr(os, "_exit", self.ended)

    def device(self) -> Device:
        return Device("10.0.0.7", "n", (str(self.free[0]),), 1.0)

    def hold(self, _: RunBoard, device: Device, number: int) -> None:
        self.holders.append(device)

    def ended(self, _: int) -> None:
        """Record that a process has ended: its GPU goes to a holder, if one waits."""
        for device in self.holders:
            self.free = [gpu for gpu in self.free if str(gpu) not in device.gpus]
        raise Ended


def test_what_failed_on_a_bad_device_is_retried_on_another(board: LocalBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(board, monkeypatch, gpus=2)

    class OnGpuZero(Rater):
        def __call__(self, batch: pa.Table) -> pa.Table:
            if cluster.free[0] == 0 and "ok" in batch["status"].to_pylist():
                raise EngineError("CUDA error: an illegal memory access was encountered")
            return batch

    stage, ended = Stage("judge", OnGpuZero, {}), 0
    while True:
        try:
            returned = StageRunner(stage=stage, board=board)(batch())
            break
        except Ended:
            ended += 1
    assert ended == DEVICE_FAULTS
    assert set(returned["status"].to_pylist()) == {"ok"}  # rows that were marked on the way are not lost
    assert [device.gpus for device in cluster.holders] == [("0",)]
    assert "machine 10.0.0.7, GPU 0 failed 5 times without a result" in next(iter(board.of(WarningCounts).warnings()))
    assert not board.of(Ledger)._open


def test_a_device_without_a_driver_is_left_at_once(board: LocalBoard, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(board, monkeypatch, gpus=2)

    def start(error: Exception | None) -> None:
        with Attempts(board, "Judge").start():
            if error:
                raise error

    with pytest.raises(MissingDeviceError):
        start(MissingDeviceError("no driver"))
    assert len(cluster.holders) == 1
    with pytest.raises(Ended):  # Ray was faster than the holder, and gives the same GPU again
        start(None)
    start(None)
    assert cluster.free == [1]
    message = r"GPU 0 cannot start Judge \(no driver\); machine 10\.0\.0\.7, GPU 1 .*; no other GPU is left"
    with pytest.raises(RunError, match=message):
        start(EngineError("CUDA error: unknown error"))


def test_other_errors_of_constructors_count_only_where_others_start(
    board: LocalBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster(board, monkeypatch, gpus=3)

    def fail() -> None:
        with pytest.raises(OSError, match="full"), Attempts(board, "Judge").start():
            raise OSError("the disk is full")

    for _ in range(5):
        fail()
    assert not board.of(BadDevices).bad_devices()  # all may fail
    board.of(Ledger).started("Judge", cluster.device().name)
    fail()
    assert not board.of(BadDevices).bad_devices()  # this one too, though an earlier actor started on it
    board.of(Ledger).started("Judge", "another")
    fail()
    assert [device.gpus for device in board.of(BadDevices).bad_devices()] == [("0",)]
    assert len(cluster.holders) == 1


def test_a_result_of_a_device_ends_what_its_failures_say_about_attempts() -> None:
    """An attempt that began later counts, even if the device is given up afterwards."""
    ledger = Ledger()
    ledger.begin("row", None)
    ledger.fault("GPU 0", ["row"])
    ledger.end("row", "GPU 0")
    assert ledger.begin("row", None) == 0
    ledger.forget_attempts("GPU 0")
    assert ledger.begin("row", None) == 1


def test_what_was_attempted_on_a_bad_device_has_its_whole_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(attempts.time, "monotonic", lambda: now)
    ledger = Ledger()
    for began, is_over in ((100.0, False), (129.0, False), (159.0, True)):  # from the last attempt
        now = began
        ledger.begin("slow", 30.0)
        assert ledger.timed_out("slow") == is_over
    ledger.begin("lost", 30.0)
    ledger.fault("GPU 0", ["lost"])
    ledger.forget_attempts("GPU 0")
    now += 1000
    assert ledger.begin("lost", 30.0) == 0
    assert not ledger.timed_out("lost")
    ledger.end("slow", "")
    assert not ledger.timed_out("slow")


def test_holders_that_were_given_other_gpus_stay_until_one_has_the_right_one(
    board: LocalBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Handle:
        pass

    started: list[int] = []
    living = weakref.WeakValueDictionary[int, Handle]()

    def start_holder(_: RunBoard, device: Device, number: int) -> Handle:
        started.append(number)
        living[number] = handle = Handle()
        return handle

    monkeypatch.setattr(attempts, "start_holder", start_holder)
    devices, bad = BadDevices(), Device("m", "n", ("3",), 1.0)
    devices.occupy(bad, board)
    devices.occupy(bad, board)  # the actor came back to it: one is on the way
    assert started == [0]
    devices.placed(bad, 0, ("5",), board)
    devices.placed(bad, 1, ("6",), board)
    assert sorted(living) == started == [0, 1, 2]
    devices.placed(bad, 2, ("3",), board)
    assert sorted(living) == [2]
    devices.placed(bad, 2, ("3",), board)
    devices.occupy(bad, board)  # the other half of the GPU
    assert sorted(living) == [2, 3]
