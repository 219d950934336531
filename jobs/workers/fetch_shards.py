"""Pictures inside larger files: WebDataset tar shards, and Parquet files with a column of bytes."""

import asyncio
import bz2
import gzip
import lzma
import tarfile
import zlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath
from tarfile import EmptyHeaderError, EOFHeaderError, HeaderError, ReadError  # type: ignore[attr-defined]
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from actors.errors import first_line
from actors.fetching import image_rows
from actors.fetching.decoders import Decoders, close_when_dropped
from actors.ids import content_id
from actors.pictures import PictureError
from actors.schemas import ImageRow
from actors.status import Status
from actors.untrusted import cell_text
from jobs.errors import InputError
from jobs.runtime.board import Reporter
from jobs.runtime.selection import exclusions
from jobs.store.files import faults, locations, read_ahead
from jobs.store.units import WHOLE, Unit
from jobs.store.writer import Reject, UnitTask, UnitWriter
from jobs.workers.fetch_urls import ImageWriter

SUFFIXES = ".jpg .jpeg .jpe .png .gif .webp .bmp .tif .tiff .avif .jp2 .ppm".split()
BYTES_COLUMNS = ("image", "bytes", "jpg", "png")
READ_BYTES = 1 << 20  # bytes per read of a tar file; tarfile's default is 10 kB, each of which is a request on S3
BATCH_ROWS = 32  # rows of a Parquet file read at a time


@dataclass(frozen=True)
class ShardEntry:
    """A picture inside a file: its name, and its bytes or the columns of an error row."""

    name: str
    data: bytes | None
    failure: ImageRow | None = None


