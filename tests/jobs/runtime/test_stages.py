"""Work units with plain actors of a few lines: every row once, whatever goes wrong.

Through the real Ray Data where it matters; what the readers, runners and sinks do themselves is tested in one process.
"""

import ctypes
import dataclasses
import os
import re
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import ray
from ray.data import DataContext

from actors import schemas
from actors.fetching import image_rows
from jobs.errors import InputError, RunError
from jobs.runtime import cli, progress, ray_session, stages
from jobs.runtime.board import Reporter
from jobs.runtime.config import RayConfig
from jobs.runtime.resources import Resources, StageResources, TaskResources, demands
from jobs.store import locations
from jobs.store.locations import Object
from jobs.store.reading import open_table
from jobs.store.run import TablePlan, TableRun, open_run
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from tests.in_process import stages_in_process

pytestmark = [pytest.mark.usefixtures("ray_session"), pytest.mark.timeout(600)]
NUMBERED = pa.schema({"item": pa.string(), "number": pa.int64()})
POISON = {  # what a row does to its process -> the kind of its error
    "raise": "ValueError",
    "exit": "process_died",
    "kill": "process_died",
    "hang": "timed_out",
    "memory": "out_of_memory",
}
HALF_SECONDS = 12  # that a quiet unit takes
LIVE = re.compile(r"mine +(\d+)/12 MB .*?([\d,]+) rows \([\d,]+/s\)")


def poison(fault: str) -> None:
    """What befalls a process at a poisoned row."""
    if fault == "raise":
        raise ValueError("this picture is cursed")
    if fault == "exit":
        os._exit(7)
    if fault == "kill":  # as the kernel does when memory is short
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "hang":  # within C, with the interpreter's lock
        ctypes.PyDLL(None).sleep(1000)
    if fault == "memory":
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + (256 << 20), before[1]))
        try:
            bytearray(1 << 36)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)


class Double:
    """First stage: twice the number; keeps one file per call that names the items it was given."""

    INPUTS = OUTPUTS = NUMBERED

    def __init__(self, *, log: str) -> None:
        self._log = Path(log)

    def __call__(self, batch: pa.Table) -> pa.Table:
        (self._log / uuid4().hex).write_text("\n".join(batch["item"].to_pylist()))
        return batch.set_column(1, "number", pc.multiply(batch["number"], 2))


class Process:
    """Stage that writes which run's actor works in which process."""

    INPUTS = NUMBERED
    OUTPUTS = schemas.IMAGES

    def __init__(self, *, log: str, run: int) -> None:
        self._log, self._run, self._finish = Path(log), run, Finish(faults={})

    def __call__(self, batch: pa.Table) -> pa.Table:
        with self._log.open("a") as file:
            file.write(f"{self._run} {os.getpid()}\n")
        return self._finish(batch)


class Finish:
    """Second stage: rows of `images`. `faults` says what befalls an item."""

    INPUTS = NUMBERED
    OUTPUTS = schemas.IMAGES

    def __init__(self, *, faults: dict[str, str], copies: int = 1, note: str = "", weights: str = "") -> None:
        if weights:
            raise FileNotFoundError(f"no weights at {weights}")
        self._faults, self._copies, self._note = faults, copies, note

    def __call__(self, batch: pa.Table) -> pa.Table:
        if "status" in batch.column_names:  # of a row that ended the process each time
            row = self._row(batch["item"][0].as_py(), 0, 0) | (image_rows.withheld(batch["status"][0].as_py()) or {})
            return pa.Table.from_pylist([row], schema=schemas.IMAGES)
        faults = {self._faults.get(item) for item in batch["item"].to_pylist()}
        for fault in faults & set(POISON):
            poison(fault or "")
        rows = [
            self._row(item, number, copy)
            for item, number in zip(batch["item"].to_pylist(), batch["number"].to_pylist(), strict=True)
            for copy in range(self._copies)
        ]
        return pa.Table.from_pylist(rows[: -1 if "drop" in faults else None], schema=schemas.IMAGES)

    def _row(self, item: str, number: int, copy: int) -> dict[str, Any]:
        failed = self._faults.get(item) == "error"
        return {
            "image_id": item,
            "rendition": f"copy {copy}",
            "attempts": number,
            "author": self._note,
            "bytes": None if failed else f"{item} {number} {self._note}".encode(),
            "status": "error" if failed else "ok",
        }


