"""Run one contender in a fresh process and measure that process with all its descendants."""

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.child import SkippedError

ROOT = Path(__file__).parents[2]
SAMPLE_SECONDS = 0.05
SAMPLE_SHARE = 10  # times what a sample of many processes takes are between two
ERROR_LINES = 15
CHILD = "import sys; from tests.benchmarks.child import main; main(*sys.argv[1:])"


class ChildError(RuntimeError):
    """A contender's process failed; the message ends with its last lines of error output."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run of a contender.

    Attributes:
        rows, digest: its result.
        wall_s: seconds from the start of the process to its end, imports included.
        cpu_s: user and system seconds of the process tree.
        peak_mb: greatest resident memory of the process tree, in 10^6 bytes; pages that processes share count once
            for each.
        apart: figures of its own, by name.
    """

    rows: int
    digest: str
    wall_s: float
    cpu_s: float
    peak_mb: float
    apart: dict[str, float] = field(default_factory=dict)

    @property
    def rows_per_s(self) -> float:
        """Rows a wall second."""
        return self.rows / self.wall_s


def in_child(function: str, *, workdir: Path, size: str) -> Measured:
    """Call `module:function` with (workdir, size) in a new interpreter, and measure it.

    Raises:
        SkippedError: the function raised `SkippedError`.
        ChildError: it raised anything else, or its process died.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer, errors = Path(folder) / "answer.json", Path(folder) / "stderr"
        command = [sys.executable, "-c", CHILD, function, str(workdir), size, str(answer)]
        started = time.perf_counter()
        with errors.open("wb") as stderr:
            child = subprocess.Popen(command, cwd=ROOT, stdout=stderr, stderr=stderr)
        tree = Tree(child.pid)
        try:
            # WNOWAIT leaves the child unreaped, so that its pid stays its own until wait4 has its accounts
            while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                sampled = time.perf_counter()
                tree.sample()
                time.sleep(max(SAMPLE_SECONDS, SAMPLE_SHARE * (time.perf_counter() - sampled)))
        except BaseException:
            child.kill()
            raise
        wall = time.perf_counter() - started
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if not answer.exists():
            tail = "\n".join(errors.read_text(errors="replace").splitlines()[-ERROR_LINES:])
            raise ChildError(f"exit status {child.returncode}\n{tail}")
        content = json.loads(answer.read_text())
    if "skipped" in content:
        raise SkippedError(content["skipped"])
    seen = {
        "wall_s": wall,
        # wait4 counts descendants that were waited for, to their last tick; the samples count those that nobody
        # waited for (daemons), up to the last sample: neither counts more than was used
        "cpu_s": max(usage.ru_utime + usage.ru_stime, tree.cpu_seconds),
        "peak_mb": max(content["peak_bytes"], tree.peak_bytes) / 1e6,
    }
    own_values = {name: value if content[name] is None else content[name] for name, value in seen.items()}
    return Measured(rows=content["rows"], digest=content["digest"], apart=content["apart"], **own_values)


class Tree:
    """CPU seconds and peak memory (`peak_bytes`) of a process and its descendants so far."""

    def __init__(self, pid: int) -> None:
        import psutil

        self.gone = (psutil.NoSuchProcess, psutil.AccessDenied)
        self.root = psutil.Process(pid)
        self.peak_bytes = 0
        self._cpu: dict[tuple[int, float], float] = {}

    @property
    def cpu_seconds(self) -> float:
        """Of all that were seen, up to the last sample."""
        return sum(self._cpu.values())

    def sample(self) -> None:
        """Look at every process of the tree."""
        resident = 0
        try:
            processes = [self.root, *self.root.children(recursive=True)]
        except self.gone:
            return
        for process in processes:
            try:
                with process.oneshot():
                    times = process.cpu_times()
                    resident += process.memory_info().rss
                    self._cpu[process.pid, process.create_time()] = times.user + times.system
            except self.gone:
                continue
        self.peak_bytes = max(self.peak_bytes, resident)
