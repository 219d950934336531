"""Pages of pictures are read as pyarrow reads them, and only those that are asked for."""

import random
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import RunError
from jobs.store import pages
from jobs.store.object_rows import read_rows, read_unit
from jobs.store.pages import PAGE_BYTES, RANGE_BYTES, TAIL_BYTES, column_pages, decode_thrift
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES
from tests.cases import check_cases
from tests.jobs.store.small_runs import begin, plan

OPTIONS: dict[str, Any] = {"data_page_size": PAGE_BYTES, "write_batch_size": 1, "write_page_index": True}


class CountedFile:
    """A file that counts the bytes that are read from it."""

    def __init__(self, path: Path) -> None:
        self._file, self.bytes = pa.OSFile(str(path)), 0

    def size(self) -> int:
        return int(self._file.size())

    def read_at(self, size: int, begin: int) -> bytes:
        self.bytes += size
        data: bytes = self._file.read_at(size, begin)
        return data


def pictures(draws: random.Random, count: int, largest: int) -> list[bytes | None]:
    return [None if draws.random() < 0.2 else draws.randbytes(draws.randrange(largest)) for _ in range(count)]


@pytest.mark.parametrize("tail", [8, TAIL_BYTES])
def test_values_are_those_of_pyarrow(tail: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "TAIL_BYTES", tail)
    draws, path = random.Random(0), tmp_path / "a.parquet"
    for compression in ("zstd", "none", "snappy", "gzip"):
        for count, largest, group in ((1, 9, 9), (40, 200_000, 17), (300, 3, 100), (700, 4_000, 700)):
            values = pictures(draws, count, largest)
            columns = {"bytes": pa.array(values, pa.large_binary()), "n": range(count)}
            pq.write_table(
                pa.table(columns),
                path,
                compression=compression,
                use_dictionary=False,
                row_group_size=group,
                write_page_checksum=True,
                **OPTIONS,
            )
            file = CountedFile(path)
            of_column = column_pages(str(path), file, "bytes")
            assert of_column is not None
            assert of_column.rows == count
            wanted = [draws.randrange(count) for _ in range(20)]
            assert of_column.read(str(path), file, wanted) == [values[row] for row in wanted]
            assert of_column.read(str(path), file, range(count)) == values


def test_only_the_pages_of_the_rows_are_read(tmp_path: Path) -> None:
    values, path = [random.Random(n).randbytes(100_000) for n in range(100)], tmp_path / "a.parquet"
    pq.write_table(pa.table({"bytes": pa.array(values, pa.large_binary())}), path, use_dictionary=False, **OPTIONS)
    file = CountedFile(path)
    pages = column_pages(str(path), file, "bytes")
    assert pages is not None
    assert len(pages.pages) == 100
    assert file.bytes < 50_000
    assert pages.read(str(path), file, [70, 3, 4, 70]) == [values[70], values[3], values[4], values[70]]
    assert 300_000 < file.bytes < 400_000


def test_consecutive_pages_are_read_at_once_up_to_a_size() -> None:
    half, gap = RANGE_BYTES // 2, 10
    sizes = [half, half, half, half + 1, 2 * RANGE_BYTES, 1, 1]
    offsets = [4 + sum(sizes[:n]) + gap * (n > 5) for n in range(len(sizes))]  # another column's pages before the last
    places = tuple(
        pages._Page(offset, size, row) for row, (offset, size) in enumerate(zip(offsets, sizes, strict=True))
    )
    of_column = pages.ColumnPages(places, len(sizes), None)
    assert list(of_column._ranges(range(7))) == [[0, 1], [2], [3], [4], [5], [6]]
    assert list(of_column._ranges([0, 2, 5])) == [[0], [2], [5]]
    assert list(of_column._ranges([])) == []


def test_other_files_have_no_such_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    rows = pa.table({"bytes": pa.array([b"a", b"a"], pa.large_binary()), "lists": [[b"a"], [b"b"]], "n": [1, 2]})
    for options in ({}, {"write_page_index": True}, {"use_dictionary": False, "compression": "brotli", **OPTIONS}):
        pq.write_table(rows, path, **options)
        assert column_pages(str(path), CountedFile(path), "bytes") is None
    pq.write_table(rows, path, use_dictionary=False, **OPTIONS)
    assert [column_pages(str(path), CountedFile(path), name) for name in ("lists", "n", "absent")] == [None] * 3
    path.write_bytes(b"no Parquet at all")
    assert column_pages(str(path), CountedFile(path), "bytes") is None


