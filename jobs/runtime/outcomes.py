"""What a job returns: the plan of what it would do, or the manifest of what it did, with the lines about it.

Jobs print only progress. Whoever calls a job prints what it returned (`show`) and checks it (`check_outcome`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from actors.status import Status
from jobs.errors import InputError, RunError
from jobs.runtime.process.console import say

if TYPE_CHECKING:
    from jobs.runtime.planning.estimates import Forecast
    from jobs.store.runs.run_units import Amounts

UNASKED = {Status.MISSING_INPUT, Status.SKIPPED, Status.REPORTED}  # statuses of rows that no stage worked on
KINDS_NAMED = 3


class WarningLine(str):
    """A line for standard error."""

    __slots__ = ()


@dataclass(frozen=True)
class PlannedTable:
    """The amounts of work of a table, and the time and money that it is expected to take."""

    out: str
    amounts: "Amounts"
    estimated: "Forecast | None"  # None for a job without Ray


@dataclass(frozen=True)
class Plan:
    """What a job would do.

    Attributes:
        refusal: why the run would be refused; None if it would not, as far as that is known.
    """

    lines: Sequence[str]
    planned: Sequence[PlannedTable] = ()
    refusal: InputError | None = None

    def __add__(self, other: "Plan") -> "Plan":
        """Return both plans as one."""
        lines, planned = [*self.lines, *other.lines], (*self.planned, *other.planned)
        return Plan(lines, planned, self.refusal or other.refusal)


class Manifest(dict[str, Any]):
    """The manifest of the table that a job wrote, or its manifests by table.

    Attributes:
        lines: what is printed about it.
        planned: with plan=calibrate, what is left to do.
        fault: why the run has failed although its rows were written; None if it has not.
    """

    def __init__(
        self,
        content: Mapping[str, Any],
        lines: Iterable[str] = (),
        *,
        planned: Sequence[PlannedTable] = (),
        fault: RunError | None = None,
    ) -> None:
        super().__init__(content)
        self.lines = list(lines)
        self.planned = planned
        self.fault = fault


def show(returned: object) -> None:
    """Print the lines of a plan or a manifest; nothing for what other jobs return."""
    for line in returned.lines if isinstance(returned, Plan | Manifest) else ():
        say(line, err=isinstance(line, WarningLine))


def check_outcome(returned: object) -> None:
    """Check what a job returned: its manifest, or its manifests by table; anything else passes.

    A run in which every row that was worked on is an error has failed, whatever its size and the kinds of its errors.

    Raises:
        InputError: the run of a plan would be refused.
        RunError: all rows of a table that were worked on have the status `error`, or the manifest has a fault.
    """
    if isinstance(returned, Plan) and returned.refusal is not None:
        raise returned.refusal
    if not isinstance(returned, Mapping):
        return
    if isinstance(returned, Manifest) and returned.fault:
        raise returned.fault
    for manifest in (returned, *returned.values()):
        if isinstance(manifest, Mapping) and isinstance(counts := manifest.get("counts"), Mapping):
            _check_counts(counts)


def _check_counts(counts: Mapping[str, Any]) -> None:
    by_status = {status: rows for status, rows in (counts.get("status") or {}).items() if rows}
    errors = by_status.get(Status.ERROR, 0)
    if not errors or by_status.keys() - UNASKED - {Status.ERROR}:
        return
    from jobs.store.counts import failure_lines

    of_errors = {name: entry for name, entry in counts["failures"].items() if name.startswith(f"{Status.ERROR}/")}
    examples = "; ".join(failure_lines(of_errors, most=KINDS_NAMED))
    raise RunError(
        f"every row that was worked on failed ({examples or f'{errors:,} error'}); what is written is kept; correct "
        "the cause and run the same command again with retry=[error]"
    )
