"""Counts after each step by method and split, as in Century's appendix E.2.

They are the tally `steps` of each unit's footer, so that their sums over the units (in the manifest) describe the
table: `METHOD/SPLIT/STEP` -> records left; without METHOD, in any method. Until duplicates are resolved, a record
counts in each of its methods; afterwards, only in the one that it is credited to. The step `matched` counts the records
in the input. A selection from a curated table keeps the tallies of the selections before, and adds its own (`steps 2`).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from actors.quantities import quantity
from jobs.curation.apply_rules import Selection
from jobs.curation.curation_rules import ALONE, EXCLUDED, NUMBER, RULES, Decision
from jobs.curation.record_arrays import Rows
from jobs.store.counts import Counts

MATCHED = "matched"
READ = "read"  # the records in the input of a later selection, if they are not those that the one before kept
TALLY = "steps"
ELIGIBLE, STARTER = "starter_eligible", "starter_chosen"  # tallies by sub-region
Tallies = Mapping[str, Mapping[str, int]]
_ANY = ""  # in keys of the tally: in any method


@dataclass(frozen=True)
class CurationStep:
    """The records left after a step.

    Attributes:
        name: a rule, `MATCHED` or `READ`.
        n: the records in any method.
        by_method: method -> split -> records.
        ends_own_rules: whether it is the last rule that is applied to each method alone, in the first selection.
    """

    name: str
    n: int
    by_method: Mapping[str, Mapping[str, int]]
    ends_own_rules: bool = False

    def of(self, method: str) -> int:
        """Return the records of `method`."""
        return sum(self.by_method.get(method, {}).values())


def counts_of(selection: Selection, first: int, last: int, earlier: Tallies) -> Counts:
    """Return the counts of the rows [first, last) of the input.

    Args:
        earlier: the tallies of the selections that led to these rows (`selections`).
    """
    decision = selection.decision
    tallies = {name: dict(tally) for name, tally in earlier.items()}
    tallies[_tally(len(earlier) + 1)] = steps(selection.rows, decision, first, last)
    if selection.region is not None:
        tallies |= by_region(selection.region, selection.regions, decision, first, last)
    dropped = filtered(decision, first, last)
    return Counts(last - first, last - first - dropped.total(), dropped, tallies=tallies)


def selections(tallies: Tallies) -> dict[str, Mapping[str, int]]:
    """Return those of a table's tallies that count the steps of a selection, from the first selection on."""
    names = [_tally(number + 1) for number in range(len(tallies))]
    return {name: tallies[name] for name in names if name in tallies}


def _tally(number: int) -> str:
    return TALLY if number == 1 else f"{TALLY} {number}"


def filtered(decision: Decision, first: int, last: int) -> Counter[str]:
    """Return the number of the rows [first, last) that each rule dropped."""
    counts = np.bincount(decision.rule[first:last], minlength=len(RULES) + 1)
    return Counter({rule: int(counts[number]) for rule, number in NUMBER.items() if counts[number]})


def steps(rows: Rows, decision: Decision, first: int, last: int) -> dict[str, int]:
    """Return the tally of the rows [first, last)."""
    span = slice(first, last)
    split, rule, credit = rows.split[span], decision.rule[span], decision.credit[span]
    members = {_ANY: np.ones(len(rule), bool)} | {
        name: decision.reached[method, span] > 0 for method, name in enumerate(rows.methods)
    }
    tally: dict[str, int] = {}
    for method, (name, member) in enumerate(members.items(), -1):
        masks = {MATCHED: member}
        for step in decision.applied:
            number = NUMBER[step]
            left = (rule == 0) | (rule > number)
            if name != _ANY:
                left = decision.reached[method, span] > number if step in ALONE else left & (credit == method)
            masks[step] = left
        present = np.unique(split[member])
        for step, mask in masks.items():
            counts = np.bincount(split[mask], minlength=len(rows.splits))
            tally |= {f"{name}/{rows.splits[s]}/{step}": int(counts[s]) for s in present}
    return tally


