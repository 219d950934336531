"""Writing one unit: first its rejects, then its data, each in one step; the record is in the data's footer."""

import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors import schemas
from jobs import tables
from jobs.errors import RunError
from jobs.store import counts
from jobs.store.counts import Counts, ItemErrors, count_errors
from jobs.store.files import locations
from jobs.store.files.spool import Spool
from jobs.store.json_types import FOOTER_KEY, REPLACED, FooterJson, GenerationJson, ReplacedJson
from jobs.store.pages import PAGE_BYTES
from jobs.store.units import Unit

REJECTS_HELD = 5000  # rejects held in memory before they are spooled: those of a completely damaged file may not fit
RAW_KEPT = 200  # characters of a rejected row that are kept
ROW_GROUP_BYTES = 64 << 20  # about the memory that a reader of one row group needs
REJECTS = pa.schema([
    pa.field("file", pa.string(), metadata={"description": "the input file"}),
    pa.field("position", pa.int64(), metadata={"description": "byte of the (decompressed) file, or row"}),
    pa.field("reason", pa.string(), metadata={"description": "short machine-readable reason"}),
    pa.field("message", pa.string(), metadata={"description": "one sentence"}),
    pa.field("raw", pa.string(), metadata={"description": "the start of the rejected input"}),
])  # fmt: skip


@dataclass(frozen=True)
class Reject:
    """Something in the input that could not become a row."""

    file: str
    position: int
    reason: str
    message: str
    raw: str = ""


Rejects = Callable[[Reject], None]  # called with input that a reader could not turn into a row


def rejects_uri(table: str, unit: str, generation: int) -> str:
    """Return the file of the rejects of a unit's generation, in the table at `table`."""
    return locations.join(table, "_rejects", f"{unit}.{generation}.parquet")


@dataclass(frozen=True)
class Target:
    """Location and metadata of the units of one table; sent to the workers.

    Attributes:
        out: the folder or prefix of the table.
        table: its name in `jobs.tables`.
        metadata: strings for the schema of its objects.
        identity: hash of everything that its rows depend on.
        versions: versions of the code and packages.
        dim: length of its vectors, for a table of embeddings.
        max_error_share: the share of items failing because of the run above which the run stops; None: no limit.
    """

    out: str
    table: str
    metadata: dict[str, str]
    identity: str
    versions: dict[str, str]
    dim: int | None = None
    max_error_share: float | None = None

    def data_uri(self, unit: str) -> str:
        """Return the object of a unit."""
        return locations.join(self.out, f"{unit}.parquet")

    def rejects_uri(self, unit: str, generation: int) -> str:
        """Return the file of the rejects of a unit's generation."""
        return rejects_uri(self.out, unit, generation)

    def definition(self) -> tables.Table:
        """Return the table, with vectors of length `dim`."""
        return tables.table(self.table, dim=self.dim)


