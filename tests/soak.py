"""The jobs of the demo in a loop, on one Ray: memory, open files, object store and temporary files after each round.

python -m tests.soak --minutes 60
"""

import argparse
import contextlib
import io
import shutil
import tempfile
import time
from pathlib import Path

import psutil
import ray

from jobs.runtime import cli, ray_session
from jobs.runtime.config import RayConfig
from jobs.runtime.resources import Resources
from tests.jobs.kill_drill import arguments_of, write_inputs

JOBS = ("mine", "curate", "fetch", "embed", "retrieve", "zero_shot", "judge", "generate")
MB = 1 << 20


def figures(folder: Path) -> dict[str, int]:
    """What must not grow."""
    driver = psutil.Process()
    workers = 0
    for child in driver.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            workers += child.memory_info().rss
    total, free = ray.cluster_resources(), ray.available_resources()
    store = total.get("object_store_memory", 0) - free.get("object_store_memory", 0)
    return {
        "driver MB": driver.memory_info().rss // MB,
        "others MB": workers // MB,
        "open files": driver.num_fds(),
        "threads": driver.num_threads(),
        "processes": len(driver.children(recursive=True)),
        "object store MB": int(store) // MB,
        "temporary files": sum(1 for _ in folder.rglob("*")),
    }


def main() -> None:
    """Run rounds until the time is over, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    until = time.monotonic() + 60 * parser.parse_args().minutes
    with tempfile.TemporaryDirectory() as place:
        inputs, spools = Path(place) / "inputs", Path(place) / "spools"
        spools.mkdir()
        tempfile.tempdir = str(spools)
        ray_session.start(RayConfig(num_cpus=2), Resources())
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            write_inputs(inputs)
        rounds, names = 0, list(figures(spools))
        print(f"round  seconds  {'  '.join(names)}", flush=True)
        while time.monotonic() < until:
            begun = time.monotonic()
            for job in JOBS:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
                    code = cli.main(job, [*arguments_of(job, inputs), f"out={place}/out/{job}"])
                if code:
                    raise SystemExit(f"{job}: exit code {code}\n{errors.getvalue()}")
            shutil.rmtree(f"{place}/out")
            rounds += 1
            values = "  ".join(f"{value:>{len(name)}}" for name, value in figures(spools).items())
            print(f"{rounds:>5}  {time.monotonic() - begun:>7.1f}  {values}", flush=True)
        tempfile.tempdir = None
    ray.shutdown()


if __name__ == "__main__":
    main()
