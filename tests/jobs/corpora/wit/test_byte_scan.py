"""The byte scan finds and counts what Python's csv module does, or says that it cannot be sure."""

import csv
import gzip
import io
import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.titles import TitleMatcher
from jobs.corpora.wit import row_index, streams
from jobs.corpora.wit.byte_scan import FastScan, UncertainError
from jobs.corpora.wit.streams import gzip_stream
from jobs.store.counts import Counts
from tests.cases import check_cases

HEADER = ["language", "page_url", "page_title", "text"]
MATCHER = TitleMatcher(["Siege of Acre", "acre", "straße", "ὀδυσσεύς"])
Hits = list[tuple[list[str], list[str]]]


@pytest.fixture(autouse=True, scope="module", params=["compiled", "numpy"])
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs with the extension module, if it is installed, and with NumPy."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(row_index, "SCAN", None)
        elif row_index.SCAN is None:
            pytest.skip("_remine_byte_index is not installed: pip install -e . with a C compiler")
        yield


def scan(raw: bytes, *, language: str | None = "en", chunk: int = 64, **more: Any) -> tuple[Hits, Counts]:
    counts = Counts()
    fast = FastScan(io.BytesIO(raw), chunk=chunk, **more)
    return list(fast.hits(language=language, matcher=MATCHER, counts=counts)), counts


def by_csv(raw: bytes, *, language: str | None = "en") -> tuple[Hits, Counts]:
    """Return the hits and counts of the csv module, which are the expected ones."""
    csv.field_size_limit(1 << 24)
    rows = csv.reader(io.StringIO(raw.decode().removeprefix("\ufeff"), newline=""), delimiter="\t")
    header = next(rows)
    counts, actual = Counts(), []
    for row in rows:
        assert len(row) == len(header)
        counts.rows_in += 1
        if language is not None and row[header.index("language")] != language:
            counts.filtered["language"] += 1
        elif terms := MATCHER.match(row[header.index("page_title")]):
            actual.append((row, terms))
        else:
            counts.filtered["title"] += 1
    return actual, counts


def written(rows: Sequence[Sequence[str]], *, header: Sequence[str] = HEADER, end: str = "\n", **more: Any) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter="\t", lineterminator=end, **more).writerows([header, *rows])
    return text.getvalue().encode()


def same(raw: bytes, *, language: str | None = "en", chunk: int = 64) -> Hits:
    actual, counts = scan(raw, language=language, chunk=chunk)
    assert (actual, counts) == by_csv(raw, language=language)
    return actual


ROWS = [
    ["de", "u1", "Siege of Acre", "x"],
    ["en", "u2", "The SIEGE of Acre, again", "plain"],
    ["en", "u3", "nothing", "a\tb\nen\tc"],
    ["fr", "u4", "Acre", 'say "en"\nen\tu\tAcre\tv'],
    ["en", "u5", 'Siege "of" Acre', ""],
]

PIECES = st.sampled_from(
    ["en", "de", "e", "n", "Acre", "siege of ", "STRASSE", "Straße", "ὈΔΥΣΣΕΎΣ", "İ", "\t", "\n", '"', '""', "\r\n",
     " ", "*", "\x02", "\0", "x" * 70, "\nen\t", '"\t"', "\u2028", "\x85", "\v", "\nen\tu\tacre\tv\n", "é", "é"]
)  # fmt: skip
FIELD = st.lists(PIECES, max_size=5).map("".join)
LANGUAGE = st.one_of(
    st.just("en"), st.just("en"), st.sampled_from(["de", "", 'e"n', "e\tn", "en\n", "eng", "e"]), FIELD
)


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, str | None, int]:
    """Return a nasty file as csv.writer writes it, a language to look for, a size of buffer."""
    header = draw(st.permutations(HEADER))
    rows = draw(st.lists(st.fixed_dictionaries({name: LANGUAGE if name == "language" else FIELD for name in HEADER})))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    raw = written([[row[name] for name in header] for row in rows], header=header, end=end, quoting=quoting)
    if draw(st.booleans()):
        raw = raw.removesuffix(end.encode())
    if draw(st.booleans()):
        raw = b"\xef\xbb\xbf" + raw
    language = draw(st.one_of(st.just("en"), st.none(), st.sampled_from(["", 'e"n', "e\tn", "en\n", "de"])))
    return raw, language, draw(st.sampled_from([1, 2, 3, 7, 16, 64, 300, 4096]))


