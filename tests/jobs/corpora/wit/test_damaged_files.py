"""Damaged WIT files: each row before and after the damage is kept or rejected, never lost."""

import gzip
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.corpora.wit import csv_rows, reader, streams
from tests.jobs.corpora.wit.scanned_rows import HEADER, Scanned, many, row, scan, set_chunk


def test_a_malformed_line_is_rejected_and_its_neighbours_kept(tmp_path: Path) -> None:
    content = HEADER + row("é one") + "too\tfew\n" + row("two") + "a\tb\tc\td\te\tf\n" + "\n" + row("three")
    actual = scan(tmp_path, content)
    assert actual.titles == ["é one", "two", "three"]
    assert actual.reasons == ["malformed"] * 3
    raw = content.encode()
    assert [r.position for r in actual.rejects] == [raw.index(b"too"), raw.index(b"a\tb"), raw.index(b"\n\n") + 1]
    assert actual.rejects[0].message == "2 fields instead of 5"
    assert actual.rejects[0].raw == "too\tfew\n"
    assert actual.rejects[0].file == str(tmp_path / "f.tsv")


@pytest.mark.parametrize("stray", [row('"stray'), '"' + row("stray"), row('"a"\t"stray')])
def test_a_stray_opening_quote_does_not_swallow_the_rows_behind_it(tmp_path: Path, stray: str) -> None:
    titles = [str(i) for i in range(50)]
    actual = scan(tmp_path, HEADER + row("before") + stray + "".join(map(row, titles)))
    assert actual.titles == ["before", *titles]
    assert actual.reasons == ["malformed"]
    assert actual.rejects[0].position == len(HEADER + row("before"))


def test_two_stray_quotes_cost_only_their_own_lines(tmp_path: Path) -> None:
    actual = scan(tmp_path, HEADER + row('"one') + row("kept") + '"' + row("two") + row("kept too"))
    assert actual.titles == ["kept", "kept too"]
    assert actual.reasons == ["malformed"] * 2


def test_bytes_that_are_no_utf8_reject_their_row_alone(tmp_path: Path) -> None:
    content = (HEADER + row("one") + row("BAD") + row('"two\nBAD\nlines"') + row("three")).encode()
    actual = scan(tmp_path, content.replace(b"BAD", b"\xff\xfe"))
    assert actual.titles == ["one", "three"]
    assert actual.reasons == ["invalid_utf8"] * 2
    assert "\ufffd" in actual.rejects[0].raw
    assert actual.rejects[0].position == len((HEADER + row("one")).encode())


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@pytest.mark.parametrize("share", [0.4, 0.99])
def test_rows_before_a_truncation_are_kept(tmp_path: Path, codec: str, share: float) -> None:
    titles, content = many(8000)
    packed = gzip.compress(content) if codec == "gzip" else pa.compress(content, codec="zstd", asbytes=True)
    actual = scan(tmp_path, packed[: int(len(packed) * share)])
    assert actual.titles == titles[: len(actual.titles)]
    assert actual.reasons == ["truncated"]
    assert "ends before" in actual.rejects[0].message
    assert actual.rejects[0].position == len((HEADER + "".join(map(row, actual.titles))).encode())  # type: ignore[arg-type]
    if codec == "gzip":  # zstd gives out whole blocks of 128 kB
        assert len(actual.titles) > len(titles) * share * 0.9 - 50


def test_a_small_truncated_file_keeps_its_rows(tmp_path: Path) -> None:
    titles, content = many(40)
    actual = scan(tmp_path, gzip.compress(content)[:-4])
    assert actual.titles == titles
    assert actual.reasons == ["truncated"]


