"""A run in which every row that was worked on is an error has failed, whatever its size and the kinds of its errors."""

from collections.abc import Mapping
from typing import Any

from actors.status import Status
from jobs.errors import RunError

UNASKED = {Status.MISSING_INPUT, Status.SKIPPED, Status.REPORTED}  # statuses of rows that no stage worked on
KINDS_NAMED = 3


def check_outcome(returned: object) -> None:
    """Check what a job returned: its manifest, or its manifests by table; anything else passes.

    Raises:
        RunError: all rows of a table that were worked on have the status `error`.
    """
    if not isinstance(returned, Mapping):
        return
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
