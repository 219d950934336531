"""Pictures from the URLs of records: one worker fetches, decodes and writes a unit."""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.fetching.decoders import Decoders, close_when_dropped
from actors.fetching.http_connection import tls_context
from actors.fetching.politeness import Limiter
from actors.schemas import ImageRow
from actors.status import Status
from actors.untrusted import whole_number
from actors.url_fetcher import Credits, ImageRequest, UrlFetcher, UrlFetcherSettings
from jobs.corpora.records import read_records
from jobs.runtime.board import Reporter
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.files.spool import Spool
from jobs.store.object_rows import opened_rows, read_unit
from jobs.store.writer import UnitTask, UnitWriter
from jobs.workers.cluster_limiter import ClusterLimiter

READ_ROWS = 16
SPOOL_BYTES = 64 << 20  # pictures of a unit that stay in memory; the rest goes to a temporary file
# One decodes while the other waits for its next picture: 15 % more pictures per second than with one decoder.
DECODERS_PER_CPU = 2
MAX_ROWS, MAX_BYTES = 256, 16 << 20  # limits of the rows in memory


@dataclass(frozen=True)
class RunFiles:
    """URIs of the table, of its list of exclusions and of its list of repeated pictures; None without a list."""

    out: str
    excluded: str | None
    repeated: str | None


