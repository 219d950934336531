"""A run on a cluster of several nodes: it starts with the first GPU, takes those that join, and survives a loss."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.runtime.ray_head import environment

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.torture
@pytest.mark.slow
def test_nodes_join_and_leave(tmp_path: Path) -> None:
    script = [sys.executable, "-m", "tests.jobs.runtime.simulated_cluster", str(tmp_path)]
    env = environment(tmp_path, RAY_AUTH_MODE="disabled")
    ended = subprocess.run(script, cwd=ROOT, env=env, stdout=subprocess.PIPE, check=True, timeout=600)
    seen = json.loads(ended.stdout.splitlines()[-1])
    assert seen.pop("without_actor").startswith("no actor of Draw could start within resources.wait_s=2 seconds")
    assert seen == {
        "calls_on_one_node": True,
        "error": "",
        "nodes": 2,
        "complete": True,
        "each_row_once": True,
        "two_gpus": "",  # the autoscaler has not said what it can start, and resources.node_types is empty
    }
