"""Pools of actors: which are refused, which share a process, and how they grow."""

import dataclasses
import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pytest

from actors import schemas
from jobs.errors import InputError
from jobs.runtime import stages
from jobs.runtime.board import Reporter
from jobs.runtime.cluster import ray_session
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.resources import RayConfig, Resources, StageResources, TaskResources, demands
from jobs.store.writer import UnitTask, UnitWriter
from tests.jobs.runtime.cluster.numbered_units import (
    NUMBERED,
    READ,
    Double,
    Finish,
    opened,
)

pytestmark = [pytest.mark.usefixtures("ray_session"), pytest.mark.timeout(600)]


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


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize(
    "streamed", [pytest.param(False, id="process", marks=pytest.mark.torture), pytest.param(True, id="stream")]
)
def test_a_pool_with_one_unit_in_flight_grows_to_its_maximum(tmp_path: Path, *, streamed: bool) -> None:
    """With pools as in resources=cluster; Ray's own threshold of 1.75 units per actor would leave one actor."""
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
