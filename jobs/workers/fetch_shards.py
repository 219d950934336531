"""Pictures inside larger files: WebDataset tar shards, and Parquet with a column of bytes."""

import asyncio
import tarfile
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from tarfile import EOFHeaderError, HeaderError, ReadError  # type: ignore[attr-defined]
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from actors.fetching.decoders import Decoders
from actors.ids import content_id
from actors.pictures import PictureError
from actors.status import Status
from jobs.errors import InputError
from jobs.runtime import exclusions
from jobs.runtime.progress import Reporter
from jobs.sources import row_log
from jobs.sources.config import SourceConfig
from jobs.store import locations
from jobs.store.locations import Object
from jobs.store.units import WHOLE, Unit, unit_of_file
from jobs.store.writer import Reject, UnitTask, UnitWriter

SUFFIXES = ".jpg .jpeg .jpe .png .gif .webp .bmp .tif .tiff .avif .jp2 .ppm".split()
BYTES_COLUMNS = ("image", "bytes", "jpg", "png")
PARQUET_ROWS = 32  # read at a time
WRITE_BYTES = 16 << 20


@dataclass(frozen=True)
class ShardEntry:
    """A picture in a file: its name there, and its bytes or why there are none (status, error_kind, message)."""

    name: str
    data: bytes | None
    fault: tuple[Status, str, str] | None = None


@dataclass(frozen=True)
class Shards:
    """What a worker must know: `root` is taken off the names of files, so that a moved corpus keeps its ids."""

    kind: str
    root: str
    max_bytes: int
    bytes_column: str | None
    key_column: str | None


def tar_units(path: str) -> list[Unit]:
    """A unit a shard."""
    files = [o for o in locations.find(path) if ".tar" in PurePosixPath(o.uri).suffixes or o.uri.endswith(".tgz")]
    if not files:
        raise InputError(f"source.path={path}: no .tar file there")
    return [unit_of_file(file) for file in files]


def parquet_units(source: SourceConfig, path: str) -> list[Unit]:
    """A unit a row group.

    Raises:
        InputError: no Parquet, or no column of bytes; the sentence names the columns there are.
    """
    files = [o for o in locations.find(path) if o.uri.endswith((".parquet", ".parq"))]
    if not files:
        raise InputError(f"source.path={path}: no .parquet file there")
    return [unit for file in files for unit in _row_groups(source, file)]


def _row_groups(source: SourceConfig, file: Object) -> Iterator[Unit]:
    fs, path = locations.filesystem(file.uri)
    try:
        with fs.open_input_file(path) as stream:
            meta = pq.read_metadata(stream)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{file.uri}: not a readable Parquet file") from error
    schema = meta.schema.to_arrow_schema()
    bytes_column(schema, source.bytes_column, file.uri)
    if source.key_column is not None and source.key_column not in schema.names:
        raise InputError(f"source.key_column={source.key_column}: {file.uri} has {', '.join(schema.names)}")
    for group in range(meta.num_row_groups):
        yield unit_of_file(file, piece=f"row group {group}", rows=meta.row_group(group).num_rows)


