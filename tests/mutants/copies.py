"""Private copies of the working tree, in which mutants are tested."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import Queue
from subprocess import PIPE

from tests.mutants.operators import Mutant

ROOT = Path(__file__).resolve().parents[2]
BUILDERS = Path("actors", "local_models")  # build the checkpoints that are cached
CAUGHT, SURVIVED, UNTESTED, TOO_LONG = "caught", "survived", "no test", "too long"
PASSED, NONE_RUN = 0, 5  # exit statuses of pytest


@dataclass(frozen=True)
class Drawn:
    """A mutant of the file `path`, and the test files to run for it."""

    path: Path
    mutant: Mutant
    tests: tuple[Path, ...]

    def __str__(self) -> str:
        before, after = (shortened(source) for source in (self.mutant.before, self.mutant.after))
        whole = (ROOT / self.path).read_text("utf-8").splitlines()[self.mutant.line - 1].strip()
        where = "" if whole.startswith(before) else f"   in: {shortened(whole)}"
        return f"{self.path}:{self.mutant.line}: {before}  ->  {after}{where}"


_FAILING = re.compile(r"^(?:FAILED|ERROR) (\S+?\[.*?\]|\S+)(?: - |$)", re.MULTILINE)


class Copies:
    """Private copies of the working tree, each for one run of tests at a time."""

    def __init__(self, folder: Path, number: int, limit: float) -> None:
        self._folder, self._limit = folder, limit
        self._free: Queue[Path] = Queue()
        self._processes: dict[Path, subprocess.Popen[str]] = {}
        self._changes = count(10**9)  # times of change: Python must not take one mutant's compiled file for another's
        self._sound: set[str] = set()  # tests that pass without any change
        self._broken: set[str] = set()  # and those that do not
        listed = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, text=True)
        files = [*(Path(line) for line in listed.splitlines()), *(path.relative_to(ROOT) for path in ROOT.glob("*.so"))]
        for place in range(number):
            copy = folder / f"copy-{place}"
            for file in files:
                if (ROOT / file).is_file():
                    (copy / file).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / file, copy / file)
            self._free.put(copy)
            self._processes[copy] = self._start(copy)

    def __enter__(self) -> "Copies":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.terminate()
            process.wait()

    def _start(self, copy: Path) -> subprocess.Popen[str]:
        environment = os.environ | {
            "PYTHONPATH": str(copy),
            "REMINE_DATA": os.environ.get("REMINE_DATA") or str(ROOT.parent / "shared" / "data"),
            "OMP_NUM_THREADS": "1",  # a fork has none of its parent's threads
            "OPENBLAS_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "tests.mutants.warm_pytest"]
        return subprocess.Popen(command, cwd=copy, env=environment, stdin=PIPE, stdout=PIPE, text=True)

    def verdict(self, drawn: Drawn, which: str) -> str:
        """Return what the tests of `drawn` with the marker expression `which` say of it."""
        if not drawn.tests:
            return UNTESTED
        while True:
            skipped = [option for test in self._broken for option in ("--deselect", test)]
            status, failing = self._pytest(["-m", which, *skipped, *map(str, drawn.tests)], drawn)
            if status is None:
                return TOO_LONG
            if status in (PASSED, NONE_RUN):
                return SURVIVED if status == PASSED else UNTESTED
            # An error in a conftest.py names no test.
            if self._passes(failing or str(drawn.tests[0])):
                return CAUGHT

    def _passes(self, test: str) -> bool:
        """Return whether `test` passes without any change; one that does not is not run again."""
        if test not in self._sound | self._broken:
            status, _ = self._pytest([test])
            (self._sound if status == PASSED else self._broken).add(test)
            if status != PASSED:
                print(f"fails without any change, is left out: {test}", flush=True)
        return test in self._sound

    def _pytest(self, arguments: Sequence[str], drawn: Drawn | None = None) -> tuple[int | None, str]:
        """Return pytest's exit status, None after the time limit, and the first failing test.

        Args:
            drawn: what to change; None: nothing.
        """
        copy = self._free.get()
        try:
            if drawn:
                (copy / drawn.path).write_text(drawn.mutant.text, encoding="utf-8")
                os.utime(copy / drawn.path, (changed := next(self._changes), changed))
            log, changed_models = copy.with_suffix(".log"), copy.with_suffix(".models")
            # What a changed module writes into the cache must not be there for the next mutant.
            cache = changed_models if drawn and drawn.path.is_relative_to(BUILDERS) else self._folder / "models"
            options = ["-qx", "--tb=no", "-p", "no:cacheprovider", *arguments]
            request = {"arguments": options, "log": str(log), "limit": self._limit, "cache": str(cache)}
            status = self._ask(self._processes[copy], request)
            failing = failing_test(log.read_text("utf-8"))
            shutil.rmtree(changed_models, ignore_errors=True)
        finally:
            if drawn:
                shutil.copy2(ROOT / drawn.path, copy / drawn.path)
            self._free.put(copy)
        return status, failing

    @staticmethod
    def _ask(process: subprocess.Popen[str], request: dict[str, object]) -> int | None:
        assert process.stdin
        assert process.stdout
        print(json.dumps(request), file=process.stdin, flush=True)
        answer: int | None = json.loads(process.stdout.readline())
        return answer


def failing_test(log: str) -> str:
    """Return the first test that the summary of pytest's output `log` names as failed; ids may contain spaces."""
    match = _FAILING.search(log)
    return match[1] if match else ""


def shortened(source: str) -> str:
    """Return a source as one line of at most 110 characters."""
    line = " ".join(source.split())
    return line if len(line) <= 110 else line[:107] + "..."
