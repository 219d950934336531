"""WIT files, intact and damaged: each row kept or rejected, never lost."""

import csv
import gzip
import io
import itertools
import json
import random
import re
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.titles import SEPARATOR, TitleMatcher
from jobs.corpora.corpus import MatchedRow
from jobs.corpora.terms import TermsConfig, read_terms
from jobs.corpora.wit import csv_rows, index_compiled, reader, streams
from jobs.corpora.wit.reader import check_header, find_files, scan_file, split_of
from jobs.errors import InputError
from jobs.store.counts import Counts
from jobs.store.writer import Reject
from jobs.tables import WIT_COLUMNS
from tests.cases import check_cases

NARROW = list(reader.NEEDED)
HEADER = "\t".join(NARROW) + "\n"


class Every(TitleMatcher):
    """Every title holds a term."""

    def __init__(self) -> None:
        super().__init__(["x"])

    def match(self, title: str) -> list[str]:
        return ["x"]

    def match_joined(self, titles: str) -> dict[int, list[str]]:
        return {number: ["x"] for number in range(titles.count(SEPARATOR) + 1)}


class Scanned:
    """What became of a file's rows; made only if they balance."""

    def __init__(self, path: Path, language: str | None = None, *, csv_alone: bool = False) -> None:
        self.counts, self.rejects = Counts(), list[Reject]()
        self.hits: list[MatchedRow] = []
        arguments: Any = {"language": language, "matcher": Every(), "counts": self.counts, "reject": self._reject}
        if csv_alone:
            with csv_rows.open_rows(str(path)) as rows_reader:
                self.hits.extend(reader._Scan(str(path), progress=None, **arguments).parsed(rows_reader, 0, ""))
            self.counts.tallies.clear()
        else:
            self.hits.extend(scan_file(str(path), **arguments))
        self.counts.rows_out = len(self.hits)
        assert self.counts.balances()

    def _reject(self, reject: Reject) -> None:
        self.counts.rejected[reject.reason] += 1
        self.rejects.append(reject)

    @property
    def titles(self) -> list[str | None]:
        return [hit.fields["page_title"] for hit in self.hits]

    @property
    def reasons(self) -> list[str]:
        return [reject.reason for reject in self.rejects]


def row(title: str, language: str = "en") -> str:
    return f"{language}\thttp://p\thttps://i\t{title}\ttrue\n"


def scan(tmp_path: Path, content: str | bytes, name: str = "f.tsv", *, language: str | None = None) -> Scanned:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Scanned(path, language)


