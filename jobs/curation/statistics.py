"""Counts after each step by method and split, as Century's appendix E.2 gives them.

They are kept as the tally `steps` of each unit's footer, so that the sums over units (the manifest's) are those of
the table: `METHOD/SPLIT/STEP` -> records left. Before duplicates are resolved a record counts in each of its
methods, afterwards in the one it is credited to. `matched` is what the method found.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np

from jobs.curation.rows import Rows
from jobs.curation.rules import ALONE, NUMBER, RULES, Decision

MATCHED = "matched"
TALLY = "steps"


def filtered(decision: Decision, first: int, last: int) -> Counter[str]:
    """How many of the rows [first, last) fell to each rule."""
    counts = np.bincount(decision.rule[first:last], minlength=len(RULES) + 1)
    return Counter({rule: int(counts[number]) for rule, number in NUMBER.items() if counts[number]})


def steps(rows: Rows, decision: Decision, first: int, last: int) -> dict[str, int]:
    """The tally of the rows [first, last)."""
    here = slice(first, last)
    split, rule, credit = rows.split[here], decision.rule[here], decision.credit[here]
    tally = {}
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


def lines(tally: Mapping[str, int]) -> Iterator[str]:
    """For a person: a table of steps by method, and a sentence a method in the manner of E.2."""
    steps_found = by_step(tally)
    if not steps_found:
        return
    methods = sorted(steps_found[MATCHED])
    name = max(map(len, steps_found))
    width = {m: max(len(m), 9) for m in methods}
    yield f"  {'':{name}}  {'  '.join(f'{m:>{width[m]}}' for m in methods)}"
    for step, found in steps_found.items():
        cells = [f"{sum(found.get(m, {}).values()):>{width[m]},}" for m in methods]
        yield f"  {step:{name}}  {'  '.join(cells)}"
    last_alone = [step for step in steps_found if step in ALONE][-1]
    for method in methods:
        matched, kept = (sum(steps_found[step][method].values()) for step in (MATCHED, last_alone))
        splits = ", ".join(f"{n:,} {split}" for split, n in steps_found[MATCHED][method].items())
        share = f" ({100 * kept / matched:.1f} %)" if matched else ""
        yield f"  {method}: {matched:,} records matched ({splits}); {kept:,} after its filters{share}"
