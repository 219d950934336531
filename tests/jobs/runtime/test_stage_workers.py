"""What the actors of stages get and return, and units that are read and written whole, without Ray."""

import faulthandler
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors import schemas
from jobs.errors import RunError
from jobs.runtime.board import Reporter, StageCounts
from jobs.runtime.stage_contract import BEGUN, EXCLUDED, EXPECTED_ROWS, TALLY, TASK, Read, Stage
from jobs.runtime.stage_workers import (
    STDERR,
    HangWatch,
    StageRunner,
    UnitReader,
    UnitRunner,
    UnitSink,
    count_rows,
    merge_retried,
    reason_of,
    replace_items,
)
from jobs.store.units import Unit
from jobs.store.writer import Target, UnitTask, UnitWriter
from tests.cases import check_cases
from tests.jobs.runtime.ending_stage import LocalBoard, batch


@pytest.fixture
def board(board: LocalBoard, monkeypatch: pytest.MonkeyPatch) -> LocalBoard:
    """The board, to which counts are sent only when they are flushed."""
    monkeypatch.setattr("jobs.runtime.board.REPORT_EVERY_S", float("inf"))
    return board


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


def test_a_stage_reports_its_rows_errors_and_tokens_after_each_batch(board: LocalBoard) -> None:
    runner = StageRunner(stage=Stage("judge", Tallying, {}), board=board)
    for items in (3, 1):
        runner(batch(items))
    assert board.told[StageCounts] == [("judge", 3, 1, {"tokens": 30}), ("judge", 1, 0, {"tokens": 10})]


def test_a_batch_keeps_the_columns_of_its_unit_and_the_first_row_has_the_tally(board: LocalBoard) -> None:
    rows = batch(2)
    runner = StageRunner(stage=Stage("judge", Tallying, {}), board=board)
    for _ in range(2):
        returned = runner(rows)
    for column in (TASK, EXCLUDED, BEGUN, EXPECTED_ROWS):
        assert returned[column].to_pylist() == rows[column].to_pylist()
    assert returned[TALLY].to_pylist() == [[("seen/calls", 1)], None]


def test_several_rows_for_one_keep_the_unit_of_that_row(board: LocalBoard) -> None:
    class Twice(Tallying):
        def __call__(self, rows: pa.Table) -> pa.Table:
            return rows.take(pa.array([row for row in range(rows.num_rows) for _ in range(2)]))

    rows, tasks = batch(2), [UnitTask(Unit(name, ())).to_json() for name in "uv"]
    rows = rows.set_column(rows.column_names.index(TASK), TASK, pa.array(tasks))
    returned = StageRunner(stage=Stage("judge", Twice, {}, rows_out=2), board=board)(rows)
    assert returned[TASK].to_pylist() == [tasks[0], tasks[0], tasks[1], tasks[1]]


def test_a_unit_is_reported_when_it_is_written(board: LocalBoard, tmp_path: Path) -> None:
    class Mine:
        def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
            report.add(5, errors=1)

    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    tasks = pa.table({TASK: [UnitTask(Unit(name, ())).to_json() for name in ("u1", "u2")]})
    UnitRunner(stage=Stage("mine", Mine, {}), board=board, target=target)(tasks)
    assert board.told[StageCounts] == [("mine", 5, 1, {}), ("mine", 5, 1, {})]


class Labels:
    """A stage whose output is `output`, whatever it declares."""

    INPUTS = pa.schema({"item_id": pa.string()})
    OUTPUTS = pa.schema({"label": pa.string()})

    def __init__(self, *, output: pa.Table) -> None:
        self._output = output

    def __call__(self, batch: pa.Table) -> pa.Table:
        return self._output


def run_stage(item: Any, label: Any) -> pa.Table:
    """Return one row of column `item_id` through the runner; the stage returns one row of column `label`."""
    batch = pa.table({"item_id": [item], TASK: ["unit"], EXPECTED_ROWS: [1], EXCLUDED: ["{}"], BEGUN: [0.0]})
    stage = Stage("judge", Labels, {"output": pa.table({"label": [label]})})
    return StageRunner(stage=stage, board=None)(batch)


def test_the_runner_checks_both_sides() -> None:
    assert run_stage("a", "good")["label"].to_pylist() == ["good"]
    with pytest.raises(RunError, match=r"Labels, input: column item_id is int64"):
        run_stage(1, "good")
    with pytest.raises(RunError, match=r"Labels, output: column label is double"):
        run_stage("a", 0.5)


VARYING = pa.schema({"item_id": pa.string(), "span": pa.int32()})


class Spans:
    """A stage that returns any number of rows per item."""

    INPUTS = pa.schema({"item_id": pa.string()})
    OUTPUTS = VARYING

    def __init__(self, *, items: list[str]) -> None:
        self._items = items

    def __call__(self, batch: pa.Table) -> pa.Table:
        return pa.table({"item_id": self._items, "span": range(len(self._items))}, schema=VARYING)


