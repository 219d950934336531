"""Two commands of one job at once with one `out=` on S3: the tables are those of one undisturbed run.

Both start at the same moment, or the second while the first works. `make torture` does so for every job that a driver
does alone, and for three on Ray.
"""

import os
import random
import time
from pathlib import Path

import pytest

from jobs.runtime.command_line import cli
from jobs.store.files import locations
from jobs.store.run_files import IDENTITY, run_uri
from jobs.store.runs import lock
from tests import reliability
from tests.in_process import stages_in_process
from tests.jobs import kill_drill
from tests.jobs.kill_drill import Drill, arguments_of, check_equal, read_tables
from tests.jobs.runtime.cluster.ray_clusters import environment, running_cluster
from tests.jobs.small_jobs import SMALL_JOBS, write_small_jobs

pytestmark = pytest.mark.timeout(3600)
PAIRS = int(os.environ.get("REMINE_PAIRS", "5"))
ON_RAY = ("mine", "fetch", "embed")
REFUSAL = "is writing this table"


@pytest.fixture(scope="module")
def small_jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return write_small_jobs(tmp_path_factory.mktemp("small"))


def verified(out: str) -> dict[str, int]:
    """Table below `out` -> exit code of `verify`."""
    end = run_uri("", IDENTITY)
    tables = [file.uri.removesuffix(end) for file in locations.listing(out) if file.uri.endswith(end)]
    return {table.removeprefix(out): cli.main("verify", [f"input={table}"]) for table in tables}


def run_pairs(drill: Drill, pairs: int) -> None:
    """Start pairs of commands, each with another table."""
    drill.undisturbed(times=1)
    assert drill.expected is not None
    draw, refused, calm = random.Random(3), 0, verified(f"{drill.out}/calm0")
    for pair in range(pairs):
        out = f"{drill.out}/pair{pair}"
        drill.log.write_text("")
        first = drill.start(out)
        time.sleep(draw.choice([0.0, draw.uniform(0, drill.seconds)]))
        codes = sorted(drill.finish(process) for process in (first, drill.start(out)))
        printed = drill.log.read_text()
        assert codes in ([0, 0], [0, 2]), printed
        refusals = [line for line in printed.splitlines() if line.startswith("error:")]
        assert len(refusals) == codes.count(2), printed
        assert all(REFUSAL in line for line in refusals), refusals
        check_equal(read_tables(out), drill.expected)
        files = [file.uri for file in locations.listing(out)]
        assert not [uri for uri in files if uri.endswith((lock.LEASE, ".tmp"))]
        assert verified(out) == calm
        refused += codes.count(2)
    reliability.record("two commands", job=drill.job, pairs=pairs, refused=refused, **{"tables compared": pairs})


def test_pairs_of_items(s3: str, small_jobs: dict[str, list[str]], tmp_path: Path) -> None:
    run_pairs(Drill("items", small_jobs["items"], tmp_path, out=f"{s3}/{tmp_path.name}"), 1)


@pytest.mark.torture
@pytest.mark.parametrize("job", SMALL_JOBS)
def test_pairs_of_small_jobs(s3: str, small_jobs: dict[str, list[str]], tmp_path: Path, job: str) -> None:
    run_pairs(Drill(job, small_jobs[job], tmp_path, out=f"{s3}/{tmp_path.name}"), PAIRS)


@pytest.mark.torture
def test_pairs_of_jobs_on_ray(s3: str, tmp_path: Path) -> None:
    with stages_in_process():
        kill_drill.write_inputs(tmp_path)
    settings = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
    with pytest.MonkeyPatch.context() as patch, running_cluster(environment(tmp_path / "home", **settings)) as cluster:
        for name, value in settings.items():
            patch.setenv(name, value)
        for job in ON_RAY:
            arguments = [*arguments_of(job, tmp_path), f"ray.address={cluster.address}"]
            run_pairs(Drill(job, arguments, tmp_path / job, out=f"{s3}/{tmp_path.name}/{job}"), PAIRS)