@dataclass(frozen=True)
class Shards:
    """Reader of pictures inside files, in the processes of workers.

    Attributes:
        kind: `webdataset` or `parquet`.
        root: prefix that is removed from the files' URIs before they are hashed, so that a moved corpus keeps its ids.
        max_bytes: maximum size of a picture; a larger one becomes an error row.
        bytes_column, key_column: columns of Parquet files, as in the keys `source.*`.
    """

    kind: str
    root: str
    max_bytes: int
    bytes_column: str | None
    key_column: str | None

    # Not methods of the fetcher: if the thread that reads dropped its last reference, the loop would wait for itself.
    def entries(self, unit: Unit, writer: UnitWriter) -> Iterator[ShardEntry]:
        """Yield the pictures of a unit in the order of the file; what is left out is counted by `writer`."""
        if self.kind == "webdataset":
            return self._tar(unit.inputs[0].uri, writer)
        return self._group(unit, writer)

    def _tar(self, uri: str, writer: UnitWriter) -> Iterator[ShardEntry]:
        position = 0
        with read_ahead.opened(uri) as stream:
            try:
                unpacked: Any = _Unpacked(stream)
                # ignore_zeros: archives that were joined are read as one, see `_Member`.
                with tarfile.open(
                    fileobj=unpacked, mode="r|", tarinfo=_Member, bufsize=READ_BYTES, ignore_zeros=True
                ) as tar:
                    for member in tar:
                        position = member.offset
                        if why := _not_read(member):
                            writer.counts.rows_in += 1
                            writer.counts.filtered[why] += 1
                            continue
                        yield self._member(tar, member)
            except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
                if faults.is_of_store(error):
                    raise
                writer.counts.rows_in += 1
                message = f"the archive is damaged or ends early ({error})"
                writer.reject(Reject(uri, position, "damaged_archive", message))

    def _member(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> ShardEntry:
        if member.size > self.max_bytes:
            return ShardEntry(member.name, None, self._too_large(member.size))
        file = tar.extractfile(member)
        data = file.read() if file else b""
        if len(data) < member.size:
            raise ReadError(f"{member.name} ends early")
        return ShardEntry(member.name, data)

    def _group(self, unit: Unit, writer: UnitWriter) -> Iterator[ShardEntry]:
        """Yield the pictures of a row group up to the first damaged page."""
        uri, number = unit.inputs[0].uri, 0
        try:
            for entry in self._parquet(uri, int(unit.piece.rsplit(" ", 1)[1])):
                yield entry
                number += 1
        except (pa.ArrowInvalid, OSError) as error:
            if faults.is_of_store(error):
                raise
            writer.counts.rows_in += 1
            message = f"{unit.piece} is damaged after {number} pictures ({first_line(error)})"
            writer.reject(Reject(uri, number, "damaged_row_group", message))

    def _parquet(self, uri: str, group: int) -> Iterator[ShardEntry]:
        fs, path = locations.filesystem(uri)
        with fs.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
            column = bytes_column(file.schema_arrow, self.bytes_column, uri)
            key = self.key_column
            columns = [column, *([key] if key else [])]
            number = 0
            for batch in file.iter_batches(batch_size=BATCH_ROWS, row_groups=[group], columns=columns):
                for row in batch.to_pylist():
                    name = (cell_text(row[key]) if key else None) or f"{group}/{number}"
                    cell = row[column]
                    yield self._cell(name, cell.get("bytes") if isinstance(cell, dict) else cell)
                    number += 1

    def _cell(self, name: str, data: bytes | None) -> ShardEntry:
        if data is None:
            return ShardEntry(name, None, image_rows.failed(Status.MISSING, "no_bytes", "the row has no picture"))
        if len(data) > self.max_bytes:
            return ShardEntry(name, None, self._too_large(len(data)))
        return ShardEntry(name, data)

    def _too_large(self, size: int) -> ImageRow:
        return image_rows.undecodable(image_rows.too_many_bytes(size, self.max_bytes))


def bytes_column(schema: pa.Schema, configured: str | None, uri: str) -> str:
    """Return the column that holds the pictures: bytes, or a struct with a field `bytes`.

    Args:
        schema: the file's schema.
        configured: the value of source.bytes_column.
        uri: the file's URI, for the message.

    Raises:
        InputError: `configured` does not hold bytes, or the file does not have exactly one column that does.
    """
    candidates = [field.name for field in schema if _holds_bytes(field.type)]
    column = configured or next((name for name in BYTES_COLUMNS if name in candidates), None)
    if column is None and len(candidates) == 1:
        column = candidates[0]
    if column is None or column not in candidates:
        problem = (
            f"source.bytes_column={configured}: not a column of bytes"
            if configured
            else "source.bytes_column= is required"
        )
        raise InputError(
            f"{problem}; {uri} has bytes in {', '.join(candidates) or 'no column'} (of {', '.join(schema.names)})"
        )
    return column


def _holds_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_struct(kind):
        return kind.get_field_index("bytes") >= 0 and _holds_bytes(kind.field("bytes").type)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind))


class _Unpacked:
    """The bytes of a tar file, unpacked if they are compressed; joined compressed files are read as one.

    `tarfile` itself would end with the first of several compressed files.
    """

    def __init__(self, stream: Any) -> None:
        magic = stream.read(8)
        stream.seek(0)
        if magic.startswith(b"\x1f\x8b"):
            self.read = gzip.GzipFile(fileobj=stream).read1
        elif magic.startswith(b"BZh"):
            self.read = bz2.BZ2File(stream).read1
        elif magic.startswith(b"\xfd7zXZ"):
            self.read = lzma.LZMAFile(stream).read1  # noqa: SIM115 (it closes nothing)
        else:
            self.read = stream.read
        # read1: `read` would raise at damage instead of returning the bytes before it.


def _not_read(member: tarfile.TarInfo) -> str | None:
    """Return why a member is left out; None if its name is that of a picture."""
    path = PurePosixPath(member.name)
    if "__MACOSX" in path.parts or path.name.startswith("._"):  # metadata that macOS adds to each file
        return "macos_metadata"
    return None if member.isfile() and path.suffix.lower() in SUFFIXES else "no_picture_by_name"