@settings(max_examples=150, deadline=None)
@given(files())
def test_nasty_files_read_as_the_csv_module_reads_them(file: tuple[bytes, str | None, int]) -> None:
    raw, language, chunk = file
    same(raw, language=language, chunk=chunk)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.sampled_from([b"en", b"\t", b"\t", b"\t", b"\n", b"\n", b'"', b'"', b"\r", b"\r\n", b"acre", b"x"])),
    st.integers(1, 40),
)
@example([b"en\tu\tacre\tx\n"], 7)
@example([b'en\tu\tacre\tx"y\n', b'en\tu\tacre\tx"y\n'], 7)
@example([b'en\tu\tacre\t"x\n', b'de"\tu\tacre\tx\n'], 7)
def test_whatever_bytes_come_they_are_read_as_csv_or_refused(body: list[bytes], chunk: int) -> None:
    """Not written by any writer: stray quotes, open quotes, lone carriage returns, rows of every width."""
    raw = "\t".join(HEADER).encode() + b"\n" + b"".join(body)
    try:
        actual, counts = scan(raw, chunk=chunk)
    except UncertainError:
        return
    assert (actual, counts) == by_csv(raw)


def test_quoted_fields_hold_line_ends_tabs_quotes_and_starts_of_rows() -> None:
    def check(chunk: int, language: str | None) -> None:
        assert len(same(written(ROWS), language=language, chunk=chunk)) == (2 if language else 4)

    check_cases(check, itertools.product([1, 5, 64, 1 << 20], ["en", None]))


def test_crlf_and_a_missing_last_line_end() -> None:
    raw = written(ROWS, end="\r\n")
    assert len(same(raw)) == 2
    assert same(raw.removesuffix(b"\n")) == same(raw.removesuffix(b"\r\n")) == same(raw)
    turned = written([row[::-1] for row in ROWS], header=HEADER[::-1], end="\r\n")
    assert [row[::-1] for row, _ in same(turned)] == [row for row, _ in same(raw)]
    last = written([[row[0], row[1], row[3], row[2]] for row in ROWS], header=[*HEADER[:2], "text", "page_title"])
    assert len(same(last.replace(b"\n", b"\r\n"))) == 2


def test_a_byte_order_mark_and_columns_in_another_order() -> None:
    assert len(same(b"\xef\xbb\xbf" + written(ROWS))) == 2
    order = [3, 2, 0, 1]
    raw = written([[row[i] for i in order] for row in ROWS], header=[HEADER[i] for i in order])
    assert [row[1] for row, _ in same(raw)] == ["The SIEGE of Acre, again", 'Siege "of" Acre']


def test_a_quoted_language_is_the_language() -> None:
    assert len(same(written(ROWS, quoting=csv.QUOTE_ALL))) == 2
    assert len(same(written([['e"n', "u", "Acre", ""], ["e", "u", "Acre", ""]]), language='e"n')) == 1


def test_a_row_larger_than_the_buffer() -> None:
    rows = [*ROWS, ["en", "u6", "Acre", "long \n\t" * 5000], *ROWS]
    assert len(same(written(rows), chunk=100)) == 5
    with pytest.raises(UncertainError, match="a row of more than 1,000 bytes") as raised:
        scan(written(rows), chunk=100, longest_row=1000)
    assert written(rows)[raised.value.offset :].startswith(b"en\tu6\t")


def test_a_title_far_from_the_start_of_its_row() -> None:
    assert len(same(written([["en", "u" * size, "Acre", ""] for size in range(300)]))) == 300


def test_titles_with_nul_are_matched_one_by_one() -> None:
    assert len(same(written([["en", "u", "Ac\0re", ""], ["en", "u", "\0Acre", ""], ["en", "", "", ""]]))) == 1


def test_folding_does_not_see_the_neighbouring_title() -> None:
    titles = ["ὈΔΥΣΣΕΎΣ", "Σ", "ΑΣ", "Σ", "STRASSE", "STRAẞE", "İ", "ὈΔΥΣΣΕΎΣ"]
    actual = same(written([["en", "u", title, ""] for title in titles]))
    assert [row[2] for row, _ in actual] == ["ὈΔΥΣΣΕΎΣ", "STRAẞE", "ὈΔΥΣΣΕΎΣ"]


@given(st.lists(st.text(alphabet="aΣσςİıß'.: \u0301", max_size=6)))
def test_titles_match_joined_as_they_do_alone(titles: list[str]) -> None:
    matcher = TitleMatcher(["ας", "ασ", "σα", "i̇", "a"])
    alone = {number: terms for number, title in enumerate(titles) if (terms := matcher.match(title))}
    assert (matcher.match_joined("\0".join(titles)) if titles else {}) == alone


