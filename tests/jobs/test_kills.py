"""Kills at random moments, of the driver and of what works for it: the table is the one of an undisturbed run.

`make torture` kills each kind of victim `REMINE_KILLS` times (50) per job.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from jobs.runtime.command_line import cli, job_names
from jobs.runtime.configuration.key_types import UNKNOWN, type_of
from jobs.testbed.loopback_s3 import LoopbackS3
from tests import reliability
from tests.fault_proxy import FaultProxy, through
from tests.in_process import stages_in_process
from tests.jobs import kill_drill
from tests.jobs.kill_drill import Drill, Victims, actor, arguments_of, decoders, driver, read, warm, write
from tests.jobs.running_job import Running
from tests.jobs.runtime.cluster.ray_clusters import environment, running_cluster
from tests.jobs.small_jobs import SMALL_JOBS, job_of, write_small_jobs

pytestmark = [pytest.mark.long, pytest.mark.timeout(6 * 3600)]
KILLS = int(os.environ.get("REMINE_KILLS", "50"))
ON_RAY = ("mine", "fetch", "embed", "retrieve", "zero_shot", "judge", "generate")
FURTHER = (
    "fetch from parquet",
    "fetch from webdataset",
    "kb",
    "parse",
    "questions",
    "generate_images",
    "loglik",
    "terms",
    "mark_spans",
    "link",
)
FEW = ("pairs", "tric rank")  # small jobs that `make long` kills too
ELSEWHERE = {  # jobs with `out=` that no drill of this module kills
    "demo": "runs the others",
    "run": "runs the others",
    "diff": "writes no table",
    "view": "writes corrections one by one while a person rates",
    "choose": "writes a page and a sheet, or one object",
    "init": "writes two files that it never replaces",
    "export": "writes no table",
    "release": "writes no table",
    "link show": "writes no table",
}
TWO_ACTORS = {"mine": "mine", "embed": "embed", "judge": "judge", "generate": "judge"}  # job -> its pool
VICTIMS = {"mine": [driver, actor]} | {job: [driver, read, write, warm] for job in ON_RAY if job != "mine"}
SIGNALS = {143: [signal.SIGTERM], 130: [signal.SIGINT, signal.SIGINT]}  # exit code -> what the driver is sent


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    with stages_in_process():
        kill_drill.write_inputs(folder)
        kill_drill.write_further_inputs(folder)
    return folder


def test_a_killed_driver_a_killed_actor_and_a_terminated_driver(ray_session: None, tmp_path: Path) -> None:
    import ray

    kill_drill.write_corpus_files(tmp_path)
    cluster = f"ray.address={ray.get_runtime_context().gcs_address}"
    drill = Drill("mine", [*arguments_of("mine", tmp_path), cluster], tmp_path / "drill")
    drill.undisturbed(times=1)
    drill.disturb(actor, kills=1, seed=1)
    drill.arguments.append("resources.mine.actors=1")  # each takes seconds of CPU to start
    drill.disturb(driver, kills=1, seed=2)
    drill.disturb(driver, kills=1, seed=3, name="driver, by SIGTERM", signals=[signal.SIGTERM])
    assert drill.completed >= 3  # a run that ends before its victim is drawn again


def test_every_job_that_writes_a_table_is_killed() -> None:
    drilled = {job_of(name) for name in ("curate", *ON_RAY, *FURTHER, *SMALL_JOBS)}
    writers = {job for job in job_names.JOBS if type_of(cli.job(job).schema, "out") is not UNKNOWN}
    assert drilled - writers == set()
    assert writers - drilled == ELSEWHERE.keys()


@pytest.fixture(scope="module")
def small_jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return write_small_jobs(tmp_path_factory.mktemp("small"))


def kill_driver(job: str, arguments: list[str], folder: Path, *, kills: int, times: int) -> None:
    drill = Drill(job, arguments, folder)
    drill.undisturbed(times=times)
    drill.disturb(driver, kills=kills, seed=8)


@pytest.mark.parametrize("job", FEW)
def test_drivers_of_a_few_small_jobs(small_jobs: dict[str, list[str]], tmp_path: Path, job: str) -> None:
    kill_driver(job, small_jobs[job], tmp_path, kills=1, times=1)


@pytest.mark.torture
@pytest.mark.parametrize("job", SMALL_JOBS)
def test_drivers_of_small_jobs(small_jobs: dict[str, list[str]], tmp_path: Path, job: str) -> None:
    kill_driver(job, small_jobs[job], tmp_path, kills=KILLS, times=2)


def has_units(out: Path) -> bool:
    return any(out.glob("*.parquet"))


class OwnRay(NamedTuple):
    """A Ray of one machine for kills: its address as a key of the command line, and its `TMPDIR`."""

    key: str
    temporary: Path


@pytest.fixture(scope="module")
def own_ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnRay]:
    temporary = Path(tempfile.mkdtemp(prefix="drill-"))
    settings = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
    home = tmp_path_factory.mktemp("home")
    variables = environment(home, TMPDIR=str(temporary), **settings)
    with pytest.MonkeyPatch.context() as patch, running_cluster(variables) as cluster:
        for name, value in settings.items():
            patch.setenv(name, value)
        yield OwnRay(f"ray.address={cluster.address}", temporary)


@pytest.mark.torture
def test_a_driver_without_ray(inputs: Path, tmp_path: Path) -> None:
    drill = Drill("curate", arguments_of("curate", inputs), tmp_path)
    drill.undisturbed()
    drill.disturb(driver, kills=KILLS, seed=1)


@pytest.mark.torture
@pytest.mark.parametrize(("job", "victims"), [(job, victim) for job in ON_RAY for victim in VICTIMS[job]])
def test_processes_of_a_job_on_ray(own_ray: OwnRay, inputs: Path, tmp_path: Path, job: str, victims: Victims) -> None:
    drill = Drill(job, [*arguments_of(job, inputs), own_ray.key], tmp_path, shared=own_ray.temporary)
    drill.undisturbed()
    drill.disturb(victims, kills=KILLS, seed=2)


@pytest.mark.torture
@pytest.mark.parametrize("job", FURTHER)
def test_drivers_of_further_jobs(own_ray: OwnRay, inputs: Path, tmp_path: Path, job: str) -> None:
    drill = Drill(job, [*arguments_of(job, inputs), own_ray.key], tmp_path, shared=own_ray.temporary)
    drill.undisturbed()
    drill.disturb(driver, kills=KILLS, seed=7)


@pytest.mark.torture
@pytest.mark.parametrize("job", [job for job in TWO_ACTORS if job != "mine"])
def test_actors_of_a_stream(own_ray: OwnRay, inputs: Path, tmp_path: Path, job: str) -> None:
    pool = TWO_ACTORS[job]
    two = [f"resources.{pool}.actors=2", f"resources.{pool}.num_cpus=0.2"]
    drill = Drill(job, [*arguments_of(job, inputs), *two, own_ray.key], tmp_path, shared=own_ray.temporary)
    drill.undisturbed()
    drill.disturb(actor, kills=KILLS, seed=5)


@pytest.mark.torture
@pytest.mark.parametrize("job", ON_RAY)
@pytest.mark.parametrize("code", SIGNALS)
def test_drivers_that_are_terminated(own_ray: OwnRay, inputs: Path, tmp_path: Path, job: str, code: int) -> None:
    drill = Drill(job, [*arguments_of(job, inputs), own_ray.key], tmp_path, shared=own_ray.temporary)
    drill.undisturbed()
    name = {143: "driver, by SIGTERM", 130: "driver, by Ctrl-C twice"}[code]
    drill.disturb(driver, kills=KILLS, seed=6, name=name, signals=SIGNALS[code])


@pytest.mark.torture
def test_processes_that_decode(own_ray: OwnRay, inputs: Path, tmp_path: Path) -> None:
    drill = Drill("fetch", [*arguments_of("fetch", inputs), own_ray.key], tmp_path, shared=own_ray.temporary)
    drill.undisturbed()
    drill.disturb(decoders, kills=KILLS, seed=3)


@pytest.mark.torture
@pytest.mark.parametrize("job", ["mine", "fetch", "embed"])
@pytest.mark.parametrize("loss", ["raylet", "node"])
def test_nodes_of_a_cluster(inputs: Path, tmp_path: Path, job: str, loss: str) -> None:
    """One of two nodes that work is lost, and another one joins."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        shape = {"num_cpus": 0, "nodes": [{"num_cpus": 2}, {"num_cpus": 2}]}
        with running_cluster(environment(tmp_path / "home", RAY_AUTH_MODE="disabled"), **shape) as cluster:
            drill = Drill(job, [*arguments_of(job, inputs), f"ray.address={cluster.address}"], tmp_path)
            drill.undisturbed()

            def lose() -> None:
                cluster.call(f"tests.jobs.runtime.cluster.lost_nodes:replace_{loss}", "")

            drill.disturb(driver, kills=KILLS, seed=9, name=loss, by=lose)


