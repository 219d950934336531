"""Writing one unit: rejects first, data last, both whole; what happened in the data object's footer."""

import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs import tables
from jobs.errors import RunError
from jobs.store import failures, locations
from jobs.store.failures import Failures
from jobs.store.spool import Spool
from jobs.store.units import UNIT_JSON, Unit

FOOTER_KEY = b"remine.unit"
COUNTS_JSON = {
    "rows_in": int,
    "rows_out": int,
    "filtered": {str: int},
    "rejected": {str: int},
    "status": {str: int},
    "tallies": {str: {str: int}},
    "failures": {str: {"rows": int, "where": str, "message": str}},
}
_GENERATION_JSON = {
    "version": str,
    "generation": int,
    "counts": COUNTS_JSON,
    "begun": (int, float),
    "seconds": (int, float),
}
FOOTER_JSON = {  # what is kept under FOOTER_KEY
    **_GENERATION_JSON,
    "unit": UNIT_JSON,
    "retired": [_GENERATION_JSON],
    "identity": str,
    "versions": {str: str},
}
REJECTS_HELD = 5000  # before they are spooled: a file of nothing but damage must not fill the memory
RAW_KEPT = 200  # characters of a rejected row that are kept
ROW_GROUP_BYTES = 64 << 20  # a reader of one row group needs about this much memory
REJECTS = pa.schema([
    pa.field("file", pa.string(), metadata={"description": "the input file"}),
    pa.field("position", pa.int64(), metadata={"description": "byte of the (decompressed) file, or row"}),
    pa.field("reason", pa.string(), metadata={"description": "short machine-readable reason"}),
    pa.field("message", pa.string(), metadata={"description": "one sentence"}),
    pa.field("raw", pa.string(), metadata={"description": "the start of what was refused"}),
])  # fmt: skip


@dataclass(frozen=True)
class Reject:
    """Something in the input that could not become a row."""

    file: str
    position: int
    reason: str
    message: str
    raw: str = ""


Rejects = Callable[[Reject], None]  # takes what a reader could not make a row of


def rejects_uri(table: str, unit: str, generation: int) -> str:
    """Where the table at `table` keeps the rejects of a unit's generation, if it has any."""
    return locations.join(table, "_rejects", f"{unit}.{generation}.parquet")


