"""The command of a laptop through `ray job submit` to a cluster that is running already."""

import contextlib
import csv
import gzip
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from jobs.store.reading import open_table
from jobs.tables import WIT_COLUMNS

ROOT = Path(__file__).parents[2]
AGENT_S = 60
pytestmark = [pytest.mark.torture, pytest.mark.timeout(200)]
HEAD = """
import functools, sys, ray
from ray._private.parameter import RayParams
# Only `ray start` lets choose it; another cluster of this machine, such as the other tests', has the usual one.
RayParams.__init__ = functools.partialmethod(RayParams.__init__, dashboard_agent_listen_port=int(sys.argv[2]))
ray.init(address="local", num_cpus=2, include_dashboard=True, dashboard_host="127.0.0.1",
         dashboard_port=int(sys.argv[1]), object_store_memory=200 * 2**20)
print("ready", flush=True)
sys.stdin.read()
ray.shutdown()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Ray with a dashboard, ended by the end of its standard input: the environment that reaches it."""
    with socket.socket() as probe, socket.socket() as other:
        for each in (probe, other):
            each.bind(("127.0.0.1", 0))
        port, agent = probe.getsockname()[1], other.getsockname()[1]
    unset = ("RAY_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"RAY_AUTH_MODE": "disabled", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    with (tmp_path / "head.log").open("wb") as log:
        head = subprocess.Popen(
            [sys.executable, "-c", HEAD, str(port), str(agent)],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert head.stdout is not None
    assert head.stdin is not None
    family = [psutil.Process(head.pid)]
    try:
        assert b"ready" in iter(head.stdout.readline, b"ready\n") or head.poll() is None
        family += psutil.Process(head.pid).children(recursive=True)
        yield environment | {"RAY_API_SERVER_ADDRESS": f"http://127.0.0.1:{port}"}
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            family += psutil.Process(head.pid).children(recursive=True)
        head.stdin.close()
        _, alive = psutil.wait_procs(family, timeout=30)
        for process in alive:
            process.kill()
        head.stdout.close()
        head.wait(timeout=30)


def submitted(cluster: dict[str, str], folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """`ray job submit` of `command`, again until the agent is up that a new cluster starts a while after itself."""
    ray = Path(sys.executable).with_name("ray")
    until = time.monotonic() + AGENT_S
    while True:
        done = subprocess.run(
            [str(ray), "job", "submit", "--working-dir", str(folder), "--", *command],
            cwd=folder.parent,
            env=cluster,
            capture_output=True,
            text=True,
            check=False,
            timeout=150,
        )
        if "No available agent" not in done.stderr or time.monotonic() > until:
            return done


def test_a_submitted_job_writes_its_table(cluster: dict[str, str], tmp_path: Path) -> None:
    copy = tmp_path / "working-dir"
    for name in ("jobs", "actors", "conf"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    rows = [dict.fromkeys(WIT_COLUMNS, "") | {"language": "en", "page_title": f"Riot {n}"} for n in range(50)]
    rows += [dict.fromkeys(WIT_COLUMNS, "") | {"language": "en", "page_title": f"Peace {n}"} for n in range(50)]
    with gzip.open(tmp_path / "wit.val.tsv.gz", "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, WIT_COLUMNS, delimiter="\t", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    (tmp_path / "terms.txt").write_text("riot\n")
    out = tmp_path / "out"
    command = [sys.executable, "-m", "jobs.mine", f"corpus.path={tmp_path}/wit.val.tsv.gz"]
    command += [f"terms.path={tmp_path}/terms.txt", f"out={out}"]

    done = submitted(cluster, copy, command)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    found = pa.concat_tables(open_table(str(out), "records").batches(["page_title", "terms"])).to_pylist()
    assert [row["page_title"] for row in found] == [f"Riot {n}" for n in range(50)]
    assert all(row["terms"] == ["riot"] for row in found)

    wrong = submitted(cluster, copy, [*command, "corpus.path=nowhere.tsv"])
    assert wrong.returncode != 0
    assert "nowhere.tsv: does not exist" in wrong.stdout + wrong.stderr
