"""Workers' warnings are printed once, too many errors of the run stop it, and an error that ends it is one line."""

import logging
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from ray.exceptions import RayActorError, UserCodeException

from actors import schemas
from actors.errors import ModelError, has_other_shapes
from actors.status import INPUT_KINDS, NETWORK_KINDS
from jobs.errors import InputError, RunError
from jobs.runtime import lifecycle, stages, worker_reports
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.configuration.config import FailingRows
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.outcomes import Plan
from jobs.runtime.selection.exclusions import Exclusions
from jobs.runtime.stage_contract import BEGUN, EXCLUDED, EXPECTED_ROWS, TASK, Stage
from jobs.runtime.stage_workers import StageRunner
from jobs.runtime.worker_reports import (
    LEAST_FAILED,
    LEAST_ITEMS,
    MOST_TEXTS,
    REMEDY,
    TRACE,
    ErrorLimit,
    ErrorTotals,
    PrintedWarnings,
    WarningCounts,
    WorkerErrors,
    as_run_errors,
    reported_errors,
    run_error,
    send_to,
)
from jobs.store.counts import Failure, ItemErrors
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from tests.jobs.runtime.cluster.numbered_units import NUMBERED
from tests.jobs.runtime.ending_stage import LocalBoard, LocalPart


class Same:
    """A stage that returns its rows."""

    INPUTS = OUTPUTS = NUMBERED

    def __call__(self, batch: pa.Table) -> pa.Table:
        return batch


def test_warnings_of_workers_are_printed_once_and_counted() -> None:
    board, printed, log = LocalBoard(), PrintedWarnings(), logging.getLogger("actors.judge")
    collected = board.of(WarningCounts)
    task = UnitTask(Unit("u7", ())).to_json()
    try:
        for _ in range(2):  # a process that is used again sends each warning once
            send_to(board)
        worker_reports.working_on([task])
        log.warning("out of memory on %s\nwith a trace", "cuda:0")
        worker_reports.working_on([])
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
    assert not any(isinstance(handler, worker_reports._Sender) for handler in logging.getLogger("actors").handlers)


def test_a_stage_says_which_units_it_works_on(monkeypatch: pytest.MonkeyPatch) -> None:
    units: list[list[str]] = []
    monkeypatch.setattr(worker_reports, "working_on", units.append)
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
    collected = WarningCounts()
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
    board = LocalBoard()
    sent = board.told[WarningCounts]
    logger.addHandler(other)
    try:
        worker_reports.working_on([UnitTask(Unit("u7", ())).to_json()])
        send_to(board)
        logger.warning("")
        assert [(text, place["units"]) for text, place in sent] == [("", [])]
        send_to(None)
        assert other in logger.handlers
        logger.warning("x")
        assert len(sent) == 1
    finally:
        send_to(None)
        logger.removeHandler(other)


def test_a_model_error_keeps_its_message_and_others_name_their_origin() -> None:
    assert str(run_error(ModelError("cannot load the model (cut)", "/m"))) == "/m: cannot load the model (cut)"
    assert str(run_error(ValueError("a list\nof two lines"))) == f"a worker failed: ValueError: a list; {TRACE}"
    failed = RunError("it failed", key="k")
    assert run_error(failed) is failed


def test_the_message_begins_with_the_key_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ["input=y", "rubric=century_labels", "out=x", "model.checkpoint=/models/mine"]
    schema = cli.job("judge").schema
    cfg = config.load("judge", schema, overrides)

    def execute(_: Any) -> None:
        raise run_error(ModelError("cannot load", "/models/mine"))

    monkeypatch.setattr(cli, "job", lambda _: SimpleNamespace(execute=execute, schema=schema))
    with pytest.raises(RunError, match=r"^model\.checkpoint=/models/mine: cannot load$"):
        cli.execute_loaded("judge", cfg, overrides)