class _Member(tarfile.TarInfo):
    """A member that raises for a damaged header; `tarfile` takes such a header, except the first, for the end.

    After the end of an archive, only zeros and further archives may follow.
    """

    @classmethod
    def fromtarfile(cls, tarfile: tarfile.TarFile) -> Self:
        try:
            member = super().fromtarfile(tarfile)
        except EOFHeaderError:  # the regular end of an archive
            tarfile.remine_ended = True  # type: ignore[attr-defined]
            raise
        except HeaderError as error:
            ended = getattr(tarfile, "remine_ended", False)
            if ended and isinstance(error, EmptyHeaderError):  # the end of the file
                raise
            where = "after the end of the archive" if ended else "where a member or the end should be"
            raise ReadError(f"{error} {where}") from error
        tarfile.remine_ended = False  # type: ignore[attr-defined]
        return member


class ShardUnit:
    """Decodes the pictures of one shard or row group and writes their rows in the order of the file.

    Args:
        shards: how the files are read.
        width: pixels, as in `actors.pictures.render`; None: keep the bytes.
        processes: number of decoding processes; None: one per CPU.
        excluded: URI of the list of exclusions; None without a list.
    """

    def __init__(self, *, shards: Shards, width: int | None, processes: int | None, excluded: str | None) -> None:
        self._shards, self._rendition = shards, image_rows.rendition_name(width)
        self._excluded = exclusions.load(excluded)
        self._decoders = Decoders(width=width, processes=processes)
        self._loop = asyncio.Runner()
        close_when_dropped(self, self._loop, self._decoders)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Read, decode and write one unit."""
        self._loop.run(self._write(task, writer, report))

    async def _write(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        entries = self._shards.entries(task.unit, writer)
        with ImageWriter(writer) as images:
            async for row in self._rows(task.unit, islice(entries, task.unit.limit)):
                writer.counts.rows_in += 1
                report.add(1, errors=row["status"] == Status.ERROR)
                images.add(row)
        exclusions.count(writer.counts, self._excluded.take_matched())

    async def _rows(self, unit: Unit, entries: Iterator[ShardEntry]) -> AsyncIterator[ImageRow]:
        """Yield the rows in the order of the file; reads a bounded number ahead while processes decode."""
        uri = unit.inputs[0].uri
        part = () if unit.piece == WHOLE else (unit.piece,)  # two row groups may have pictures of the same name
        window: deque[asyncio.Task[ImageRow]] = deque()
        occurrences: Counter[str] = Counter()
        root = self._shards.root
        file = uri.removeprefix(root).lstrip("/") if uri != root else PurePosixPath(uri).name
        while (entry := await asyncio.to_thread(next, entries, None)) is not None:
            occurrences[entry.name] += 1
            occurrence = (str(occurrences[entry.name]),) if occurrences[entry.name] > 1 else ()
            image_id = content_id(file, *part, entry.name, *occurrence)
            url = entry.name if self._shards.key_column else f"{uri}#{entry.name}"
            window.append(asyncio.create_task(self._row(image_id, url, entry)))
            if len(window) > 2 * self._decoders.processes:
                yield await window.popleft()
        while window:
            yield await window.popleft()

    async def _row(self, image_id: str, url: str, entry: ShardEntry) -> ImageRow:
        row: ImageRow = {"image_id": image_id, "rendition": self._rendition, "source_url": url, "final_url": url}
        if self._excluded.hit(image_id, url):
            return row | image_rows.excluded() | {"attempts": 0}
        row |= {"attempts": 1}
        if entry.data is None:
            assert entry.failure is not None
            return row | entry.failure
        try:
            rendered = await self._decoders.decode(entry.data)
        except PictureError as error:
            return row | image_rows.undecodable(error)
        except Exception as error:
            return row | image_rows.failed(Status.ERROR, type(error).__name__, first_line(error))
        return row | image_rows.stored_picture(entry.data if rendered.data is None else rendered.data, rendered.facts)