@dataclass(frozen=True)
class UnitTask:
    """The work to do on a unit.

    Attributes:
        generation: the unit's generation after this task; 0 for the first.
        retired: the earlier generations, which the new one replaces.
        retry: statuses whose rows are redone while the others are kept; empty: the whole unit is redone.
    """

    unit: Unit
    generation: int = 0
    retired: tuple[GenerationJson, ...] = ()
    retry: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Return the task as JSON text."""
        return json.dumps([self.unit.to_json(), self.generation, self.retired, self.retry])

    @staticmethod
    def from_json(text: str) -> "UnitTask":
        """Return the task from its JSON text."""
        unit, generation, retired, retry = json.loads(text)
        return UnitTask(Unit.from_json(unit), generation, tuple(retired), tuple(retry))


class UnitWriter:
    """A context manager that writes one unit: `write` tables and `reject` input; the end of the block publishes both.

    Nothing is visible unless the block ends without an exception. Rows are spooled to a local temporary file, so that
    memory does not grow with the unit.
    """

    def __init__(self, target: Target, task: UnitTask, *, replaced: ReplacedJson | None = None) -> None:
        """Prepare to write the unit.

        Args:
            replaced: the object of the unit that a purge replaces, for the footer.
        """
        self.counts = Counts()
        self.errors = ItemErrors()
        self._target, self._task, self._replaced = target, task, replaced
        self._definition = target.definition()
        self._schema = self._definition.schema(**target.metadata)
        self._rejects: list[Reject] = []
        self._rejects_writer: pq.ParquetWriter | None = None
        self._begun = time.time()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self._folder = stack.enter_context(Spool())
            self._spool = self._folder.path / "data.parquet"
            self._rejects_spool = self._folder.path / "rejects.parquet"
            self._writer = pq.ParquetWriter(
                self._spool,
                self._schema,
                compression=compressions(self._schema),
                use_dictionary=_dictionaries(self._schema),
                write_page_checksum=True,
                **_paged(self._schema),
            )
            stack.pop_all()
        return self

    def write(self, batch: pa.Table) -> None:
        """Cast, check and append rows.

        Raises:
            jobs.tables.TableError: the batch does not fit the table's schema.
        """
        rows = tables.conform(batch, self._definition)
        self.counts.rows_out += rows.num_rows
        if not rows.num_rows:
            return
        if "status" in self._definition.columns:
            for entry in pc.value_counts(rows["status"]).to_pylist():
                self.counts.status[entry["values"]] += entry["counts"]
            counts.add_failures(self.counts.failures, counts.failures_of(rows))
            self.errors += count_errors(rows)
        rows_per_group = max(1, int(rows.num_rows * ROW_GROUP_BYTES / max(rows.nbytes, ROW_GROUP_BYTES)))
        self._writer.write_table(rows, row_group_size=rows_per_group)

    def reject(self, reject: Reject) -> None:
        """Store input that could not become a row, and count it under its reason."""
        self.counts.rejected[reject.reason] += 1
        self._rejects.append(reject)
        if len(self._rejects) >= REJECTS_HELD:
            self._spool_rejects()

    def _spool_rejects(self) -> None:
        if self._rejects_writer is None:
            self._rejects_writer = pq.ParquetWriter(
                self._rejects_spool, REJECTS, compression="zstd", write_page_checksum=True
            )
        self._rejects_writer.write_table(schemas.to_table([asdict(reject) for reject in self._rejects], REJECTS))
        self._rejects.clear()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._folder.add_place(error)
        with self._folder:
            try:
                if kind is None:
                    self._publish()
                else:
                    self._writer.close()
            finally:
                if self._rejects_writer is not None:
                    self._rejects_writer.close()

    def _publish(self) -> None:
        if not self.counts.balances():
            raise RunError(f"unit {self._task.unit.name} does not balance: {self.counts}")
        footer: FooterJson = {
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
        record = {**footer, REPLACED: self._replaced} if self._replaced else footer
        self._writer.add_key_value_metadata({FOOTER_KEY.decode(): json.dumps(record)})
        self._writer.close()
        name = self._task.unit.name
        if self._rejects:
            self._spool_rejects()
        if self._rejects_writer is not None:
            self._rejects_writer.close()
            locations.publish(self._rejects_spool, self._target.rejects_uri(name, self._task.generation))
        locations.publish(self._spool, self._target.data_uri(name))


def compressions(schema: pa.Schema) -> str | dict[str, str]:
    """Return the codec of the data, by column in a table of pictures: JPEG, PNG and WebP do not shrink any further."""
    if not any(_is_picture(field) for field in schema):
        return "zstd"
    return {field.name: "none" if _is_picture(field) else "zstd" for field in schema}


def _is_picture(field: pa.Field) -> bool:
    return bool(pa.types.is_large_binary(field.type))


def _dictionaries(schema: pa.Schema) -> list[str] | bool:
    """Return the columns to write as dictionaries: all (True), or in a table with vectors or pictures only the strings.

    The numbers of vectors do not repeat (as a dictionary they are read five times more slowly), and neither do
    pictures.
    """
    if any(pa.types.is_fixed_size_list(field.type) or _is_picture(field) for field in schema):
        return [field.name for field in schema if pa.types.is_string(field.type)]
    return True


def _paged(schema: pa.Schema) -> dict[str, Any]:
    """Return the options that write each picture as a page, with an index of pages (`jobs.store.pages`)."""
    if not any(_is_picture(field) for field in schema):
        return {}
    return {"data_page_size": PAGE_BYTES, "write_batch_size": 1, "write_page_index": True}