def test_errors_about_shapes_are_not_those_of_a_device() -> None:
    assert has_other_shapes(RuntimeError("You set `ignore_mismatched_sizes` to `False`, thus raising an error."))
    assert has_other_shapes(RuntimeError("Error(s) in loading state_dict for CLIP:\n\tsize mismatch for visual.proj"))
    assert not has_other_shapes(RuntimeError("CUDA error: out of memory"))


@pytest.mark.parametrize("error", [InputError("k=0: no"), RunError("it failed"), KeyboardInterrupt()])
def test_errors_of_one_line_are_raised_as_they_are(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, as_run_errors(LocalBoard()):
        raise error
    assert raised.value is error


def test_the_error_that_a_worker_reported_is_raised_with_its_fields() -> None:
    board = LocalBoard()
    for message in ("first", "last"):
        with pytest.raises(RunError), reported_errors(board):
            raise RunError(message, key="k", value=3)
    with pytest.raises(RunError) as raised, as_run_errors(board):
        raise UserCodeException("UDF failed to process a data block.")
    assert (str(raised.value), raised.value.key) == ("k=3: last", "k")
    with pytest.raises(ValueError, match="no board"), reported_errors(None):
        raise ValueError("no board")


def test_what_ray_says_itself_is_one_line() -> None:
    board = LocalBoard()
    board.of(WorkerErrors).add(RunError("of a constructor that succeeded later"))
    with pytest.raises(RunError, match=rf"^a process of the run ended: {REMEDY}; {TRACE}"), as_run_errors(board):
        raise RayActorError
    with pytest.raises(RunError, match=r"^a worker failed: ValueError: first line; "), as_run_errors(board):
        raise ValueError("first line\nsecond")
    with pytest.raises(RunError, match=r"^a worker failed: UserCodeException: UDF failed"), as_run_errors(LocalBoard()):
        raise UserCodeException("UDF failed to process a data block.")  # the board has restarted


pytestmark = pytest.mark.usefixtures("in_process")
ROOT = Path(__file__).parents[3]
UNIT = 100
ITEMS = pa.schema({"image_id": pa.string()})
# Forms in which the sources name a kind of rows with the status `error`.
NAMED = (
    r"(?:PictureError|HttpError)\(\s*\"(\w+)\"",
    r"failed\(\s*Status\.ERROR, \"(\w+)\"",
    r"ScoringError\(\s*\"(\w+)\"",
    r"Status\.ERROR\.value, \"(\w+)\"",
    r"aiohttp\.\w+, \"(\w+)\", \"",
    r"Reason\(\"(\w+)\"",
)
NOT_OF_ERRORS = {
    "answer_cut",
    "empty_answer",
    "excluded",
    "no_picture",
    "not_asked",
    "empty_context",
    "mistakes_unknown",
}


class Fetcher:
    """Rows of `images`: `faults` has the kinds of errors by number of unit and row, `*` for all rows of a unit."""

    INPUTS = ITEMS
    OUTPUTS = schemas.IMAGES

    def __init__(self, *, faults: dict[str, str]) -> None:
        self._faults = faults

    def __call__(self, batch: pa.Table) -> pa.Table:
        return pa.Table.from_pylist([self.row(name) for name in batch["image_id"].to_pylist()], schema=self.OUTPUTS)

    def row(self, name: str) -> dict[str, Any]:
        row = {
            "image_id": name,
            "rendition": "original",
            "attempts": 1,
            "source_url": f"https://pictures.example/{name}",
        }
        kind = self._faults.get(name) or self._faults.get(f"{name[:2]}-*")
        outcome = (
            {"status": "error", "error_kind": kind, "error_message": f"it is {kind}"} if kind else {"status": "ok"}
        )
        return row | outcome


class UnitFetcher(Fetcher):
    """The same, unit by unit."""

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Any) -> None:  # type: ignore[override]
        rows = [self.row(name) for name in names(task)]
        for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            writer.write(pa.Table.from_pylist(half, schema=schemas.IMAGES))
        writer.counts.rows_in = len(rows)


