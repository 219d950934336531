"""The command: `python -m tests.benchmarks [NAME [SIZE]] [--out DIR] [--repeats N] [--record]`."""

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import harness, machine, records, report


def main(argv: Sequence[str] | None = None) -> int:
    """List the benchmarks or run one; 0 when its figures could be shown, 1 when not, 2 for a wrong command."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description="Measure remine against peers.")
    parser.add_argument("name", nargs="?", help="which benchmark, or all; without it they are listed")
    parser.add_argument("size", nargs="?", choices=harness.SIZES, default="default")
    parser.add_argument("--out", type=Path, default=Path("benchmarks-out"), help="where the .json and .md files go")
    parser.add_argument("--cache", type=Path, help="where inputs are kept between runs (OUT/cache)")
    parser.add_argument("--only", help="contenders to run: a name or a pattern such as 'units_*'; default: all")
    parser.add_argument("--repeats", type=int, help="rounds, at least 1 (by size: 1, 3, 5 unless the benchmark says)")
    parser.add_argument("--seed", type=int, default=0, help="of the order of the contenders")
    parser.add_argument("--record", action="store_true", help="keep the result in docs/benchmarks, and renew its table")
    parser.add_argument("--tables", action="store_true", help="only renew the table of docs/benchmarks.md")
    asked = parser.parse_args(argv)
    if asked.tables:
        records.write_tables()
        return 0
    names = harness.benchmarks()
    if asked.name is None:
        for benchmark in names.values():
            print(f"{benchmark.name:12} {benchmark.about}")
        return 0
    if asked.name not in (*names, "all"):
        parser.error(f"no benchmark {asked.name!r}; there are {', '.join(names)}")
    if asked.repeats is not None and asked.repeats < 1:
        parser.error(f"--repeats is {asked.repeats}, at least 1 is needed")
    chosen = names.values() if asked.name == "all" else [names[asked.name]]
    return max([_run(benchmark, asked) for benchmark in chosen])


def _command(name: str, asked: argparse.Namespace) -> str:
    """Return the command that repeats a measurement, without the places of its files."""
    values = {key: getattr(asked, key) for key in ("only", "repeats")}
    options = [f"--{key} {shlex.quote(str(value))}" for key, value in values.items() if value is not None]
    return " ".join(["python -m tests.benchmarks", name, asked.size, *options])


def _run(benchmark: harness.Benchmark, asked: argparse.Namespace) -> int:
    """Run one benchmark, write its files and show its table; 1 if it failed, its results differ, or its ratios are not
    those on record."""
    where = machine.describe(benchmark.packages)
    try:
        outcome = harness.run(
            harness.only(benchmark, asked.only) if asked.only else benchmark,
            asked.size,
            cache=asked.cache or asked.out / "cache",
            repeats=asked.repeats,
            seed=asked.seed,
            tell=lambda line: print(line, file=sys.stderr, flush=True),
        )
    except harness.BenchmarkError as error:
        print(error, file=sys.stderr)
        return 1
    asked.out.mkdir(parents=True, exist_ok=True)
    stem = asked.out / f"{benchmark.name}-{asked.size}"
    shown = report.to_markdown(outcome, where)
    stem.with_suffix(".json").write_text(report.to_json(outcome, where), encoding="utf-8")
    stem.with_suffix(".md").write_text(shown, encoding="utf-8")
    print(shown, end="")
    if asked.record:
        print(f"recorded in {records.save(outcome, where, _command(benchmark.name, asked))}", file=sys.stderr)
        records.write_tables()
    elif asked.size == "smoke" and (drifts := records.drifts(outcome, records.load())):
        print("not as on record (docs/benchmarks):", *drifts, sep="\n  ", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