def test_a_term_with_the_separator_is_not_found_across_titles() -> None:
    matcher = TitleMatcher(["a\0b", "c"])
    assert matcher.match_joined("xa\0bx\0c") == {2: ["c"]}
    assert matcher.match("xa\0bx") == ["a\0b"]


def test_all_overlapping_terms_are_returned() -> None:
    assert MATCHER.match_joined("none\0the siege of acre") == {1: ["acre", "siege of acre"]}


def test_gzip_of_several_members(tmp_path: Path) -> None:
    raw = written(ROWS * 50)
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(raw[:1000]) + gzip.compress(raw[1000:1001]) + gzip.compress(raw[1001:]))
    counts = Counts()
    with path.open("rb") as file:
        actual = list(FastScan(gzip_stream(file), chunk=512).hits(language="en", matcher=MATCHER, counts=counts))
    assert (actual, counts) == by_csv(raw)


def test_without_the_inner_reader_of_isal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(streams.isal_zlib, "_GzipReader")
    stream = gzip_stream(io.BytesIO(gzip.compress(written(ROWS))))
    assert len(list(FastScan(stream).hits(language="en", matcher=MATCHER, counts=Counts()))) == 2


def test_a_stream_that_gives_little_at_a_time() -> None:
    class Slow(io.BytesIO):
        def readinto(self, buffer: Any) -> int:
            return super().readinto(memoryview(buffer)[:3])

    counts = Counts()
    actual = list(FastScan(Slow(written(ROWS)), chunk=64).hits(language="en", matcher=MATCHER, counts=counts))
    assert (actual, counts) == by_csv(written(ROWS))


def test_only_a_header() -> None:
    assert same(written([])) == same(written([]).strip()) == []


def test_progress_adds_up_to_the_rows() -> None:
    reported: list[int] = []
    fast, counts = FastScan(io.BytesIO(written(ROWS * 20)), chunk=100), Counts()
    list(fast.hits(language="en", matcher=MATCHER, counts=counts, progress=reported.append))
    assert sum(reported) == counts.rows_in == 100
    assert len(reported) > 10


SOUND = written(ROWS)
UNSURE = {
    "a quote in an unquoted field": b'en\tu\tAcre\tx"y\nen\tu\tAcre\tx"y\n',
    "an even number of them": b'en\tu\tthe "Acre" siege\tx\n',
    "doubled in an unquoted field": b'en\tu\tthe ""Acre\tx\n',
    "text behind a closing quote": b'en\tu\t"Acre"s\tx\n',
    "text behind a closing quote that hides a row": b'en\tu\tx\t"a"b\n"\tc"\n',
    "a quote that is never closed": b'en\tu\tAcre\t"x\n',
    "the same without a line end": b'en\tu\tAcre\t"x',
    "a carriage return in a field": b"en\tu\tAc\rre\tx\n",
    "carriage returns as line ends": b"en\tu\tAcre\tx\ren\tu\tAcre\tx\r",
    "two carriage returns": b"en\tu\tAcre\tx\r\r\n",
    "a quote behind a carriage return": b'en\tu\t\r"Acre"\tx\n',
    "a field too few in a matched row": b"en\tu\tAcre\n",
    "a field too many in a matched row": b"en\tu\tAcre\tx\ty\n",
    "a field too few in another": b"de\tu\tAcre\n",
    "widths that add up": b"de\tu\tAcre\tx\ty\nde\tu\tAcre\n",
    "widths that add up to a byte": b"de" + b"\t" * 259 + b"\n",
    "an unquoted line end": b"de\tu\tAcre\tx\ny\n",
    "an empty line": b"\n",
    "a blank line": b"  \r\n",
    "a title that is not UTF-8": b"en\tu\tnothing \xff\tx\n",
    "half a character at the end of a title": b"en\tu\tnothing \xc3\tx\n",
    "a surrogate in a title": b"en\tu\t\xed\xa0\x80\tx\n",
    "a matched row that is not UTF-8": b"en\tu\tAcre\t\xff\n",
}
UNDECODED = b"en\tu\tnothing\t\xff\n" + b"de\tu\tAcre \xff\tx\n" + b"\xff\tu\tAcre\tx\n"


