"""Results of benchmarks that are kept in docs/benchmarks, one JSON file for each benchmark, size and processor.

`python -m tests.benchmarks NAME --record` writes them, and with them the table in docs/benchmarks.md. A run at size
smoke is compared with the record of that size.
"""

import json
import re
import subprocess
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.harness import BOUNDED, Outcome
from tests.benchmarks.measure import ROOT
from tests.benchmarks.report import to_json

FOLDER = ROOT / "docs" / "benchmarks"
PAGE = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- from docs/benchmarks/*.json by python -m tests.benchmarks --tables -->", "<!-- end -->"
DRIFT = 3.0  # times the recorded ratio of CPU seconds; a smoke run is short, and the machine may be busy


def save(outcome: Outcome, machine: dict[str, str], command: str, *, folder: Path = FOLDER) -> Path:
    """Write the outcome, with its commit and date, to the file of its benchmark, size and processor."""
    record = json.loads(to_json(outcome, machine))
    stamp = {"command": command, "commit": _commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    processor = re.sub(r"[^a-z0-9]+", "-", re.sub(r"\((r|tm)\)|@.*|processor|cpu", "", machine["CPU"].lower())).strip(
        "-"
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{outcome.benchmark.name}-{outcome.size}-{processor}.json"
    path.write_text(json.dumps(stamp | record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    changed = git("status", "--porcelain", "--", "jobs", "actors", "tests/benchmarks")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def load(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """Return the records by the names of their files."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


def tables(records: Iterable[dict[str, Any]]) -> str:
    """Return the targets of all records that are not of size smoke, and where each record comes from, as Markdown."""
    rows, sources = [], []
    for record in records:
        if record["size"] == "smoke":
            continue
        name = f"`{record['benchmark']}`"
        for target in record["targets"]:
            if target["value"] is None:
                continue
            against = f" / `{target['against']}`" if target["against"] else ""
            bound = (
                f"at most {target['at_most']:g}"
                if target["at_most"] is not None
                else f"at least {target['at_least']:g}"
            )
            if target["enough"] is not None:
                bound += f", or {target['enough']:g} by itself"
            figure = f"{BOUNDED[target['metric']]} of `{target['contender']}`{against}"
            rows.append(
                f"| {name}, {record['size']} | {figure} | {target['value']:.2f} | {bound} | {target['verdict']} |"
            )
        machine = record["machine"]
        sources.append(
            f"- {name}, {record['size']}: {len(record['order'])} rounds, {machine['CPU']}, "
            f"{machine['cores']} cores, load {machine['load']} at the start; {record['date']}, commit "
            f"{record['commit']}; `{record['command']}`. "
            f"Bounded by {record['bound']}."
        )
    head = ["| benchmark | figure | median | target | |", "|---|---|---:|---|---|"]
    return "\n".join([*head, *rows, "", *sources]) if rows else "No records."


def with_tables(page: str, records: Iterable[dict[str, Any]]) -> str:
    """Return the page with its generated part made anew."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables(records)}\n\n{END}{rest.partition(END)[2]}"


def write_tables() -> None:
    """Make the generated part of docs/benchmarks.md anew."""
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8"), load()), encoding="utf-8")


def drifts(outcome: Outcome, records: Iterable[dict[str, Any]]) -> list[str]:
    """Return how contenders' ratios differ from those of the record of the same benchmark and size, where they do.

    Ratios of CPU seconds to the reference are compared, of any processor's record: one is enough that agrees.
    """
    reference = outcome.benchmark.reference
    kept = [one for one in records if (one["benchmark"], one["size"]) == (outcome.benchmark.name, outcome.size)]
    lines = []
    for name in outcome.rounds:
        now = outcome.ratio(name, reference, "cpu_s").median
        before = [one["contenders"][name]["ratio"]["cpu_s"]["median"] for one in kept if name in one["contenders"]]
        if before and not any(1 / DRIFT <= now / ratio <= DRIFT for ratio in before):
            lines.append(f"{name}: {now:.2f} times the CPU seconds of {reference}; recorded {before[0]:.2f}")
    return lines
