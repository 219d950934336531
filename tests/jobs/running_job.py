"""A job that runs in a process, which tests signal and kill."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
AGENTS = {"ray::DashboardAgent", "ray::RuntimeEnvAgent"}  # Ray's; they end up to a minute after a killed driver


class Running:
    """A job in a separate process and session, with its own Ray.

    Args:
        program: what Python runs instead of the module of the job.
    """

    def __init__(self, job: str, arguments: list[str], log: Path, *, program: Sequence[str] = ()) -> None:
        self.log = log
        environment = {name: value for name, value in os.environ.items() if name != "RAY_ADDRESS"}
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [sys.executable, *(program or ("-m", f"jobs.{job}")), *arguments, "ray.num_cpus=2"],
                cwd=ROOT,
                env=environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.family: set[psutil.Process] = {psutil.Process(self.process.pid)}

    def wait_for(self, reached: Callable[[], bool], *, seconds: float = 600) -> None:
        until = time.monotonic() + seconds
        while not reached():
            assert self.process.poll() is None, f"ended before it was to be disturbed:\n{self.log.read_text()}"
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.01)

    def send(self, number: int) -> int:
        """Signal the driver, wait for its end and return its exit code."""
        self.family |= set(psutil.Process(self.process.pid).children(recursive=True))
        self.process.send_signal(number)
        return self.process.wait(timeout=300)

    def left_over(self, *, seconds: float = 120, agents: bool = False) -> list[str]:
        """Wait for the job's processes and return the names of those that still run.

        Args:
            agents: also wait for those of Ray, which write nothing.
        """
        working = [process for process in self.family if agents or process_name(process) not in AGENTS]
        _, alive = psutil.wait_procs(working, timeout=seconds)
        return [process_name(process) for process in alive if process_name(process)]

    def end(self) -> None:
        for process in self.family:
            if process.is_running():
                process.kill()
        self.process.wait(timeout=30)


def process_name(process: psutil.Process) -> str:
    """Return the name of a process, empty if it has ended."""
    try:
        return "" if process.status() == psutil.STATUS_ZOMBIE else str(process.name())
    except psutil.NoSuchProcess:
        return ""
