"""What a job is going to write: the table, its units and its identity."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.store.limits import Taken
from jobs.store.units import Unit


@dataclass(frozen=True)
class TablePlan:
    """A table to write.

    Attributes:
        out: the folder or prefix to write to.
        table: its name in `jobs.tables`.
        identity: everything that changes the rows, and nothing else, as JSON values.
        units: the units to write.
        config: the job's configuration, for the manifest.
        metadata: strings for the schema of its objects.
        derived: the units are those of a parent table, and a changed input becomes a new generation of its unit. If
            False, changed inputs are refused.
        dim: length of the vectors, for a table of embeddings.
        models: names and revisions of models, for the manifest.
        files: additional files of `_run/`, written when the run is first opened.
        limit: how many rows `limit=` takes; None without a limit (`jobs.store.limits.limited`).
    """

    out: str
    table: str
    identity: dict[str, Any]
    units: Sequence[Unit]
    config: dict[str, Any]
    metadata: dict[str, str]
    derived: bool
    dim: int | None = None
    models: dict[str, str] | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    limit: Taken | None = None
