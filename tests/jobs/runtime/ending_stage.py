"""A stage whose process ends at some rows, and a board without Ray."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from actors import schemas
from actors.status import Status
from actors.vlm.errors import EngineError
from jobs.runtime.board import ANSWER_S, BoardPart, RemotePart, RunBoard
from jobs.runtime.stage_contract import BEGUN, EXCLUDED, EXPECTED_ROWS, TASK, Stage
from jobs.runtime.stage_workers import StageRunner
from jobs.store.units import Unit
from jobs.store.writer import UnitTask

T = TypeVar("T")


class Ended(BaseException):
    """Stands for the end of a process."""


class LocalBoard(RunBoard):
    """Keeps its parts, and the arguments sent to each, in this process."""

    parts: dict[type, Any]
    told: dict[type, list[tuple[Any, ...]]]

    def __init__(self) -> None:
        super().__init__(None)
        object.__setattr__(self, "parts", {})
        object.__setattr__(self, "told", defaultdict(list))

    def of(self, kind: type[T]) -> T:
        """The run's part of this class."""
        part: T = self.parts.setdefault(kind, kind())
        return part

    def part(self, kind: type[T], *, timeout: float = ANSWER_S) -> BoardPart[T]:
        return LocalPart(self, kind, timeout)


class LocalPart(RemotePart[T]):
    """Calls a part of this process."""

    _board: LocalBoard

    def tell(self, method: Callable[..., object], *arguments: Any, **_: Any) -> None:
        self._board.told[self._kind].append(arguments)
        method(self._board.of(self._kind), *arguments)

    def ask(self, otherwise: Any, method: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        return method(self._board.of(self._kind), *arguments)


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
