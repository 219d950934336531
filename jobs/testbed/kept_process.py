"""A process that ends with the process that started it, even if that is killed."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

STOP_SECONDS = 10.0

# PR_SET_PDEATHSIG would end a process with the *thread* that started it, and exists only on Linux. Instead, a keeper
# process reads from a pipe whose write end only this process has: end of file means that this process stopped or died.
# The keeper prints the pid of the process on its first line, and finally removes files that the process leaves.
# It reads the descriptor itself: Python aborts when it ends while a thread waits in `sys.stdin.buffer`.
KEEPER = f"""
import contextlib, glob, os, subprocess, sys, threading
kept = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=sys.stderr)
print(kept.pid, flush=True)
def watch():
    while os.read(0, 1):
        pass
    kept.terminate()
    try:
        kept.wait({STOP_SECONDS})
    except subprocess.TimeoutExpired:
        kept.kill()
threading.Thread(target=watch, daemon=True).start()
status = kept.wait()
for pattern in sys.argv[1].split():
    for left in glob.glob(pattern):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(left)
sys.exit(status and 1)
"""


class KeptProcess:
    """A started process that ends with `stop` or with this process.

    Args:
        command: the program and its arguments.
        log: the file to which its output is appended.
        environment: its entire environment.
        leftovers: globs (without spaces) of files that it does not always remove.

    Attributes:
        pid: its process id; None if it could not be started.
    """

    def __init__(
        self, command: Sequence[str], *, log: Path, environment: Mapping[str, str], leftovers: Sequence[str] = ()
    ) -> None:
        with log.open("ab") as output:
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-c", KEEPER, " ".join(leftovers), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                # a separate session, since Ctrl-C must not stop the process while this one still needs it
                start_new_session=True,
                env=environment,
            )
        assert self._keeper.stdout is not None
        first = self._keeper.stdout.readline().strip()
        self.pid = int(first) if first.isdigit() else None

    def status(self) -> int | None:
        """0 if it succeeded, 1 if it failed; None while it runs."""
        return self._keeper.poll()

    def stop(self) -> None:
        """Stop it and wait until it has ended."""
        for pipe in (self._keeper.stdin, self._keeper.stdout):
            if pipe is not None:
                pipe.close()
        # The keeper itself waits STOP_SECONDS before it kills the process, hence the margin.
        self._keeper.wait(timeout=STOP_SECONDS + 10)
