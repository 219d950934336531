"""Writing the table of metrics of `report` and `analyze`, without overwriting files of other programs."""

from collections.abc import Iterable, Sequence
from typing import Any

from jobs.errors import InputError
from jobs.metrics.metric import Metric, metrics_table
from jobs.store.files import locations
from jobs.store.files.locations import Object
from jobs.store.runs.small_table import write_small


def refuse_foreign(out: str, *names: str) -> None:
    """Check that a folder with a file of one of these `names` is not another program's: it has a table of metrics.

    Raises:
        InputError: the folder has such a file but no table of metrics.
    """
    out = locations.absolute(out)
    present = [name for name in names if locations.exists(locations.join(out, name))]
    if present and not locations.exists(locations.join(out, "metrics", "_run", "identity.json")):
        raise InputError(f"out={out}: this job did not write its {present[0]}; choose another folder")


def write_metrics(
    out: str,
    metrics: Iterable[Metric],
    *,
    inputs: Sequence[Object],
    identity: dict[str, Any],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Write the table OUT/metrics, replacing an earlier one, and return its manifest with its location (`out`)."""
    return write_small(
        locations.join(locations.absolute(out), "metrics"),
        metrics_table(metrics),
        table="metrics",
        identity=identity,
        config=settings,
        inputs=tuple(inputs),
    )
