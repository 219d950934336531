"""A run on a cluster of two machines, for the test that cuts one of them off.

python -m tests.jobs.runtime.cluster.cut_off_run ADDRESS FOLDER

It prints "working" when each machine works on a unit, waits for a line of its input, lets the work go on, and prints
what became of the table as JSON.
"""

import json
import sys
import time
from pathlib import Path

import ray

from tests.jobs.runtime.cluster.simulated_cluster import Running, resources


def main(address: str, folder: str) -> None:
    """Run, as above."""
    ray.init(address=address, log_to_driver=False)
    while sum(node["Alive"] for node in ray.nodes()) < 2:
        time.sleep(0.2)
    running = Running(Path(folder), resources(most=2))
    running.hold()
    running.start()
    while running.is_alive() and len(running.nodes()) < 2:
        time.sleep(0.1)
    print("working", flush=True)
    sys.stdin.readline()
    running.release()
    print("result", json.dumps(running.result() | {"calls": running.nodes().total()}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
