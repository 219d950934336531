"""The figures of a GPU as a part of tests/benchmarks/RECORDS.md, between two comments."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.gpu.speeds import TARGETS

PAGE = Path(__file__).parents[1] / "benchmarks" / "RECORDS.md"
BEGIN, END = "<!-- python -m tests.gpu: begin -->", "<!-- python -m tests.gpu: end -->"


def write(result: Mapping[str, Any], page: Path = PAGE) -> None:
    """Replace the part between the comments.

    Raises:
        ValueError: the page lacks them, or the figures are those of `--tiny`.
    """
    if result["machine"]["tiny"]:
        raise ValueError("the figures are those of --tiny and mean nothing; run without it")
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise ValueError(f"{page}: lacks {BEGIN} … {END}")
    part = f"{BEGIN}\n{render(result)}\n{END}"
    page.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: part, text, flags=re.DOTALL), encoding="utf-8")


def render(result: Mapping[str, Any]) -> str:
    """Return the tables of a run as Markdown."""
    machine, rates = result["machine"], result["rates"]
    versions = ", ".join(f"{name} {machine[name]}" for name in ("Python", "torch", "transformers"))
    lines = [
        f"{machine['device']}, {versions}; {result['seconds']:.0f} s. Matrix products: "
        f"{rates['matrix'] / 1e12:,.0f} TFLOP/s; copies in its memory: {rates['copy'] / 1e12:,.2f} TB/s; "
        f"to it: {rates['upload'] / 1e9:,.1f} GB/s.",
        "",
        "| check | result |",
        "|---|---|",
    ]
    lines += [f"| {name.replace('_', ' ')} | {_checked(results)} |" for name, results in result["checks"].items()]
    lines += ["", "| measurement | figure | value | target |", "|---|---|---:|---|"]
    for name, results in result["measurements"].items():
        lines += [
            f"| {name}{more} | {figure} | {value} | {target} |" for more, figure, value, target in _rows(name, results)
        ]
    return "\n".join(lines)


def _checked(result: Mapping[str, Any]) -> str:
    if reason := result.get("skipped") or result.get("error"):
        return f"{'skipped' if 'skipped' in result else 'failed'}: {reason}"
    figures = ", ".join(
        f"{name} {_number(value)}"
        for name, value in result.items()
        if isinstance(value, int | float | str) and name != "ok"
    )
    return f"{'passed' if result['ok'] else 'failed'}: {figures}"


def _rows(name: str, result: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return (what it was about, figure, value, target) of a measurement."""
    if reason := result.get("skipped") or result.get("error"):
        return [("", "", str(reason), "")]
    rows: list[tuple[str, str, str, str]] = []
    for figure, value in result.items():
        if isinstance(value, Mapping):
            rows += [(f", {figure}", *row[1:]) for row in _rows(name, value)]
            continue
        word, bound = TARGETS.get((name.split(maxsplit=1)[0], figure), ("", 0.0))
        missed = word and (value < bound if word == "at least" else value >= bound)
        rows.append(("", figure, _number(value), f"{word} {bound:g}{': missed' if missed else ''}" if word else ""))
    return rows


def _number(value: Any) -> str:
    return (
        f"{value:,.3g}"
        if isinstance(value, float) and abs(value) < 1000
        else f"{value:,.0f}"
        if isinstance(value, float)
        else str(value)
    )