def set_chunk(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for module in (reader, csv_rows):
        monkeypatch.setattr(module, "CHUNK", size)


def many(n: int = 3000) -> tuple[list[str], bytes]:
    """Titles that compress badly, and the file that holds them."""
    rng = random.Random(7)
    titles = [f"{i} {rng.random()}" for i in range(n)]
    return titles, (HEADER + "".join(map(row, titles))).encode()


def test_quoted_fields_hold_tabs_newlines_and_quotes(tmp_path: Path) -> None:
    actual = scan(
        tmp_path, HEADER + row('"a\tb"') + row('"a\n\nb\r\nc"') + row('"say ""x"""') + row('the "middle" one')
    )
    assert actual.titles == ["a\tb", "a\n\nb\r\nc", 'say "x"', 'the "middle" one']


def test_line_ends_byte_order_mark_and_a_missing_last_newline(tmp_path: Path) -> None:
    content = "\ufeff" + (HEADER + row("one") + row("two")).replace("\n", "\r\n").removesuffix("\r\n")
    actual = scan(tmp_path, content)
    assert actual.titles == ["one", "two"]
    assert [h.fields["is_main_image"] for h in actual.hits] == ["true", "true"]
    assert actual.hits[0].fields["language"] == "en"


def test_columns_in_another_order_and_columns_of_others(tmp_path: Path) -> None:
    content = "extra\tpage_title\tis_main_image\timage_url\tlanguage\tpage_url\nE\tT\tfalse\tI\tde\tP\n"
    (hit,) = scan(tmp_path, content).hits
    assert {k: v for k, v in hit.fields.items() if v is not None} == {
        "page_title": "T",
        "is_main_image": "false",
        "image_url": "I",
        "language": "de",
        "page_url": "P",
    }
    assert list(hit.fields) == WIT_COLUMNS


def test_rows_of_other_languages_and_titles_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "f.tsv"
    path.write_text(HEADER + row("war") + row("peace") + row("war", "de"))
    counts = Counts()
    rejects: list[Reject] = []
    hits = list(
        scan_file(str(path), language="en", matcher=TitleMatcher(["war"]), counts=counts, reject=rejects.append)
    )
    assert [(h.fields["page_title"], h.terms) for h in hits] == [("war", ["war"])]
    assert (counts.rows_in, dict(counts.filtered), rejects) == (3, {"language": 1, "title": 1}, [])
    assert (
        len(
            list(
                scan_file(str(path), language=None, matcher=TitleMatcher(["war"]), counts=counts, reject=rejects.append)
            )
        )
        == 2
    )


def test_the_first_bytes_decide_the_compression_not_the_name(tmp_path: Path) -> None:
    packings = ["plain", "gzip", "members", "padded", "zstd", "skipped"]

    def check(name: str, packed: str) -> None:
        titles, content = many(200)
        forms = {
            "plain": content,
            "gzip": gzip.compress(content),
            "members": b"".join(gzip.compress(content[i : i + 999]) for i in range(0, len(content), 999)),
            "padded": gzip.compress(content[:500]) + b"\0" * 600 + gzip.compress(content[500:]) + b"\0",
            "zstd": pa.compress(content[:700], codec="zstd", asbytes=True)
            + pa.compress(content[700:], codec="zstd", asbytes=True),
        }
        skipped = b"\x5f\x2a\x4d\x18\x03\0\0\0any"  # a frame of zstd that says nothing; pzstd begins with one
        forms["skipped"] = skipped + forms["zstd"] + skipped
        actual = scan(tmp_path, forms[packed], name)
        assert actual.titles == titles
        assert actual.rejects == []

    check_cases(check, itertools.product(["f.tsv", "f.tsv.gz", "f.tsv.zst", "noname"], packings))


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


def test_a_lost_connection_is_no_damaged_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_byte_scan_goes_on_after_the_end_of_a_line_without_limit(
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


def test_a_file_without_its_header_is_refused_by_name(tmp_path: Path) -> None:
    cases = {
        "nothing": (b"", "empty; a header"),
        "gzip of nothing": (gzip.compress(b"", mtime=0), "empty; a header"),
        "cut gzip": (gzip.compress(HEADER.encode(), mtime=0)[:15], "ends before its end-of-stream mark"),
        "no gzip": (b"\x1f\x8bnot gzip at all", "the compressed data is damaged"),
        "missing": (b"language\tpage_url\timage_url\n", "no column page_title, is_main_image in its header"),
        "replaced": (HEADER.replace("page_url", "page_title").encode(), "no column page_url in its header"),
        "repeated": (
            HEADER.replace("\n", "\tmime_type\tpage_title\tmime_type\n").encode(),
            "duplicate column page_title, mime_type",
        ),
        "UTF-16": (HEADER.encode("utf-16"), "no column language"),
        "commas": (HEADER.replace("\t", ",").encode(), "no column language"),
    }

    def check(content: bytes, message: str) -> None:
        path = tmp_path / "wit.tsv.gz"
        path.write_bytes(content)
        with pytest.raises(InputError) as raised:
            check_header(str(path))
        assert str(raised.value).startswith(f"{path}: ")
        assert message in str(raised.value)
        assert "\n" not in str(raised.value)

    check_cases(check, cases)


PARQUET = b'PAR1\x15\x04"a\rb\n'  # the csv module refuses such a line with its own message
FOREIGN = {
    "Parquet": (PARQUET, "is Parquet; corpus=wit reads .tsv, .tsv.gz and .tsv.zst; corpus=wit_base reads"),
    "gzip of Parquet": (gzip.compress(PARQUET, mtime=0), "is gzip of Parquet; .*corpus=wit_base reads"),
    "zstd of Parquet": (pa.compress(PARQUET, "zstd", asbytes=True), "is zstd of Parquet; "),
    "gzip twice": (gzip.compress(gzip.compress(HEADER.encode(), mtime=0), mtime=0), "is gzip of compressed data"),
    "bzip2": (b"BZh91AY&SY\x00\ra\n", "is bzip2; "),
    "zip": (b"PK\x03\x04\ra\x00", "is a zip archive; "),
    "tar": (gzip.compress(b"x.tsv".ljust(257, b"\0") + b"ustar\x0000", mtime=0), "is gzip of a tar archive; "),
}


def test_another_format_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "wit.tsv.gz"
    missed = []
    for name, (content, message) in FOREIGN.items():
        path.write_bytes(content)
        with pytest.raises(InputError) as raised:
            check_header(str(path))
        if not re.search(message, str(raised.value)):
            missed.append((name, str(raised.value)))
    assert missed == []


def test_a_right_header_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "wit.tsv.gz"
    path.write_bytes(gzip.compress(("\ufeff" + HEADER.replace("\n", "\r\n")).encode()))
    check_header(str(path))
    with pytest.raises(InputError, match=r"none\.tsv"):
        check_header(str(tmp_path / "none.tsv"))


def test_progress_tells_all_bytes_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk(monkeypatch, 4096)
    _, content = many(5000)
    path = tmp_path / "f.tsv.gz"
    path.write_bytes(gzip.compress(content))
    reported: list[tuple[int, int]] = []
    scanned = scan_file(
        str(path),
        language=None,
        matcher=Every(),
        counts=Counts(),
        reject=lambda reject: None,
        progress=lambda size, rows: reported.append((size, rows)),
    )
    assert sum(1 for _ in scanned) == 5000
    assert len(reported) > 1
    assert (sum(s for s, _ in reported), sum(r for _, r in reported)) == (path.stat().st_size, 5000)


def test_the_split_is_in_the_name() -> None:
    expected = {
        "s3://b/train/wit_v1.val.all-00000-of-00005.tsv.gz": "val",
        "wit_v1.train.all-00003-of-00010.tsv.gz": "train",
        "x/test-1.tsv": "test",
        "x/contest.tsv": "",
        "x/training.tsv": "",
    }
    assert {uri: split_of(uri) for uri in expected} == expected


# Cells of anything that QUOTE_MINIMAL writes so that it reads back, a carriage return alone left out.
CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0") | st.sampled_from('\t\n"é😀'), max_size=8)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.lists(CELLS, min_size=5, max_size=5), max_size=8), chunk=st.integers(1, 9), crlf=st.booleans())
def test_valid_files_read_as_pythons_csv_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: list[list[str]], chunk: int, crlf: bool
) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, delimiter="\t", lineterminator="\r\n" if crlf else "\n").writerows([NARROW, *rows])
    path = tmp_path / "f.tsv"
    path.write_bytes(gzip.compress(buffer.getvalue().encode()))
    set_chunk(monkeypatch, chunk)
    expected = list(csv.reader(io.StringIO(buffer.getvalue(), newline=""), delimiter="\t"))[1:]
    actual = Scanned(path)
    assert [[hit.fields[name] for name in NARROW] for hit in actual.hits] == expected == rows
    assert actual.rejects == []


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.binary(max_size=60), pack=st.booleans(), cut=st.integers(0, 30))
def test_any_bytes_balance_and_keep_the_rows_before_them(tmp_path: Path, junk: bytes, pack: bool, cut: int) -> None:
    content = (HEADER + row("one") + row("two")).encode()
    packed = gzip.compress(content + junk) if pack else content + junk
    actual = scan(tmp_path, packed[: len(packed) - min(cut, len(junk))])
    if not pack:
        assert actual.titles[:2] == ["one", "two"]
    assert set(actual.reasons) <= {"malformed", "invalid_utf8", "truncated", "corrupt"}


