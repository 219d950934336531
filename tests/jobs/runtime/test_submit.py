"""The command of a laptop through `ray job submit` to a cluster that is running already."""

import csv
import gzip
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.store.reading import open_table
from jobs.tables import WIT_COLUMNS
from tests.jobs.runtime.ray_head import environment, ray_head

ROOT = Path(__file__).parents[3]
AGENT_S = 60
pytestmark = [pytest.mark.torture, pytest.mark.timeout(600)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A Ray with a dashboard: the environment in which `ray job submit` reaches it."""
    env = environment(tmp_path, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0123456789abcdef" * 4)
    with ray_head(env, dashboard=True) as address:
        yield env | {"RAY_ADDRESS": address}


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
    results = pa.concat_tables(open_table(str(out), "records").batches(["page_title", "terms"])).to_pylist()
    assert [row["page_title"] for row in results] == [f"Riot {n}" for n in range(50)]
    assert all(row["terms"] == ["riot"] for row in results)

    wrong = submitted(cluster, copy, [*command, "corpus.path=nowhere.tsv"])
    assert wrong.returncode == 1  # the job's own 2 does not get through
    assert "nowhere.tsv: does not exist" in wrong.stdout + wrong.stderr
