"""Formats by their first bytes, plain and compressed."""

import gzip
import io
from pathlib import Path

import pyarrow as pa

from jobs.corpora.wit.streams import Pushback, foreign_format
from tests.cases import check_cases

TAR = bytes(257) + b"ustar" + bytes(250)
SKIPPABLE = b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"  # a frame that pzstd writes first


def zstd(data: bytes) -> bytes:
    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def test_formats_that_are_not_read_have_names(tmp_path: Path) -> None:
    text = b"language\tpage_title\n"
    cases = {
        "text": (text, None),
        "nothing": (b"", None),
        "gzip": (gzip.compress(text), None),
        "zstd": (zstd(text), None),
        "bzip2": (b"BZh91AY", "bzip2"),
        "zip": (b"PK\x03\x04....", "a zip archive"),
        "Parquet": (b"PAR1....", "Parquet"),
        "tar": (TAR, "a tar archive"),
        "tar that ends in its header": (TAR[:262], "a tar archive"),
        "shorter than a tar": (TAR[:261], None),
        "tar in gzip": (gzip.compress(TAR), "gzip of a tar archive"),
        "tar in zstd": (zstd(TAR), "zstd of a tar archive"),
        "Parquet in gzip": (gzip.compress(b"PAR1...."), "gzip of Parquet"),
        "gzip in gzip": (gzip.compress(gzip.compress(text)), "gzip of compressed data again"),
        "zstd in gzip": (gzip.compress(zstd(text)), "gzip of compressed data again"),
        "gzip in zstd": (zstd(gzip.compress(text)), "zstd of compressed data again"),
        "zstd in zstd": (zstd(zstd(text)), "zstd of compressed data again"),
        "a skippable frame in gzip": (gzip.compress(SKIPPABLE + zstd(text)), "gzip of compressed data again"),
        "damaged": (gzip.compress(text)[:12], None),
    }

    def check(data: bytes, name: str | None) -> None:
        (tmp_path / "file").write_bytes(data)
        assert foreign_format(str(tmp_path / "file")) == name

    check_cases(check, cases)


def test_bytes_that_are_returned_come_before_those_that_follow() -> None:
    stream = Pushback(io.BytesIO(b"defg"))
    assert stream.read(0) == b""
    stream.push(b"c")
    stream.push(b"ab")
    assert [stream.read(size) for size in (1, 5, 2, 9, 9)] == [b"a", b"bc", b"de", b"fg", b""]
