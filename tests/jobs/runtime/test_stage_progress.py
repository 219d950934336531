"""Progress of work units: what is expected, and what is shown before a row is done."""

import dataclasses
import re
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from ray.data import DataContext

from actors import schemas
from jobs.errors import RunError
from jobs.runtime import progress, stages
from jobs.runtime.board import Reporter
from jobs.runtime.configuration.resources import Resources
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from tests.jobs.runtime.cluster.numbered_units import (
    NUMBERED,
    READ,
    Double,
    Finish,
    opened,
)

pytestmark = [pytest.mark.usefixtures("ray_session"), pytest.mark.timeout(600)]
HALF_SECONDS = 12  # that a quiet unit takes
LIVE = re.compile(r"mine +(\d+)/12 MB .*?([\d,]+) rows \([\d,]+/s\)")


class Quiet:
    """A unit at a time: seconds without a row, reported as they pass, as when a large file with few matches is read."""

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        for _ in range(HALF_SECONDS):
            time.sleep(0.5)
            report.add(1, rows=100)


class Writing:
    """A stage of a stream that takes seconds for its first row and tells of tokens meanwhile."""

    INPUTS = NUMBERED
    OUTPUTS = schemas.IMAGES

    def __init__(self) -> None:
        self._finish = Finish(faults={})
        self._report: Callable[[int], None] = lambda tokens: None

    def report_tokens(self, content: Callable[[int], None]) -> None:
        self._report = content

    def __call__(self, batch: pa.Table) -> pa.Table:
        for _ in range(HALF_SECONDS):
            time.sleep(0.5)
            self._report(10)
        return self._finish(batch)


def go_quietly(out: Path) -> TableRun:
    run = opened(str(out), [0])
    stage = stages.Stage("mine", Quiet, {})
    stages.process(run, name="mine", stage=stage, resources=Resources(), total=HALF_SECONDS, counted="MB")
    return run


def test_progress_counts_rows_where_their_number_is_known() -> None:
    """A retry redoes some rows of a unit, and a stage may return any number of them."""
    counted = [UnitTask(Unit("a", (), rows=5)), UnitTask(Unit("b", (), rows=2))]
    triple = stages.Stage("decode", Double, {}, rows_out=3)
    same = stages.Stage("embed", Finish, {})
    some = stages.Stage("judge", Finish, {}, rows_out=None)
    for tasks, chain, expected in (
        (counted, [same, triple], [7, 21]),
        (counted, [same, some], [7, None]),
        ([counted[0], dataclasses.replace(counted[1], retry=("error",))], [same, triple], [None, None]),
    ):
        progress = stages.expected_progress(tasks, chain)
        assert [stage.total for stage in progress] == expected
        assert [stage.name for stage in progress] == [stage.pool for stage in chain]


@pytest.mark.long
def test_tokens_are_reported_before_the_first_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.5)
    run = opened(str(tmp_path / "out"), [2])
    stages.stream(run, name="test", read=READ, stages=[stages.Stage("judge", Writing, {})], resources=Resources())
    counts = [int(n) for n in re.findall(r"^test judge +0/2 rows .* (\d+) tokens \(", capsys.readouterr().err, re.M)]
    assert counts == sorted(counts)
    assert len(set(counts)) >= 3
    assert set(counts) <= {10 * n for n in range(1, HALF_SECONDS + 1)}
    assert run.finish()["complete"]


@pytest.mark.long
def test_a_unit_is_neither_silent_nor_given_up_while_it_yields_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.5)
    manifest = go_quietly(tmp_path / "out").finish()
    assert manifest["complete"]
    counts = [(int(n), int(rows.replace(",", ""))) for n, rows in LIVE.findall(capsys.readouterr().err)]
    assert counts == sorted(counts)
    assert {rows for done, rows in counts} <= {100 * n for n in range(HALF_SECONDS + 1)}
    assert len({done for done, _ in counts if done < HALF_SECONDS}) >= 3  # rows and rates within the one unit
    # Ray's guard, if it were on, would end such a run: that it is off is what keeps hours of it alive.
    monkeypatch.setattr(DataContext.get_current(), "execution_no_progress_timeout_s", 1.0)
    with pytest.raises(RunError, match="progress"):
        go_quietly(tmp_path / "guarded")
