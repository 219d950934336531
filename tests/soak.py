"""Eight jobs on a small made corpus in a loop, on one Ray: what must stay flat, after each round.

python -m tests.soak --minutes 60

Ends with 1 if a figure still grows after the first rounds (`growing`).
"""

import argparse
import contextlib
import io
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import psutil

from jobs.runtime.command_line import cli
from tests import reliability
from tests.jobs.kill_drill import arguments_of, write_inputs

JOBS = ("mine", "curate", "fetch", "embed", "retrieve", "zero_shot", "judge", "generate")
MB = 1 << 20
WARM_UP = 3  # rounds in which imports, caches and Ray's pools of processes may grow
LEAST_ROUNDS = 4  # after them, for a slope
# Processes of Ray alone: they keep entries of each task, data set and metric, up to limits of Ray's.
OF_RAY = ("gcs_server", "raylet", "dashboard", "monitor.py", "ray::DashboardAgent", "ray::RuntimeEnvAgent",
          "ray::_StatsActor", "ray::_AutoscalingCoordinatorActor", "ray::ActorLocationTracker")  # fmt: skip
# What a figure may grow by, per round: Ray keeps a few lines per task; its logs grow.
ALLOWED = {
    "driver MB": 2.0,
    "workers MB": 8.0,
    "Ray MB": 24.0,
    "open files": 0.5,
    "threads": 0.5,
    "processes": 0.5,
    "object store MB": 1.0,
    "temporary files": 0.5,
    "session MB": 4.0,
}


def growing(rounds: Sequence[dict[str, int]]) -> dict[str, float]:
    """Return the figures that grow by more than `ALLOWED` per round after the warm-up, with their slope.

    The slope is the median of those between all pairs of rounds (Theil 1950, Sen 1968), on which one high round has
    no influence. Empty for fewer than `WARM_UP + LEAST_ROUNDS` rounds.
    """
    after = rounds[WARM_UP:]
    if len(after) < LEAST_ROUNDS:
        return {}
    slopes = {}
    for name, allowed in ALLOWED.items():
        values = [figures[name] for figures in after]
        pairs = [
            (values[late] - values[early]) / (late - early) for late in range(len(values)) for early in range(late)
        ]
        if (slope := float(np.median(pairs))) > allowed:
            slopes[name] = round(slope, 2)
    return slopes


def figures(temporary: Path, session: Path) -> dict[str, int]:
    """Return the quantities that must not grow, by name."""
    import ray

    driver = psutil.Process()
    children = driver.children(recursive=True)
    memory = {"workers": 0, "Ray": 0}
    for child in children:
        with contextlib.suppress(psutil.Error):
            command = " ".join(child.cmdline())
            memory["Ray" if any(name in command for name in OF_RAY) else "workers"] += child.memory_info().rss
    total, free = ray.cluster_resources(), ray.available_resources()
    store = total.get("object_store_memory", 0) - free.get("object_store_memory", 0)
    return {
        "driver MB": driver.memory_info().rss // MB,
        "workers MB": memory["workers"] // MB,
        "Ray MB": memory["Ray"] // MB,
        "open files": driver.num_fds(),
        "threads": driver.num_threads(),
        "processes": len(children),
        "object store MB": int(store) // MB,
        "temporary files": sum(1 for _ in temporary.rglob("*")),
        "session MB": sum(file.stat().st_size for file in session.rglob("*") if file.is_file()) // MB,
    }


def main() -> None:
    """Run rounds until the time is over, print a line for each, and fail if a figure grows.

    Raises:
        SystemExit: a job failed, or a figure grows.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    until = time.monotonic() + 60 * parser.parse_args().minutes
    rounds: list[dict[str, int]] = []
    with tempfile.TemporaryDirectory() as place, tempfile.TemporaryDirectory(prefix="soak-") as session:
        inputs, temporary = Path(place) / "inputs", Path(place) / "temporary"
        temporary.mkdir()
        os.environ |= {"TMPDIR": str(temporary), "RAY_TMPDIR": session}  # of the workers too, before Ray starts
        tempfile.tempdir = str(temporary)
        import ray

        from jobs.runtime.cluster import ray_session
        from jobs.runtime.configuration.resources import RayConfig, Resources

        ray_session.start(RayConfig(num_cpus=2), Resources())
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            write_inputs(inputs)
        print(f"round  seconds  {'  '.join(ALLOWED)}", flush=True)
        while time.monotonic() < until:
            begun = time.monotonic()
            for job in JOBS:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
                    code = cli.main(job, [*arguments_of(job, inputs), f"out={place}/out/{job}"])
                if code:
                    raise SystemExit(f"{job}: exit code {code}\n{errors.getvalue()}")
            shutil.rmtree(f"{place}/out")
            rounds.append(figures(temporary, Path(session)))
            values = "  ".join(f"{value:>{len(name)}}" for name, value in rounds[-1].items())
            print(f"{len(rounds):>5}  {time.monotonic() - begun:>7.1f}  {values}", flush=True)
        tempfile.tempdir = None
        ray.shutdown()
    if slopes := growing(rounds):
        raise SystemExit(f"these grow, per round: {slopes}")
    if len(rounds) >= WARM_UP + LEAST_ROUNDS:
        reliability.record("soak", jobs=f"{len(JOBS)} jobs", rounds=len(rounds), growing=0)


if __name__ == "__main__":
    main()
