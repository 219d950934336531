"""Pictures from the URLs of records: a unit is fetched, decoded and written by one worker, row by row."""

import asyncio
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.fetching import wikimedia
from actors.fetching.decoders import Decoders
from actors.fetching.http_connection import Bounds, tls_context
from actors.fetching.net_safety import Rules
from actors.fetching.politeness import user_agent
from actors.fetching.rate_limits import Limiter
from actors.numbers import whole_number
from actors.status import Status
from actors.url_fetcher import ImageRequest, Settings, UrlFetcher
from jobs.errors import InputError
from jobs.runtime import exclusions
from jobs.runtime.progress import Reporter
from jobs.sources import repeats, row_log
from jobs.sources.cluster_limiter import ClusterLimiter
from jobs.sources.config import SourceConfig
from jobs.sources.row_log import Parts
from jobs.store import locations
from jobs.store.reading import read_unit
from jobs.store.writer import UnitTask, UnitWriter

WRITE_ROWS, WRITE_BYTES = 256, 16 << 20  # of a table that is handed to the writer
READ_ROWS = 16
# One decodes while another waits for the event loop to bring its next picture: 15 % more pictures a second than one.
DECODERS_A_CPU = 2


def settings_of(source: SourceConfig, *, width: int | None, verify_only: bool) -> Settings:
    """`source.*` as the fetcher takes it.

    Raises:
        InputError: a key that is missing or out of range; the sentence names it.
    """
    if not source.contact:
        raise InputError(
            "source.contact= is required: an e-mail address or web page at which the people whose servers are asked "
            "can reach you, as in source.contact=ada@uni-somewhere.edu"
        )
    try:
        agent = user_agent(source.contact)
    except ValueError as error:
        raise InputError(f"source.contact: {error}; whoever is asked must be able to reach you") from error
    _check_ranges(source)
    if width is not None and source.form == "served":
        try:
            wikimedia.served_width(width)
        except ValueError as error:
            raise InputError(str(error)) from error
    if source.ca_file is not None:
        _check_ca(source.ca_file)
    return Settings(
        agent=agent,
        rules=Rules(tuple(source.allow_hosts), frozenset(source.testing.allow_addresses), _fixed(source)),
        width=width,
        form="paper" if source.form == "paper" else "served",
        verify_only=verify_only,
        connections=source.connections,
        bytes_per_s=source.mbit_s * 1e6 / 8 if source.mbit_s is not None else None,
        attempts=source.attempts,
        backoff_s=source.backoff_s,
        longest_wait_s=source.max_wait_s,
        bounds=Bounds(source.max_bytes, source.connect_s, source.read_s, source.total_s),
        opt_out=tuple(source.opt_out),
        credits=source.credits,
        api=source.api,
    )


def _check_ranges(source: SourceConfig) -> None:
    positive = "connections attempts backoff_s max_wait_s connect_s read_s total_s max_bytes mbit_s".split()
    for name in positive:
        value = getattr(source, name)
        if value is not None and not value > 0:
            raise InputError(f"source.{name}={value}: must be greater than 0")
    if source.form not in ("served", "paper"):
        raise InputError(f"source.form={source.form}: there are served and paper")
    if not source.allow_hosts:
        raise InputError("source.allow_hosts=[]: no host may be asked; for example [upload.wikimedia.org]")
    for host in source.allow_hosts:
        if not re.fullmatch(r"(\*|(\*\.)?[\w-]+(\.[\w-]+)*|\d+(\.\d+){3})(:\d{1,5})?", host):
            raise InputError(f"source.allow_hosts: {host!r} is not a host name, *.name or *, each with :port or not")
    try:
        filled = source.api.format(host="wiki.example")
    except (KeyError, IndexError, ValueError):
        filled = ""
    if not filled.startswith("https://"):
        raise InputError(f"source.api={source.api}: an https:// URL, {{host}} in it stands for the wiki's host")


def _fixed(source: SourceConfig) -> tuple[tuple[str, str, int], ...]:
    found = [re.fullmatch(r"([\w.-]+):([\d.]+|\[[\da-f:]+\]):(\d{1,5})", text) for text in source.testing.resolve]
    if None in found:
        raise InputError("source.testing.resolve: name:address:port is needed, and it is for tests only")
    return tuple((hit[1], hit[2].strip("[]"), int(hit[3])) for hit in found if hit)


def _check_ca(path: str) -> None:
    try:
        tls_context(path)
    except OSError as error:
        raise InputError(f"source.ca_file={path}: not a readable PEM file of certificates") from error


@dataclass(frozen=True)
class RunFiles:
    """What a worker must know of the run: where the lists are that lie beside the manifest."""

    out: str
    excluded: str | None
    repeated: str | None