@pytest.mark.torture
@pytest.mark.parametrize("job", ["curate", "mine", "embed"])
def test_the_s3_server(inputs: Path, tmp_path: Path, job: str) -> None:
    """It is killed and started again, at the same address."""
    server = LoopbackS3(tmp_path / "server").start()
    with pytest.MonkeyPatch.context() as patch, FaultProxy(server.endpoint) as proxy:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        with through(proxy):
            server.create_bucket("drill")
            # Workers have the environment of Ray's start.
            home, settings = tmp_path / "home", {"RAY_AUTH_MODE": "disabled"}
            patch.setenv(*next(iter(settings.items())))
            with running_cluster(environment(home, **settings)) as cluster:
                arguments = [
                    *arguments_of(job, inputs),
                    *([] if job == "curate" else [f"ray.address={cluster.address}"]),
                ]
                drill = Drill(job, arguments, tmp_path, out="s3://drill/tables")
                drill.undisturbed()

                def s3_server() -> None:
                    os.kill(server.pid or 0, 9)
                    server.stop()
                    server.start()
                    proxy.upstream = server.endpoint

                drill.disturb(driver, kills=KILLS, seed=4, name="S3 server", by=s3_server)
    server.stop()


@pytest.mark.torture
@pytest.mark.parametrize("job", ["mine", "fetch"])
@pytest.mark.parametrize("code", SIGNALS)
def test_a_signal_next_to_busy_processes_ends_a_command_with_its_ray(
    inputs: Path, tmp_path: Path, job: str, code: int
) -> None:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    running = Running(job, [*arguments_of(job, inputs), f"out={tmp_path}/out"], tmp_path / "log")
    try:
        running.wait_for(partial(has_units, tmp_path / "out"))
        begun = time.monotonic()
        for number in SIGNALS[code][:-1]:
            running.process.send_signal(number)
            time.sleep(kill_drill.SIGNAL_PAUSE_S)
        assert running.send(SIGNALS[code][-1]) == code
        seconds = round(time.monotonic() - begun, 1)
        assert running.left_over(agents=True) == []
        assert running.log.read_text().splitlines()[-1].startswith("interrupted: completed units are kept")
    finally:
        running.end()
        for loop in loops:
            loop.kill()
            loop.wait()
    name = {143: "SIGTERM", 130: "Ctrl-C twice"}[code]
    reliability.record("signals", signal=name, job=job, runs=1, **{"longest (s)": seconds})


@pytest.mark.torture
@pytest.mark.parametrize("job", ["mine", "fetch"])
def test_a_killed_command_leaves_no_process_of_its_ray(inputs: Path, tmp_path: Path, job: str) -> None:
    left = 0
    for kill in range(KILLS):
        running = Running(job, [*arguments_of(job, inputs), f"out={tmp_path}/{kill}"], tmp_path / "log")
        try:
            running.wait_for(partial(has_units, tmp_path / str(kill)))
            assert running.send(signal.SIGKILL) == -signal.SIGKILL
            left += len(running.left_over(seconds=kill_drill.GONE_S, agents=True))
        finally:
            running.end()
    reliability.record("leftovers", job=job, kills=KILLS, **{"processes after 60 s": left})
    assert left == 0