def steps_of(tallies: Tallies) -> list[CurationStep]:
    """Return the steps of all selections that led to a table, from its tallies.

    A later selection has those of its rules that no earlier one applied, or that dropped records again; its input is a
    step if its records are not those that the selection before kept.
    """
    result: list[CurationStep] = []
    for tally in selections(tallies).values():
        left, names = None, {step.name for step in result}
        for step in _steps_in(tally):
            if not names:
                result.append(step)
            elif step.name == MATCHED and step.n != result[-1].n:
                result.append(replace(step, name=READ))
            elif step.name != MATCHED and (step.name not in names or step.n != left):
                result.append(replace(step, ends_own_rules=False))
            left = step.n
    return result


def _steps_in(tally: Mapping[str, int]) -> list[CurationStep]:
    """Return the steps of a selection, in order."""
    counts: dict[str, dict[str, dict[str, int]]] = {name: {} for name in (MATCHED, *RULES)}
    for key, n in sorted(tally.items()):
        method, split, name = key.rsplit("/", 2)
        counts[name].setdefault(method, {})[split] = n
    applied = {name: methods for name, methods in counts.items() if methods}
    last = [name for name in applied if name in ALONE][-1:]
    result: list[CurationStep] = []
    for name, methods in applied.items():
        step = CurationStep(name, sum(methods.pop(_ANY, {}).values()), methods, ends_own_rules=name in last)
        if name != EXCLUDED or step.n != result[-1].n:  # every selection has this rule, most of them without a list
            result.append(step)
    return result


def lines(tallies: Tallies) -> Iterator[str]:
    """Yield lines to print from a table's tallies: steps by method, and two sentences per method as in E.2."""
    left = steps_of(tallies)
    if not left:
        return
    methods = list(left[0].by_method)
    columns = {method: [step.of(method) for step in left] for method in methods}
    if len(methods) > 1:
        columns = {"all": [step.n for step in left], **columns}
    names, widths = [step.name for step in left], [max(len(column), 9) for column in columns]
    cells = [list(columns), *([f"{n:,}" for n in row] for row in zip(*columns.values(), strict=True))]
    for name, row in zip(["", *names], cells, strict=True):
        padded = (f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        yield f"  {name:{max(map(len, names))}}  {'  '.join(padded)}"
    filtered_alone = next(step for step in left if step.ends_own_rules)
    for method in methods:
        matched, kept = left[0].of(method), filtered_alone.of(method)
        share = f"{100 * kept / matched:.1f} %; " if matched else ""
        yield f"  {method}: {quantity(matched, 'record')} matched ({_splits(left[0].by_method[method])})"
        yield f"  {method}: {kept:,} after its own filters ({share}{_splits(filtered_alone.by_method[method])})"


def _splits(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {split}" for split, n in counts.items())


def by_region(
    region: np.ndarray, names: Sequence[str], decision: Decision, first: int, last: int
) -> dict[str, dict[str, int]]:
    """Return tallies of the rows [first, last) by sub-region: eligible for the starter set, and drawn for it."""
    regions, rule = region[first:last], decision.rule[first:last]
    masks = {ELIGIBLE: regions >= 0, STARTER: (regions >= 0) & (rule == 0)}
    by_rule = {name: np.bincount(regions[mask], minlength=len(names)) for name, mask in masks.items()}
    return {name: {names[r]: int(n) for r, n in enumerate(counts) if n} for name, counts in by_rule.items()}


def region_lines(tallies: Tallies) -> Iterator[str]:
    """Yield lines to print: the size of the starter set and the eligible pictures by sub-region."""
    eligible, starter = (tallies.get(name, {}) for name in (ELIGIBLE, STARTER))
    if not eligible:
        return
    yield f"  starter set: {sum(starter.values()):,} of {sum(eligible.values()):,} pictures that are sensitive enough"
    width = max(map(len, eligible))
    for name in sorted(eligible):
        yield f"    {name:{width}}  {starter.get(name, 0):>5,} of {eligible[name]:>7,}"