class FetchUnit:
    """Fetches the pictures of one unit of records and writes their rows in the records' order.

    A worker that is killed has written no row of its unit, and the whole unit is fetched again;
    `jobs.corpora.records.cut` bounds its size.

    Args:
        settings: how pictures are requested.
        run_files: URIs of the files that the run stored.
        threads: number of CPUs for decoding; None: all.
        ca_file: PEM file of a certificate authority to trust in addition to the system's.
        limiter: rate limits; None: the cluster's.
    """

    def __init__(
        self,
        *,
        settings: UrlFetcherSettings,
        run_files: RunFiles,
        threads: int | None,
        ca_file: str | None,
        limiter: Limiter | None = None,
    ) -> None:
        cpus = len(os.sched_getaffinity(0)) if threads is None else threads
        self._files = run_files
        decoders = Decoders(width=settings.width, processes=DECODERS_PER_CPU * cpus)
        self._loop = asyncio.Runner()
        close_when_dropped(self, self._loop, decoders)
        self._fetcher = UrlFetcher(
            settings=settings,
            limiter=limiter or ClusterLimiter(),
            decoders=decoders,
            tls=tls_context(ca_file),
        )

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Fetch and write one unit; on a retry, only the rows of the retried statuses are fetched."""
        requests = self._requests(task, writer)
        kept = _kept_ids(self._files.out, task)
        pending = [request for request in requests if request.image_id not in kept]
        with RowSpool() as spool, ImageWriter(writer) as images:
            credits = self._fetch(pending, spool, report)
            fetched = (_with_credit(spool.row(request.image_id), credits) for request in pending)
            for row in _merged(task, self._files.out, fetched) if kept else fetched:
                images.add(row)
        filtered = task.unit.extra.get("filtered", {})
        writer.counts.filtered.update(filtered)
        writer.counts.rows_in = writer.counts.rows_out + sum(filtered.values())

    def _requests(self, task: UnitTask, writer: UnitWriter) -> list[ImageRequest]:
        rows = read_records(task.unit, ["image_id", "image_url", "original_width"], self._files.repeated)
        rows = rows.slice(0, task.unit.limit)
        exclusion_filter = exclusions.load(self._files.excluded)
        rows = exclusions.withhold(rows, item="image_id", exclusion_filter=exclusion_filter)
        exclusions.count(writer.counts, exclusion_filter.take_matched())
        return [
            ImageRequest(
                image_id=row["image_id"],
                url=row["image_url"] or "",
                original_width=whole_number(row["original_width"]),
                reported=row.get("status") == Status.REPORTED,
            )
            for row in rows.to_pylist()
        ]

    def _fetch(self, requests: Sequence[ImageRequest], spool: "RowSpool", report: Reporter) -> Credits:
        def done(row: ImageRow) -> None:
            spool.add(row)
            report.add(1, errors=row["status"] == Status.ERROR)

        try:
            return self._loop.run(self._fetcher.fetch(requests, done, credits_of=requests))
        except BaseExceptionGroup as group:
            raise _first_error(group) from group


class RowSpool:
    """Stores rows in the order in which they complete, and returns them by image_id. A context manager.

    Pictures stay in memory up to `SPOOL_BYTES`; the rest goes to a temporary file, as the originals of a unit may take
    gigabytes.
    """

    def __enter__(self) -> Self:
        self._rows: dict[str, tuple[ImageRow, int, int | None]] = {}
        self._folder = Spool("pictures")  # a folder with a path, so that an error about a full disk can name it
        self._bytes = tempfile.SpooledTemporaryFile(SPOOL_BYTES, dir=str(self._folder.path))
        return self

    def add(self, row: ImageRow) -> None:
        """Append a row."""
        data: bytes | None = row.get("bytes")
        with self._naming_a_full_disk():
            begin = self._bytes.seek(0, os.SEEK_END)
            if data is not None:
                self._bytes.write(data)
        self._rows[row["image_id"]] = {**row, "bytes": None}, begin, None if data is None else len(data)

    def row(self, image_id: str) -> ImageRow:
        """Return the row of a picture."""
        columns, begin, length = self._rows[image_id]
        with self._naming_a_full_disk():  # the file's buffer is written before it is read
            self._bytes.seek(begin)
            return {**columns, "bytes": None if length is None else self._bytes.read(length)}

    @contextlib.contextmanager
    def _naming_a_full_disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._folder.add_place(error)
            raise

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            with self._naming_a_full_disk():
                self._bytes.close()
        finally:
            self._folder.cleanup()


def _first_error(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _with_credit(row: ImageRow, credits: Mapping[str, tuple[str, str]]) -> ImageRow:
    author, licence = credits.get(row["image_id"]) or (None, None)
    return {**row, "author": author, "licence": licence}


def _kept_ids(out: str, task: UnitTask) -> frozenset[str]:
    """Return the image_ids whose rows a retry keeps; empty without a retry."""
    if not task.retry:
        return frozenset()
    rows = read_unit(locations.join(out, f"{task.unit.name}.parquet"), columns=["image_id", "status"])
    kept = rows.filter(pc.invert(pc.is_in(rows["status"], pa.array(task.retry))))
    return frozenset(kept["image_id"].to_pylist())


def _merged(task: UnitTask, out: str, fetched: Iterator[ImageRow]) -> Iterator[ImageRow]:
    """Yield the unit's rows in order, taking those of the retried statuses from `fetched` (in the same order)."""
    for batch in _batches(locations.join(out, f"{task.unit.name}.parquet")):
        for row in batch.to_pylist():
            yield next(fetched) if row["status"] in task.retry else row


def _batches(uri: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a data object, only a few at a time because they contain pictures."""
    with opened_rows(uri) as file:
        yield from file.iter_batches(batch_size=READ_ROWS)


class ImageWriter:
    """Collects rows and passes them to the unit's writer as tables; a context manager that writes the rest on exit."""

    def __init__(self, writer: UnitWriter) -> None:
        self._writer = writer
        self._rows: list[ImageRow] = []
        self._bytes = 0

    def add(self, row: ImageRow) -> None:
        """Append a row; columns that it lacks are null."""
        self._rows.append(row)
        self._bytes += len(row.get("bytes") or b"")
        if len(self._rows) >= MAX_ROWS or self._bytes >= MAX_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._rows:
            self._writer.write(schemas.to_table(self._rows, schemas.IMAGES))
            self._rows, self._bytes = [], 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self._flush()
