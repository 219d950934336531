"""Printed summaries of all jobs: the plan, the reconciliation, counts."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.quantities import quantity
from jobs.runtime.configuration.resources import Demand
from jobs.runtime.planning import estimates
from jobs.runtime.process.console import say
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.counts import failure_lines
from jobs.store.files import locations
from jobs.store.runs.run_units import Amounts
from jobs.store.runs.table_run import TableRun, survey
from jobs.store.table_plan import TablePlan

TALLY_LINES = 10
FAILURE_LINES = 10
LONG_S = 60  # shortest run, or estimate of one, for which the two are compared


@dataclass(frozen=True)
class PlannedTable:
    """A printed plan."""

    out: str
    amounts: Amounts
    estimated: estimates.Forecast | None  # None for a job without Ray


_printed: list[list[PlannedTable]] = []  # one list per context of `printed_plans`


@contextlib.contextmanager
def printed_plans() -> Iterator[list[PlannedTable]]:
    """Collect the plans that jobs print within the context in the yielded list."""
    _printed.append([])
    try:
        yield _printed[-1]
    finally:
        _printed.pop()


def show_plan(
    name: str,
    plan: TablePlan,
    uses: Sequence[Demand] = (),
    *,
    note: str = "",
    lines: Sequence[str] = (),
    estimator: Callable[[Amounts], estimates.Forecast] | None = None,
    overwrite: bool | None = None,
) -> None:
    """Print what would be read, written and used, what is left, then `lines` (plan=true).

    Writes no files.

    Args:
        estimator: estimates what is left; None for a job without Ray.
        overwrite: whether an existing table would be deleted; None: what the plan's configuration says.
    """
    overwrite = bool(plan.config.get("overwrite")) if overwrite is None else overwrite
    amounts = survey(plan, overwrite=overwrite)
    say(f"{name}: would write table {plan.table} to {locations.absolute(plan.out)}")
    rows = f", {quantity(amounts.rows, 'row')}" if amounts.rows else ""
    extra = f"; {note}" if note else ""
    say(f"  reads  {_units(amounts.units)}{rows}, {amounts.bytes / 1e6:,.1f} MB{extra}")
    say(f"  done   {amounts.done:,} of {_units(amounts.units)}")
    if plan.limit:
        say(f"  {plan.limit}")
    if uses:
        say(f"  uses   {', '.join(map(str, uses))}")
    estimated = estimator(amounts) if estimator else None
    for line in [*(estimates.lines(estimated) if estimated else ()), *lines]:
        say(f"  {line}")
    for plans in _printed:
        plans.append(PlannedTable(plan.out, amounts, estimated))


def _units(count: int) -> str:
    return quantity(count, "unit")


def show_result(name: str, manifest: Mapping[str, Any], run: TableRun) -> None:
    """Print the reconciliation: in = out + filtered + rejected; rows out = ok + each other status."""
    say(f"{name}: {run.target.out}")
    say(reconciliation(manifest["counts"]))
    again = f", {run.done_before:,} done before" if run.done_before else ""
    if run.plan.limit:
        say(f"  {run.plan.limit}; the table has no more")
    say(f"  {_units(len(run.units))}{again}, {manifest['seconds']:,.1f} s")
    expected, took = manifest.get("estimate"), manifest.get("actual")
    if expected and took and max(took["seconds"], expected["seconds"]["high"]) >= LONG_S:
        say(f"  took {estimates.comparison(expected, took)}")


def reconciliation(counts: Mapping[str, Any]) -> str:
    """Return lines with the sums of `Counts`, and with each kind of failure, its number and an example."""
    parts = [f"{counts['rows_out']:,} out"]
    parts += [f"{n:,} filtered by {rule}" for rule, n in sorted(counts["filtered"].items())]
    parts += [f"{n:,} rejected as {reason}" for reason, n in sorted(counts["rejected"].items())]
    lines = [f"  {counts['rows_in']:,} in = {' + '.join(parts)}"]
    if counts["status"]:
        by_status = sorted(counts["status"].items(), key=lambda entry: (entry[0] != "ok", entry[0]))
        total = sum(counts["status"].values())
        lines.append(f"  {total:,} asked = {' + '.join(f'{n:,} {status}' for status, n in by_status)}")
    lines += [f"    {line}" for line in failure_lines(counts["failures"], most=FAILURE_LINES)]
    return "\n".join(lines)


def show_tally(title: str, tally: Mapping[str, int]) -> None:
    """Print the most frequent entries of a tally."""
    top = sorted(tally.items(), key=lambda entry: (-entry[1], entry[0]))
    if top:
        more = f" (+{len(top) - TALLY_LINES:,} more)" if len(top) > TALLY_LINES else ""
        say(f"  {title}: {', '.join(f'{key} {n:,}' for key, n in top[:TALLY_LINES])}{more}")


def show_exclusions(excluded: Exclusions, matched: Iterable[str]) -> None:
    """Print how many entries of the list match a picture; nothing without a list. `matched` has the matching marks."""
    if line := excluded.summary(matched):
        say(f"  {line}")