def varying(items: list[str]) -> pa.Table:
    columns = {TASK: ["u", "u", "v"], EXPECTED_ROWS: [2, 2, 1], EXCLUDED: ["{}"] * 3, BEGUN: [0.0] * 3}
    batch = pa.table({"item_id": ["a", "b", "c"], **columns})
    return StageRunner(stage=Stage("judge", Spans, {"items": items}, rows_out=None), board=None)(batch)


def test_rows_that_vary_keep_the_unit_of_their_item() -> None:
    rows = varying(["a", "a", "b", "c", "c", "c"])
    assert rows[TASK].to_pylist() == ["u", "u", "u", "v", "v", "v"]


def test_as_many_rows_as_items_need_not_be_one_of_each() -> None:
    columns = {TASK: ["u", "v"], EXPECTED_ROWS: [1, 1], EXCLUDED: ["{}"] * 2, BEGUN: [0.0] * 2}
    stage = Stage("judge", Labels, {"output": pa.table({"label": ["x", "y"]})}, rows_out=lambda _: [0, 2])
    rows = StageRunner(stage=stage, board=None)(pa.table({"item_id": ["a", "b"], **columns}))
    assert rows[TASK].to_pylist() == ["v", "v"]


def test_each_item_has_rows_in_order() -> None:
    cases = [["a", "b"], ["a", "c", "b"], ["a", "b", "a", "c"], ["a", "b", "c", "d"], []]

    def check(items: list[str]) -> None:
        with pytest.raises(RunError, match="stage Spans: returned rows that are not those of its 3 items"):
            varying(items)

    check_cases(check, cases)


class Failing(Labels):
    """A stage that raises `error` at every batch."""

    def __init__(self, *, error: Exception) -> None:
        self._error = error

    def __call__(self, batch: pa.Table) -> pa.Table:
        raise self._error


def test_errors_of_the_run_and_of_batches_without_rows_are_not_errors_of_rows() -> None:
    batch = pa.table({"item_id": ["i"], TASK: ["unit"], EXPECTED_ROWS: [1], EXCLUDED: ["{}"], BEGUN: [0.0]})
    for error, rows in ((RunError("no such column"), 1), (ValueError("an empty batch"), 0)):
        with pytest.raises(type(error), match=f"^{error}$"):
            StageRunner(stage=Stage("judge", Failing, {"error": error}), board=None)(batch.slice(0, rows))


class Counting(Labels):
    """A stage that counts something in its first batch only."""

    def __init__(self, *, output: pa.Table) -> None:
        super().__init__(output=output)
        self._tallies = [{"tokens/passed": 3}, {}]

    def take_tally(self) -> dict[str, int]:
        return self._tallies.pop(0)


def test_batches_without_counts_have_the_columns_of_those_with_some() -> None:
    runner = StageRunner(stage=Stage("judge", Counting, {"output": pa.table({"label": ["a"]})}), board=None)
    batch = pa.table({"item_id": ["i"], TASK: ["unit"], EXPECTED_ROWS: [1], EXCLUDED: ["{}"], BEGUN: [0.0]})
    assert pa.concat_tables([runner(batch), runner(batch)])[TALLY].to_pylist() == [[("tokens/passed", 3)], None]


def test_tallies_of_items_without_rows_are_kept() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    columns = {TASK: ["u"] * 3, EXPECTED_ROWS: [3] * 3, EXCLUDED: ["{}"] * 3, BEGUN: [0.0] * 3}
    tallies = pa.array([[("a/b", 1)], [("a/b", 2)], [("a/b", 4)]], kind)
    batch = pa.table({"item_id": ["a", "b", "c"], **columns, TALLY: tallies})
    for counts, expected in (
        ([0, 2, 0], [[("a/b", 1), ("a/b", 2)], [("a/b", 4)]]),
        ([1, 1, 0], [[("a/b", 1)], [("a/b", 2), ("a/b", 4)]]),
        ([2, 0, 0], [[("a/b", 1)], [("a/b", 2), ("a/b", 4)]]),
    ):
        output = pa.table({"label": ["x"] * sum(counts)})
        stage = Stage("judge", Labels, {"output": output}, rows_out=lambda _, counts=counts: counts)  # type: ignore[misc]
        assert StageRunner(stage=stage, board=None)(batch)[TALLY].to_pylist() == expected


def test_a_batch_without_rows_has_no_tallies() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    batch = pa.table({"item_id": ["i"], TASK: ["unit"], EXPECTED_ROWS: [1], EXCLUDED: ["{}"], BEGUN: [0.0]})
    stage = Stage("judge", Labels, {"output": pa.table({"label": pa.array([], pa.string())})})
    rows = StageRunner(stage=stage, board=None)(batch.append_column(TALLY, pa.array([None], kind)).slice(1))
    assert (rows.num_rows, rows[TALLY].type, rows["label"].type) == (0, kind, pa.string())


