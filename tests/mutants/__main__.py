"""The command: `python -m tests.mutants actors/vlm [MORE …] [--count 30] [--seed 0] [--fast]`."""

import argparse
import ast
import os
import random
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants.copies import ROOT, SURVIVED, UNTESTED, Copies, Drawn
from tests.mutants.operators import defaults_of, mutants
from tests.mutants.related_tests import import_graph, related_tests

CODE = ("jobs", "actors")


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
    with (
        tempfile.TemporaryDirectory(prefix="remine-mutants-") as folder,
        Copies(Path(folder), asked.processes, asked.limit) as copies,
    ):
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
