"""A process that has imported large libraries, and runs pytest in a fork of itself for each line of standard input.

A line is a JSON object: `arguments` of pytest, the file `log` for its output, `limit` in seconds, and the folder
`cache` of checkpoints. The answer is a line with pytest's exit status, or `null` if it took longer. Nothing of jobs,
actors and their tests is imported before a fork, which thus sees the files as they are then.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

LIBRARIES = "hypothesis numpy pandas PIL.Image pyarrow.parquet scipy.stats torch transformers".split()
POLL_S = 0.05


def run(arguments: list[str], log: Path, limit: float, cache: str) -> int | None:
    """Return the exit status of pytest with `arguments`; None if it took more than `limit` seconds."""
    child = os.fork()
    if not child:
        os.setsid()
        os.environ["REMINE_CACHE"] = cache
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        status = 1
        try:
            status = int(pytest.main(arguments))
        finally:
            sys.stdout.flush()
            os._exit(status)
    end, finished = time.monotonic() + limit, 0
    try:
        while time.monotonic() < end:
            finished, status = os.waitpid(child, os.WNOHANG)
            if finished:
                return os.waitstatus_to_exitcode(status)
            time.sleep(POLL_S)
        return None
    finally:
        if not finished:  # too long, or this process is to end
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)


def main() -> None:
    """Answer the requests of standard input."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    answers = os.fdopen(os.dup(1), "w")
    for name in LIBRARIES:
        with contextlib.suppress(ImportError):  # an extra that is not installed
            importlib.import_module(name)
    for line in sys.stdin:
        asked = json.loads(line)
        status = run(asked["arguments"], Path(asked["log"]), asked["limit"], asked["cache"])
        print(json.dumps(status), file=answers, flush=True)


if __name__ == "__main__":
    main()
