"""Jobs on a cluster of several nodes that runs already: submitted to it, and while nodes come and go."""

import io
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from PIL import Image

from jobs.runtime.command_line import cli
from tests.factories import picture, rows_of, write_units
from tests.in_process import stages_in_process
from tests.jobs.runtime.cluster.ray_clusters import RunningCluster, environment, running_cluster
from tests.jobs.runtime.cluster.simulated_cluster import ROWS, UNITS

ROOT = Path(__file__).parents[4]
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
AGENT_S = 120
SCENARIOS = "tests.jobs.runtime.cluster.simulated_cluster"
PIPELINE = """
name: own
steps:
  - job: mine
    set: {corpus.path: "${out}/part.tsv", terms.path: "${out}/terms.txt", out: "${out}/matches"}
  - job: curate
    set: {input: "${out}/matches", out: "${out}/records"}
"""
PARTS = 8  # units of the table of pictures, of two rows each
pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def cluster(home: Path) -> Iterator[RunningCluster]:
    """A head that takes no work and has a dashboard, and a node of two CPUs."""
    env = environment(home, **TOKEN, REMINE_LINE_EVERY_S="0.5", RAY_worker_niceness="0")
    head = {"num_cpus": 0, "include_dashboard": True}
    with running_cluster(env, **head, nodes=[{"num_cpus": 2, "object_store_memory": 100 * 2**20}]) as running:
        yield running


class Submitter:
    """`ray job` on a laptop, from a folder with the code, as the documentation has it."""

    def __init__(self, cluster: RunningCluster, home: Path) -> None:
        self._cluster, self._env = cluster, environment(home, **TOKEN, RAY_ADDRESS=cluster.address)
        self._code = home / "working-dir"
        for name in ("jobs", "actors", "conf"):
            shutil.copytree(ROOT / name, self._code / name, ignore=shutil.ignore_patterns("__pycache__"))

    def ray_job(self, *words: str) -> subprocess.CompletedProcess[str]:
        ray = str(Path(sys.executable).with_name("ray"))
        command = [ray, "job", *words]
        return subprocess.run(
            command, cwd=self._code.parent, env=self._env, capture_output=True, text=True, check=False
        )

    def submit(self, name: str, job: str, *keys: str, wait: bool = True) -> subprocess.CompletedProcess[str]:
        """Submit `job`; again until the agent is up that a new cluster starts a while after itself."""
        command = [
            "submit",
            "--submission-id",
            name,
            "--working-dir",
            str(self._code),
            *(() if wait else ("--no-wait",)),
        ]
        until = time.monotonic() + AGENT_S
        while True:
            ended = self.ray_job(*command, "--", sys.executable, "-m", f"jobs.{job}", *keys)
            if "No available agent" not in ended.stderr or time.monotonic() > until:
                return ended

    def worker(self, name: str) -> psutil.Process | None:
        """Return the process of the actor called `name`, if there is one."""
        for process in self._cluster.processes():
            try:
                if name in " ".join(process.cmdline()):
                    return process
            except psutil.NoSuchProcess:
                pass
        return None


def status(ended: subprocess.CompletedProcess[str]) -> str:
    """Return the last state of the job that `ray job submit` or `stop` prints: succeeded, failed or stopped."""
    words = re.findall(r"Job '\w+' (?:was )?(\w+)", ended.stdout + ended.stderr)
    assert words, ended.stdout + ended.stderr
    return str(words[-1])