def test_a_reason_is_the_error_or_too_little_memory() -> None:
    cases = [(MemoryError("x"), "out_of_memory"), (KeyError("x"), "KeyError"), (ValueError("a\nb"), "ValueError")]
    reasons = [reason_of(error) for error, _ in cases]
    assert [reason.kind for reason in reasons] == [kind for _, kind in cases]
    assert reasons[2].message == "ValueError: a"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The timers that were set (seconds) and cancelled (None)."""
    timers: list[Any] = []

    def begin(seconds: float, *, exit: bool, file: int) -> None:
        assert (exit, file) == (True, STDERR)
        timers.append(seconds)

    monkeypatch.setattr(faulthandler, "dump_traceback_later", begin)
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: timers.append(None))
    return timers


def test_each_sign_of_progress_starts_the_time_anew(calls: list[Any]) -> None:
    watch = HangWatch(5.0)
    watch.progress()
    assert calls == [], "nothing is watched yet"
    with watch.watching():
        assert calls == [5.0]
        watch.progress()
    assert calls == [5.0, 5.0, None]
    watch.progress()
    assert calls == [5.0, 5.0, None], "nothing is watched any more"


def test_the_watch_ends_with_an_error(calls: list[Any]) -> None:
    watch = HangWatch(5.0)
    with pytest.raises(KeyError), watch.watching():
        raise KeyError
    watch.progress()
    assert calls == [5.0, None]


def test_without_a_limit_nothing_is_watched(calls: list[Any]) -> None:
    watch = HangWatch(None)
    with watch.watching():
        watch.progress()
    assert calls == []


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
        reader = UnitReader(reading, target, [Stage("copy", object, {}, rows_out=2)], None)
        again = UnitTask(task.unit, 1, (), retry).to_json()
        returned = reader(pa.table({TASK: [again]}))
        assert returned[TASK].to_pylist() == [again] * returned.num_rows
        return list(zip(returned["image_id"].to_pylist(), returned[EXPECTED_ROWS].to_pylist(), strict=True))

    assert read(()) == [("0", 6), ("1", 6), ("2", 6)]
    assert read(("error",)) == [("1", 2)]
    assert read(("error", "ok")) == [("0", 6), ("1", 6), ("2", 6)]


def test_a_unit_that_did_not_arrive_whole_is_not_written(tmp_path: Path) -> None:
    target = Target(str(tmp_path), "records", {}, "i", {}, None)
    task = pa.array([UnitTask(Unit("u", ())).to_json()] * 2).dictionary_encode()
    rows = pa.table({"item_id": ["a", "a"], TASK: task, EXPECTED_ROWS: [3, 3]})
    for counts_items, arrived in ((False, "2 of 3 rows"), (True, "1 of 3 items")):
        with pytest.raises(RunError, match=f"unit u: only {arrived} arrived"):
            UnitSink(target, counts_items=counts_items)(rows)
    assert not list(tmp_path.iterdir())


def test_rows_that_the_plan_left_out_are_read_and_filtered(tmp_path: Path) -> None:
    unit = Unit("u", (), extra={"filtered": {"same_picture": 2, "draw": 1}})
    with UnitWriter(Target(str(tmp_path), "records", {}, "i", {}), UnitTask(unit)) as writer:
        count_rows(writer, UnitTask(unit), 0)
        assert (writer.counts.rows_in, writer.counts.filtered) == (3, {"same_picture": 2, "draw": 1})
        count_rows(writer, UnitTask(Unit("v", ())), 5)
        assert writer.counts.rows_in == 5
        writer.counts.rows_in = 3


def test_of_a_retry_only_rows_with_its_statuses_are_replaced() -> None:
    schema = pa.schema({"item": pa.string(), "order": pa.string(), "status": pa.string(), "try": pa.int8()})

    def table(*rows: tuple[str, str, str, int]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)

    written = table(("a", "x", "error", 0), ("a", "y", "ok", 0), ("b", "x", "refused", 0), ("c", "x", "error", 0))
    redone = table(("c", "x", "error", 1), ("a", "y", "ok", 1), ("a", "x", "ok", 1)).append_column("more", [[1, 2, 3]])
    redone = redone.select(redone.column_names[::-1])
    task = UnitTask(Unit("u", ()), retry=("error",))
    merged = merge_retried(written, redone, ["item", "order"], task)
    assert merged.equals(
        table(("a", "x", "ok", 1), ("a", "y", "ok", 0), ("b", "x", "refused", 0), ("c", "x", "error", 1))
    )
    with pytest.raises(RunError, match=r"unit u: the retry returned no row for \('c', 'x'\)"):
        merge_retried(written, redone.slice(1), ["item", "order"], task)


def test_a_retry_replaces_the_rows_of_whole_items_in_their_places() -> None:
    schema = pa.schema({"item_id": pa.string(), "span": pa.int32()})

    def table(items: str, spans: list[int]) -> pa.Table:
        return pa.table({"item_id": list(items), "span": spans}, schema=schema)

    written = table("aabcc", [1, 2, 3, 4, 5])
    for redone, merged in (
        (table("bb", [8, 9]), table("aabbcc", [1, 2, 8, 9, 4, 5])),
        (table("bb", [8, 9]).select(["span", "item_id"]), table("aabbcc", [1, 2, 8, 9, 4, 5])),
        (table("ca", [8, 9]), table("abc", [9, 3, 8])),
    ):
        assert replace_items(written, redone).equals(merged)