def test_a_unit_of_images_is_written_in_pages_and_read_in_pieces(tmp_path: Path) -> None:
    run = begin(plan(str(tmp_path / "table"), table="images"))
    (task, *_), values = run.todo, [random.Random(n).randbytes(70_000) for n in range(50)]
    rows = [{"image_id": str(n), "rendition": "w", "bytes": value, "status": "ok"} for n, value in enumerate(values)]
    with UnitWriter(run.target, task) as writer:
        writer.counts.rows_in = len(rows)
        writer.write(pa.Table.from_pylist(rows, schema=TABLES["images"].schema()))
    uri = run.target.data_uri(task.unit.name)
    of_column = column_pages(uri, CountedFile(Path(uri)), "bytes")
    assert of_column is not None
    assert [page.first_row for page in of_column.pages] == list(range(50))
    chunks = (pq.read_metadata(uri).row_group(0).column(n) for n in range(len(TABLES["images"].schema())))
    assert {chunk.path_in_schema: chunk.has_dictionary_page for chunk in chunks}.items() >= {
        ("bytes", False),
        ("image_id", True),
        ("status", True),
    }
    for columns in (["image_id", "bytes", "status"], ["bytes"], ["status", "image_id"]):
        whole = read_unit(uri, columns=columns).select(columns)
        for first, last in ((0, 50), (7, 20), (49, 60), (10, 10)):
            assert read_rows(uri, columns, first, last).equals(whole.slice(first, last - first))
    data = bytearray(Path(uri).read_bytes())
    data[data.index(values[20]) + 100] ^= 1
    Path(uri).write_bytes(data)
    assert read_rows(uri, ["bytes"], 0, 20).num_rows == 20
    with pytest.raises(RunError, match="damaged"):
        read_rows(uri, ["bytes"], 15, 25)


def test_thrift_refuses_bytes_that_are_not_a_struct() -> None:
    assert decode_thrift(bytes([0x15, 4, 0x11, 0x28, 1, 65, 0x19, 0x25, 1, 2, 0])) == (
        {1: 2, 2: True, 4: b"A", 5: [-1, 1]},
        11,
    )
    assert decode_thrift(bytes([0x05, 40, 6, 0x15, 1, 0x25, 2, 0])) == ({20: 3, 21: -1, 23: 1}, 8)  # the number follows
    numbers = bytes([0x13, 5, 0x17]) + struct.pack("<d", 1.5) + bytes([0x1A, 0x15, 2, 0x12, 0])
    assert decode_thrift(numbers) == ({1: 5, 2: 1.5, 3: [1], 4: False}, 16)  # a byte, a double, a set and a Boolean
    assert decode_thrift(bytes([0x19, 0x31, 1, 2, 1, 0])) == ({1: [True, False, True]}, 6)
    assert decode_thrift(bytes([0x1B, 0, 0x1B, 1, 0x58, 2, 1, 65, 0])) == ({1: {}, 2: {1: b"A"}}, 9)  # maps
    assert decode_thrift(b"x" + bytes([0x19, 0xF3, 16, *range(16), 0]), 1) == ({1: list(range(16))}, 21)  # a long list
    for damaged in (b"", b"\x18\x7f", b"\x1d", b"\x19\xff", b"\x17\x00", b"\x14"):
        with pytest.raises(ValueError, match="Thrift"):
            decode_thrift(damaged)


def test_a_damaged_run_of_levels_is_no_longer_than_the_page() -> None:
    head = bytes([0xFE, *[0xFF] * 7, 0x7F])  # a run of 2^62 equal levels
    assert pages._levels(memoryview(head + b"\x01"), 3) == [True] * 3
    for levels in (b"", b"\x80", b"\x03\x01", b"\x04\x01"):  # of none, no, 8 and 2 values
        with pytest.raises(ValueError, match="levels"):
            pages._levels(memoryview(levels), 9)


