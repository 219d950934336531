"""A Ray cluster of one machine in processes of its own, for tests that join it or submit jobs to it."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil

from jobs.runtime.ray_session import START_TRIES

UNSET = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR")
TOKENS = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
END_S = 30
# Every port is chosen by Ray or by the system, and told afterwards: what is free before may be taken by then. Of the
# public interfaces, `ray start` wants the port of its client server and `ray.init` that of the agent.
HEAD = """
import sys
from ray.cluster_utils import Cluster
head = {"num_cpus": 2, "object_store_memory": 200 * 2**20, "dashboard_port": None, "dashboard_agent_listen_port": 0}
cluster = Cluster(initialize_head=True, head_node_args={**head, "include_dashboard": sys.argv[1] == "True"})
print("address", cluster.address, flush=True)
sys.stdin.read()
cluster.shutdown()
"""


def environment(home: Path, **more: str) -> dict[str, str]:
    """This process's environment without what leads to another cluster; tokens are looked for below `home`."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET + TOKENS}
    return {**kept, "HOME": str(home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **more}


@contextlib.contextmanager
def ray_head(env: dict[str, str], *, dashboard: bool = False) -> Iterator[str]:
    """Start a head in the environment `env` and yield its address HOST:PORT; it ends with its standard input.

    On a busy machine Ray gives up waiting for its own processes (`jobs.runtime.ray_session`): it is started again.
    """
    with contextlib.ExitStack() as stack:
        for _ in range(START_TRIES):
            address, log = stack.enter_context(_started(env, dashboard=dashboard))
            if address:
                break
            stack.close()
        assert address, log
        yield address


@contextlib.contextmanager
def _started(env: dict[str, str], *, dashboard: bool) -> Iterator[tuple[str, str]]:
    """The address of a head, or an empty one and the log of a start that failed."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # not below pytest's: the paths of its sockets must be short
    with (folder / "head.log").open("wb") as log:
        head = subprocess.Popen(
            [sys.executable, "-c", HEAD, str(dashboard)],
            cwd=folder,
            env={**env, "RAY_TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    assert head.stdout is not None
    assert head.stdin is not None
    family = [psutil.Process(head.pid)]
    try:
        # Its own lines may come first; at the end there are none.
        address = next((line.split()[1].decode() for line in head.stdout if line.startswith(b"address ")), "")
        yield address, (folder / "head.log").read_text("utf-8", "replace")
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            family += family[0].children(recursive=True)
        head.stdin.close()
        _, alive = psutil.wait_procs(family, timeout=END_S)
        for process in alive:
            process.kill()
        head.stdout.close()
        head.wait(timeout=END_S)
        shutil.rmtree(folder, ignore_errors=True)