def test_rows_before_damage_are_kept_to_the_last(tmp_path: Path) -> None:
    titles, content = many(4000)
    begin, rest = content[: len(content) // 2], content[len(content) // 2 :]
    damaged = bytearray(gzip.compress(rest))
    damaged[0:4] = b"\x1f\x8b\xff\xff"  # the second member has no valid header
    actual = scan(tmp_path, gzip.compress(begin) + bytes(damaged))
    whole = begin.count(b"\n") - 1
    assert actual.titles == titles[:whole]
    assert actual.reasons == ["corrupt"]
    assert actual.rejects[0].position == begin.rindex(b"\n") + 1


def test_damage_in_the_middle_of_the_data_ends_in_one_corrupt(tmp_path: Path) -> None:
    titles, content = many(4000)
    damaged = bytearray(gzip.compress(content))
    middle = len(damaged) // 2
    damaged[middle : middle + 4] = bytes(b ^ 0xFF for b in damaged[middle : middle + 4])
    actual = scan(tmp_path, bytes(damaged))
    assert actual.titles[:1900] == titles[:1900]
    assert actual.reasons.count("corrupt") == 1
    assert actual.reasons[-1] == "corrupt"


def test_garbage_behind_the_last_member_costs_no_row(tmp_path: Path) -> None:
    titles, content = many(100)
    actual = scan(tmp_path, gzip.compress(content) + b"garbage")
    assert actual.titles == titles
    assert actual.reasons == ["corrupt"]


def test_a_lost_connection_does_not_count_as_a_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, content = many(4000)
    monkeypatch.setattr(streams, "BLOCK", 4096)
    read, readinto = streams.ByteSource.read, streams.ByteSource.readinto

    def check(self: streams.ByteSource) -> None:
        if self.tell() > 20_000:
            self.failure = OSError("connection reset")
            raise self.failure

    def broken_read(self: streams.ByteSource, size: int = -1) -> bytes:
        check(self)
        return read(self, size)

    def broken_readinto(self: streams.ByteSource, buffer: memoryview) -> int:
        check(self)
        return readinto(self, buffer)

    monkeypatch.setattr(streams.ByteSource, "read", broken_read)
    monkeypatch.setattr(streams.ByteSource, "readinto", broken_readinto)
    set_chunk(monkeypatch, 4096)
    for packed in (content, gzip.compress(content)):
        with pytest.raises(OSError, match="connection reset"):
            scan(tmp_path, packed)


def test_a_line_without_an_end_is_not_held_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk(monkeypatch, 100)
    monkeypatch.setattr(csv_rows, "MAX_LINE", 1000)
    actual = scan(tmp_path, HEADER + row("one") + "x" * 5000 + "\n" + row("two"))
    assert actual.titles == ["one", "two"]
    assert actual.reasons == ["malformed"]
    assert len(actual.rejects) == 1
    for length in (999, 1000, 1001, 1100, 1101):  # the end of the line next to the limit, and next to a chunk's
        assert scan(tmp_path, HEADER + row("one") + "x" * length + "\n" + row("two")).titles == ["one", "two"]


def test_the_byte_scan_continues_after_the_end_of_a_line_without_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The csv module reads a row that the byte scan finds too long, and hands back what follows its line."""
    set_chunk(monkeypatch, 100)
    monkeypatch.setattr(csv_rows, "MAX_LINE", 1000)
    monkeypatch.setattr(csv_rows, "MAX_FIELD", 500)
    monkeypatch.setattr(reader, "FastScan", partial(reader.FastScan, longest_row=600))
    for quote in ("", '"'):
        long = row("long").replace("long", quote + "x" * 5000 + quote, 1)
        actual = scan(tmp_path, HEADER + row("one") + long + row("two") + long + long + row("three"))
        assert actual.titles == ["one", "two", "three"]
        assert (actual.counts.rows_in, len(actual.rejects)) == (6, 3)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.binary(max_size=60), pack=st.booleans(), cut=st.integers(0, 30))
def test_any_bytes_balance_and_keep_the_rows_before_them(tmp_path: Path, junk: bytes, pack: bool, cut: int) -> None:
    content = (HEADER + row("one") + row("two")).encode()
    packed = gzip.compress(content + junk) if pack else content + junk
    actual = scan(tmp_path, packed[: len(packed) - min(cut, len(junk))])
    if not pack:
        assert actual.titles[:2] == ["one", "two"]
    assert set(actual.reasons) <= {"malformed", "invalid_utf8", "truncated", "corrupt"}


@pytest.mark.parametrize("name", ["f.tsv", "f.tsv.gz"])
def test_rows_continue_at_any_offset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    set_chunk(monkeypatch, 50)
    content = (HEADER + "".join(map(row, ["one", '"t\nw\no"', "three", "four"]))).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)
    with csv_rows.open_rows(str(path)) as rows_reader:
        offsets = [rows_reader.offset]
        whole = []
        for actual in rows_reader.rows():
            whole.append(actual)
            offsets.append(rows_reader.offset)
    assert len(whole) == 4
    for taken, offset in enumerate(offsets):
        with csv_rows.open_rows(str(path), offset) as rows_reader:
            assert list(rows_reader.rows()) == whole[taken:]


def test_a_stream_that_breaks_after_some_rows_yields_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles, content = many(30_000)
    path = tmp_path / "f.tsv.gz"
    path.write_bytes(gzip.compress(content, mtime=0)[:-20_000])
    set_chunk(monkeypatch, 4096)
    begun: list[int] = []

    def noted(uri: str, offset: int = 0) -> Any:
        begun.append(offset)
        return csv_rows.open_rows(uri, offset)

    monkeypatch.setattr(reader, "open_rows", noted)
    actual = Scanned(path)
    assert max(begun) > len(content) / 2  # the csv module took over in the middle of the file
    assert actual.titles == titles[: len(actual.titles)]
    assert len(actual.titles) > len(titles) / 2
    assert actual.counts.rows_in == len(actual.titles) + 1
    assert len(actual.reasons) == 1
