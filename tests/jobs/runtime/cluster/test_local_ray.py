"""Processes of a Ray that was started here end with the command."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

COMMAND = """
import os, signal, subprocess, sys, time
from jobs.runtime.cluster.local_ray import end_with_command
agent = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(agent.pid, flush=True)
end_with_command([agent.pid], wait_s=float(sys.argv[1]))
print(*(one for one in os.popen("pgrep -P %d" % os.getpid()).read().split() if int(one) != agent.pid), flush=True)
if sys.argv[2] == "tidy":
    agent.kill()
    agent.wait()
else:
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="processes are watched on Linux only")
@pytest.mark.parametrize(("end", "wait_s", "code"), [("killed", 0.5, -signal.SIGKILL), ("tidy", 600, 0)])
def test_an_agent_ends_with_the_command_and_the_watch_with_the_agent(end: str, wait_s: float, code: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, f"{wait_s:g}", end], check=False, capture_output=True, text=True, timeout=60
    )  # its output ends at once: the watch does not hold it open
    assert done.returncode == code, done.stderr
    agent, watch = (int(line.split()[0]) for line in done.stdout.splitlines())
    deadline = time.monotonic() + 60
    while {agent, watch} & set(psutil.pids()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not {agent, watch} & {process.pid for process in psutil.process_iter() if process.status() != "zombie"}


def test_the_watch_needs_no_package(tmp_path: Path) -> None:
    """It starts with every Ray, in a folder where a file may have the name of a module."""
    from jobs.runtime.cluster import local_ray

    (tmp_path / "signal.py").write_text("raise SystemExit(3)\n")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", local_ray._WATCH, "1"],
        check=False,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0