def names(task: UnitTask) -> list[str]:
    return [f"{task.unit.name}-{row:03}" for row in range(task.unit.rows or 0)]


def items(task: UnitTask) -> pa.Table:
    return pa.table({"image_id": names(task)})


def fetch(
    out: Path,
    faults: dict[str, str],
    *,
    units: int = 3,
    rows: int = UNIT,
    retry: list[str] | None = None,
    share: float = 0.01,
    streamed: bool = True,
) -> TableRun:
    sizes = [Unit(f"u{number}", (), rows=rows) for number in range(units)]
    plan = TablePlan(str(out), "images", {"test": "errors"}, sizes, {"max_error_share": share}, {}, derived=True)
    run = open_run(plan, resume=True, overwrite=False, retry=retry or [])
    if streamed:
        read = stages.Read(items, item="image_id", output_item="image_id")
        chain = [stages.Stage("fetch", Fetcher, {"faults": faults})]
        stages.stream(run, name="fetch", read=read, stages=chain, resources=Resources())
    else:
        stage = stages.Stage("fetch", UnitFetcher, {"faults": faults})
        stages.process(run, name="fetch", stage=stage, resources=Resources(), total=None, counted="rows")
    return run


def written(out: Path) -> set[str]:
    return {path.stem for path in out.glob("*.parquet")}


@pytest.mark.parametrize("streamed", [True, False])
def test_a_run_stops_before_it_writes_a_unit_of_such_rows_and_resumes(tmp_path: Path, streamed: bool) -> None:
    out, faults = tmp_path / "out", {"u1-*": "out_of_memory", "u1-007": "RuntimeError"}
    with pytest.raises(RunError) as stopped:
        fetch(out, faults, streamed=streamed)
    assert stopped.value.exit_code == 1
    for part in ("max_error_share=0.01", "100 of 200 items (50.0%)", "99 out_of_memory, 1 RuntimeError", "u1-000"):
        assert part in str(stopped.value)
    assert "\n" not in str(stopped.value)
    assert written(out) == {"u0"}
    before = (out / "u0.parquet").read_bytes()

    counts = fetch(out, {}, streamed=streamed).finish()["counts"]
    assert counts["status"] == {"ok": 300}
    assert (out / "u0.parquet").read_bytes() == before


def test_rows_that_failed_in_written_units_are_redone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    faults = {f"u0-{row:03}": "out_of_memory" for row in range(LEAST_FAILED - 1)}
    with pytest.raises(RunError, match="109 of 200 items"):
        fetch(out, faults | {"u1-*": "out_of_memory"})
    assert fetch(out, {}, retry=["error"]).finish()["counts"]["status"] == {"ok": 300}


@pytest.mark.parametrize(
    "faults",
    [
        {"u1-*": "decode_failed", "u2-*": "bad_url"},
        {f"u1-{row:03}": "dns" for row in range(UNIT - 1)},  # one host answered
        {f"u{unit}-{row:03}": "process_died" for unit in range(3) for row in range(3)},  # few
    ],
    ids=["errors of the input", "some hosts are gone", "few"],
)
def test_a_run_does_not_stop(tmp_path: Path, faults: dict[str, str]) -> None:
    status = fetch(tmp_path / "out", faults).finish()["counts"]["status"]
    assert status["ok"] + status["error"] == 300


def test_a_small_run_does_not_stop(tmp_path: Path) -> None:
    manifest = fetch(tmp_path / "out", {"u0-*": "out_of_memory"}, units=1, rows=LEAST_ITEMS - 1).finish()
    assert manifest["counts"]["status"] == {"error": LEAST_ITEMS - 1}


def test_a_network_that_is_down_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"100 of 200 items .*100 dns"):
        fetch(tmp_path / "out", {"u1-*": "dns"})
    assert written(tmp_path / "out") == {"u0"}


