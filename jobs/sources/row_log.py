"""What is done of a unit before the unit is: rows kept as they come, so that a killed worker loses none of them.

Each worker appends to a log of its own: for each row two lengths (4 and 8 bytes), the row less its bytes as JSON, and
the bytes, written in one piece, so that a log that was cut off is good up to its last whole row. On object storage,
where nothing can be appended, a log goes up in pieces every few seconds.
"""

import hashlib
import json
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self, cast
from uuid import uuid4

import pyarrow as pa

from jobs.store import locations
from jobs.store.spool import Spool
from jobs.store.writer import UnitTask
from jobs.tables import TABLES

FOLDER = "parts"
SCHEMA = pa.schema(TABLES["images"].schema().remove_metadata())
HEAD = struct.Struct(">IQ")
NONE = 2**64 - 1  # the length of no bytes
MOST_BYTES = 2**32  # a longer row is a damaged one
UPLOAD_EVERY_S = 5.0
UPLOAD_BYTES = 8 << 20


class Parts:
    """The rows of one unit that are done. A context manager; rows may be added while it is open."""

    def __init__(self, out: str, task: UnitTask) -> None:
        self._folder = folder(out, task)
        self._remote = locations.is_s3(self._folder)
        self._places: dict[str, tuple[Path, int]] = {}  # image_id -> log, offset
        self._uploaded = time.monotonic()
        self._size = self._sent = self._pieces = 0
        self._name = uuid4().hex

    def __enter__(self) -> Self:
        self._temporary = Spool("parts") if self._remote else None
        local = self._temporary.path if self._temporary else Path(self._folder)
        local.mkdir(parents=True, exist_ok=True)
        for found in locations.listing(self._folder):
            path = Path(found.uri)
            if self._remote:
                path = local / found.uri.rsplit("/", 1)[-1]
                path.write_bytes(locations.read_bytes(found.uri))
            self._places |= {image_id: (path, offset) for image_id, offset in _whole_rows(path)}
        self._log = local / f"{self._name}.log"
        self._file = cast(BinaryIO, self._log.open("ab", buffering=0))
        return self

    @property
    def done(self) -> frozenset[str]:
        """The image_ids of the rows that are there."""
        return frozenset(self._places)

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row of `images`; columns that it lacks are null."""
        said = json.dumps({name: value for name, value in row.items() if name != "bytes"}).encode()
        data = row.get("bytes")
        length = NONE if data is None else len(data)
        whole = b"".join((HEAD.pack(len(said), length), said, data or b""))
        self._file.write(whole)
        self._places[row["image_id"]] = (self._log, self._size)
        self._size += len(whole)
        if self._remote and (
            time.monotonic() - self._uploaded >= UPLOAD_EVERY_S or self._size - self._sent >= UPLOAD_BYTES
        ):
            self._upload()

    def _upload(self) -> None:
        piece = self._log.with_suffix(".piece")
        with self._log.open("rb") as log:
            log.seek(self._sent)
            piece.write_bytes(log.read())
            self._sent = log.tell()
        locations.publish(piece, locations.join(self._folder, f"{self._name}-{self._pieces:06}.log"))
        self._pieces += 1
        self._uploaded = time.monotonic()

    def rows(self, image_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The rows of these pictures, in this order, one at a time."""
        with ExitStack() as stack:
            files: dict[Path, BinaryIO] = {}
            for image_id in image_ids:
                path, offset = self._places[image_id]
                if path not in files:
                    files[path] = stack.enter_context(path.open("rb"))
                files[path].seek(offset)
                row = _read(files[path])
                assert row is not None
                yield row

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            if self._remote and kind is not None and self._size > self._sent:
                self._upload()  # of a unit that comes to its end, nothing has to be kept
        finally:
            self._file.close()
            if self._temporary:
                self._temporary.cleanup()


def folder(out: str, task: UnitTask) -> str:
    """Where the parts of a unit lie: beside the manifest, apart by generation and by version of the input."""
    return locations.join(out, "_run", FOLDER, f"{task.unit.name}-{task.generation}-{task.unit.version[:12]}")


def remove(out: str, task: UnitTask | None = None) -> None:
    """Delete the parts of a unit whose object is written, or of all of them."""
    where = folder(out, task) if task else locations.join(out, "_run", FOLDER)
    locations.remove([o.uri for o in locations.listing(where)])
    if not locations.is_s3(where) and (local := Path(where)).is_dir():
        for path in sorted(local.rglob("*"), reverse=True):
            if path.is_dir():
                path.rmdir()
        local.rmdir()


def _whole_rows(path: Path) -> Iterator[tuple[str, int]]:
    """image_id and offset of each row up to where the log ends or is damaged."""
    with path.open("rb") as file:
        while True:
            offset = file.tell()
            row = _read(file)
            if row is None or (row["bytes"] is not None and hashlib.sha256(row["bytes"]).hexdigest() != row["sha256"]):
                return
            yield row["image_id"], offset


def _read(file: BinaryIO) -> dict[str, Any] | None:
    """The next row of a log, None if it is not whole."""
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    said, length = HEAD.unpack(head)
    if length != NONE and length > MOST_BYTES:
        return None
    try:
        row: dict[str, Any] = json.loads(file.read(said))
    except ValueError:
        return None
    row["bytes"] = None if length == NONE else file.read(length)
    return row if length == NONE or len(row["bytes"]) == length else None