@dataclass
class Counts:
    """What became of a unit's rows. `rows_in` = `rows_out` + filtered + rejected, or the run does not balance."""

    rows_in: int = 0
    rows_out: int = 0
    filtered: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    status: Counter[str] = field(default_factory=Counter)
    tallies: dict[str, dict[str, int]] = field(default_factory=dict)  # other counts worth keeping, by name
    failures: Failures = field(default_factory=dict)  # rows that are not ok, by status and kind, with an example

    def balances(self) -> bool:
        """Whether every row that went in is accounted for, and every row out has a status if it should."""
        through = self.rows_out + self.filtered.total() + self.rejected.total()
        return self.rows_in == through and (not self.status or self.status.total() == self.rows_out)

    def __iadd__(self, other: "Counts") -> Self:
        self.rows_in += other.rows_in
        self.rows_out += other.rows_out
        self.filtered += other.filtered
        self.rejected += other.rejected
        self.status += other.status
        for name, tally in other.tallies.items():
            mine = self.tallies.setdefault(name, {})
            for key, n in tally.items():
                mine[key] = mine.get(key, 0) + n
        failures.add(self.failures, other.failures)
        return self

    def to_json(self) -> dict[str, Any]:
        return {
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "filtered": dict(self.filtered),
            "rejected": dict(self.rejected),
            "status": dict(self.status),
            "tallies": self.tallies,
            "failures": failures.to_json(self.failures),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> "Counts":
        counters = {name: Counter(data[name]) for name in ("filtered", "rejected", "status")}
        failed = failures.from_json(data["failures"])
        return Counts(data["rows_in"], data["rows_out"], **counters, tallies=data["tallies"], failures=failed)


@dataclass(frozen=True)
class Target:
    """Where and how units of one table are written; travels to the workers."""

    out: str
    table: str
    metadata: dict[str, str]
    identity: str
    versions: dict[str, str]
    dim: int | None = None

    def data_uri(self, unit: str) -> str:
        return locations.join(self.out, f"{unit}.parquet")

    def rejects_uri(self, unit: str, generation: int) -> str:
        return rejects_uri(self.out, unit, generation)

    def definition(self) -> tables.Table:
        return tables.table(self.table, dim=self.dim)


@dataclass(frozen=True)
class UnitTask:
    """A unit to be done: which generation it becomes, what it replaces, and which statuses are redone.

    With `retry` empty the whole unit is done; otherwise only rows of those statuses, the others are kept.
    """

    unit: Unit
    generation: int = 0
    retired: tuple[dict[str, Any], ...] = ()
    retry: tuple[str, ...] = ()

    def to_json(self) -> str:
        return json.dumps([self.unit.to_json(), self.generation, self.retired, self.retry])

    @staticmethod
    def from_json(text: str) -> "UnitTask":
        unit, generation, retired, retry = json.loads(text)
        return UnitTask(Unit.from_json(unit), generation, tuple(retired), tuple(retry))


class UnitWriter:
    """Writes one unit as it comes: `write` tables, `reject` rows, leave the `with` block to publish.

    Nothing is visible until the block ends without an exception. Rows are spooled to a local temporary file,
    so memory does not grow with the unit.
    """

    def __init__(self, target: Target, task: UnitTask) -> None:
        self.counts = Counts()
        self._target, self._task = target, task
        self._definition = target.definition()
        self._schema = self._definition.schema(**target.metadata)
        self._rejects: list[Reject] = []
        self._rejects_writer: pq.ParquetWriter | None = None
        self._begun = time.time()

    def __enter__(self) -> Self:
        self._folder = Spool()
        self._spool = self._folder.path / "data.parquet"
        self._rejects_spool = self._folder.path / "rejects.parquet"
        self._writer = pq.ParquetWriter(
            self._spool, self._schema, compression="zstd", use_dictionary=_dictionaries(self._schema)
        )
        return self

    def write(self, batch: pa.Table) -> None:
        """Cast, check and append rows.

        Raises:
            jobs.tables.TableError: the batch is not what the table's schema says.
        """
        made = tables.conform(batch, self._definition, metadata=self._target.metadata)
        self.counts.rows_out += made.num_rows
        if "status" in self._definition.columns and made.num_rows:
            for entry in pc.value_counts(made["status"]).to_pylist():
                self.counts.status[entry["values"]] += entry["counts"]
            failures.add(self.counts.failures, failures.failures_of(made))
        if made.num_rows:
            rows = max(1, int(made.num_rows * ROW_GROUP_BYTES / max(made.nbytes, ROW_GROUP_BYTES)))
            self._writer.write_table(made, row_group_size=rows)

    def reject(self, reject: Reject) -> None:
        """Keep what could not become a row; counted under its reason."""
        self.counts.rejected[reject.reason] += 1
        self._rejects.append(reject)
        if len(self._rejects) >= REJECTS_HELD:
            self._spool_rejects()

    def _spool_rejects(self) -> None:
        if self._rejects_writer is None:
            self._rejects_writer = pq.ParquetWriter(self._rejects_spool, REJECTS, compression="zstd")
        self._rejects_writer.write_table(pa.Table.from_pylist([asdict(r) for r in self._rejects], schema=REJECTS))
        self._rejects.clear()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if kind is None:
                self._publish()
            else:
                self._writer.close()
        finally:
            if self._rejects_writer is not None:
                self._rejects_writer.close()
            self._folder.cleanup()

    def _publish(self) -> None:
        if not self.counts.balances():
            raise RunError(f"unit {self._task.unit.name} does not balance: {self.counts}")
        footer = {
            "unit": self._task.unit.to_json(),
            "version": self._task.unit.version,
            "generation": self._task.generation,
            "retired": list(self._task.retired),
            "counts": self.counts.to_json(),
            "identity": self._target.identity,
            "versions": self._target.versions,
            "begun": self._begun,
            "seconds": round(time.time() - self._begun, 3),
        }
        self._writer.add_key_value_metadata({FOOTER_KEY.decode(): json.dumps(footer)})
        self._writer.close()
        name = self._task.unit.name
        if self._rejects:
            self._spool_rejects()
        if self._rejects_writer is not None:
            self._rejects_writer.close()
            locations.publish(self._rejects_spool, self._target.rejects_uri(name, self._task.generation))
        locations.publish(self._spool, self._target.data_uri(name))


def _dictionaries(schema: pa.Schema) -> list[str] | bool:
    """The columns that are written as dictionaries: all, but beside vectors and pictures the strings alone.

    Numbers of vectors do not repeat (as a dictionary they are read five times slower), and pictures do not either.
    """
    if any(pa.types.is_fixed_size_list(field.type) or pa.types.is_large_binary(field.type) for field in schema):
        return [field.name for field in schema if pa.types.is_string(field.type)]
    return True