LINES = st.lists(
    st.sampled_from([
        row("one").encode(), row("two", "de").encode(), row('"a\nb"').encode(), b"too\tfew\n", row('"stray').encode(),
        row('in "the" middle').encode(), row("lone\rreturn").encode(), row("\r\n").encode(), b"\n",
        row("x\0y").encode(),
        row("bad").encode().replace(b"bad", b"b\xffd"), row("bad", "de").encode().replace(b"bad", b"b\xffd"),
        row("p").encode().replace(b"http://p", b"\xc3"), b'"', row("x" * 90).encode(), row('"q" x').encode(),
    ]),
    max_size=30,
)  # fmt: skip


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=LINES, chunk=st.sampled_from([1, 16, 64, 200, 1 << 16]), language=st.sampled_from(["en", None]))
def test_the_byte_scan_with_its_detours_gives_what_csv_alone_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[bytes], chunk: int, language: str | None
) -> None:
    path = tmp_path / "f.tsv"
    path.write_bytes(HEADER.encode() + b"".join(lines))
    alone = Scanned(path, language, csv_alone=True)
    set_chunk(monkeypatch, chunk)
    for scan_or_numpy in (index_compiled.SCAN, None):
        with monkeypatch.context() as patch:
            patch.setattr(index_compiled, "SCAN", scan_or_numpy)
            actual = Scanned(path, language)
        actual.counts.tallies.clear()
        assert (actual.hits, actual.rejects, actual.counts) == (alone.hits, alone.rejects, alone.counts)


