"""Work units with plain actors of a few lines: every row once, also after an error and a retry.

Through the real Ray Data where it matters; what the readers, runners and sinks do themselves is tested in one process.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import ray

from jobs.errors import RunError
from jobs.runtime import stages
from jobs.runtime.board import Reporter
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from tests.factories import unit_records
from tests.in_process import stages_in_process
from tests.jobs.runtime.cluster.numbered_units import given, go, opened, units_there

pytestmark = [pytest.mark.usefixtures("ray_session"), pytest.mark.timeout(600)]


class Logged:
    """A unit at a time: keeps the names of its units in the order in which they came."""

    def __init__(self, *, log: str) -> None:
        self._log = Path(log)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        with self._log.open("a") as log:
            log.write(task.unit.name + "\n")


def test_every_row_passes_two_stages_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, sizes = tmp_path / "out", [5, 0, 1, 150, 0]  # smaller and larger than a batch of 64, and nothing at all
    run = opened(str(out), sizes)
    go(run, tmp_path / "log", {"u000-003": "error"}, copies=2)
    manifest = run.finish()

    assert manifest["complete"]
    assert manifest["counts"]["rows_out"] == 2 * sum(sizes)
    assert manifest["counts"]["status"] == {"ok": 2 * sum(sizes) - 2, "error": 2}
    assert set(given(tmp_path / "log").values()) == {1}
    for number, rows in enumerate(sizes):
        table = pq.read_table(out / f"u{number:03}.parquet")
        asked = [(f"u{number:03}-{row:03}", f"copy {copy}", 2 * row) for row in range(rows) for copy in range(2)]
        got = zip(*(table[name].to_pylist() for name in ("image_id", "rendition", "attempts")), strict=True)
        assert list(got) == asked
    # not a terminal: plain lines, the last of each stage complete
    last = dict(re.findall(r"^(test \w+) +(.*)$", capsys.readouterr().err, re.M))
    assert re.fullmatch(r"156/156 rows  [\d,]+\.\d rows/s", last["test decode"])
    assert re.fullmatch(r"312/312 rows  [\d,]+\.\d rows/s  2 errors", last["test embed"])


@pytest.mark.long
def test_many_units_smaller_than_a_batch_on_object_storage(tmp_path: Path, s3: str) -> None:
    out, sizes = locations.join(s3, "flow", "out"), [number % 4 for number in range(40)]
    apart = StageResources(actors=2, num_cpus=0.1, batch_size=1000)  # in processes of their own
    resources = Resources(decode=apart, embed=StageResources(batch_size=7))
    run = opened(out, sizes)
    go(run, tmp_path / "log", resources=resources)
    assert run.finish()["complete"]

    assert set(given(tmp_path / "log").values()) == {1}
    table = open_table(out, "images")
    assert {f.unit.name: f.rows for f in table.footers} == {f"u{n:03}": size for n, size in enumerate(sizes)}
    rows = pa.concat_tables(table.batches(["image_id"]))["image_id"].to_pylist()
    assert rows == [f"u{unit:03}-{row:03}" for unit, size in enumerate(sizes) for row in range(size)]


def test_of_the_units_each_is_sent_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray keeps on the driver what it sends: all units with each of them would be their square."""
    units = [Unit(f"u{n:03}", (), rows=1, extra={"note": f"{n:05}" * 5_000}) for n in range(30)]
    run = open_run(
        TablePlan(str(tmp_path / "out"), "images", {"test": "flow"}, units, {}, {}, derived=True),
        resume=True,
        overwrite=False,
        retry=[],
    )
    sent, put = [], ray.put

    def counted(value: Any, **options: Any) -> Any:
        sent.append(len(ray.cloudpickle.dumps(value)))
        return put(value, **options)

    monkeypatch.setattr(ray, "put", counted)
    go(run, tmp_path / "log")
    assert run.finish()["counts"]["rows_out"] == 30
    alone = 30 * 25_000
    assert alone < sum(sent) < 2 * alone


