"""A run stops when too many of its items fail because of the run itself; errors of the input never stop it."""

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ray.exceptions import RayActorError

from actors import schemas
from actors.status import INPUT_KINDS, NETWORK_KINDS
from jobs.errors import InputError, RunError
from jobs.runtime import error_share, lifecycle, stages
from jobs.runtime.configuration.config import FailingRows
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.error_share import ANSWER_S, LEAST_FAILED, LEAST_ITEMS, ErrorLimit
from jobs.runtime.worker_errors import as_run_errors
from jobs.store.failures import Failure
from jobs.store.item_errors import ItemErrors
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter

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


def test_the_board_has_the_sum_and_a_board_that_does_not_answer_stops_nothing() -> None:
    all_failed = ItemErrors(LEAST_ITEMS, {"error/oom": Failure(LEAST_ITEMS, "u", "m")})

    class Board:
        """Answers with errors of all workers, or not at all."""

        def __init__(self, answer: ItemErrors | Exception) -> None:
            self.answer = answer

        def ask(self, method: str, unit: ItemErrors, *, timeout: float) -> ItemErrors:
            assert (method, unit.items, timeout) == ("add_errors", 1, ANSWER_S)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

    for error in (TimeoutError(), RayActorError()):
        ErrorLimit(Board(error), 0.01).check(ItemErrors(items=1))
    with pytest.raises(RunError, match="100 of 100 items"):
        ErrorLimit(Board(all_failed), 0.01).check(ItemErrors(items=1))


def test_a_larger_share_is_allowed_by_the_key(tmp_path: Path) -> None:
    fetch(tmp_path / "out", {"u0-*": "unreadable"}, share=1).finish()
    for share in (1.5, -0.1):
        with pytest.raises(InputError, match=rf"max_error_share={share}: must be from 0 to 1"):
            lifecycle.begin("fetch", FailingRows(out="x", max_error_share=share), None, pools=[])  # type: ignore[arg-type]
    plan = TablePlan(str(tmp_path / "new"), "images", {}, [], {}, {}, derived=True)
    for share in (0, 1):
        cfg = FailingRows(out=plan.out, max_error_share=share, plan=True)
        assert lifecycle.begin("fetch", cfg, plan, pools=[]) is None


def test_the_sentence_of_a_worker_is_the_runs() -> None:
    trace = (
        "ray::Write()\n  File x\nValueError: no\n\njobs.errors.RunError: max_error_share=0.01: 3 of 4 (AWS Error 403)"
    )
    with pytest.raises(RunError, match=r"^max_error_share=0\.01: 3 of 4 \(AWS Error 403\)$"), as_run_errors():
        raise OSError(trace)


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
    text = error_share.sentence(errors, 0.5)
    assert "1,105 of 2,000 items (55.2%)" in text or "1,105 of 2,000 items (55.3%)" in text
    assert "(1,100 b, 3 c, 1 a, 1 more kinds), for example at b: it is b; what is written is kept" in text
    assert "(1,100 b, 3 c, 1 a), for" in error_share.sentence(failing(2000, a=1, b=1100, c=3), 0.5)
    unnamed = ItemErrors(100, {"error/": Failure(50, "u", "")})
    assert "(50 error), for example u; what" in error_share.sentence(unnamed, 0.1)
