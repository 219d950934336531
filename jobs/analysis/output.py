"""Write the table of metrics of `report` and `analyze`, in a folder that holds nothing of others."""

from collections.abc import Iterable, Sequence
from typing import Any

from jobs.errors import InputError
from jobs.metrics.metric import Metric, metrics_table
from jobs.store import locations
from jobs.store.locations import Object
from jobs.store.single_unit import write_small


def refuse_foreign(out: str, *names: str) -> None:
    """Refuse a folder that holds files of these `names` but no table of metrics: another program wrote them.

    Raises:
        InputError: naming the first such file.
    """
    out = locations.absolute(out)
    present = [name for name in names if locations.exists(locations.join(out, name))]
    if present and not locations.exists(locations.join(out, "metrics", "_run", "identity.json")):
        raise InputError(f"out={out}: has a file {present[0]} that this job did not write; choose another folder")


def write_metrics(
    out: str,
    metrics: Iterable[Metric],
    *,
    inputs: Sequence[Object],
    identity: dict[str, Any],
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Write the table OUT/metrics, replacing an earlier one; return its manifest and location."""
    return write_small(
        locations.join(locations.absolute(out), "metrics"),
        metrics_table(metrics),
        table="metrics",
        identity=identity,
        config=settings,
        inputs=tuple(inputs),
    )
