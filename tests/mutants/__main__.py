"""The command: `python -m tests.mutants actors/vlm [MORE …] [--count 30] [--seed 0] [--fast]`."""

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue

from tests.mutants.operators import Mutant, defaults_of, mutants
from tests.mutants.related_tests import import_graph, related_tests

ROOT = Path(__file__).resolve().parents[2]
CODE = ("jobs", "actors")
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


class Copies:
    """Private copies of the working tree, each for one run of tests at a time."""

    def __init__(self, folder: Path, number: int, limit: float) -> None:
        self._folder, self._limit = folder, limit
        self._free: Queue[Path] = Queue()
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

    @contextmanager
    def _borrowed(self) -> Iterator[Path]:
        """A copy that no one else uses within the context."""
        copy = self._free.get()
        try:
            yield copy
        finally:
            self._free.put(copy)

    def verdict(self, drawn: Drawn, which: str) -> str:
        """Return what the tests of `drawn` with the marker expression `which` say of it."""
        if not drawn.tests:
            return UNTESTED
        while True:
            skipped = [option for test in self._broken for option in ("--deselect", test)]
            try:
                status, failing = self._pytest(["-m", which, *skipped, *map(str, drawn.tests)], drawn)
            except subprocess.TimeoutExpired:
                return TOO_LONG
            if status in (PASSED, NONE_RUN):
                return SURVIVED if status == PASSED else UNTESTED
            # An error in a conftest.py names no test.
            if self._passes(failing or str(drawn.tests[0])):
                return CAUGHT

    def _passes(self, test: str) -> bool:
        """Whether `test` passes without any change; one that does not is not run again."""
        if test not in self._sound | self._broken:
            status, _ = self._pytest([test])
            (self._sound if status == PASSED else self._broken).add(test)
            if status != PASSED:
                print(f"fails without any change, is left out: {test}", flush=True)
        return test in self._sound

    def _pytest(self, arguments: Sequence[str], drawn: Drawn | None = None) -> tuple[int, str]:
        """Return pytest's exit status and the first failing test, with the change `drawn` or none."""
        environment = os.environ | {
            "REMINE_CACHE": str(self._folder / "models"),
            "REMINE_DATA": os.environ.get("REMINE_DATA") or str(ROOT.parent / "shared" / "data"),
            # The compiled file of a mutant may pass for that of the next.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, "-m", "pytest", "-qx", "--tb=no", "-p", "no:cacheprovider", *arguments]
        with self._borrowed() as copy:
            if drawn:
                (copy / drawn.path).write_text(drawn.mutant.text, encoding="utf-8")
            try:
                done = subprocess.run(
                    command,
                    cwd=copy,
                    env=environment | {"PYTHONPATH": str(copy)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=self._limit,
                    check=False,
                )
            finally:
                if drawn:
                    shutil.copy2(ROOT / drawn.path, copy / drawn.path)
        lines = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        return done.returncode, lines[0] if lines else ""


def shortened(source: str) -> str:
    """Return a source as one line of at most 110 characters."""
    line = " ".join(source.split())
    return line if len(line) <= 110 else line[:107] + "..."


def draw(paths: Sequence[Path], count: int, seed: int, most_tests: int) -> list[Drawn]:
    """Return `count` mutants of the files below `paths`, drawn uniformly from all, in the order of the files."""
    trees = {file.relative_to(ROOT): ast.parse(file.read_text("utf-8")) for file in files_below((*CODE, "tests"))}
    defaults = defaults_of(tree for path, tree in trees.items() if path.parts[0] in CODE)
    graph = import_graph(trees)
    changed = sorted(file.relative_to(ROOT) for file in files_below(paths))
    every = [(path, mutant) for path in changed for mutant in mutants((ROOT / path).read_text("utf-8"), defaults)]
    places = sorted(random.Random(seed).sample(range(len(every)), min(count, len(every))))
    return [
        Drawn(path, mutant, tuple(related_tests(path, graph, most_tests)))
        for path, mutant in (every[i] for i in places)
    ]


def files_below(paths: Sequence[Path | str]) -> Iterator[Path]:
    """Yield the Python files at or below `paths`."""
    for path in paths:
        whole = ROOT / path
        yield from [whole] if whole.is_file() else whole.rglob("*.py")


def verdicts(drawn: Sequence[Drawn], copies: Copies, which: str, processes: int) -> dict[Drawn, str]:
    """Run for each mutant its tests with the marker expression `which`."""
    with ThreadPoolExecutor(processes) as pool:
        results = pool.map(lambda one: copies.verdict(one, which), drawn)
        outcome = {}
        for one, verdict in zip(drawn, results, strict=True):
            outcome[one] = verdict
            print(f"{verdict:9} {one}", flush=True)
    return outcome


def main(argv: Sequence[str] | None = None) -> int:
    """Print what becomes of each mutant, then the survivors; 0 without any, 1 with some, 2 for a wrong command."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Changes that no test notices.")
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders of jobs/ and actors/ to change")
    parser.add_argument("--count", type=int, default=30, help="how many mutants to draw")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--files", type=int, default=8, help="test files for each mutant, at most")
    parser.add_argument("--limit", type=float, default=300, help="seconds for the tests of one mutant")
    parser.add_argument("--processes", type=int, default=1, help="mutants tested at once")
    parser.add_argument("--fast", action="store_true", help="only the tests of `make fast`")
    asked = parser.parse_args(argv)
    if missing := [str(path) for path in asked.paths if not (ROOT / path).exists()]:
        parser.error(f"no file or folder {', '.join(missing)} in {ROOT}")
    os.nice(10)
    drawn = draw(asked.paths, asked.count, asked.seed, asked.files)
    with tempfile.TemporaryDirectory(prefix="remine-mutants-") as folder:
        copies = Copies(Path(folder), asked.processes, asked.limit)
        outcome = verdicts(drawn, copies, "not torture and not slow", asked.processes)
        left = [one for one, verdict in outcome.items() if verdict in (SURVIVED, UNTESTED)]
        if left and not asked.fast:
            outcome |= verdicts(left, copies, "not torture and slow", asked.processes)
    survivors = [one for one, verdict in outcome.items() if verdict in (SURVIVED, UNTESTED)]
    print(f"\nseed={asked.seed} mutants={len(outcome)} survivors={len(survivors)}")
    print(*survivors, sep="\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
