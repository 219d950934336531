"""WIT files: each row kept or rejected, never lost; formats, headers and the byte scan."""

import csv
import gzip
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.titles import TitleMatcher
from jobs.corpora.corpus import TitleSearch
from jobs.corpora.terms import TermsConfig, read_terms
from jobs.corpora.wit import row_index
from jobs.corpora.wit.reader import check_header, find_files, scan_file, scanner, split_of
from jobs.errors import InputError
from jobs.store.counts import Counts
from jobs.store.writer import Reject
from jobs.tables import WIT_COLUMNS
from tests.cases import check_cases
from tests.jobs.corpora.wit.scanned_rows import HEADER, NARROW, Every, Scanned, many, row, scan, set_chunk


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
    hits = list(scan_file(str(path), TitleSearch("en", TitleMatcher(["war"]), counts, rejects.append)))
    assert [(h.fields["page_title"], h.terms) for h in hits] == [("war", ["war"])]
    assert (counts.rows_in, dict(counts.filtered), rejects) == (3, {"language": 1, "title": 1}, [])
    assert len(list(scan_file(str(path), TitleSearch(None, TitleMatcher(["war"]), counts, rejects.append)))) == 2


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


def test_progress_reports_all_bytes_and_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_chunk(monkeypatch, 4096)
    _, content = many(5000)
    path = tmp_path / "f.tsv.gz"
    path.write_bytes(gzip.compress(content))
    reported: list[tuple[int, int]] = []
    scanned = scan_file(
        str(path),
        TitleSearch(
            language=None,
            matcher=Every(),
            counts=Counts(),
            reject=lambda reject: None,
            progress=lambda size, rows: reported.append((size, rows)),
        ),
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
    for scan_or_numpy in (row_index.SCAN, None):
        with monkeypatch.context() as patch:
            patch.setattr(row_index, "SCAN", scan_or_numpy)
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
        hits = scan_file(uri, TitleSearch("en", matcher, counts, rejects.append))
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
    with pytest.raises(InputError, match=r"2 files, none of them \.tsv, \.tsv\.gz or \.tsv\.zst$"):
        find_files(str(tmp_path))
    (tmp_path / "c.parquet").write_text("x")
    with pytest.raises(InputError, match=r"3 files, none of them .* \(corpus=wit_base reads Parquet\)$"):
        find_files(str(tmp_path))


def test_a_scan_names_its_method_and_reports_rows_that_the_csv_module_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for installed, name in ((None, "NumPy"), (lambda *_: 0, "compiled loop")):
        monkeypatch.setattr(row_index, "SCAN", installed)
        assert scanner() == name
    monkeypatch.setattr(row_index, "SCAN", None)
    path = tmp_path / "f.tsv.gz"
    path.write_bytes(gzip.compress((HEADER + row("one") + row('a "quote" in a field') * 3).encode())[:-4])
    reported: list[tuple[int, int]] = []
    counts, rejects = Counts(), list[Reject]()

    def progress(size: int, rows: int) -> None:
        reported.append((size, rows))

    keys: Any = {"language": None, "matcher": Every(), "counts": counts, "reject": rejects.append}
    assert len(list(scan_file(str(path), TitleSearch(progress=progress, **keys)))) == 4
    assert sum(rows for _, rows in reported) == counts.rows_in == 5, "the truncated end is a reject"
    assert sum(size for size, _ in reported) == path.stat().st_size


def test_the_header_of_a_joined_file_is_counted_and_no_row(tmp_path: Path) -> None:
    path = tmp_path / "joined.tsv.gz"
    files = (gzip.compress((HEADER + row(title)).encode()) for title in ("First battle", "Second battle"))
    path.write_bytes(b"".join(files))
    for csv_alone in (False, True):
        read = Scanned(path, csv_alone=csv_alone)
        assert read.titles == ["First battle", "Second battle"]
        assert (read.counts.rows_in, read.counts.filtered) == (3, {"repeated_header": 1})
