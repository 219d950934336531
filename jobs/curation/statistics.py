"""Counts after each step by method and split, as Century's appendix E.2 gives them.

They are kept as the tally `steps` of each unit's footer, so that the sums over units (the manifest's) are those of
the table: `METHOD/SPLIT/STEP` -> records left. Before duplicates are resolved a record counts in each of its
methods, afterwards in the one it is credited to. `matched` is what the method found.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jobs.curation.rows import Rows
from jobs.curation.rules import ALONE, NUMBER, RULES, Decision

MATCHED = "matched"
TALLY = "steps"
ELIGIBLE, STARTER = "starter_eligible", "starter_chosen"  # tallies by sub-region


def filtered(decision: Decision, first: int, last: int) -> Counter[str]:
    """How many of the rows [first, last) fell to each rule."""
    counts = np.bincount(decision.rule[first:last], minlength=len(RULES) + 1)
    return Counter({rule: int(counts[number]) for rule, number in NUMBER.items() if counts[number]})


def steps(rows: Rows, decision: Decision, first: int, last: int) -> dict[str, int]:
    """The tally of the rows [first, last)."""
    here = slice(first, last)
    split, rule, credit = rows.split[here], decision.rule[here], decision.credit[here]
    tally: dict[str, int] = {}
    for method, name in enumerate(rows.methods):
        reached = decision.reached[method, here]
        present = np.unique(split[reached > 0])
        masks = {MATCHED: reached > 0}
        for step in decision.applied:
            number = NUMBER[step]
            alone = step in ALONE
            masks[step] = reached > number if alone else (credit == method) & ((rule == 0) | (rule > number))
        for step, mask in masks.items():
            counts = np.bincount(split[mask], minlength=len(rows.splits))
            tally |= {f"{name}/{rows.splits[s]}/{step}": int(counts[s]) for s in present}
    return tally


def by_step(tally: Mapping[str, int]) -> dict[str, dict[str, dict[str, int]]]:
    """The tally as step -> method -> split -> records, steps in their order."""
    found: dict[str, dict[str, dict[str, int]]] = {step: {} for step in (MATCHED, *RULES)}
    for key, n in sorted(tally.items()):
        method, split, step = key.rsplit("/", 2)
        found.setdefault(step, {}).setdefault(method, {})[split] = n
    return {step: methods for step, methods in found.items() if methods}


def lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """For a person, from a table's `counts`: steps by method, and a sentence a method in the manner of E.2."""
    found = by_step(counts["tallies"].get(TALLY, {}))
    if not found:
        return
    columns = {method: {step: sum(found[step].get(method, {}).values()) for step in found} for method in found[MATCHED]}
    if len(columns) > 1:
        columns = {"all": _all(counts, list(found)), **columns}
    name, widths = max(map(len, found)), [max(len(column), 9) for column in columns]
    for row in ("", *found):
        cells = [f"{c[row]:,}" if row else title for title, c in columns.items()]
        yield f"  {row:{name}}  {'  '.join(f'{cell:>{w}}' for cell, w in zip(cells, widths, strict=True))}"
    last = [step for step in found if step in ALONE][-1]
    for method, splits in found[MATCHED].items():
        matched, kept = columns[method][MATCHED], columns[method][last]
        share = f"{100 * kept / matched:.1f} %; " if matched else ""
        yield f"  {method}: {matched:,} records matched ({_splits(splits)})"
        yield f"  {method}: {kept:,} after its own filters ({share}{_splits(found[last][method])})"


def _splits(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {split}" for split, n in counts.items())


def _all(counts: Mapping[str, Any], steps_found: list[str]) -> dict[str, int]:
    """Records left after each step in any method."""
    left = counts["rows_in"]
    column = {}
    for step in steps_found:
        left -= counts["filtered"].get(step, 0)
        column[step] = left
    return column


def by_region(
    region: np.ndarray, names: Sequence[str], decision: Decision, first: int, last: int
) -> dict[str, dict[str, int]]:
    """Tallies of the rows [first, last) by sub-region: those that the starter set was drawn from, and the drawn."""
    here, fallen = region[first:last], decision.rule[first:last]
    masks = {ELIGIBLE: here >= 0, STARTER: (here >= 0) & (fallen == 0)}
    counted = {name: np.bincount(here[mask], minlength=len(names)) for name, mask in masks.items()}
    return {name: {names[r]: int(n) for r, n in enumerate(counts) if n} for name, counts in counted.items()}


def region_lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """For a person: the starter set by sub-region, and how many there were to draw from."""
    eligible, starter = (counts["tallies"].get(name, {}) for name in (ELIGIBLE, STARTER))
    if not eligible:
        return
    yield f"  starter set: {sum(starter.values()):,} of {sum(eligible.values()):,} pictures that are sensitive enough"
    width = max(map(len, eligible))
    for name in sorted(eligible):
        yield f"    {name:{width}}  {starter.get(name, 0):>5,} of {eligible[name]:>7,}"
