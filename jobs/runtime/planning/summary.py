"""Summaries of all jobs, as lines: the plan, the reconciliation, counts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from actors.quantities import quantity
from jobs.runtime.configuration.resources import Demand
from jobs.runtime.outcomes import Manifest, Plan, PlannedTable
from jobs.runtime.planning import estimates
from jobs.runtime.selection.exclusions import TALLY, Exclusions
from jobs.store.counts import failure_lines
from jobs.store.files import locations
from jobs.store.runs.run_units import Amounts
from jobs.store.runs.table_run import TableRun, survey
from jobs.store.table_plan import TablePlan

TALLY_LINES = 10
FAILURE_LINES = 10
LONG_S = 60  # shortest run, or estimate of one, for which the two are compared


def plan_of(
    name: str,
    plan: TablePlan,
    uses: Sequence[Demand] = (),
    *,
    note: str = "",
    lines: Sequence[str] = (),
    estimator: Callable[[Amounts], estimates.Forecast] | None = None,
    overwrite: bool | None = None,
) -> Plan:
    """Return what would be read, written and used, what is left, then `lines` (plan=true).

    Writes no files.

    Args:
        estimator: estimates what is left; None for a job without Ray.
        overwrite: whether an existing table would be deleted; None: what the plan's configuration says, which also says
            whether one may be continued.

    Raises:
        InputError: the run would refuse the place or a key.
    """
    keys: Mapping[str, Any] = plan.config if overwrite is None else {"overwrite": overwrite}
    amounts = survey(plan, **{name: keys[name] for name in ("resume", "overwrite", "retry") if name in keys})
    rows = f", {quantity(amounts.rows, 'row')}" if amounts.rows else ""
    extra = f"; {note}" if note else ""
    estimated = estimator(amounts) if estimator else None
    details = [
        f"reads  {_units(amounts.units)}{rows}, {amounts.bytes / 1e6:,.1f} MB{extra}",
        f"done   {amounts.done:,} of {_units(amounts.units)}",
        *([str(plan.limit)] if plan.limit else ()),
        *([f"uses   {', '.join(map(str, uses))}"] if uses else ()),
        *(estimates.lines(estimated) if estimated else ()),
        *lines,
    ]
    head = f"{name}: would write table {plan.table} to {locations.absolute(plan.out)}"
    return Plan([head, *(f"  {line}" for line in details)], [PlannedTable(plan.out, amounts, estimated)])


def _units(count: int) -> str:
    return quantity(count, "unit")


def closed(
    name: str, run: TableRun, excluded: Exclusions | None = None, matched: Iterable[str] | None = None
) -> Manifest:
    """Close a run and return its manifest with its summary.

    Args:
        excluded: the list of exclusions; None if the job has none, or names it itself.
        matched: the marks of the list that match a picture; None: those in the manifest.
    """
    manifest = run.finish()
    if excluded is not None and matched is None:
        matched = manifest["counts"]["tallies"].get(TALLY, {})
    listed = exclusion_lines(excluded, matched or ()) if excluded is not None else []
    return Manifest(manifest, [*result_lines(name, manifest, run), *listed])


def result_lines(name: str, manifest: Mapping[str, Any], run: TableRun) -> list[str]:
    """Return the reconciliation: in = out + filtered + rejected; rows out = ok + each other status."""
    again = f", {run.done_before:,} done before" if run.done_before else ""
    lines = [f"{name}: {run.target.out}", reconciliation(manifest["counts"])]
    if run.plan.limit:
        lines.append(f"  {run.plan.limit}; the table has no more")
    lines.append(f"  {_units(len(run.units))}{again}, {manifest['seconds']:,.1f} s")
    expected, took = manifest.get("estimate"), manifest.get("actual")
    if took and (lost := took.get("lost_machines")):
        lines.append(f"  lost {quantity(len(lost), 'machine')}: {', '.join(lost)}")
    if expected and took and max(took["seconds"], expected["seconds"]["high"]) >= LONG_S:
        lines += [f"  {line}" for line in estimates.comparison_lines(expected, took)]
    return lines


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


def tally_lines(title: str, tally: Mapping[str, int]) -> list[str]:
    """Return a line with the most frequent entries of a tally; none if it is empty."""
    top = sorted(tally.items(), key=lambda entry: (-entry[1], entry[0]))
    more = f" (+{len(top) - TALLY_LINES:,} more)" if len(top) > TALLY_LINES else ""
    listed = ", ".join(f"{key} {n:,}" for key, n in top[:TALLY_LINES])
    return [f"  {title}: {listed}{more}"] if top else []


def exclusion_lines(excluded: Exclusions, matched: Iterable[str]) -> list[str]:
    """Return how many entries of the list match a picture; nothing without a list. `matched` has the matching marks."""
    line = excluded.summary(matched)
    return [f"  {line}"] if line else []