def test_doubt_is_raised_before_any_row_of_the_buffer_is_yielded() -> None:
    def check(case: str, chunk: int) -> None:
        raw = SOUND + UNSURE[case] + SOUND.split(b"\n", 1)[1]
        counts, actual = Counts(), Hits()
        fast = FastScan(io.BytesIO(raw), chunk=chunk)
        with pytest.raises(UncertainError) as raised:
            actual.extend(fast.hits(language="en", matcher=MATCHER, counts=counts))
        # all before the offset is final, and is what the csv module makes of it
        offset = raised.value.offset
        assert offset <= len(SOUND)
        if chunk == 3:
            assert offset > len(SOUND) / 2
        expected, expected_counts = by_csv(raw[:offset] if offset else SOUND.split(b"\n", 1)[0])
        assert counts == expected_counts
        assert actual == [] or len(actual) <= len(expected)

    check_cases(check, itertools.product(UNSURE, [3, 64, 1 << 16]))


def test_rows_that_are_not_wanted_are_not_decoded() -> None:
    actual, counts = scan(SOUND + UNDECODED)
    expected, expected_counts = by_csv(SOUND)
    assert actual == expected
    expected_counts.rows_in += 3
    expected_counts.filtered.update(language=2, title=1)
    assert counts == expected_counts


def test_hits_before_the_offset_are_returned() -> None:
    raw = SOUND + SOUND.split(b"\n", 1)[1] + b"broken\n"
    actual, counts = Hits(), Counts()
    scanned = FastScan(io.BytesIO(raw), chunk=16).hits(language="en", matcher=MATCHER, counts=counts)
    with pytest.raises(UncertainError) as raised:
        actual.extend(scanned)
    assert (actual, counts) == by_csv(raw[: raised.value.offset])
    assert len(actual) >= 2


def test_a_header_that_will_not_do() -> None:
    cases = [
        (b"", "empty"),
        (b"\xff\xfe\n", "header"),
        (b"language\tpage_url\nen\tu\n", "no column page_title"),
        (b"\n", "no column language, page_title"),
    ]

    def check(raw: bytes, message: str) -> None:
        with pytest.raises(UncertainError, match=message):
            scan(raw)

    check_cases(check, cases)


def test_broken_compression() -> None:
    def check(kept: float, harm: str) -> None:
        rng = random.Random(3)
        rows = [["en", str(rng.random()), "Acre", rng.randbytes(40).hex()] for _ in range(3000)]
        packed = bytearray(gzip.compress(written(rows)))
        place = int(len(packed) * kept)
        if harm == "truncated":
            del packed[place:]
        else:
            packed[place] ^= 0xFF
        counts = Counts()
        fast = FastScan(gzip_stream(io.BytesIO(packed)), chunk=4096)
        # what comes of damaged data may look wrong before its checksum does
        with pytest.raises(UncertainError, match=None if harm == "damaged" else "damaged or truncated") as raised:
            list(fast.hits(language="en", matcher=MATCHER, counts=counts))
        assert written(rows)[: raised.value.offset].count(b"\n") == counts.rows_in + (raised.value.offset > 0)

    check_cases(check, itertools.product([0.3, 0.7, 0.99], ["truncated", "damaged"]))


def test_real_data(data: Path) -> None:
    with (data / "century" / "knowledge_graph_search_terms.csv").open(encoding="utf-8", newline="") as file:
        terms = {row["terms"] for row in csv.DictReader(file)}
    matcher, plain = TitleMatcher(terms), TitleMatcher(terms)
    matches = 0
    for path in sorted((data / "wit").glob("*.tsv.gz")):
        counts = Counts()
        with path.open("rb") as source:
            actual = list(FastScan(gzip_stream(source)).hits(language="en", matcher=matcher, counts=counts))
        expected, seen = [], Counter[str]()
        with gzip.open(path, "rt", encoding="utf-8", newline="") as text:
            for row in csv.DictReader(text, delimiter="\t"):
                seen["rows"] += 1
                if row["language"] == "en":
                    seen["en"] += 1
                    if hit := plain.match(row["page_title"]):
                        expected.append((list(row.values()), hit))
        assert actual == expected
        assert (counts.rows_in, counts.filtered["language"]) == (seen["rows"], seen["rows"] - seen["en"])
        assert counts.filtered["title"] == seen["en"] - len(expected)
        matches += len(actual)
    assert matches == 1331


def test_rows_of_any_allowed_length_can_be_parsed() -> None:
    before = csv.field_size_limit()
    raw = "\t".join(HEADER).encode() + b"\n"
    try:
        for limit, expected in ((10, 107), (1000, 1000)):  # csv's limit is never lowered
            csv.field_size_limit(limit)
            FastScan(io.BytesIO(raw), chunk=7, longest_row=100)
            assert csv.field_size_limit() == expected
    finally:
        csv.field_size_limit(before)
