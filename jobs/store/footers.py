"""Footers of data objects: their rows, their schema, and the record that `jobs.store.writer` stores there."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, tee
from typing import overload

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.errors import at
from jobs.store.counts import Counts
from jobs.store.files import faults, locations, whole
from jobs.store.files.objects import CompactList, Object
from jobs.store.files.s3 import CONNECTIONS
from jobs.store.files.threads import ahead, in_threads
from jobs.store.files.whole import repeated
from jobs.store.json_types import FOOTER_KEY, REPLACED, FooterJson, ReplacedJson, fits
from jobs.store.units import Unit, unit_of_file

# On S3, reading a footer is mostly latency: at 30 ms each, 16 threads take five minutes for 147,000 footers. Each
# thread costs a megabyte of heap. On a local disk threads do not help; reading ahead there took 2 MB more for 10,000
# objects.
THREADS_S3, THREADS_LOCAL = CONNECTIONS, 2
_MAGIC, _END_BYTES = b"PAR1", 8  # of a Parquet file, which ends with the length of its footer and the magic
_Compact = tuple[Object, int, int, bytes | None]  # a Footer, with the index of its schema


@dataclass(frozen=True, slots=True)
class Footer:
    """The footer of a data object.

    Attributes:
        written: the record as JSON; None in a file that remine did not write.
    """

    object: Object
    rows: int
    schema: pa.Schema
    written: bytes | None

    @property
    def record(self) -> FooterJson | None:
        """The record of the unit; None in a file that remine did not write."""
        if not self.written:
            return None
        record: FooterJson = json.loads(self.written)
        return record

    @property
    def replaced(self) -> ReplacedJson | None:
        """The object that a purge replaced by this one; None if no purge wrote it."""
        return json.loads(self.written).get(REPLACED) if self.written else None

    @property
    def counts(self) -> Counts:
        """The counts of the record; without a record, only the number of rows."""
        record = self.record
        return Counts.from_json(record["counts"]) if record else Counts(self.rows, self.rows)

    @property
    def dim(self) -> int | None:
        """The length of the vectors; None in a table without vectors."""
        types = (field.type for field in self.schema)
        return next((kind.list_size for kind in types if pa.types.is_fixed_size_list(kind)), None)

    @property
    def unit(self) -> Unit:
        """The unit of the record; without a record, that of the file."""
        record = self.record
        return Unit.from_json(record["unit"]) if record else unit_of_file(self.object, rows=self.rows)


def data_objects(folder: str, listed: Iterable[Object]) -> Iterator[Object]:
    """Yield the Parquet objects of the table at `folder`, without those below names that begin with `_` or `.`."""
    base = locations.absolute(folder)
    for file in listed:
        parts = file.uri.removeprefix(base).strip("/").split("/")
        if file.uri.endswith(".parquet") and not any(part[:1] in "_." for part in parts):
            yield file


def read_footer(source: Object) -> Footer | None:
    """Return the footer of `source`; None if the file does not exist, is not Parquet, or is damaged.

    A footer is also damaged if its metadata is not text, or if the record has unexpected keys or types.
    """
    return _checked(source, _read(source))


def read_footers(objects: Iterable[Object], *, remote: bool, compared: bool = False) -> Iterator[Footer | None]:
    """Yield the result of `read_footer` for each object, in order.

    Args:
        remote: the objects are on S3.
        compared: read each twice, with four requests instead of one, until two reads agree.
    """
    # The threads only read: parsed objects would stay in the heap of each thread.
    listed, sources = tee(objects)
    if remote:
        footers = ahead(_read_again if compared else _read, sources, threads=THREADS_S3, weight=lambda _: 0, most=0)
    else:
        footers = in_threads(_read, sources, THREADS_LOCAL)
    for source, footer in zip(listed, footers, strict=True):
        yield _checked(source, footer)


def _checked(source: Object, footer: Footer | None) -> Footer | None:
    """Return the footer if it is sound; otherwise, on S3, as another client reads it: its unit would be lost."""
    if footer is not None and _is_sound(footer):
        return footer
    footer = _read_again(source) if locations.is_s3(source.uri) else None
    return footer if footer is not None and _is_sound(footer) else None


def _read_again(source: Object) -> Footer | None:
    try:
        with at(source.uri):
            end = whole.end_of(source.uri, min(_END_BYTES, source.size))
            size = int.from_bytes(end[:4], "little") + _END_BYTES
            if end[4:] != _MAGIC or size > source.size:
                return None
            footer = whole.end_of(source.uri, size)
        return _footer(source, pq.read_metadata(pa.BufferReader(_MAGIC + footer)))
    except FileNotFoundError:
        return None
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if faults.is_damage(error):
            return None
        raise


def _read(source: Object) -> Footer | None:
    """Return the same as `read_footer`, with an unchecked record."""
    if locations.is_s3(source.uri) and (footer := _read_at_once(source)) is not None:
        return footer
    fs, path = locations.filesystem(source.uri)
    try:
        with at(source.uri), fs.open_input_file(path) as stream:
            return _footer(source, repeated(source.uri, partial(pq.read_metadata, stream), also_damage=True))
    except FileNotFoundError:
        return None
    except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
        if faults.is_damage(error):
            return None
        raise


def _read_at_once(source: Object) -> Footer | None:
    """Return the footer, read with one request of the listed size; None if that fails for any reason."""
    from pyarrow.dataset import ParquetFileFormat

    fs, path = locations.filesystem(source.uri)
    try:
        parquet = ParquetFileFormat().make_fragment(path, fs, file_size=source.size).metadata
        return _footer(source, parquet)
    except (pa.ArrowException, UnicodeDecodeError, OSError):
        return None


def _footer(source: Object, parquet: pq.FileMetaData) -> Footer:
    return Footer(source, parquet.num_rows, parquet.schema.to_arrow_schema(), (parquet.metadata or {}).get(FOOTER_KEY))


def _is_sound(footer: Footer) -> bool:
    try:
        for entry in (footer.schema.metadata or {}).items():
            b"".join(entry).decode()
        return not footer.written or fits(json.loads(footer.written), FooterJson)
    except (ValueError, RecursionError):
        return False


class Footers(Sequence[Footer]):
    """The footers of a table as a compact list, in which equal schemas are one object."""

    def __init__(self, footers: Iterable[Footer]) -> None:
        self.schemas: list[pa.Schema] = []
        self._compact: CompactList[_Compact] = CompactList(
            (footer.object, footer.rows, self._schema_index(footer.schema), footer.written) for footer in footers
        )

    def _schema_index(self, schema: pa.Schema) -> int:
        """Return the index in `schemas` of the schema that equals `schema`, metadata included."""
        for index, other in enumerate(self.schemas):
            if other is schema or other.equals(schema, check_metadata=True):
                return index
        self.schemas.append(schema)
        return len(self.schemas) - 1

    def _footer(self, compact: _Compact) -> Footer:
        source, rows, index, written = compact
        return Footer(source, rows, self.schemas[index], written)

    def __len__(self) -> int:
        return len(self._compact)

    def __iter__(self) -> Iterator[Footer]:
        return map(self._footer, self._compact)

    @overload
    def __getitem__(self, index: int) -> Footer: ...
    @overload
    def __getitem__(self, index: slice) -> list[Footer]: ...
    def __getitem__(self, index: int | slice) -> Footer | list[Footer]:
        if isinstance(index, slice):
            return [self._footer(compact) for compact in self._compact[index]]
        return self._footer(self._compact[index])

    def by_unit(self) -> "Footers":
        """Return the footers in order of unit name; that of object names differs only if a name has a dot."""
        names = (footer.unit.name for footer in self)
        if all(one <= other for one, other in pairwise(names)):
            return self
        return Footers(sorted(self, key=lambda footer: footer.unit.name))
