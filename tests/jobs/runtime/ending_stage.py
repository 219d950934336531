"""A stage whose process ends at some rows, and a board without Ray."""

from typing import Any

import pyarrow as pa

from actors import schemas
from actors.status import Status
from actors.vlm.errors import EngineError
from jobs.runtime.board import RunBoard, RunRecords
from jobs.runtime.stage_contract import BEGUN, EXCLUDED, EXPECTED_ROWS, TASK, Stage
from jobs.runtime.stage_runners import StageRunner
from jobs.store.units import Unit
from jobs.store.writer import UnitTask


class Ended(BaseException):
    """Stands for the end of a process."""


class LocalBoard(RunBoard):
    """Keeps its records and the counts that are sent to it, in this process."""

    records: RunRecords
    sent: list[tuple[str, int, int, dict[str, int]]]

    def __init__(self) -> None:
        super().__init__(None)
        object.__setattr__(self, "records", RunRecords("r"))
        object.__setattr__(self, "sent", [])

    def tell(self, method: str, *arguments: Any) -> None:
        getattr(self.records, method)(*arguments)

    def ask(self, method: str, *arguments: Any, timeout: float) -> Any:
        return getattr(self.records, method)(*arguments)

    def add(self, stage: str, done: int, errors: int, notes: dict[str, int]) -> None:
        self.sent.append((stage, done, errors, notes))


class Rater:
    """Ends its process at some items, as often as `deaths` says."""

    INPUTS = schemas.RATED_ITEMS
    OUTPUTS = schemas.RATED_ITEMS
    deaths: dict[str, int] = {}
    raises: dict[str, Exception] = {}
    tally = 0
    lost = 0  # times that the device fails

    def __call__(self, batch: pa.Table) -> pa.Table:
        if Rater.lost and "ok" in batch["status"].to_pylist():
            Rater.lost -= 1
            raise EngineError("CUDA error: an illegal memory access was encountered")
        for item, status in zip(batch["item_id"].to_pylist(), batch["status"].to_pylist(), strict=True):
            if status == Status.OK and self.deaths.get(item):
                self.deaths[item] -= 1
                raise Ended
            if status == Status.OK and item in self.raises:
                self.tally += 1
                raise self.raises[item]
        self.tally += batch.num_rows
        return batch

    def take_tally(self) -> dict[str, int]:
        tally, self.tally = {"seen/rows": self.tally}, 0
        return tally


def batch(items: int = 6) -> pa.Table:
    rows = pa.table({"item_id": [f"i{n}" for n in range(items)], "status": ["ok"] * items})
    for name in ("error_kind", "error_message"):
        rows = rows.append_column(name, pa.nulls(items, pa.string()))
    for name, value in ((TASK, UnitTask(Unit("u", ())).to_json()), (EXCLUDED, "{}")):
        column = pa.DictionaryArray.from_arrays(pa.array([0] * items, pa.int32()), [value])
        rows = rows.append_column(name, column)
    rows = rows.append_column(BEGUN, pa.array([0.0] * items, pa.float64()))
    return rows.append_column(EXPECTED_ROWS, pa.array([items] * items, pa.int64()))


def restarted_until_done(board: LocalBoard, most: int = 10) -> tuple[pa.Table, int]:
    """Return what the stage returns, and the number of times that its process ended before."""
    for ended in range(most):
        try:
            return StageRunner(stage=Stage("judge", Rater, {}), board=board)(batch()), ended
        except Ended:
            pass
    raise AssertionError("it never ends")