class FetchUnit:
    """Fetches the pictures of one unit of records and writes their rows in the records' order."""

    def __init__(
        self,
        *,
        settings: Settings,
        known: RunFiles,
        threads: int | None,
        ca_file: str | None,
        limiter: Limiter | None = None,
    ) -> None:
        """`threads` CPUs are for decoding, None: all that there are; `limiter` None: the cluster's."""
        cpus = len(os.sched_getaffinity(0)) if threads is None else threads
        self._known = known
        self._loop = asyncio.Runner()
        self._fetcher = UrlFetcher(
            settings=settings,
            limiter=limiter or ClusterLimiter(),
            decoders=Decoders(width=settings.width, processes=DECODERS_A_CPU * cpus),
            tls=tls_context(ca_file),
        )
        self._before: UnitTask | None = None

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        if self._before and _is_written(self._known.out, self._before):
            row_log.remove(self._known.out, self._before)
        asked = self._asked(task, writer)
        kept = _kept_ids(self._known.out, task)
        left = [one for one in asked if one.image_id not in kept]
        with Parts(self._known.out, task) as done:
            credits = self._fetch([one for one in left if one.image_id not in done.done], left, done, report)
            ids = [one.image_id for one in left]
            made = (row | _credit(credits.get(row["image_id"])) for row in done.rows(ids))
            rows = _merged(task, self._known.out, made) if kept else made
            for table in _gathered(rows):
                writer.write(table)
        left_out = task.unit.extra.get("filtered", {})
        writer.counts.filtered.update(left_out)
        writer.counts.rows_in = writer.counts.rows_out + sum(left_out.values())
        self._before = task

    def _asked(self, task: UnitTask, writer: UnitWriter) -> list[ImageRequest]:
        columns = ["image_id", "image_url", "original_width"]
        rows = read_unit(task.unit.inputs[0].uri, columns=columns)
        rows = repeats.without(rows, self._known.repeated, task.unit.name)
        barred = exclusions.kept(self._known.excluded)
        rows = exclusions.withhold(rows, item="image_id", barred=barred)
        exclusions.count(writer.counts, barred.take_matched())
        return [
            ImageRequest(
                image_id=row["image_id"],
                url=row["image_url"] or "",
                original_width=whole_number(row["original_width"]),
                reported=row.get("status") == Status.REPORTED,
            )
            for row in rows.to_pylist()
        ]

    def _fetch(self, todo: list[ImageRequest], all_of_them: list[ImageRequest], done: Parts, report: Reporter) -> Any:
        report.add(len(all_of_them) - len(todo))

        def finished(row: dict[str, Any]) -> None:
            done.add(row)
            report.add(1, errors=row["status"] == Status.ERROR)

        try:
            return self._loop.run(self._fetcher.fetch(todo, finished, credits_of=all_of_them))
        except BaseExceptionGroup as group:
            raise _first(group) from group


def _first(group: BaseExceptionGroup[Any]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _is_written(out: str, task: UnitTask) -> bool:
    fs, path = locations.filesystem(locations.join(out, f"{task.unit.name}.parquet"))
    return bool(fs.get_file_info(path).is_file)


def _credit(found: tuple[str, str] | None) -> dict[str, str | None]:
    author, licence = found or (None, None)
    return {"author": author, "licence": licence}


def _kept_ids(out: str, task: UnitTask) -> frozenset[str]:
    """On a retry, the pictures whose rows stay as they are."""
    if not task.retry:
        return frozenset()
    there = read_unit(locations.join(out, f"{task.unit.name}.parquet"), columns=["image_id", "status"])
    stays = there.filter(pc.invert(pc.is_in(there["status"], pa.array(task.retry))))
    return frozenset(stays["image_id"].to_pylist())


def _merged(task: UnitTask, out: str, made: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The unit's rows in their order: those of the retried statuses from `made`, which has them in the same order."""
    fs, path = locations.filesystem(locations.join(out, f"{task.unit.name}.parquet"))
    with fs.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
        for batch in file.iter_batches(batch_size=READ_ROWS):
            for row in batch.to_pylist():
                yield next(made) if row["status"] in task.retry else row


def _gathered(rows: Iterator[dict[str, Any]]) -> Iterator[pa.Table]:
    """Rows as tables worth writing."""
    held: list[dict[str, Any]] = []
    size = 0
    for row in rows:
        held.append(row)
        size += len(row["bytes"] or b"")
        if len(held) >= WRITE_ROWS or size >= WRITE_BYTES:
            yield pa.Table.from_pylist(held, schema=row_log.SCHEMA)
            held, size = [], 0
    if held:
        yield pa.Table.from_pylist(held, schema=row_log.SCHEMA)
