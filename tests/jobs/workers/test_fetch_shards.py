"""The column of a Parquet file that holds pictures, its cells, and the rows that a unit of a shard becomes."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors.fetching import image_rows
from actors.ids import content_id
from actors.pictures import PictureError, PictureFacts, Rendered
from actors.status import Status
from jobs.errors import InputError
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.counts import Counts
from jobs.store.files.objects import Object
from jobs.store.units import LIMIT, WHOLE, Unit
from jobs.store.writer import UnitTask
from jobs.workers.fetch_shards import ShardEntry, Shards, ShardUnit, bytes_column
from tests.cases import check_cases

BYTES, LARGE, TEXT = pa.binary(), pa.large_binary(), pa.string()
STRUCT = pa.struct([("path", TEXT), ("bytes", BYTES)])


def test_the_column_of_bytes_is_the_one_that_is_set_or_usual_or_alone() -> None:
    def check(columns: dict[str, pa.DataType], configured: str | None, chosen: str) -> None:
        assert bytes_column(pa.schema(columns.items()), configured, "f") == chosen

    check_cases(check, [
        ({"x": BYTES, "image": BYTES}, None, "image"),
        ({"png": BYTES, "jpg": LARGE, "bytes": BYTES}, None, "bytes"),
        ({"png": BYTES, "jpg": LARGE}, None, "jpg"),
        ({"image": TEXT, "data": LARGE}, None, "data"),
        ({"image": STRUCT, "n": TEXT}, None, "image"),
        ({"n": TEXT, "data": pa.struct([("bytes", LARGE), ("path", TEXT)])}, None, "data"),
        ({"image": BYTES, "x": STRUCT}, "x", "x"),
    ])  # fmt: skip


def test_other_columns_are_refused_with_those_that_there_are() -> None:
    def check(columns: dict[str, pa.DataType], configured: str | None, message: str) -> None:
        with pytest.raises(InputError, match=message):
            bytes_column(pa.schema(columns.items()), configured, "f")

    check_cases(check, [
        ({"a": BYTES, "b": BYTES}, None, r"^source\.bytes_column= is required; f has bytes in a, b \(of a, b\)$"),
        ({"a": TEXT}, None, r"required; f has bytes in no column \(of a\)$"),
        ({"a": TEXT, "image": BYTES}, "a", r"^source\.bytes_column=a: not a column of bytes; f has bytes in image"),
        ({"a": pa.struct([("path", BYTES)])}, "a", r"=a: not a column of bytes"),
        ({"a": pa.struct([("bytes", TEXT)])}, None, r"bytes in no column"),
    ])  # fmt: skip


def test_cells_without_bytes_or_with_too_many_are_errors() -> None:
    shards = Shards("parquet", "", 3, None, None)
    assert shards._cell("n", b"abc") == ShardEntry("n", b"abc")
    missing, large = shards._cell("n", None), shards._cell("n", b"abcd")
    assert missing.failure is not None
    assert large.failure is not None
    assert [(cell.name, cell.data, (cell.failure or {}).get("status")) for cell in (missing, large)] == [
        ("n", None, "missing"), ("n", None, "error")
    ]  # fmt: skip
    assert missing.failure["error_kind"] == "no_bytes"
    assert "4" in (large.failure["error_message"] or "")


class Decoding:
    """Decodes by the words in the bytes; keeps what it was asked to decode."""

    processes = 1

    def __init__(self) -> None:
        self.decoded: list[bytes] = []

    async def decode(self, data: bytes) -> Rendered:
        self.decoded.append(data)
        if data == b"page":
            raise PictureError("html", "a page")
        if data == b"cursed":
            raise IndexError("cursed\nmore")
        return Rendered(b"small" if data == b"large" else None, PictureFacts("PNG", 1, 2, "s", "p"))


class Fetched:
    """The rows, counts and progress of a unit of a file with these entries, without processes that decode."""

    def __init__(
        self, *entries: ShardEntry, marks: str = "", key: str | None = None, piece: str = WHOLE, root: str = "/c",
        limit: int | None = None,
    ) -> None:  # fmt: skip
        self.counts, self.progress, self.decoding = Counts(), list[tuple[int, bool]](), Decoding()
        self.rows: list[dict[str, Any]] = []
        unit: Any = object.__new__(ShardUnit)
        unit._shards = SimpleNamespace(root=root, key_column=key, entries=lambda *_: iter(entries))
        unit._rendition, unit._decoders, unit._excluded = "w8", self.decoding, ExclusionFilter(frozenset(marks.split()))
        writer: Any = SimpleNamespace(counts=self.counts, write=lambda rows: self.rows.extend(rows.to_pylist()))
        report: Any = SimpleNamespace(add=lambda number, *, errors: self.progress.append((number, errors)))
        task = UnitTask(Unit("u", (Object("/c/f/a.tar", 1, "e"),), piece=piece, extra={LIMIT: limit} if limit else {}))
        with asyncio.Runner() as unit._loop:
            unit(task, writer, report)


def test_pictures_of_a_shard_are_rows_in_its_order() -> None:
    failure = image_rows.failed(Status.ERROR, "too_many_bytes", "large")
    names = ["0.png", "page.png", "cursed.png", "big.png", "large.png"]
    entries = [ShardEntry(name, name.partition(".")[0].encode()) for name in names]
    entries[3] = ShardEntry("big.png", None, failure)
    fetched = Fetched(*entries, ShardEntry("x.png", b"x"), marks="/c/f/a.tar#x.png other")
    assert [(row["status"], row["error_kind"], row["attempts"], row["bytes"]) for row in fetched.rows] == [
        ("ok", None, 1, b"0"), ("error", "html", 1, None), ("error", "IndexError", 1, None),
        ("error", "too_many_bytes", 1, None), ("ok", None, 1, b"small"), ("reported", "excluded", 0, None),
    ]  # fmt: skip
    first = fetched.rows[0]
    assert (first["image_id"], first["rendition"], first["width"]) == (content_id("f/a.tar", "0.png"), "w8", 1)
    assert first["source_url"] == first["final_url"] == "/c/f/a.tar#0.png"
    assert fetched.rows[2]["error_message"] == "cursed"
    assert fetched.progress == [(1, status == "error") for status in (row["status"] for row in fetched.rows)]
    assert (fetched.counts.rows_in, b"x" in fetched.decoding.decoded) == (6, False)
    assert fetched.counts.tallies == {exclusions.TALLY: {"/c/f/a.tar#x.png": 1}}


def test_ids_of_pictures_depend_on_their_file_their_part_of_it_and_their_number() -> None:
    twice = [ShardEntry("a", b"1"), ShardEntry("a", b"2"), ShardEntry("a", b"3")]
    for keys, parts in (
        ({}, ("f/a.tar",)), ({"root": "/c/f"}, ("a.tar",)), ({"root": "/c/f/a.tar"}, ("a.tar",)),
        ({"piece": "row group 1"}, ("f/a.tar", "row group 1")),
    ):  # fmt: skip
        rows = Fetched(*twice, **keys).rows  # type: ignore[arg-type]
        assert [row["image_id"] for row in rows] == [content_id(*parts, "a", *number) for number in ((), "2", "3")]
    rows = Fetched(*twice, key="url", limit=2, marks="a").rows
    assert [(row["source_url"], row["status"]) for row in rows] == [("a", "reported")] * 2
