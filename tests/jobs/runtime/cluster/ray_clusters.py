"""Ray clusters in processes of their own, for tests that join them or submit jobs to them."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from jobs.runtime.cluster.ray_session import START_TRIES

ROOT = Path(__file__).resolve().parents[4]
UNSET = ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "RAY_JOB_CONFIG_JSON_ENV_VAR")
TOKENS = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
END_S = 30


def environment(home: Path, **more: str) -> dict[str, str]:
    """This process's environment without what leads to another cluster; tokens are looked for below `home`."""
    kept = {name: value for name, value in os.environ.items() if name not in UNSET + TOKENS}
    return {**kept, "HOME": str(home), "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", **more}


@dataclass(frozen=True)
class RunningCluster:
    """A cluster in the process `tests.jobs.runtime.cluster.cluster_process`."""

    address: str  # HOST:PORT; empty if the start failed
    log: Path
    _process: "subprocess.Popen[str]"

    def call(self, function: str, argument: str) -> Any:
        """Return the result of `function` ("MODULE:NAME") for the cluster and `argument`, called in its process."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{function} {argument}\n")
        self._process.stdin.flush()
        return json.loads(self._answer("result"))

    def processes(self) -> list[psutil.Process]:
        """Return all processes of the cluster, and of what runs on it."""
        return psutil.Process(self._process.pid).children(recursive=True)

    def _answer(self, word: str) -> str:
        """Return the rest of the next line that begins with `word`; Ray's own lines may come before."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(word):
                return line.removeprefix(word).strip()
        raise AssertionError(self.log.read_text("utf-8", "replace"))


@contextlib.contextmanager
def running_cluster(env: dict[str, str], **shape: Any) -> Iterator[RunningCluster]:
    """Start a cluster in the environment `env`; it ends with its standard input.

    On a busy machine Ray gives up waiting for its own processes (`jobs.runtime.cluster.ray_session`): it is started
    again.

    Args:
        shape: as in `tests.jobs.runtime.cluster.cluster_process`.
    """
    with contextlib.ExitStack() as stack:
        for _ in range(START_TRIES):
            cluster = stack.enter_context(_started(env, shape))
            if cluster.address:
                break
            log = cluster.log.read_text("utf-8", "replace")
            stack.close()
        assert cluster.address, log
        yield cluster


@contextlib.contextmanager
def _started(env: dict[str, str], shape: dict[str, Any]) -> Iterator[RunningCluster]:
    """Start a cluster and yield it; it has no address if the start failed."""
    folder = Path(tempfile.mkdtemp(prefix="ray-"))  # not below pytest's: the paths of its sockets must be short
    with (folder / "head.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.jobs.runtime.cluster.cluster_process", json.dumps(shape)],
            cwd=ROOT,
            env={**env, "RAY_TMPDIR": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    family = [psutil.Process(process.pid)]
    try:
        address = next((line.split()[1] for line in process.stdout if line.startswith("address ")), "")
        yield RunningCluster(address, folder / "head.log", process)
    finally:
        with contextlib.suppress(psutil.NoSuchProcess):
            family += family[0].children(recursive=True)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        _, alive = psutil.wait_procs(family, timeout=END_S)
        for survivor in alive:
            survivor.kill()
        process.stdout.close()
        process.wait(timeout=END_S)
        shutil.rmtree(folder, ignore_errors=True)
