"""An outcome as JSON for machines and as Markdown for people."""

import json
import statistics
from dataclasses import asdict

from tests.benchmarks.harness import METRICS, Outcome, Spread


def to_json(outcome: Outcome, machine: dict[str, str]) -> str:
    """Everything that was measured, round by round, with the medians, ratios and verdicts."""
    benchmark = outcome.benchmark
    contenders = {
        name: {
            "rounds": [asdict(measured) for measured in runs],
            "median": {metric: asdict(outcome.spread(name, metric)) for metric in METRICS},
            "ratio": {metric: asdict(outcome.ratio(name, benchmark.reference, metric)) for metric in METRICS},
        }
        for name, runs in outcome.rounds.items()
    }
    targets = []
    for target in benchmark.targets:
        value, verdict = outcome.verdict(target)
        targets.append({**asdict(target), "value": value, "verdict": verdict})
    files = {
        "benchmark": benchmark.name,
        "size": outcome.size,
        "bound": benchmark.bound,
        "reference": benchmark.reference,
        "order": outcome.order,
        "contenders": contenders,
        "skipped": outcome.skipped,
        "targets": targets,
        "machine": machine,
    }
    return json.dumps(files, indent=1, ensure_ascii=False) + "\n"


def to_markdown(outcome: Outcome, machine: dict[str, str]) -> str:
    """Return a table of medians (with least and greatest) and of ratios to the reference, the targets, the machine."""
    benchmark = outcome.benchmark
    lines = [
        f"# {benchmark.name}, size {outcome.size}",
        "",
        benchmark.about,
        "",
        f"Median (least to greatest) of {len(outcome.order)} interleaved rounds, whole processes or the part that a",
        f"contender measures itself; x: times {benchmark.reference}, median of the ratios within each round.",
        f"Bounded by {benchmark.bound}.",
        "",
        "| contender | rows found | " + " | ".join(f"{label} | x" for label in METRICS.values()) + " |",
        "|---|---:|" + "---:|---:|" * len(METRICS),
    ]
    for contender in benchmark.contenders:
        shown = f"{contender.name}: {contender.about}" if contender.about else contender.name
        if contender.name in outcome.skipped:
            lines.append(f"| {shown} | skipped: {outcome.skipped[contender.name]} |" + " | |" * len(METRICS))
            continue
        cells = []
        for metric in METRICS:
            cells.append(_spread(outcome.spread(contender.name, metric)))
            cells.append(f"{outcome.ratio(contender.name, benchmark.reference, metric).median:.2f}")
        rows = str(outcome.rounds[contender.name][0].rows) if contender.compared else "not compared"
        lines.append(f"| {shown} | {rows} | " + " | ".join(cells) + " |")
    if apart := _apart(outcome):
        lines += ["", "Apart from these, medians: " + "; ".join(apart) + "."]
    if benchmark.targets:
        lines += ["", "| target | value | |", "|---|---:|---|"]
    for target in benchmark.targets:
        value, verdict = outcome.verdict(target)
        lines.append(f"| {target} | {'' if value is None else f'{value:.2f}'} | {verdict} |")
    lines += ["", *(f"- {name}: {value}" for name, value in machine.items())]
    return "\n".join(lines) + "\n"


def _apart(outcome: Outcome) -> list[str]:
    lines = []
    for name, runs in outcome.rounds.items():
        for figure in runs[0].apart:
            lines.append(f"{name}: {figure} {statistics.median(one.apart[figure] for one in runs):.2f}")
    return lines


def _spread(spread: Spread) -> str:
    digits = 0 if spread.median >= 100 else 2
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f} to {spread.high:.{digits}f})"
