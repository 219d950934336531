"""A run waits for one actor of each pool, and the private interfaces of Ray are as they were."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import ray

from jobs.errors import RunError
from jobs.runtime import stages
from jobs.runtime.cluster import ray_internals
from jobs.runtime.cluster.ray_internals import REPORT_EVERY_S, ActorWatch, MachineWatch, PoolState, StartWatch
from jobs.runtime.configuration.resources import Resources, StageResources, TaskResources
from jobs.runtime.planning.estimates import Cluster
from jobs.runtime.planning.spending import Spending
from jobs.runtime.process import console
from tests.jobs.runtime.cluster.numbered_units import Poisoned, opened


def test_the_run_starts_with_the_first_actor_and_reports_the_others() -> None:
    watch = StartWatch(wait_s=600, now=0.0)
    pools = [PoolState("PictureDecoder", 4, 0), PoolState("Judge", 1, 7)]
    assert watch.look(pools, now=1.0) is None
    line = watch.look(pools, now=REPORT_EVERY_S)
    assert line == "waiting for actors, 60 s after the start: Judge 1 of 8 have started"
    assert watch.look(pools, now=REPORT_EVERY_S + 1) is None
    for hour in range(1, 10):  # seven machines that never come do not end the run
        assert watch.look(pools, now=3600.0 * hour)
    assert watch.look([PoolState("Judge", 8, 0)], now=1e6) is None


def test_a_pool_without_any_actor_ends_the_run_after_wait_s() -> None:
    watch = StartWatch(wait_s=600, now=0.0)
    without = [PoolState("PictureDecoder", 4, 0), PoolState("Judge", 0, 8)]
    watch.look(without, now=0.0)
    watch.look(without, now=599.0)
    watch.look([PoolState("Judge", 1, 7)], now=599.5)  # one came, and its machine is lost again later
    watch.look(without, now=700.0)
    watch.look(without, now=1299.0)
    with pytest.raises(RunError, match=r"no actor of Judge could start within resources\.wait_s=600 seconds"):
        watch.look(without, now=1300.0)


def test_waiting_is_not_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A log collector that watches for level=error must not call somebody because a machine boots."""
    executor: Any = type("Executor", (), {"_topology": None})()
    monkeypatch.setattr(ray_internals, "REPORT_EVERY_S", 0.0)
    monkeypatch.setattr(ray_internals, "_states", lambda _: [PoolState("Judge", 1, 7)])
    console.use_format("json")
    try:
        ActorWatch(wait_s=60).on_execution_step(executor)
    finally:
        console.use_text()
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["message"].partition(",")[0]) == ("info", "waiting for actors")


def test_a_run_says_what_it_spends_and_ends_at_its_budget(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    executor: Any = type("Executor", (), {"_topology": None})()
    monkeypatch.setattr(ray_internals, "REPORT_EVERY_S", 0.0)
    ActorWatch(wait_s=60, spending=Spending(Cluster(0.0), None)).on_execution_step(executor)
    assert capsys.readouterr().err == ""  # a run without prices and budget
    watch = ActorWatch(wait_s=60, spending=Spending(Cluster(0.0), "1h"))
    watch.on_execution_step(executor)
    assert capsys.readouterr().err == "spent so far: 0.0 min of budget=1h\n"
    watch = ActorWatch(wait_s=60, spending=Spending(Cluster(0.0), "0.000001h"))
    time.sleep(0.01)
    with pytest.raises(RunError, match=r"^budget=0\.000001h: reached after 0\.0 minutes .* completed units are kept"):
        watch.on_execution_step(executor)


@pytest.mark.usefixtures("ray_session")
def test_what_a_ray_started_here_has_is_known_before() -> None:
    cpus = ray.cluster_resources()["CPU"]
    machine = ray_internals.machine_resources(cpus)
    assert machine == {kind: ray.cluster_resources().get(kind, 0.0) for kind in ("CPU", "GPU")}
    assert [(ray_internals.machine_resources(n) or {})["CPU"] for n in (3, 7)] == [3.0, 7.0]


@pytest.mark.usefixtures("ray_session")
def test_the_processes_and_the_logs_of_a_ray_started_here_are_known() -> None:
    assert len(ray_internals.processes()) > 2
    assert all(callable(process.kill) for process in ray_internals.processes())
    folder = ray_internals.log_folder()
    assert folder is not None
    assert any(folder.glob("raylet.*"))
    assert ray_internals.startable_machines() == []  # it does not grow


@pytest.mark.usefixtures("ray_session")
def test_what_ray_prints_is_written_to_its_logger(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray._private import worker

    written: list[str] = []
    monkeypatch.setattr(worker, "print_to_stdstream", worker.print_to_stdstream)  # restores it
    monkeypatch.setattr(ray_internals.logger, "info", written.append)
    ray_internals.print_to_logger()
    worker.print_to_stdstream({"lines": ["a", "b"], "is_err": True}, False)
    assert written == ["a\nb"]


@pytest.mark.usefixtures("ray_session")
def test_the_pools_of_a_run_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[str] = set()
    monkeypatch.setattr(StartWatch, "look", lambda _, pools, *, now: seen.update(pool.name for pool in pools))
    monkeypatch.setattr(ray_internals, "LOOK_EVERY_S", 0.0)
    pool = StageResources(actors=2, num_cpus=0.2)
    resources = Resources(mine=pool, read=TaskResources(0.3), write=TaskResources(0.3))
    stage = stages.Stage("mine", Poisoned, {"faults": {}})
    run = opened(str(tmp_path / "out"), [1, 1])
    stages.process(run, name="test", stage=stage, resources=resources, total=None, counted="rows")
    assert seen == {"Poisoned"}


def test_lost_machines_are_named_and_those_that_ended_are_not() -> None:
    def node(number: int, *, alive: bool = True, reason: int = 0) -> dict[str, Any]:
        name = f"{number}" * 56
        return {"NodeID": name, "Alive": alive, "NodeManagerAddress": f"10.0.0.{number}", "DeathReason": reason}

    watch = MachineWatch()
    assert watch.look([node(1)]) == []
    assert not watch.is_shown
    assert watch.look([node(1), node(2), node(3), node(4), node(5)]) == []
    assert watch.text(gpus=4, idle=1) == "5 machines up, 1 of 4 GPUs idle"
    idle, withdrawn = node(3, alive=False, reason=4), node(4, alive=False, reason=2)
    assert watch.look([node(1), idle, withdrawn, node(5)]) == ["10.0.0.2 (node 22222222)", "10.0.0.4 (node 44444444)"]
    assert watch.look([node(1), idle, withdrawn, node(5)]) == []  # named once
    assert watch.text(gpus=0, idle=0) == "2 machines up"
