"""What ends its process each time is found by the attempts that were not done, and left out; a lost machine is not."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors import schemas
from actors.status import PROCESS_DIED, Status
from actors.vlm.errors import EngineError
from jobs.errors import RunError
from jobs.runtime import attempts
from jobs.runtime.attempts import DEVICE_FAULTS, STARTS, UNIT_ATTEMPTS, Attempts, mark_died
from jobs.runtime.board import RunBoard, RunRecords
from jobs.runtime.stage_contract import Stage
from jobs.runtime.stage_workers import BEGUN, EXCLUDED, EXPECTED_ROWS, TASK, StageRunner, UnitRunner
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask


class Ended(BaseException):
    """Stands for the end of a process."""


class LocalBoard(RunBoard):
    """A ledger with the interface of a `RunBoard`, in this process."""

    ledger: RunRecords

    def __init__(self) -> None:
        super().__init__(None)
        object.__setattr__(self, "ledger", RunRecords())

    def tell(self, method: str, *arguments: Any) -> None:
        getattr(self.ledger, method)(*arguments)

    def ask(self, method: str, *arguments: Any, timeout: float) -> Any:
        return getattr(self.ledger, method)(*arguments)

    def add(self, *_: Any) -> None:
        """Counters are not read here."""


class Rater:
    """Ends its process at some items, as often as `deaths` says."""

    INPUTS = schemas.RATED_ITEMS
    OUTPUTS = schemas.RATED_ITEMS
    deaths: dict[str, int] = {}
    lost = 0  # times that the device fails

    def __call__(self, batch: pa.Table) -> pa.Table:
        if Rater.lost and "ok" in batch["status"].to_pylist():
            Rater.lost -= 1
            raise EngineError("CUDA error: an illegal memory access was encountered")
        for item, status in zip(batch["item_id"].to_pylist(), batch["status"].to_pylist(), strict=True):
            if status == Status.OK and self.deaths.get(item):
                self.deaths[item] -= 1
                raise Ended
        return batch


@pytest.fixture
def board(monkeypatch: pytest.MonkeyPatch) -> LocalBoard:
    monkeypatch.setattr(attempts, "_device", lambda: "machine 10.0.0.7, GPU 0")
    monkeypatch.setattr(attempts, "_actor", lambda _: "a1")
    return LocalBoard()


def batch(items: int = 6) -> pa.Table:
    rows = pa.table({"item_id": [f"i{n}" for n in range(items)], "status": ["ok"] * items})
    for name in ("error_kind", "error_message"):
        rows = rows.append_column(name, pa.nulls(items, pa.string()))
    for name, value in ((TASK, "t"), (EXCLUDED, "{}")):
        column = pa.DictionaryArray.from_arrays(pa.array([0] * items, pa.int32()), [value])
        rows = rows.append_column(name, column)
    rows = rows.append_column(BEGUN, pa.array([0.0] * items, pa.float64()))
    return rows.append_column(EXPECTED_ROWS, pa.array([items] * items, pa.int64()))


def restarted_until_done(board: LocalBoard, most: int = 10) -> tuple[pa.Table, int]:
    """What the stage returns, and how often its process ended before."""
    for ended in range(most):
        try:
            return StageRunner(stage=Stage("judge", Rater, {}), board=board)(batch()), ended
        except Ended:
            pass
    raise AssertionError("it never ends")


def test_a_row_that_ends_its_process_each_time_is_an_error_after_three(board: LocalBoard) -> None:
    Rater.deaths = {"i2": 99}
    returned, ended = restarted_until_done(board)
    assert ended == 3
    assert returned["status"].to_pylist() == ["ok", "ok", "error", "ok", "ok", "ok"]
    assert returned["error_kind"].to_pylist()[2] == PROCESS_DIED.kind == "process_died"
    assert len(board.ledger._open) == 1  # what is done is forgotten, but not the row


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
        assert board.ledger.begin(Attempts(board, "Mine")._key(("unit", "u1"))) == attempt

    class Mine:
        def __call__(self, *_: Any) -> None:
            raise AssertionError("the unit must not be attempted again")

    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    task = UnitTask(Unit("u1", ()), 0, ())
    UnitRunner(stage=Stage("mine", Mine, {}), board=board, target=target)(pa.table({TASK: [task.to_json()]}))
    assert list(board.ledger.given_up()) == ["u1"]
    assert not list(tmp_path.iterdir())


def test_a_constructor_that_ends_its_process_each_time_ends_the_run(board: LocalBoard) -> None:
    for _ in range(STARTS):
        Attempts(board, "Judge").start()
    with pytest.raises(
        RunError, match="the process of Judge ended 4 times while it started; there is too little memory"
    ):
        Attempts(board, "Judge").start()
    board.ledger._open.clear()
    for _ in range(2 * STARTS):  # a spot machine a day
        Attempts(board, "Judge").start()
        Attempts(board, "Judge").started()


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


def test_without_a_board_errors_pass_unchanged() -> None:
    Rater.deaths, Rater.lost = {}, 1
    with pytest.raises(EngineError):
        StageRunner(stage=Stage("judge", Rater, {}), board=None)(batch())


def test_stages_without_an_error_kind_are_given_the_status_itself() -> None:
    items = pa.table({"item_id": ["a"], "pictures": [[b"x"]], "status": ["ok"]})
    assert mark_died(items)["status"].to_pylist() == [PROCESS_DIED.kind]
    texts = pa.table({"text_id": ["a"], "text": ["x"]})
    assert mark_died(texts)["status"].to_pylist() == [PROCESS_DIED.kind]
    pixels = schemas.DECODED_PICTURES.empty_table().to_pylist() or [{"item_id": "a", "pixels": b"x", "status": "ok"}]
    marked = mark_died(pa.Table.from_pylist(pixels, schema=schemas.DECODED_PICTURES)).to_pylist()[0]
    assert (marked["status"], marked["error_kind"], marked["pixels"]) == ("error", PROCESS_DIED.kind, None)