@pytest.fixture(scope="module")
def submitter(cluster: RunningCluster, home: Path) -> Submitter:
    return Submitter(cluster, home)


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait as long as the time limit of the tests allows."""
    while not condition():
        time.sleep(0.05)


def png(red: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (56, 56), (red, 0, 0)).save(file, "PNG")
    return file.getvalue()


def write_corpus(folder: Path, *, titles: list[str]) -> None:
    """Write a file of WIT with a page per title, and a list of one term."""
    folder.mkdir(exist_ok=True)
    lines = ["language\tpage_url\timage_url\tpage_title\tis_main_image"]
    for number, title in enumerate(titles):
        page, image = (
            f"https://en.wikipedia.org/wiki/{number}",
            f"https://upload.wikimedia.org/wikipedia/commons/0/0{number}/x.png",
        )
        lines.append(f"en\t{page}\t{image}\t{title}\ttrue")
    (folder / "part.tsv").write_text("".join(f"{line}\n" for line in lines))
    (folder / "terms.txt").write_text("riot\n")


def test_a_driver_without_the_token_is_refused_in_one_line(cluster: RunningCluster, home: Path, tmp_path: Path) -> None:
    write_corpus(tmp_path, titles=[])
    keys = [f"corpus.path={tmp_path}/part.tsv", f"terms.path={tmp_path}/terms.txt", f"out={tmp_path}/out"]
    refused = subprocess.run(
        [sys.executable, "-m", "jobs.mine", *keys, f"ray.address={cluster.address}"],
        cwd=ROOT,
        env=environment(home, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert refused.returncode == 2, refused.stderr
    assert refused.stderr.startswith(f"error: ray.address={cluster.address}: ")
    assert "RAY_AUTH_MODE=token" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1  # none of Ray's own
    assert not (tmp_path / "out").exists()


def test_a_submitted_pipeline_writes_its_tables(submitter: Submitter, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(PIPELINE, encoding="utf-8")
    write_corpus(tmp_path / "R", titles=["Peterloo riot", "Haymarket riot", "A quiet village"])
    ended = submitter.submit("pipeline", "run", f"pipeline={tmp_path}/own.yaml", f"out={tmp_path}/R")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert status(ended) == "succeeded"
    for table in ("matches", "records"):
        titles = {row["page_title"] for row in rows_of(f"{tmp_path}/R/{table}")}
        assert titles == {"Peterloo riot", "Haymarket riot"}, table


def test_a_submitted_job_that_cannot_start_has_failed(submitter: Submitter, tmp_path: Path) -> None:
    keys = [f"input={tmp_path}/nowhere", "model=local-tiny", f"out={tmp_path}/out"]
    ended = submitter.submit("wrong", "generate", *keys)
    assert ended.returncode == 1  # the job's own 2 does not get through
    assert f"{tmp_path}/nowhere: " in ended.stdout + ended.stderr
    assert status(ended) == "failed"
    assert not (tmp_path / "out").exists()


def test_a_stopped_model_job_keeps_its_units_and_is_continued(submitter: Submitter, tmp_path: Path) -> None:
    pictures = [
        [picture(2 * unit + row) | {"bytes": png(unit), "format": "PNG"} for row in (0, 1)] for unit in range(PARTS)
    ]
    write_units(tmp_path / "images", "images", pictures)
    out = tmp_path / "responses"
    keys = [f"input={tmp_path}/images", "model=local-tiny", "prompt=minimal", f"out={out}", "max_tokens=8"]
    keys += ["samples=1", "resources.judge.batch_size=2", "resources.judge.max_in_flight=1"]

    def written() -> dict[str, int]:
        return {path.name: path.stat().st_mtime_ns for path in out.glob("*.parquet")}

    started = submitter.submit("first", "generate", *keys, wait=False)
    assert started.returncode == 0, started.stdout + started.stderr
    wait_until(lambda: bool(written()))
    worker = submitter.worker("Generator")
    assert worker is not None
    worker.send_signal(signal.SIGSTOP)  # it is half-way when it is stopped, however fast this machine is
    stopped = submitter.ray_job("stop", "first")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert status(stopped) == "stopped"
    kept = written()
    assert 0 < len(kept) < PARTS
    lines = [
        line for line in submitter.ray_job("logs", "first").stdout.splitlines() if line.startswith("generate judge")
    ]
    assert len(lines) > 1

    with stages_in_process():  # a process of a model on the cluster takes 20 seconds of CPU to start
        assert cli.main("generate", keys) == 0
    after = written()
    assert len(after) == PARTS
    assert {name: after[name] for name in kept} == kept
    assert len({row["item_id"] for row in rows_of(str(out))}) == 2 * PARTS
    assert json.loads((out / "_run" / "manifest.json").read_text())["complete"]


def test_nodes_join_and_leave(cluster: RunningCluster, tmp_path: Path) -> None:
    """The run starts with the first GPU, takes the one that joins, and completes when the first is lost."""
    seen = cluster.call(f"{SCENARIOS}:nodes_join_and_leave", str(tmp_path / "run"))
    whole = {"error": "", "complete": True, "rows": UNITS * ROWS, "distinct": UNITS * ROWS}
    assert seen == whole | {"nodes": 2}


def test_an_actor_that_no_machine_has_room_for(cluster: RunningCluster, tmp_path: Path) -> None:
    seen = cluster.call(f"{SCENARIOS}:demands_that_no_machine_meets", str(tmp_path / "run"))
    assert seen["refusal"].startswith("resources.judge.num_gpus=2: no machine")
    assert "7 CPU + 1 GPU" in seen["refusal"]
    assert seen["waited"].startswith("no actor of Draw could start within resources.wait_s=2 seconds")