def test_an_index_of_pages_that_cannot_be_is_not_used(tmp_path: Path) -> None:
    def zigzag(value: int) -> bytes:
        rest, encoded = value << 1 ^ value >> 63, bytearray()
        while rest > 0x7F:
            encoded.append(rest & 0x7F | 0x80)
            rest >>= 7
        return bytes([*encoded, rest])

    def index(*places: tuple[int, int, int]) -> bytes:
        of_pages = (b"\x16%b\x15%b\x16%b\x00" % tuple(map(zigzag, place)) for place in places)
        return bytes([0x19, len(places) << 4 | 12]) + b"".join(of_pages) + b"\x00"

    path, end = tmp_path / "a", 99
    meta = {2: [pages._PLAIN, pages._RLE], 3: [b"bytes"], 4: 0}
    schema = [{4: b"schema"}, {1: pages._BYTE_ARRAY, 3: pages._OPTIONAL, 4: b"bytes"}]

    def check(places: list[tuple[int, int, int]], is_used: bool) -> None:
        path.write_bytes(index(*places).ljust(end))
        footer = {2: schema, 4: [{1: [{3: meta, 4: 0, 5: end}], 3: 9}]}
        tail = pages._Tail("a", CountedFile(path), end)
        if not is_used:
            with pytest.raises(ValueError, match="page"):
                pages._column_pages(footer, "bytes", tail)
            return
        of_column = pages._column_pages(footer, "bytes", tail)
        assert of_column == pages.ColumnPages(tuple(pages._Page(*place) for place in places), 9, None)

    check_cases(check, [
        ([(4, 10, 0), (14, 20, 5)], True),
        ([(4, 10, 0), (14, end - 14, 5)], True),
        ([(4, 10, 0), (14, end - 13, 5)], False),
        ([(4, 10, 0), (14, 1 << 45, 5)], False),
        ([(4, 10, 0), (14, 0, 5)], False),
        ([(4, 10, 0), (14, -1, 5)], False),
        ([(4, 10, 1), (14, 20, 5)], False),
        ([(4, 10, 0), (14, 20, 5), (34, 20, 4)], False),
        ([], False),
    ])  # fmt: skip


def test_damage_outside_the_checksums_of_pages_is_reported_or_does_not_matter(tmp_path: Path) -> None:
    """The headers of pages have no checksum, and neither has their index."""
    path, values = tmp_path / "a.parquet", [b"first", None, b"third" * 15_000, b"fourth"]
    pq.write_table(
        pa.table({"bytes": pa.array(values, pa.large_binary())}),
        path,
        use_dictionary=False,
        compression="zstd",
        row_group_size=3,
        write_page_checksum=True,
        **OPTIONS,
    )
    whole = path.read_bytes()
    of_column = column_pages(str(path), CountedFile(path), "bytes")
    assert of_column is not None
    first, *_, last = of_column.pages
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    results = Counter[str]()
    for place in (*range(first.offset, first.offset + 40), *range(last.offset + last.size, footer)):
        for damage in (b"\x09", b"\x15", b"\xfe" + b"\xff" * 6 + b"\x7f"):
            path.write_bytes(whole[:place] + damage + whole[place + len(damage) :])
            try:
                assert read_rows(str(path), ["bytes"], 0, 4)["bytes"].to_pylist() == values
                results["read"] += 1
            except RunError:
                results["reported"] += 1
    assert min(results["read"], results["reported"]) > 50


def test_a_page_without_checksum_whose_lengths_are_wrong_is_damaged(tmp_path: Path) -> None:
    """The length of the levels, or of a value, is past the page's end."""
    path = tmp_path / "a.parquet"
    rows = pa.table({"bytes": pa.array([b"first", None, b"third"], pa.large_binary())})
    pq.write_table(rows, path, use_dictionary=False, compression="none", **{**OPTIONS, "write_page_checksum": False})
    whole = path.read_bytes()
    of_value = whole.index(b"third") - 4
    of_levels = whole.rindex(b"\x02\x00\x00\x00", 0, whole.index(b"first"))  # two bytes of them
    for place in (of_value, of_levels):
        path.write_bytes(whole[:place] + b"\xff\xff\x00\x00" + whole[place + 4 :])
        file = CountedFile(path)
        of_column = column_pages(str(path), file, "bytes")
        assert of_column is not None
        with pytest.raises(OSError, match="Unexpected end of stream: page at byte"):
            of_column.read(str(path), file, [0, 1, 2])
