"""The lines of a dump: the same whatever compresses it and wherever it is cut; damage is reported and passed."""

import bz2
import gzip
import io
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.store.units import Unit
from jobs.terms_from import compressed_pieces, dump
from jobs.terms_from.compressed_pieces import BLOCK, GZIP_START, Damage, Piece, block_marks, find_member
from jobs.terms_from.dump import DOCUMENT, READER, SPAN, Line, LongLine, TermsSource
from jobs.terms_from.entity import entity_text
from tests.cases import check_cases
from tests.wikidata import compress

RANDOM = random.Random(0)
LINES = [b"{%d %s" % (n, RANDOM.randbytes(RANDOM.choice([0, 5, 200, 3000])).hex().encode()) for n in range(600)]
TEXT = b"\n".join(LINES) + b"\n"


def cut(path: Path, size: int) -> list[Unit]:
    """Return the units of a file with spans of `size` bytes, which are smaller than `source.unit_mb` allows."""
    (unit,) = dump.units(TermsSource("wikidata", str(path), unit_mb=1000))
    last = unit.extra[SPAN][1]
    ends = [*range(0, last, size), last]
    return [replace(unit, extra={**unit.extra, SPAN: [a, b]}) for a, b in pairwise(ends)]


def read(path: Path, size: int) -> list[Line | LongLine | Damage]:
    return [line for unit in cut(path, size) for line in dump.lines(unit)]


def test_each_line_is_in_one_unit(tmp_path: Path) -> None:
    forms = [
        ("a.json", 1),
        ("a.json.gz", 1),
        ("a.json.gz", 5),
        ("a.json.gz", 400),
        ("a.json.bz2", 1),
        ("a.json.bz2", 7),
    ]

    def check(size: int, name: str, parts: int) -> None:
        path = tmp_path / name
        path.write_bytes(compress(TEXT, name, parts=parts))
        units = cut(path, size)
        lines = [list(dump.lines(unit)) for unit in units]
        assert [line.text for of_unit in lines for line in of_unit if isinstance(line, Line)] == LINES
        assert sum(map(len, lines)) == len(LINES)
        if parts > 1 and size == 100_000 and name != "a.json":
            assert sum(bool(of_unit) for of_unit in lines) > 1  # members and blocks are read in parallel

    check_cases(check, [(size, *form) for size in (7_777, 100_000, 10**9) for form in forms])


