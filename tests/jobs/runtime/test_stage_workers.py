"""What workers report, count and merge, without Ray."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors import schemas
from jobs.errors import RunError
from jobs.runtime import attempts, board, stage_workers
from jobs.runtime.bad_devices import Device
from jobs.runtime.board import Reporter, RunBoard, RunRecords
from jobs.runtime.stage_contract import Read, Stage
from jobs.runtime.stage_workers import (
    BEGUN,
    EXCLUDED,
    EXPECTED_ROWS,
    TALLY,
    TASK,
    StageRunner,
    UnitReader,
    UnitRunner,
    merge_retried,
    replace_items,
    sum_tallies,
)
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask, UnitWriter


class RecordingBoard(RunBoard):
    """Keeps the counts that are sent to it, in this process."""

    sent: list[tuple[Any, ...]]
    records: RunRecords

    def __init__(self) -> None:
        super().__init__(None)
        object.__setattr__(self, "sent", [])
        object.__setattr__(self, "records", RunRecords("r"))

    def tell(self, method: str, *arguments: Any) -> None:
        getattr(self.records, method)(*arguments)

    def ask(self, method: str, *arguments: Any, timeout: float) -> Any:
        return getattr(self.records, method)(*arguments)

    def add(self, stage: str, done: int, errors: int, notes: dict[str, int]) -> None:
        self.sent.append((stage, done, errors, notes))


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> RecordingBoard:
    """A board to which counts are sent only when they are flushed."""
    monkeypatch.setattr(attempts, "device_of_process", lambda: Device("10.0.0.7", "n", (), 0.0))
    monkeypatch.setattr(attempts, "_actor", lambda _: "a1")
    monkeypatch.setattr(board, "REPORT_EVERY_S", float("inf"))
    return RecordingBoard()


class Tallying:
    """Returns its rows, of which the second is an error, and counts them and their tokens."""

    INPUTS = OUTPUTS = schemas.RATED_ITEMS

    def report_tokens(self, callback: Any) -> None:
        self._callback = callback

    def __call__(self, rows: pa.Table) -> pa.Table:
        self._callback(10 * rows.num_rows)
        status = pa.array(["error" if name == "i1" else "ok" for name in rows["item_id"].to_pylist()])
        return rows.set_column(rows.column_names.index("status"), "status", status)

    def take_tally(self) -> dict[str, int]:
        return {"seen/calls": 1}


def batch(items: int) -> pa.Table:
    rows = pa.Table.from_pylist(
        [{"item_id": f"i{n}", "status": "ok", TASK: "t", EXCLUDED: "{}"} for n in range(items)],
        schema=pa.schema([*schemas.RATED_ITEMS, (TASK, pa.string()), (EXCLUDED, pa.string())]),
    )
    task = UnitTask(Unit("u", ())).to_json()
    rows = rows.set_column(rows.column_names.index(TASK), TASK, pa.array([task] * items))
    rows = rows.append_column(BEGUN, pa.array([1.0] * items, pa.float64()))
    return rows.append_column(EXPECTED_ROWS, pa.array([items] * items, pa.int64()))


def test_a_stage_reports_its_rows_errors_and_tokens_after_each_batch(recording: RecordingBoard) -> None:
    runner = StageRunner(stage=Stage("judge", Tallying, {}), board=recording)
    for items in (3, 1):
        runner(batch(items))
    assert recording.sent == [("judge", 3, 1, {"tokens": 30}), ("judge", 1, 0, {"tokens": 10})]


def test_a_batch_keeps_the_columns_of_its_unit_and_the_first_row_has_the_tally(recording: RecordingBoard) -> None:
    rows = batch(2)
    runner = StageRunner(stage=Stage("judge", Tallying, {}), board=recording)
    for _ in range(2):
        returned = runner(rows)
    for column in (TASK, EXCLUDED, BEGUN, EXPECTED_ROWS):
        assert returned[column].to_pylist() == rows[column].to_pylist()
    assert returned[TALLY].to_pylist() == [[("seen/calls", 1)], None]


def test_several_rows_for_one_keep_the_unit_of_that_row(recording: RecordingBoard) -> None:
    class Twice(Tallying):
        def __call__(self, rows: pa.Table) -> pa.Table:
            return rows.take(pa.array([row for row in range(rows.num_rows) for _ in range(2)]))

    rows, tasks = batch(2), [UnitTask(Unit(name, ())).to_json() for name in "uv"]
    rows = rows.set_column(rows.column_names.index(TASK), TASK, pa.array(tasks))
    returned = StageRunner(stage=Stage("judge", Twice, {}, rows_out=2), board=recording)(rows)
    assert returned[TASK].to_pylist() == [tasks[0], tasks[0], tasks[1], tasks[1]]


def test_a_unit_is_reported_when_it_is_written(recording: RecordingBoard, tmp_path: Path) -> None:
    class Mine:
        def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
            report.add(5, errors=1)

    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    tasks = pa.table({TASK: [UnitTask(Unit(name, ())).to_json() for name in ("u1", "u2")]})
    UnitRunner(stage=Stage("mine", Mine, {}), board=recording, target=target)(tasks)
    assert recording.sent == [("mine", 5, 1, {}), ("mine", 5, 1, {})]


def test_rows_of_a_retry_are_those_of_its_statuses(tmp_path: Path) -> None:
    """A limit of the unit cuts its rows first; each row knows how many are expected."""
    target = Target(str(tmp_path), "images", {}, "i", {}, None)
    task = UnitTask(Unit("u", (), rows=4, extra={"limit": 3}))
    rows = [{"image_id": f"{n}", "rendition": "w", "status": status} for n, status in enumerate(["ok", "error", "ok"])]
    with UnitWriter(target, task) as writer:
        writer.counts.rows_in = 3
        writer.write(pa.Table.from_pylist(rows, schema=schemas.IMAGES))

    def read(retry: tuple[str, ...]) -> list[tuple[str, int]]:
        reading = Read(lambda _: pa.table({"image_id": list("0123")}), "image_id", "image_id")
        reader = UnitReader(reading, target, [Stage("copy", Tallying, {}, rows_out=2)], None)
        again = UnitTask(task.unit, 1, (), retry).to_json()
        returned = reader(pa.table({TASK: [again]}))
        assert returned[TASK].to_pylist() == [again] * returned.num_rows
        return list(zip(returned["image_id"].to_pylist(), returned[EXPECTED_ROWS].to_pylist(), strict=True))

    assert read(()) == [("0", 6), ("1", 6), ("2", 6)]
    assert read(("error",)) == [("1", 2)]
    assert read(("error", "ok")) == [("0", 6), ("1", 6), ("2", 6)]


def test_retried_rows_are_merged_at_their_places() -> None:
    task = UnitTask(Unit("u", ()), 1, (), ("error",))
    written = pa.table({"k": list("abcd"), "n": [1, 2, 3, 4], "status": ["ok", "error", "missing", "error"]})
    redone = pa.table({"status": ["ok", "ok", "ok"], "n": [40, 20, 10], "k": list("dba")})
    merged = merge_retried(written, redone, ["k"], task)
    assert merged.to_pydict() == {"k": list("abcd"), "n": [1, 20, 3, 40], "status": ["ok", "ok", "missing", "ok"]}
    with pytest.raises(RunError, match=r"unit u: the retry returned no row for \('b',\)"):
        merge_retried(written, redone.slice(0, 1), ["k"], task)


def test_rows_of_retried_items_are_replaced_at_the_place_of_the_item() -> None:
    written = pa.table({"item_id": ["a", "b", "b", "c"], "n": [1, 2, 3, 4]})
    redone = pa.table({"n": [20, 30, 31], "item_id": ["b", "b", "b"]})
    assert replace_items(written, redone)["n"].to_pylist() == [1, 20, 30, 31, 4]
    assert replace_items(written, redone.slice(0, 1))["n"].to_pylist() == [1, 20, 4]


def test_tallies_stay_with_their_rows_and_are_summed_by_group() -> None:
    kept = pa.array([[("a/x", 1)], None, [("a/x", 2), ("b/", 3)]], pa.map_(pa.string(), pa.int64()))
    rows = pa.table({TALLY: kept})
    spread = stage_workers._tallies(rows, [3, 0, 1], {"a/y": 5})
    assert spread.to_pylist() == [[("a/x", 1), ("a/y", 5)], None, None, [("a/x", 2), ("b/", 3)]]
    assert stage_workers._tallies(rows, [1, 1, 0], {}).to_pylist() == [[("a/x", 1)], [("a/x", 2), ("b/", 3)]]
    assert len(stage_workers._tallies(rows, [0, 0, 0], {"a/y": 5})) == 0
    assert sum_tallies(pa.table({TALLY: spread})) == {"a": {"x": 3, "y": 5}, "b": {"": 3}}
    assert sum_tallies(pa.table({"n": [1]})) == {}


def test_rows_that_the_plan_left_out_are_read_and_filtered(tmp_path: Path) -> None:
    unit = Unit("u", (), extra={"filtered": {"same_picture": 2, "draw": 1}})
    with UnitWriter(Target(str(tmp_path), "records", {}, "i", {}), UnitTask(unit)) as writer:
        stage_workers.count_rows(writer, UnitTask(unit), 0)
        assert (writer.counts.rows_in, writer.counts.filtered) == (3, {"same_picture": 2, "draw": 1})
        stage_workers.count_rows(writer, UnitTask(Unit("v", ())), 5)
        assert writer.counts.rows_in == 5
        writer.counts.rows_in = 3


def test_a_reason_is_the_error_or_too_little_memory() -> None:
    cases = [(MemoryError("x"), "out_of_memory"), (KeyError("x"), "KeyError"), (ValueError("a\nb"), "ValueError")]
    reasons = [stage_workers.reason_of(error) for error, _ in cases]
    assert [reason.kind for reason in reasons] == [kind for _, kind in cases]
    assert reasons[2].message == "ValueError: a"
