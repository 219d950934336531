"""A cluster of two machines with addresses of their own, one of which is cut off half-way."""

import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.jobs.runtime.cluster.network_namespaces import Namespaces, namespaces
from tests.jobs.runtime.cluster.ray_clusters import ROOT, environment
from tests.jobs.runtime.cluster.simulated_cluster import ROWS, UNITS

pytestmark = [pytest.mark.torture, pytest.mark.slow, pytest.mark.timeout(600)]
PORT = 6379
MEMORY = str(100 << 20)
# A machine that does not answer for three seconds is lost; by default Ray waits for half a minute.
HEALTH = {
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_health_check_failure_threshold": "3",
}


@pytest.fixture
def machines() -> Iterator[Namespaces]:
    try:
        with namespaces("head", "other") as joined:
            yield joined
    except PermissionError as error:
        pytest.skip(str(error))


@contextlib.contextmanager
def running(command: list[str], env: dict[str, str], log: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a process, which ends with its children at the end of the context."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        try:
            yield process
        finally:
            started = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.kill()
            for child in started:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.kill()
            process.communicate()


def line_of(process: "subprocess.Popen[str]", word: str, log: Path) -> str:
    """Return the rest of the next line with `word`."""
    assert process.stdout is not None
    for line in process.stdout:
        if word in line:
            return line.partition(word)[2].strip()
    raise AssertionError(log.read_text("utf-8", "replace"))


def test_a_table_is_complete_although_a_machine_is_cut_off(machines: Namespaces, tmp_path: Path) -> None:
    short = tempfile.TemporaryDirectory(prefix="r")  # names of sockets are of at most 107 characters
    env = environment(tmp_path, PYTHONPATH=str(ROOT), RAY_TMPDIR=short.name, PYTHONUNBUFFERED="1", **HEALTH)
    ray = str(Path(sys.executable).with_name("ray"))
    address = f"{machines.address['head']}:{PORT}"
    place = {"head": ["--head", f"--port={PORT}", "--include-dashboard=false"], "other": [f"--address={address}"]}

    def node(name: str) -> list[str]:
        sizes = ["--num-cpus=2", "--num-gpus=1", f"--object-store-memory={MEMORY}"]
        options = [f"--node-ip-address={machines.address[name]}", "--disable-usage-stats", "--block"]
        return machines.command(name, ray, "start", *place[name], *options, *sizes)

    with contextlib.ExitStack() as stack:
        stack.enter_context(short)
        for name in ("head", "other"):
            process = stack.enter_context(running(node(name), env, tmp_path / f"{name}.log"))
            line_of(process, "Ray runtime started", tmp_path / f"{name}.log")
        driver = machines.command("head", sys.executable, "-m", "tests.jobs.runtime.cluster.cut_off_run", address)
        log = tmp_path / "driver.log"
        process = stack.enter_context(running([*driver, str(tmp_path / "run")], env, log))
        line_of(process, "working", log)
        machines.cut("other")
        assert process.stdin is not None
        process.stdin.write("go on\n")
        process.stdin.flush()
        result = json.loads(line_of(process, "result", log))
    calls = result.pop("calls")
    assert result == {"error": "", "complete": True, "rows": UNITS * ROWS, "distinct": UNITS * ROWS}
    assert calls > UNITS  # what the lost machine had begun was done again