def test_the_board_has_the_sum_and_a_board_that_does_not_answer_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    all_failed = ItemErrors(LEAST_ITEMS, {"error/oom": Failure(LEAST_ITEMS, "u", "m")})

    board = LocalBoard()
    board.of(ErrorTotals).add_errors(all_failed)
    with pytest.raises(RunError, match="100 of 101 items"):
        ErrorLimit(board, 0.01).check(ItemErrors(items=1))
    monkeypatch.setattr(LocalPart, "ask", lambda self, otherwise, *_: otherwise)
    ErrorLimit(board, 0.01).check(ItemErrors(items=1))


def test_a_larger_share_is_allowed_by_the_key(tmp_path: Path) -> None:
    fetch(tmp_path / "out", {"u0-*": "unreadable"}, share=1).finish()
    plan = TablePlan(str(tmp_path / "new"), "images", {}, [], {}, {}, derived=True)
    for share in (1.5, -0.1):
        with pytest.raises(InputError, match=rf"max_error_share={share}: must be from 0 to 1"):
            lifecycle.begin("fetch", FailingRows(out="x", max_error_share=share), plan, Exclusions(), pools=[])
    for share in (0, 1):
        cfg = FailingRows(out=plan.out, max_error_share=share, plan=True)
        assert isinstance(lifecycle.begin("fetch", cfg, plan, Exclusions(), pools=[]), Plan)


def test_every_kind_that_the_sources_name_is_documented_with_its_cause() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "actors").rglob("*.py")))
    named = {kind for form in NAMED for kind in re.findall(form, sources)} - NOT_OF_ERRORS
    assert len(named) > 30
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    of_input, of_network, of_run = (
        set(re.findall(r"`(\w+)`", line.split("|")[2]))
        for line in re.findall(r"^\| (?:the input|a network or host|the run) \|.*$", text, re.M)
    )
    assert of_input == INPUT_KINDS
    assert of_network == NETWORK_KINDS
    assert named - of_input - of_network - of_run == set()
    assert of_run - named == set()


def failing(items: int, **kinds: int) -> ItemErrors:
    return ItemErrors(items, {f"error/{kind}": Failure(n, f"at {kind}", f"it is {kind}") for kind, n in kinds.items()})


def test_the_least_numbers_that_stop_a_run() -> None:
    for items, failed in ((LEAST_ITEMS - 1, LEAST_ITEMS - 1), (LEAST_ITEMS, LEAST_FAILED - 1), (1000, 20)):
        ErrorLimit(None, 0.02).check(failing(items, oom=failed))
    for items, failed in ((LEAST_ITEMS, LEAST_FAILED), (1000, 21)):
        with pytest.raises(RunError, match=rf"^max_error_share=0\.02: {failed} of {items:,} items"):
            ErrorLimit(None, 0.02).check(failing(items, oom=failed))


def test_a_unit_without_items_is_not_counted_and_others_are_added() -> None:
    limit = ErrorLimit(None, 0.01)
    limit.check(failing(0, oom=LEAST_ITEMS))
    limit.check(failing(LEAST_ITEMS - 1, oom=5))
    with pytest.raises(RunError, match=r": 10 of 104 items"):
        limit.check(failing(5, oom=5))
    ErrorLimit(None, None).check(failing(LEAST_ITEMS, oom=LEAST_ITEMS))


def test_the_most_frequent_kinds_are_named_first_and_the_others_are_counted() -> None:
    errors = failing(2000, a=1, b=1100, c=3, d=1)
    text = worker_reports.sentence(errors, 0.5)
    assert "1,105 of 2,000 items (55.2%)" in text or "1,105 of 2,000 items (55.3%)" in text
    assert "(1,100 b, 3 c, 1 a, 1 more kinds), for example at b: it is b; what is written is kept" in text
    assert "(1,100 b, 3 c, 1 a), for" in worker_reports.sentence(failing(2000, a=1, b=1100, c=3), 0.5)
    unnamed = ItemErrors(100, {"error/": Failure(50, "u", "")})
    assert "(50 error), for example u; what" in worker_reports.sentence(unnamed, 0.1)
