"""GPUs that fail are left, and what was attempted on them is attempted on others."""

import os
import weakref
from typing import Any

import pyarrow as pa
import pytest

from actors.devices import MissingDeviceError
from actors.vlm.errors import EngineError
from jobs.errors import RunError
from jobs.runtime import attempts
from jobs.runtime.attempts import DEVICE_FAULTS, Attempts, Ledger
from jobs.runtime.bad_devices import BadDevices, Device
from jobs.runtime.stage_contract import Stage
from jobs.runtime.stage_runners import StageRunner
from tests.jobs.runtime.ending_stage import Ended, LocalBoard, Rater, batch, restarted_until_done


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

    def ask(*_: Any, **__: Any) -> Any:
        raise errors.pop()

    errors = [TimeoutError(), ray.exceptions.ActorDiedError()]
    monkeypatch.setattr(os, "_exit", leave)
    attempts = Attempts(board, "Judge")
    monkeypatch.setattr(LocalBoard, "ask", ask)
    while errors:
        with pytest.raises(Ended):
            attempts.leave(EngineError("CUDA error"))


class Cluster:
    """GPUs of which the lowest free one is given to whom asks next, and the rows that stages returned on them."""

    def __init__(self, board: LocalBoard, monkeypatch: pytest.MonkeyPatch, *, gpus: int) -> None:
        self.free, self.board, self.monkeypatch = list(range(gpus)), board, monkeypatch
        self.holders: list[Device] = []
        board.records._start_holder = self.hold
        monkeypatch.setattr(attempts, "LEAVE_S", 0)
        monkeypatch.setattr(attempts, "_cluster_gpus", lambda: float(gpus))
        monkeypatch.setattr(attempts, "device_of_process", self.device)
        monkeypatch.setattr(os, "_exit", self.ended)

    def device(self) -> Device:
        return Device("10.0.0.7", "n", (str(self.free[0]),), 1.0)

    def hold(self, device: Device, _: int) -> None:
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
    assert "machine 10.0.0.7, GPU 0 failed 5 times without a result" in next(iter(board.records.warnings()))
    assert not board.records._open


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
    assert not board.records.bad_devices()  # all may fail
    board.records.started("Judge", cluster.device().name)
    fail()
    assert not board.records.bad_devices()  # this one too, though an earlier actor started on it
    board.records.started("Judge", "another")
    fail()
    assert [device.gpus for device in board.records.bad_devices()] == [("0",)]
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


def test_holders_that_were_given_other_gpus_stay_until_one_has_the_right_one() -> None:
    class Handle:
        pass

    started: list[int] = []
    living = weakref.WeakValueDictionary[int, Handle]()

    def start_holder(_: Device, number: int) -> Handle:
        started.append(number)
        living[number] = handle = Handle()
        return handle

    devices, bad = BadDevices(start_holder), Device("m", "n", ("3",), 1.0)
    devices.occupy(bad)
    devices.occupy(bad)  # the actor came back to it: one is on the way
    assert started == [0]
    devices.placed(bad, 0, ("5",))
    devices.placed(bad, 1, ("6",))
    assert sorted(living) == started == [0, 1, 2]
    devices.placed(bad, 2, ("3",))
    assert sorted(living) == [2]
    devices.placed(bad, 2, ("3",))
    devices.occupy(bad)  # the other half of the GPU
    assert sorted(living) == [2, 3]