class Quiet:
    """A unit at a time: seconds without a row, told as they pass; as a large file with few matches is read."""

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        for _ in range(HALF_SECONDS):
            time.sleep(0.5)
            report.add(1, rows=100)


class Logged:
    """A unit at a time: keeps the names of its units in the order in which they came."""

    def __init__(self, *, log: str) -> None:
        self._log = Path(log)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        with self._log.open("a") as log:
            log.write(task.unit.name + "\n")


class Poisoned:
    """A unit at a time, some of which do to their process what `faults` says."""

    def __init__(self, *, faults: dict[str, str]) -> None:
        self._faults = faults

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        poison(self._faults.get(task.unit.name, ""))


class Gathered:
    """A unit at a time: takes a second, but no longer once `enough` processes have had one."""

    def __init__(self, *, log: str, enough: int) -> None:
        self._log, self._enough = Path(log), enough

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        gather(self._log, self._enough)


class GatheredRows:
    """The same as a stage of a stream."""

    INPUTS = NUMBERED
    OUTPUTS = schemas.IMAGES

    def __init__(self, *, log: str, enough: int) -> None:
        self._log, self._enough = Path(log), enough
        self._finish = Finish(faults={})

    def __call__(self, batch: pa.Table) -> pa.Table:
        gather(self._log, self._enough)
        return self._finish(batch)


def gather(log: Path, enough: int) -> None:
    (log / str(os.getpid())).touch()
    for _ in range(10):
        if len(list(log.iterdir())) >= enough:
            return
        time.sleep(0.1)


class Writing:
    """A stage of a stream that takes seconds for its first row and tells of tokens meanwhile."""

    INPUTS = NUMBERED
    OUTPUTS = schemas.IMAGES

    def __init__(self) -> None:
        self._finish = Finish(faults={})
        self._told: Callable[[int], None] = lambda tokens: None

    def report_tokens(self, content: Callable[[int], None]) -> None:
        self._told = content

    def __call__(self, batch: pa.Table) -> pa.Table:
        for _ in range(HALF_SECONDS):
            time.sleep(0.5)
            self._told(10)
        return self._finish(batch)


def numbered(task: UnitTask) -> pa.Table:
    """A unit's items: `unit-row`, and the row's number."""
    rows = range(task.unit.rows or 0)
    names = pa.array([f"{task.unit.name}-{row:03}" for row in rows], pa.string())
    return pa.table({"item": names, "number": pa.array(list(rows), pa.int64())})


def numbered_but_one(task: UnitTask) -> pa.Table:
    """As `numbered`; the process that reads unit u001 ends."""
    if task.unit.name == "u001":
        os._exit(7)
    return numbered(task)


READ = stages.Read(numbered, item="item", output_item="image_id")


def opened(out: str, sizes: list[int], retry: list[str] | None = None) -> TableRun:
    """A run of units of these sizes, named u000, u001, …"""
    units = [Unit(f"u{number:03}", (), rows=rows) for number, rows in enumerate(sizes)]
    plan = TablePlan(out, "images", {"test": "flow"}, units, {}, {}, derived=True)
    return open_run(plan, resume=True, overwrite=False, retry=retry or [])


def go(
    run: TableRun, log: Path, faults: dict[str, str] | None = None, *, resources: Resources | None = None, **finish: Any
) -> None:
    log.mkdir(exist_ok=True)
    copies = finish.get("copies", 1)
    chain = [
        stages.Stage("decode", Double, {"log": str(log)}),
        stages.Stage("embed", Finish, {"faults": faults or {}, **finish}, rows_out=copies),
    ]
    # Fewer reads and writes at a time than the default: each is a separate process, which takes seconds to start.
    resources = dataclasses.replace(resources or Resources(), read=TaskResources(0.3), write=TaskResources(0.3))
    stages.stream(run, name="test", read=READ, stages=chain, resources=resources)


def go_quietly(out: Path) -> TableRun:
    run = opened(str(out), [0])
    stage = stages.Stage("mine", Quiet, {})
    stages.process(run, name="mine", stage=stage, resources=Resources(), total=HALF_SECONDS, counted="MB")
    return run


def given(log: Path) -> Counter[str]:
    """How often each item was given to the first stage."""
    return Counter(item for call in log.iterdir() for item in call.read_text().split("\n"))


def units_there(out: Path) -> set[str]:
    return {path.stem for path in out.glob("*.parquet")}


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