def bytes_column(schema: pa.Schema, named: str | None, uri: str) -> str:
    """The column that holds the pictures: bytes, or a struct with a field `bytes`.

    Raises:
        InputError: there is none, or not one of that name and kind.
    """
    fitting = [field.name for field in schema if _holds_bytes(field.type)]
    chosen = named or next((name for name in BYTES_COLUMNS if name in fitting), None)
    if chosen is None and len(fitting) == 1:
        chosen = fitting[0]
    if chosen is None or chosen not in fitting:
        said = f"source.bytes_column={named}" if named else "source.bytes_column= is needed"
        there = f"{', '.join(fitting) or 'no column'} (of {', '.join(schema.names)})"
        raise InputError(f"{said}: {uri} has bytes in {there}")
    return chosen


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0 and _holds_bytes(kind.field("bytes").type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


class _Member(tarfile.TarInfo):
    """A member whose damaged header is an error: tarfile takes any but the first for the end of the archive."""

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            return super().fromtarfile(tarfile)
        except EOFHeaderError:  # the end as it should be
            raise
        except HeaderError as error:
            raise ReadError(f"{error} where a member or the end should be") from error


class ShardUnit:
    """Decodes the pictures of one shard or row group and writes their rows in the file's order."""

    def __init__(
        self, *, shards: Shards, rendition: str, width: int | None, processes: int | None, excluded: str | None
    ) -> None:
        self._shards, self._rendition = shards, rendition
        self._excluded = exclusions.kept(excluded)
        self._decoders = Decoders(width=width, processes=processes)
        self._loop = asyncio.Runner()

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        self._loop.run(self._write(task, writer, report))

    async def _write(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        uri = task.unit.inputs[0].uri
        entries = self._tar(uri, writer) if self._shards.kind == "webdataset" else self._parquet(uri, task.unit.piece)
        held: list[dict[str, Any]] = []
        size = 0
        async for row in self._rows(task.unit, entries):
            writer.counts.rows_in += 1
            report.add(1, errors=row["status"] == Status.ERROR)
            held.append(row)
            size += len(row.get("bytes") or b"")
            if size >= WRITE_BYTES or len(held) >= 1000:
                writer.write(pa.Table.from_pylist(held, schema=row_log.SCHEMA))
                held, size = [], 0
        if held:
            writer.write(pa.Table.from_pylist(held, schema=row_log.SCHEMA))
        exclusions.count(writer.counts, self._excluded.take_matched())

    async def _rows(self, unit: Unit, entries: Iterator[ShardEntry]) -> AsyncIterator[dict[str, Any]]:
        """In order, some at a time; reading goes on while children decode."""
        uri = unit.inputs[0].uri
        part = () if unit.piece == WHOLE else (unit.piece,)  # a name may be used again in another row group
        window: deque[asyncio.Task[dict[str, Any]]] = deque()
        seen: Counter[str] = Counter()
        root = self._shards.root
        inside = uri.removeprefix(root).lstrip("/") if uri != root else PurePosixPath(uri).name
        while (entry := await asyncio.to_thread(next, entries, None)) is not None:
            seen[entry.name] += 1
            again = (str(seen[entry.name]),) if seen[entry.name] > 1 else ()
            image_id = content_id(inside, *part, entry.name, *again)
            place = entry.name if self._shards.key_column else f"{uri}#{entry.name}"
            window.append(asyncio.create_task(self._row(image_id, place, entry)))
            if len(window) > 2 * self._decoders.processes:
                yield await window.popleft()
        while window:
            yield await window.popleft()

    async def _row(self, image_id: str, place: str, entry: ShardEntry) -> dict[str, Any]:
        row: dict[str, Any] = {"image_id": image_id, "rendition": self._rendition}
        row |= {"source_url": place, "final_url": place}
        if self._excluded.hit(image_id, place):
            fault = (Status.REPORTED, "excluded", "the picture is on the list of exclusions")
            return row | _failed(*fault) | {"attempts": 0}
        row |= {"attempts": 1}
        if entry.data is None:
            assert entry.fault is not None
            return row | _failed(*entry.fault)
        try:
            rendered = await self._decoders.decode(entry.data)
        except PictureError as error:
            return row | _failed(Status.ERROR, error.kind, str(error))
        data = entry.data if rendered.data is None else rendered.data
        return row | {"bytes": data, **rendered.facts._asdict(), "status": Status.OK.value}

    def _tar(self, uri: str, writer: UnitWriter) -> Iterator[ShardEntry]:
        fs, path = locations.filesystem(uri)
        position = 0
        with fs.open_input_stream(path, compression=None) as stream:
            try:
                with tarfile.open(fileobj=stream, mode="r|*", tarinfo=_Member) as tar:
                    for member in tar:
                        position = member.offset
                        if not member.isfile() or PurePosixPath(member.name).suffix.lower() not in SUFFIXES:
                            writer.counts.rows_in += 1
                            writer.counts.filtered["no_picture_by_name"] += 1
                            continue
                        yield self._member(tar, member)
            except (tarfile.TarError, EOFError, OSError) as error:
                writer.counts.rows_in += 1
                message = f"the archive is damaged or ends early ({error})"
                writer.reject(Reject(uri, position, "damaged_archive", message))

    def _member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> ShardEntry:
        if member.size > self._shards.max_bytes:
            return ShardEntry(member.name, None, self._too_large(member.size))
        file = tar.extractfile(member)
        data = file.read() if file else b""
        if len(data) < member.size:
            raise ReadError(f"{member.name} ends early")
        return ShardEntry(member.name, data)

    def _parquet(self, uri: str, piece: str) -> Iterator[ShardEntry]:
        group = int(piece.rsplit(" ", 1)[1])
        fs, path = locations.filesystem(uri)
        with fs.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
            column = bytes_column(file.schema_arrow, self._shards.bytes_column, uri)
            key = self._shards.key_column
            number = 0
            for batch in file.iter_batches(
                batch_size=PARQUET_ROWS, row_groups=[group], columns=[column, *([key] if key else [])]
            ):
                for row in batch.to_pylist():
                    name = str(row[key]) if key and row[key] is not None else f"{group}/{number}"
                    held = row[column]
                    data = held.get("bytes") if isinstance(held, dict) else held
                    number += 1
                    if data is None:
                        yield ShardEntry(name, None, (Status.MISSING, "no_bytes", "the row has no picture"))
                    elif len(data) > self._shards.max_bytes:
                        yield ShardEntry(name, None, self._too_large(len(data)))
                    else:
                        yield ShardEntry(name, data)

    def _too_large(self, size: int) -> tuple[Status, str, str]:
        return Status.ERROR, "too_many_bytes", f"{size} bytes, and {self._shards.max_bytes} are allowed"


def _failed(status: Status, kind: str, message: str) -> dict[str, str]:
    return {"status": status.value, "error_kind": kind, "error_message": message}
