"""Kills at random moments, of the driver and of what works for it: the table is the one of an undisturbed run.

`make torture` kills each kind of victim `REMINE_KILLS` times (50) per job.
"""

import os
from pathlib import Path

import pytest

from jobs.testbed.loopback_s3 import LoopbackS3
from tests.fault_proxy import FaultProxy, through
from tests.in_process import stages_in_process
from tests.jobs import kill_drill
from tests.jobs.kill_drill import Drill, Victims, arguments_of, decoders, driver, workers

pytestmark = pytest.mark.timeout(6 * 3600)
KILLS = int(os.environ.get("REMINE_KILLS", "50"))
ON_RAY = ("mine", "fetch", "embed", "retrieve", "zero_shot", "judge", "generate")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    with stages_in_process():
        kill_drill.write_inputs(folder)
    return folder


def test_a_driver_that_is_killed_three_times(inputs: Path, tmp_path: Path) -> None:
    drill = Drill("curate", arguments_of("curate", inputs), tmp_path)
    drill.undisturbed()
    drill.disturb(driver, kills=3, seed=3)
    assert drill.kills["driver"] >= 3
    assert drill.completed > 0


@pytest.mark.torture
def test_a_driver_without_ray(inputs: Path, tmp_path: Path) -> None:
    drill = Drill("curate", arguments_of("curate", inputs), tmp_path)
    drill.undisturbed()
    drill.disturb(driver, kills=KILLS, seed=1)
    print(drill)


@pytest.fixture
def cluster(ray_session: None) -> str:
    import ray

    return f"ray.address={ray.get_runtime_context().gcs_address}"


@pytest.mark.torture
@pytest.mark.parametrize("job", ON_RAY)
@pytest.mark.parametrize("victims", [driver, workers], ids=["driver", "workers"])
def test_processes_of_a_job_on_ray(cluster: str, inputs: Path, tmp_path: Path, job: str, victims: Victims) -> None:
    drill = Drill(job, [*arguments_of(job, inputs), cluster], tmp_path)
    drill.undisturbed()
    drill.disturb(victims, kills=KILLS, seed=2)
    print(drill)


@pytest.mark.torture
def test_processes_that_decode(cluster: str, inputs: Path, tmp_path: Path) -> None:
    drill = Drill("fetch", [*arguments_of("fetch", inputs), cluster], tmp_path)
    drill.undisturbed()
    drill.disturb(decoders, kills=KILLS, seed=3)
    print(drill)


@pytest.mark.torture
def test_the_s3_server(inputs: Path, tmp_path: Path) -> None:
    """It is killed and started again, at the same address."""
    server = LoopbackS3(tmp_path / "server").start()
    with pytest.MonkeyPatch.context() as patch, FaultProxy(server.endpoint) as proxy:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        with through(proxy):
            server.create_bucket("drill")
            drill = Drill("curate", arguments_of("curate", inputs), tmp_path, out="s3://drill/tables")
            drill.undisturbed()

            def s3_server() -> None:
                os.kill(server.pid or 0, 9)
                server.stop()
                server.start()
                proxy.upstream = server.endpoint

            drill.disturb(driver, kills=KILLS, seed=4, by=s3_server)
            print(drill)
    server.stop()
