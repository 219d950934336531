"""The interface between the sources of pictures and the command `fetch`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.store.reading import TableSource
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit


@dataclass(frozen=True, kw_only=True)
class SourcePlan:
    """The units of a source, and the function that fetches them.

    Attributes:
        units: work units of the table `images`.
        identity: settings of this source that the rows depend on, besides its name and `max_bytes`.
        note: a line of the printed plan.
        streamed: whether `fetch` uses `jobs.runtime.stages.stream`, which needs CPUs to read and write.
        fetch: fetches `run.todo`; its second argument is the URI of the list of exclusions, or None.
        records: the records whose pictures are fetched; None: all pictures of the source.
    """

    units: Sequence[Unit]
    identity: dict[str, Any]
    note: str
    streamed: bool
    fetch: Callable[[TableRun, str | None], None]
    records: TableSource | None = None