def test_the_byte_scan_takes_over_again_behind_a_doubtful_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk(monkeypatch, 4096)
    rows = [row(str(n)) for n in range(5000)]
    for place in (10, 3000):
        rows[place] = row('a "quote" in a field')
    actual = scan(tmp_path, HEADER + "".join(rows))
    assert len(actual.hits) == len(rows)
    ((message, read),) = actual.counts.tallies["read_by_csv"].items()
    assert message.startswith("f.tsv, first at byte ")
    assert "a quote inside an unquoted field" in message
    assert 2 < read < len(rows) / 2


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_row_larger_than_every_buffer(tmp_path: Path, pack: Any) -> None:
    huge = row('"' + ("y" * 2998 + "\t\n") * 2000 + '"')
    actual = scan(tmp_path, pack((HEADER + row("one") + huge + row("two") * 9).encode()))
    assert [len(title or "") for title in actual.titles] == [3, 6_000_000, *[3] * 9]
    ((message, read),) = actual.counts.tallies["read_by_csv"].items()
    assert ("a row of more than 4,194,304 bytes" in message, read) == (True, 1)
    assert actual.rejects == []


def test_other_formats_are_refused_by_name(tmp_path: Path) -> None:
    def check(magic: bytes) -> None:
        path = tmp_path / "wit.tsv.gz"
        path.write_bytes(magic + bytes(50))
        with pytest.raises(InputError, match=r"wit\.tsv\.gz: .* (bzip2|xz|a zip archive|Parquet); .*\.tsv, \.tsv\.gz"):
            check_header(str(path))

    check_cases(check, [b"BZh91AY", b"\xfd7zXZ\0", b"PK\x03\x04", b"PAR1"])


def test_the_real_files_give_the_expected_counts(data: Path) -> None:
    from actors.titles import TitleMatcher

    expected = json.loads((data / "wit" / "expected.json").read_text())
    terms = read_terms(TermsConfig(path=str(data / "century" / "knowledge_graph_search_terms.csv")))
    assert len(terms) == expected["distinct_terms"]
    matcher, total = TitleMatcher(terms), Counts()
    for name, rows in expected["files"].items():
        counts, rejects = Counts(), list[Reject]()
        uri = str(data / "wit" / name)
        hits = scan_file(uri, language="en", matcher=matcher, counts=counts, reject=rejects.append)
        counts.rows_out = sum(1 for _ in hits)
        assert (counts.rows_in, rejects, counts.balances()) == (rows, [], True)
        total += counts
    steps = expected["steps"]
    assert total.rows_in == steps["0_all_rows"]
    assert total.rows_in - total.filtered["language"] == steps["1_language_en"]
    assert total.rows_out == steps["2_title_contains_term"]


def test_of_a_folder_only_wit_files_are_read(tmp_path: Path) -> None:
    for name in ("a.tsv", "b.tsv.gz", "c.tsv.zst", "README.md", "counts.json"):
        (tmp_path / name).write_text(HEADER)
    assert [Path(o.uri).name for o in find_files(str(tmp_path))] == ["a.tsv", "b.tsv.gz", "c.tsv.zst"]
    assert len(find_files(str(tmp_path / "*"))) == 5
    assert len(find_files(str(tmp_path / "README.md"))) == 1


def test_a_folder_without_wit_files_is_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "b.json"):
        (tmp_path / name).write_text("x")
    with pytest.raises(InputError, match=r"2 files, none of them \.tsv"):
        find_files(str(tmp_path))


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


def test_a_stream_that_breaks_after_rows_were_given_out_gives_each_once(
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