def test_many_units_smaller_than_a_batch_on_object_storage(tmp_path: Path, s3: str) -> None:
    out, sizes = locations.join(s3, "flow", "out"), [number % 4 for number in range(120)]
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


def test_an_actor_that_loses_a_row_is_named_and_its_unit_not_written(tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = opened(str(out), [64, 64])
    with (
        stages_in_process(),
        pytest.raises(RunError, match=r"stage Finish: returned 63 rows for 64, expected 1 per row") as caught,
    ):
        go(run, tmp_path / "log", {"u001-005": "drop"})
    assert caught.value.exit_code == 1
    assert "u001" not in units_there(out)
    with pytest.raises(RunError, match="units were not written"):
        run.finish()


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
    units = {unit["name"]: unit for unit in manifest["units"]}
    assert {name: unit["generation"] for name, unit in units.items()} == {"u000": 1, "u001": 1, "u002": 0}
    (retired,) = units["u000"]["retired"]
    assert retired["generation"] == 0
    assert retired["counts"]["status"] == {"ok": 68, "error": 2}


def test_an_actor_that_cannot_be_built_says_why(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"^a worker failed: FileNotFoundError: no weights at nowhere"):
        go(opened(str(tmp_path / "out"), [3]), tmp_path / "log", weights="nowhere")
    assert not units_there(tmp_path / "out")


@pytest.mark.parametrize("actors", [pytest.param(1, id="warm"), pytest.param(2, id="pool", marks=pytest.mark.torture)])
def test_poisoned_rows_are_errors_and_the_rest_of_their_unit_is_kept(tmp_path: Path, actors: int) -> None:
    run = opened(str(tmp_path / "out"), [4, 2, 16])
    rows = {f"u002-{number:03}": fault for number, fault in enumerate(POISON, 5)}
    pool = StageResources(actors=actors, num_cpus=0.2, row_timeout_s=3)
    resources = Resources(decode=pool, embed=pool, read=TaskResources(0.3), write=TaskResources(0.3))
    read = stages.Read(numbered_but_one, item="item", output_item="image_id")
    chain = [stages.Stage("embed", Finish, {"faults": rows})]
    stages.stream(run, name="test", read=read, stages=chain, resources=resources)
    with pytest.raises(RunError, match=r"1 of 3 units were not written; u001: the process that reads it ended 3 times"):
        run.finish()
    assert units_there(tmp_path / "out") == {"u000", "u002"}
    written = pq.read_table(tmp_path / "out" / "u002.parquet").to_pylist()
    kinds = {row["image_id"]: row["error_kind"] for row in written if row["status"] == "error"}
    assert kinds.keys() == rows.keys()
    for item, fault in rows.items():  # a process that starts again after more than three seconds looks like a hang
        assert kinds[item] in {POISON[fault], "timed_out" if fault in ("exit", "kill") else None}, fault
    assert [row["status"] for row in written].count("ok") == 16 - len(POISON)


def test_poisoned_units_are_left_out_and_named(tmp_path: Path) -> None:
    run = opened(str(tmp_path / "out"), [0] * 5)
    faults = {"u001": "raise", "u002": "exit", "u003": "hang"}
    resources = Resources(mine=StageResources(actors=2, num_cpus=0.2, row_timeout_s=3))
    stage = stages.Stage("mine", Poisoned, {"faults": faults})
    stages.process(run, name="test", stage=stage, resources=resources, total=None, counted="rows")
    assert units_there(tmp_path / "out") == {"u000", "u004"}
    assert run.given_up["u001"] == "Poisoned failed: ValueError: this picture is cursed"
    assert set(run.given_up) == set(faults)
    with pytest.raises(RunError, match="3 of 5 units were not written"):
        run.finish()


@pytest.mark.parametrize(
    ("override", "sentence"),
    [
        ("resources.mine.num_gpus=1", r"2 GPUs \(mine 2 x 0.35 CPU \+ 1 GPU\) and the cluster has 0;"),
        ("resources.mine.actors=40", r"14 CPUs \(mine 40 x 0.35 CPU\) and the cluster has 2;"),
    ],
)
def test_stages_that_do_not_fit_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], override: str, sentence: str
) -> None:
    (tmp_path / "part.tsv").write_text("language\tpage_url\timage_url\tpage_title\tis_main_image\n")
    (tmp_path / "terms.txt").write_text("riot\n")
    out = tmp_path / "out"
    wanted = [f"corpus.path={tmp_path}/part.tsv", f"terms.path={tmp_path}/terms.txt", f"out={out}", override]
    assert cli.main("mine", wanted) == InputError.exit_code == 2
    assert re.search(sentence, capsys.readouterr().err)
    assert not out.exists()