def test_a_gzip_file_of_one_member_is_read_by_its_first_unit(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    path.write_bytes(gzip.compress(TEXT, mtime=0))
    first, *others = cut(path, 100_000)
    assert len(list(dump.lines(first))) == len(LINES)
    assert others
    assert not any(list(dump.lines(unit)) for unit in others)


def test_marks_are_found_wherever_a_read_of_bzip2_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json.bz2"
    path.write_bytes(b"".join(bz2.compress(line + b"\n") for line in LINES[:3]))
    for size in (1, 6, 7, 11, 64, 10_000):
        monkeypatch.setattr(compressed_pieces, "READ", size)
        assert [line.text for line in read(path, 10**9) if isinstance(line, Line)] == LINES[:3], size


def test_a_block_that_begins_where_a_unit_ends_is_of_the_next_unit(tmp_path: Path) -> None:
    path = tmp_path / "a.json.bz2"
    path.write_bytes(b"".join(bz2.compress(line + b"\n") for line in LINES[:4]))
    (unit,) = cut(path, 10**9)
    for segment in compressed_pieces.bzip2_segments(io.BytesIO(path.read_bytes()), 0):
        spans = ([0, segment.at], [segment.at, path.stat().st_size])
        halves = [replace(unit, extra={**unit.extra, SPAN: span}) for span in spans]
        lines = [line for half in halves for line in dump.lines(half)]
        assert [line.text for line in lines if isinstance(line, Line)] == LINES[:4]


def test_a_mark_within_a_block_is_part_of_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bits of a mark occur by chance once in 30 TB; here the first block is cut as if they were in it."""
    path = tmp_path / "a.json.bz2"
    path.write_bytes(bz2.compress(LINES[0] + b"\n" + b"x" * 90_000 + b"\n", 1) + bz2.compress(LINES[1] + b"\n"))
    source = io.BytesIO(path.read_bytes())
    first, *others = compressed_pieces.bzip2_segments(source, 0)
    assert others
    for bits in (60, 320, 321, 327):  # a block's mark and checksum alone take 80 bits
        place = first.bit + bits
        cut_at = place // 8 - first.bit // 8
        halves = [
            replace(first, data=first.data[: -(-place // 8) - first.bit // 8], bits=bits, is_last=False),
            replace(first, data=first.data[cut_at:], bit=place, bits=first.bits - bits),
        ]
        monkeypatch.setattr(compressed_pieces, "bzip2_segments", lambda *_, halves=halves: iter([*halves, *others]))
        lines = list(compressed_pieces.bzip2_pieces(source, 0, 10**9))
        assert [piece.data for piece in lines if isinstance(piece, Piece)] == [
            LINES[0] + b"\n" + b"x" * 90_000 + b"\n", LINES[1] + b"\n"
        ]  # fmt: skip
        assert [piece.at for piece in lines] == [first.at, others[0].at]
        assert {piece.inside for piece in compressed_pieces.bzip2_pieces(source, 0, first.at)} == {False}


@pytest.mark.parametrize("read_bytes", [100, compressed_pieces.GZIP_BLOCK])
def test_padding_empty_streams_and_empty_lines_are_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_bytes: int
) -> None:
    monkeypatch.setattr(compressed_pieces, "GZIP_BLOCK", read_bytes)
    for name, data in (
        ("a.json.gz", gzip.compress(b"{a\n\n", mtime=0) + b"\0" * 300 + gzip.compress(b"\r\nb", mtime=0)),
        ("b.json.bz2", bz2.compress(b"") + bz2.compress(b"{a\n\n") + bz2.compress(b"") + bz2.compress(b"\r\nb")),
        ("b2.json.bz2", bz2.compress(b"{a\n\n") + bz2.compress(b"\r\nb") + bytes(300)),
        ("c.json", b"{a\n\n\r\nb"),
        ("d.json.gz", gzip.compress(b"", mtime=0)),
        ("e.json.bz2", bz2.compress(b"")),
        ("f.json", b""),
    ):
        (tmp_path / name).write_bytes(data)
        texts = [line.text for line in read(tmp_path / name, 10**9) if isinstance(line, Line)]
        assert texts == ([b"{a", b"\r", b"b"] if name[0] in "abc" else []), name


def test_a_damaged_block_of_bzip2_costs_its_lines_only(tmp_path: Path) -> None:
    path = tmp_path / "a.json.bz2"
    data = bytearray(bz2.compress(TEXT, 1))
    starts = [bit // 8 for bit in block_marks(bytes(data), BLOCK)]
    data[starts[4] + 2000] ^= 255
    path.write_bytes(data)
    for size in (10**9, 50_000):
        lines = read(path, size)
        (damage,) = (line for line in lines if isinstance(line, Damage))
        assert (damage.reason, damage.at) == ("corrupt", starts[4])
        texts = {line.text for line in lines if isinstance(line, Line)}
        assert set(LINES[:60]) | set(LINES[-60:]) <= texts
        # 100 kB of text, and the lines that it interrupts: the first is cut, the last is skipped
        assert len(texts - set(LINES)) <= 1
        assert sum(len(line) for line in set(LINES) - texts) < 120_000


def test_a_damaged_member_of_gzip_costs_what_follows_in_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json.gz"
    members = [gzip.compress(TEXT[at : at + 150_000], mtime=0) for at in range(0, len(TEXT), 150_000)]
    broken = bytearray(members[1])
    broken[len(broken) // 2 :] = bytes(len(broken) - len(broken) // 2)
    path.write_bytes(members[0] + bytes(broken) + b"".join(members[2:]))
    lines = read(path, 10**9)
    assert [line.reason for line in lines if isinstance(line, Damage)] == ["corrupt"]
    texts = {line.text for line in lines if isinstance(line, Line)}
    assert set(LINES[:20]) | set(LINES[-50:]) <= texts


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.bz2"])
def test_a_truncated_file_is_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(compress(TEXT, name)[:-300])
    *lines, last = read(path, 60_000)
    (damage,) = (line for line in [*lines, last] if isinstance(line, Damage))
    assert damage.reason == "truncated"
    assert {line.text for line in lines if isinstance(line, Line)} >= set(LINES[:60])


@pytest.mark.parametrize("reason", ["truncated", "corrupt"])
def test_damage_after_a_unit_is_reported_by_the_next_alone(tmp_path: Path, reason: str) -> None:
    """The last line of the first unit continues in a member that begins in the second."""
    path, first = tmp_path / "a.json.gz", gzip.compress(b"{a\n{b", mtime=0)
    second = bytearray(gzip.compress(RANDOM.randbytes(300_000).replace(b"\n", b"x"), mtime=0))
    if reason == "truncated":
        del second[-100:]
    else:
        second[200_000:] = bytes(len(second) - 200_000)
    path.write_bytes(first + second)
    of_units = [list(dump.lines(unit)) for unit in cut(path, len(first))[:2]]
    assert [[line.reason for line in lines if isinstance(line, Damage)] for lines in of_units] == [[], [reason]]


def test_a_line_that_is_too_long_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "LONGEST_LINE", 50_000)
    path = tmp_path / "a.json.gz"
    path.write_bytes(compress(b"a\n" + b"x" * 3_000_000 + b"\nb\n", "a.gz", parts=3))
    first, long, last = read(path, 10**9)
    assert (first.text, last.text) == (b"a", b"b")  # type: ignore[union-attr]
    assert isinstance(long, LongLine)


def test_a_line_of_the_greatest_length_is_whole_wherever_it_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dump, "LONGEST_LINE", 6)

    def observed(pieces: list[Piece], joiner: dump._LineJoiner) -> Iterator[Piece]:
        for piece in pieces:
            yield piece
            assert sum(map(len, joiner._open)) <= 6

    for text, is_long in ((b"abcdef", False), (b"abcdefg", True), (b"abcdef" * 4, True)):
        for first in range(len(text)):
            for second in range(first, len(text) + 1):
                parts = [text[:first], text[first:second], text[second:] + b"\nx\n"]
                pieces = [Piece(b"w\n", 0), *(Piece(data, at) for at, data in enumerate(parts, 1) if data)]
                joiner = dump._LineJoiner(skip=False)
                before, line, after = joiner.of(observed(pieces, joiner))
                assert before == Line(b"w", 0)
                begin = next(number for number, data in enumerate(parts, 1) if data)
                if is_long:
                    assert isinstance(line, LongLine)
                    assert line.head
                    assert text[:6].startswith(line.head)
                    assert line.at == begin
                else:
                    assert line == Line(text, begin)
                assert isinstance(after, Line)
                assert after.text == b"x"


def test_files_are_recognised_by_their_first_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(bz2.compress(TEXT))
    assert [line.text for line in read(tmp_path / "a.json", 10**9) if isinstance(line, Line)] == LINES
    (tmp_path / "b.json").write_bytes(b"PK\x03\x04 not a dump")
    with pytest.raises(InputError, match="neither as JSON"):
        dump.units(TermsSource("wikidata", str(tmp_path / "b.json")))
    (tmp_path / "c.txt").write_bytes(b"{}")
    with pytest.raises(InputError, match="no file named"):
        dump.units(TermsSource("wikidata", str(tmp_path / "c.txt")))
    with pytest.raises(InputError, match=r"source\.path: required"):
        dump.units(TermsSource("wikidata", None))
    with pytest.raises(InputError, match="unit_mb=0"):
        dump.units(TermsSource("wikidata", str(tmp_path / "a.json"), unit_mb=0))


@pytest.mark.parametrize("indent", [None, 1])
def test_answers_of_the_api_and_entities_over_several_lines_are_documents(tmp_path: Path, indent: int | None) -> None:
    one, other = {"type": "item", "id": "Q1"}, {"type": "item", "id": "Q2", "labels": {"en": {"value": "é\ufffd"}}}
    for value, expected in (({"entities": {"Q1": one, "Q2": other}}, [one, other]), (one, [one]), ([one], [one])):
        path = tmp_path / "a.json"
        for encoding in ("utf-8", "utf-8-sig"):
            path.write_text(json.dumps(value, indent=indent).replace(r"\ufffd", r"\ud800"), encoding=encoding)
            actual = [json.loads(entity_text(line.text)) for line in read(path, 10**9) if isinstance(line, Line)]
            assert actual == expected
    path.write_text('{\n "type": "item",\n')
    assert [line.text for line in read(path, 10**9) if isinstance(line, Line)] == [b'{\n "type": "item",\n']


def test_the_marks_of_a_member_within_data_begin_none() -> None:
    """Bytes that are stored as they are may be those with which a member begins."""
    first = gzip.compress(b"text " + GZIP_START + bytes(40), compresslevel=0)
    source = io.BytesIO(first + gzip.compress(b"more"))
    assert first.find(GZIP_START, 1) > 0
    assert find_member(source, 1, None) == len(first)
    assert find_member(source, 1, len(first)) is None
    assert find_member(source, 0, 1) == 0


def test_a_member_is_found_wherever_a_read_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    first = gzip.compress(b"text " + GZIP_START + bytes(40), compresslevel=0)
    source = io.BytesIO(first + gzip.compress(b"more", mtime=0xE0) + gzip.compress(b"last", mtime=0))
    for size in range(1, 60):
        monkeypatch.setattr(compressed_pieces, "READ", size)
        assert find_member(source, 1, None) == len(first), size


def test_a_document_longer_than_a_line_may_be_is_read_by_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text('{\n"id": "Q1"\n}')
    for longest, reader in ((path.stat().st_size, DOCUMENT), (path.stat().st_size - 1, "plain")):
        monkeypatch.setattr(dump, "LONGEST_LINE", longest)
        (unit,) = dump.units(TermsSource("wikidata", str(path)))
        assert unit.extra[READER] == reader
