"""Results of attacks, and the tables that tests/RELIABILITY.md has of them.

REMINE_RESULTS=tests/reliability_results.jsonl make torture    # appends a line for each attack that held
python -m tests.reliability                                     # writes the tables into the page
"""

import json
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "reliability_results.jsonl"
PAGE = ROOT / "tests" / "RELIABILITY.md"
BEGIN, END = "<!-- written by python -m tests.reliability -->", "<!-- end of what it writes -->"

# attack -> columns of the table: the first ones name a row, the others are summed over the results with these names
TABLES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "kills": ("Kills", ("killed", "job"), ("kills", "commands", "tables compared")),
    "signals": ("Signals, next to processes that keep all CPUs busy", ("signal", "job"), ("runs", "longest (s)")),
    "signals between steps": (
        "Signals between two steps of a pipeline, then the same command",
        ("signal", "at"),
        ("runs", "tables compared"),
    ),
    "two commands": (
        "Two commands at once with one `out=` on S3",
        ("job",),
        ("pairs", "refused", "tables compared"),
    ),
    "leftovers": (
        "Processes after a killed command with a separate Ray",
        ("job",),
        ("kills", "processes after 60 s"),
    ),
    "storage faults": ("Requests to S3 that met a fault", ("jobs",), ("runs", "requests", "faults")),
    "full disks": ("Full disks, under the jobs of the test", ("full",), ("runs", "stopped", "tables compared")),
    "S3 servers": (
        "Tests on S3 servers",
        ("server", "conditional writes", "checksums"),
        ("tests", "tables compared", "objects"),
    ),
    "soak": ("Rounds of `make soak`", ("jobs",), ("rounds", "growing")),
    "random cases": ("Random cases", ("input",), ("cases", "failures")),
}


def record(attack: str, **figures: str | float) -> None:
    """Append a result to the file that `$REMINE_RESULTS` names; nothing without it."""
    if path := os.environ.get("REMINE_RESULTS"):
        line = {"attack": attack, "day": f"{datetime.now(UTC):%Y-%m-%d}", **figures}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_results() -> list[dict[str, Any]]:
    """Return the results that the page shows."""
    return [json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()]


def tables(results: Sequence[dict[str, Any]]) -> str:
    """Return the tables of all attacks with results, in Markdown."""
    return "\n".join(line for attack in TABLES for line in _table(attack, results))


def _table(attack: str, results: Sequence[dict[str, Any]]) -> Iterator[str]:
    title, names, figures = TABLES[attack]
    sums: dict[tuple[str, ...], list[float]] = {}
    days = []
    for result in results:
        if result["attack"] != attack:
            continue
        days.append(result["day"])
        row = sums.setdefault(tuple(result[name] for name in names), [0.0] * len(figures))
        for place, figure in enumerate(figures):
            is_longest = figure.startswith("longest")
            row[place] = max(row[place], result[figure]) if is_longest else row[place] + result[figure]
    if not sums:
        return
    yield f"**{title}** ({min(days)} to {max(days)})\n"
    yield f"| {' | '.join((*names, *figures))} |"
    yield f"|{'---|' * len(names)}{'---:|' * len(figures)}"
    for key, row in sorted(sums.items()):
        yield f"| {' | '.join((*key, *(f'{value:,.10g}' for value in row)))} |"
    yield ""


def page(text: str, results: Sequence[dict[str, Any]]) -> str:
    """Return the page `text` with the tables of `results` between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{tables(results)}\n{END}{after}"


def main() -> None:
    """Write the tables into the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), read_results()), encoding="utf-8")


if __name__ == "__main__":
    main()