def test_two_stages_of_a_stream_are_counted_together() -> None:
    wide = dataclasses.replace(Resources(), decode=StageResources(num_cpus=1), embed=StageResources(num_cpus=1))
    with pytest.raises(InputError, match=r"needs 2\.5 CPUs"):
        ray_session.start(RayConfig(), wide, demands(wide, ["decode", "embed"], streamed=True))
    ray_session.start(RayConfig(), Resources(), demands(Resources(), ["decode", "embed"], streamed=True))


def test_the_runs_of_a_driver_share_a_warm_process(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for number in range(2):
        run = opened(str(tmp_path / f"out{number}"), [2, 1])
        chain = [stages.Stage("judge", Process, {"log": str(log), "run": number})]
        stages.stream(run, name="test", read=READ, stages=chain, resources=Resources())
        assert run.finish()["complete"]
    processes = {tuple(line.split()) for line in log.read_text().splitlines()}
    assert {run for run, _ in processes} == {"0", "1"}, "each run has a separate actor"
    assert len({pid for _, pid in processes}) == 1


def test_single_actors_without_a_gpu_share_a_process() -> None:
    decode, embed = (stages.Stage(pool, Double, {}) for pool in ("decode", "embed"))
    one, two = StageResources(num_cpus=0.2, memory_gb=1), StageResources(num_cpus=0.2, actors=2)
    gpu, growing = StageResources(num_gpus=0.5), StageResources(max_actors=3)
    last = StageResources(num_cpus=0.3, batch_size=8)
    both = dataclasses.replace(last, num_cpus=0.5, memory_gb=1)
    for before, after, expected in (
        (one, last, [([decode, embed], both)]),
        (one, gpu, [([decode], one), ([embed], gpu)]),
        (two, last, [([decode], two), ([embed], last)]),
        (growing, last, [([decode], growing), ([embed], last)]),
    ):
        resources = Resources(decode=before, embed=after)
        assert list(stages.groups_of([decode, embed], resources)) == expected, (before, after)


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


@pytest.mark.parametrize(
    "streamed", [pytest.param(False, id="process", marks=pytest.mark.torture), pytest.param(True, id="stream")]
)
def test_a_pool_with_one_unit_in_flight_grows_to_its_maximum(tmp_path: Path, *, streamed: bool) -> None:
    """As the pools of resources=cluster are set: Ray's own threshold of 1.75 units an actor would leave one actor."""
    log = tmp_path / "log"
    log.mkdir()
    run = opened(str(tmp_path / "out"), [1] * 24)
    # Of the few CPUs that Ray keeps for each operator, the pool's share must hold three.
    pool = StageResources(actors=1, max_actors=3, num_cpus=0.1, max_in_flight=1, batch_size=1)
    resources = Resources(mine=pool, read=TaskResources(0.3), write=TaskResources(0.3))
    kwargs = {"log": str(log), "enough": 3}
    if streamed:
        chain = [stages.Stage("mine", GatheredRows, kwargs)]
        stages.stream(run, name="test", read=READ, stages=chain, resources=resources)
    else:
        stage = stages.Stage("mine", Gathered, kwargs)
        stages.process(run, name="test", stage=stage, resources=resources, total=None, counted="rows")
    assert len(list(log.iterdir())) == 3
    assert run.finish()["complete"]


def test_tokens_are_told_before_the_first_row(
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


def test_a_unit_is_neither_silent_nor_given_up_while_it_yields_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.5)
    manifest = go_quietly(tmp_path / "out").finish()
    assert manifest["units"]
    counts = [(int(n), int(rows.replace(",", ""))) for n, rows in LIVE.findall(capsys.readouterr().err)]
    assert counts == sorted(counts)
    assert {rows for done, rows in counts} <= {100 * n for n in range(HALF_SECONDS + 1)}
    assert len({done for done, _ in counts if done < HALF_SECONDS}) >= 3  # rows and rates within the one unit
    # Ray's guard, if it were on, would end such a run: that it is off is what keeps hours of it alive.
    monkeypatch.setattr(DataContext.get_current(), "execution_no_progress_timeout_s", 1.0)
    with pytest.raises(RunError, match="progress"):
        go_quietly(tmp_path / "guarded")
