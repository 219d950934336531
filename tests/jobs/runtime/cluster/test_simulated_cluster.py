"""A run survives the losses of nodes on a cluster that loses them again and again."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.jobs.runtime.cluster.ray_clusters import RunningCluster, environment, running_cluster
from tests.jobs.runtime.cluster.simulated_cluster import LOSSES, ROWS, UNITS

SCENARIOS = "tests.jobs.runtime.cluster.simulated_cluster"
COMPLETE = {"error": "", "complete": True, "rows": UNITS * ROWS, "distinct": UNITS * ROWS}
pytestmark = [pytest.mark.torture, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    home = tmp_path_factory.mktemp("home")
    with running_cluster(environment(home, RAY_AUTH_MODE="disabled", REMINE_LINE_EVERY_S="0.2")) as running:
        yield running


def test_an_actor_restarts_on_a_fifth_node(cluster: RunningCluster, tmp_path: Path) -> None:
    seen = cluster.call(f"{SCENARIOS}:an_actor_is_lost_again_and_again", str(tmp_path / "run"))
    assert seen == COMPLETE | {"nodes": LOSSES + 1, "actors": 1}


def test_the_loss_of_the_board_costs_some_counts_and_no_row(cluster: RunningCluster, tmp_path: Path) -> None:
    seen = cluster.call(f"{SCENARIOS}:the_board_is_lost", str(tmp_path / "run"))
    progress = seen.pop("progress")
    assert seen == COMPLETE | {"restarted": True}
    assert progress == sorted(progress)
    assert 0 < progress[-1] <= UNITS * ROWS


def test_gpus_that_fail_are_left_out(cluster: RunningCluster, tmp_path: Path) -> None:
    assert cluster.call(f"{SCENARIOS}:some_gpus_are_bad", str(tmp_path / "run")) == COMPLETE | {"nodes": 1}


def test_a_run_ends_when_no_gpu_is_left(cluster: RunningCluster, tmp_path: Path) -> None:
    error = cluster.call(f"{SCENARIOS}:no_gpu_is_good", str(tmp_path / "run"))["error"]
    assert "GPU 0 failed 5 times without a result (CUDA error" in error
    assert "no other GPU is left" in error
