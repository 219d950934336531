"""On a cluster that grows, all GPUs are asked for in one round, pools outgrow the first machine, and plans hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories import rows_of
from tests.jobs.runtime.cluster.autoscaled_cluster import FILES
from tests.jobs.runtime.cluster.ray_clusters import RunningCluster, environment, running_cluster

SCENARIOS = "tests.jobs.runtime.cluster.autoscaled_cluster"
MEMORY = 80 * 2**20
KINDS = {
    "cpu": {"resources": {"CPU": 1, "object_store_memory": MEMORY}, "node_config": {}, "max_workers": 6},
    "gpu": {"resources": {"CPU": 1, "GPU": 1, "object_store_memory": MEMORY}, "node_config": {}, "max_workers": 3},
}
pytestmark = [pytest.mark.torture, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    """A head with one CPU, and an autoscaler."""
    env = environment(tmp_path_factory.mktemp("home"), RAY_AUTH_MODE="disabled")
    with running_cluster(env, num_cpus=1, node_types=KINDS) as running:
        yield running


def test_a_demand_larger_than_any_kind_is_refused(cluster: RunningCluster, tmp_path: Path) -> None:
    refusal = cluster.call(f"{SCENARIOS}:a_demand_larger_than_any_kind", str(tmp_path / "run"))["refusal"]
    assert refusal.startswith("resources.judge.num_gpus=2: no machine")


def test_all_gpus_are_asked_for_in_one_round(cluster: RunningCluster, tmp_path: Path) -> None:
    seen = cluster.call(f"{SCENARIOS}:all_gpus_boot_together", str(tmp_path / "run"))
    assert (seen["error"], seen["complete"]) == ("", True)
    assert seen["rounds"] == [3]
    assert seen["nodes"] >= 1


def test_mine_grows_beyond_the_first_machine(cluster: RunningCluster, tmp_path: Path) -> None:
    table = str(tmp_path / "run")
    seen = cluster.call(f"{SCENARIOS}:mine_grows", table)
    assert seen["complete"]
    rows = rows_of(table)
    assert len(rows) == FILES
    assert len({row["rendition"] for row in rows}) > 1


def test_no_machine_beyond_the_plan_is_asked_for(cluster: RunningCluster, tmp_path: Path) -> None:
    seen = cluster.call(f"{SCENARIOS}:machines_of_the_plan", str(tmp_path / "run"))
    assert (seen["complete"], seen["CPUs"]) == (True, 2.0)
    assert seen["launched"] <= 2
