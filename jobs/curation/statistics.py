"""Counts after each step by method and split, as in Century's appendix E.2.

They are the tally `steps` of each unit's footer, so that their sums over the units (in the manifest) describe the
table: `METHOD/SPLIT/STEP` -> records left. Until duplicates are resolved, a record counts in each of its methods;
afterwards, only in the one that it is credited to. The step `matched` counts the method's records in the input.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from actors.quantities import quantity
from jobs.curation.apply_rules import Selection
from jobs.curation.rows import Rows
from jobs.curation.rules import ALONE, NUMBER, RULES, Decision
from jobs.store.counts import Counts

MATCHED = "matched"
TALLY = "steps"
ELIGIBLE, STARTER = "starter_eligible", "starter_chosen"  # tallies by sub-region


def counts_of(selection: Selection, first: int, last: int) -> Counts:
    """Return the counts of the rows [first, last) of the input."""
    decision = selection.decision
    tallies = {TALLY: steps(selection.rows, decision, first, last)}
    if selection.region is not None:
        tallies |= by_region(selection.region, selection.regions, decision, first, last)
    dropped = filtered(decision, first, last)
    return Counts(last - first, last - first - dropped.total(), dropped, tallies=tallies)


def filtered(decision: Decision, first: int, last: int) -> Counter[str]:
    """Return the number of the rows [first, last) that each rule dropped."""
    counts = np.bincount(decision.rule[first:last], minlength=len(RULES) + 1)
    return Counter({rule: int(counts[number]) for rule, number in NUMBER.items() if counts[number]})


def steps(rows: Rows, decision: Decision, first: int, last: int) -> dict[str, int]:
    """Return the tally of the rows [first, last)."""
    span = slice(first, last)
    split, rule, credit = rows.split[span], decision.rule[span], decision.credit[span]
    tally: dict[str, int] = {}
    for method, name in enumerate(rows.methods):
        reached = decision.reached[method, span]
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
    """Return the tally as step -> method -> split -> records, with the steps in order."""
    counts: dict[str, dict[str, dict[str, int]]] = {step: {} for step in (MATCHED, *RULES)}
    for key, n in sorted(tally.items()):
        method, split, step = key.rsplit("/", 2)
        counts.setdefault(step, {}).setdefault(method, {})[split] = n
    return {step: methods for step, methods in counts.items() if methods}


def lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines to print from a table's `counts`: steps by method, and two sentences per method as in E.2."""
    left = by_step(counts["tallies"].get(TALLY, {}))
    if not left:
        return
    columns = {method: {step: sum(left[step].get(method, {}).values()) for step in left} for method in left[MATCHED]}
    if len(columns) > 1:
        columns = {"all": _all(counts, list(left)), **columns}
    name, widths = max(map(len, left)), [max(len(column), 9) for column in columns]
    for row in ("", *left):
        cells = [f"{c[row]:,}" if row else title for title, c in columns.items()]
        yield f"  {row:{name}}  {'  '.join(f'{cell:>{w}}' for cell, w in zip(cells, widths, strict=True))}"
    last = [step for step in left if step in ALONE][-1]
    for method, splits in left[MATCHED].items():
        matched, kept = columns[method][MATCHED], columns[method][last]
        share = f"{100 * kept / matched:.1f} %; " if matched else ""
        yield f"  {method}: {quantity(matched, 'record')} matched ({_splits(splits)})"
        yield f"  {method}: {kept:,} after its own filters ({share}{_splits(left[last][method])})"


def _splits(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {split}" for split, n in counts.items())


def _all(counts: Mapping[str, Any], applied: list[str]) -> dict[str, int]:
    """Return the records left after each step in any method."""
    left = counts["rows_in"]
    column = {}
    for step in applied:
        left -= counts["filtered"].get(step, 0)
        column[step] = left
    return column


def by_region(
    region: np.ndarray, names: Sequence[str], decision: Decision, first: int, last: int
) -> dict[str, dict[str, int]]:
    """Return tallies of the rows [first, last) by sub-region: eligible for the starter set, and drawn for it."""
    regions, rule = region[first:last], decision.rule[first:last]
    masks = {ELIGIBLE: regions >= 0, STARTER: (regions >= 0) & (rule == 0)}
    by_rule = {name: np.bincount(regions[mask], minlength=len(names)) for name, mask in masks.items()}
    return {name: {names[r]: int(n) for r, n in enumerate(counts) if n} for name, counts in by_rule.items()}


def region_lines(counts: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines to print: the size of the starter set and the eligible pictures by sub-region."""
    eligible, starter = (counts["tallies"].get(name, {}) for name in (ELIGIBLE, STARTER))
    if not eligible:
        return
    yield f"  starter set: {sum(starter.values()):,} of {sum(eligible.values()):,} pictures that are sensitive enough"
    width = max(map(len, eligible))
    for name in sorted(eligible):
        yield f"    {name:{width}}  {starter.get(name, 0):>5,} of {eligible[name]:>7,}"