def test_a_second_run_redoes_only_what_an_error_left(tmp_path: Path) -> None:
    out, sizes = tmp_path / "out", [64] * 8
    one_at_a_time = StageResources(max_in_flight=1)
    resources = Resources(decode=one_at_a_time, embed=one_at_a_time)
    with pytest.raises(RunError, match=r"^stage Finish: returned 63 rows for 64") as caught:
        go(opened(str(out), sizes), tmp_path / "first", {"u007-000": "drop"}, resources=resources)
    assert "\n" not in str(caught.value)
    done = units_there(out)
    assert "u007" not in done
    assert done, "what was finished before the error must stay"
    before = {name: (out / f"{name}.parquet").read_bytes() for name in done}

    run = opened(str(out), sizes)
    assert {task.unit.name for task in run.todo} == {f"u{n:03}" for n in range(8)} - done
    go(run, tmp_path / "second", resources=resources)
    assert run.finish()["complete"]
    again = given(tmp_path / "second")
    assert {item[:4] for item in again} == {f"u{n:03}" for n in range(8)} - done
    assert set(again.values()) == {1}
    assert {name: (out / f"{name}.parquet").read_bytes() for name in done} == before


def test_retry_redoes_rows_of_that_status_and_keeps_the_others(tmp_path: Path) -> None:
    out, sizes = tmp_path / "out", [70, 3, 3]
    run = opened(str(out), sizes)
    with stages_in_process():
        go(run, tmp_path / "first", {"u000-001": "error", "u000-066": "error", "u001-002": "error"}, note="first")
    assert run.finish()["counts"]["status"] == {"ok": 73, "error": 3}
    before = {name: pq.read_table(out / f"{name}.parquet") for name in units_there(out)}
    third = (out / "u002.parquet").read_bytes()

    run = opened(str(out), sizes, retry=["error"])
    with stages_in_process():
        go(run, tmp_path / "second", {"u001-002": "error"}, note="second")
    manifest = run.finish()

    assert given(tmp_path / "second") == Counter(["u000-001", "u000-066", "u001-002"])
    assert manifest["counts"]["status"] == {"ok": 75, "error": 1}
    assert manifest["counts"]["rows_in"] == 76
    assert (out / "u002.parquet").read_bytes() == third
    after = {name: pq.read_table(out / f"{name}.parquet") for name in units_there(out)}
    for name, table in after.items():
        assert table["image_id"].equals(before[name]["image_id"])
        kept = pa.array([status == "ok" for status in before[name]["status"].to_pylist()])
        assert table.filter(kept).equals(before[name].filter(kept))
        assert set(table.filter(pc.invert(kept))["author"].to_pylist()) <= {"second"}
    units = {record["unit"]["name"]: record for record in unit_records(out)}
    assert {name: unit["generation"] for name, unit in units.items()} == {"u000": 1, "u001": 1, "u002": 0}
    (retired,) = units["u000"]["retired"]
    assert retired["generation"] == 0
    assert retired["counts"]["status"] == {"ok": 68, "error": 2}


def test_the_largest_units_are_begun_first(tmp_path: Path) -> None:
    units = [Unit(f"u{n}", (Object(f"file:///{n}", size, "1"),)) for n, size in enumerate((10, 30, 20))]
    plan = TablePlan(str(tmp_path / "out"), "images", {"test": "order"}, units, {}, {}, derived=True)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    stage = stages.Stage("mine", Logged, {"log": str(tmp_path / "log")})
    stages.process(run, name="mine", stage=stage, resources=Resources(), total=None, counted="rows")
    begun = (tmp_path / "log").read_text().split()
    # Two wait at the actor at a time, and which of them it takes first is Ray's to say.
    assert (set(begun[:2]), begun[2:]) == ({"u1", "u2"}, ["u0"])
    assert run.finish()["complete"]
