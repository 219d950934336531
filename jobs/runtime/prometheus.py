"""Metrics for Prometheus, which Ray exports from each node: rows, errors, pictures, tokens, device times, queues.

Ray prefixes each name with `ray_` and adds `_total` to counters. `deploy/grafana/remine.json` displays the metrics, and
docs/cluster.md explains how to collect them.
"""

import functools
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs.store.counts import Counts

JOB = "remine_job"  # a label; Prometheus gives `job` another meaning
RUN = "run"  # in place of a stage
UNKNOWN = "unknown"  # kind of an error without a kind
SECONDS = (0.1, 0.5, 1, 5, 15, 60, 300, 1800, 7200)  # boundaries of the histogram of units
_PICTURES = ("bytes", "pixels", "pictures")  # columns whose values are pictures, or lists of them


@dataclass(frozen=True)
class Exported:
    """A metric: its kind in `ray.util.metrics`, what it counts, and its labels besides job and stage."""

    kind: str
    description: str
    labels: tuple[str, ...] = ()


METRICS = {
    "remine_rows": Exported("Counter", "Rows that a stage has returned, by status.", ("status",)),
    "remine_errors": Exported("Counter", "Rows of status error that a stage has returned, by kind.", ("kind",)),
    "remine_pictures": Exported("Counter", "Pictures that a stage has read."),
    "remine_tokens": Exported("Counter", "Tokens that a model has written, or that have passed through it."),
    "remine_actor_seconds": Exported("Counter", "Time of actors since their first batch, with the wait for data."),
    "remine_device_seconds": Exported("Counter", "Time during which actors worked, of models that of their device."),
    "remine_unit_seconds": Exported("Histogram", "Time from reading a unit to writing it."),
    "remine_queued": Exported("Gauge", "Rows, or MB of input, that a stage has not done yet."),
    "remine_spent": Exported("Gauge", "Price of the machines of a run so far, at most, in the currency of its prices."),
    "remine_budget_share": Exported("Gauge", "Share of budget= that a run has spent."),
    "remine_machines": Exported("Gauge", "Machines of the cluster that are up."),
    "remine_idle_gpus": Exported("Gauge", "GPUs of the cluster that no actor holds."),
}


class JobMetrics:
    """Updates the metrics of a stage of a job; without a job's name nothing is exported.

    Args:
        job: the job, as in progress lines.
        stage: the key of its pool; `RUN` for the whole run.
    """

    def __init__(self, job: str, stage: str) -> None:
        self._job, self._stage = job, stage
        self._last_end: float | None = None

    def count(self, name: str, value: float, **labels: str) -> None:
        """Add `value` to a counter."""
        if self._job and value > 0:
            _exported(name).inc(value, tags=self._tags(labels))

    def observe(self, name: str, value: float) -> None:
        """Add a value to a histogram."""
        if self._job:
            _exported(name).observe(max(value, 0.0), tags=self._tags({}))

    def gauge(self, name: str, value: float) -> None:
        """Set a gauge."""
        if self._job:
            _exported(name).set(value, tags=self._tags({}))

    def add_batch(self, batch: pa.Table, output: pa.Table, tally: Mapping[str, int], *, seconds: float) -> None:
        """Count a batch that was processed in the last `seconds`.

        Args:
            tally: what the actor's `take_tally` returned.
        """
        if not self._job:
            return
        self.count_rows(output)
        self.count("remine_pictures", _pictures(batch))
        self.count("remine_tokens", tally.get("tokens/passed", 0))
        # An actor that measures its device does other work too, such as reading prompts, which is counted as well.
        busy = tally.get("milliseconds/device")
        self._count_time(seconds, of_device=seconds if busy is None else busy / 1000)

    def _count_time(self, seconds: float, *, of_device: float) -> None:
        """Count the time since the actor's previous work ended; for its first work, the last `seconds`."""
        now = time.perf_counter()
        whole = seconds if self._last_end is None else now - self._last_end
        self._last_end = now
        self.count("remine_device_seconds", min(of_device, whole))
        self.count("remine_actor_seconds", whole)

    def count_rows(self, rows: pa.Table) -> None:
        """Count rows by status, and errors by kind."""
        if "status" not in rows.column_names:
            self.count("remine_rows", rows.num_rows, status=Status.OK.value)
            return
        for entry in pc.value_counts(rows["status"]).to_pylist():
            self.count("remine_rows", entry["counts"], status=str(entry["values"]))
        if "error_kind" in rows.column_names:
            failed = rows.filter(pc.equal(rows["status"], Status.ERROR.value))
            for entry in pc.value_counts(failed["error_kind"]).to_pylist():
                self.count("remine_errors", entry["counts"], kind=str(entry["values"] or UNKNOWN))

    def add_unit(self, counts: Counts, *, seconds: float) -> None:
        """Count a unit that an actor has read, processed and written in the last `seconds`."""
        if not self._job:
            return
        self.observe("remine_unit_seconds", seconds)
        self._count_time(seconds, of_device=seconds)
        for status, rows in (counts.status or {Status.OK.value: counts.rows_out}).items():
            self.count("remine_rows", rows, status=status)
        for kind, rows in counts.rejected.items():
            self.count("remine_errors", rows, kind=kind)
        for name, failure in counts.failures.items():
            status, _, kind = name.partition("/")
            if status == Status.ERROR:
                self.count("remine_errors", failure.rows, kind=kind or UNKNOWN)

    def _tags(self, labels: Mapping[str, str]) -> dict[str, str]:
        return {JOB: self._job, "stage": self._stage, **labels}


@functools.cache
def _exported(name: str) -> Any:
    """Return the metric of this process."""
    from ray.util import metrics

    entry = METRICS[name]
    more = {"boundaries": list(SECONDS)} if entry.kind == "Histogram" else {}
    kind: Any = getattr(metrics, entry.kind)
    return kind(name, description=entry.description, tag_keys=(JOB, "stage", *entry.labels), **more)


def _pictures(batch: pa.Table) -> int:
    column = next((name for name in _PICTURES if name in batch.column_names), None)
    if column is None:
        return 0
    values = batch[column]
    if pa.types.is_list(values.type):
        return pc.sum(pc.list_value_length(values)).as_py() or 0
    return len(values) - values.null_count
