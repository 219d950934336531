"""WIT (Wikipedia-based Image Text): tab-separated files with a header, CSV quoting, gzip, zstd or plain.

Quoted fields may hold tabs, newlines and doubled quotes. The byte scan (`wit_scan`) reads; where it cannot be sure
the csv module does (`wit_rows`), for about a megabyte, and then the byte scan again. What is not a row of the header's
width is a reject with its position, and so is a row that is not UTF-8, if its language is the wanted one and its title
cannot be read or holds a term; rows that are not wanted are not decoded. The rows around a reject are kept. A
compressed file that ends or breaks early gives the rows before the break and one reject that says where.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from glob import has_magic

from omegaconf import MISSING

from actors.errors import first_line
from actors.titles import TitleMatcher
from jobs.corpora.wit import index_c
from jobs.corpora.wit.byte_scan import FastScan, UncertainError
from jobs.corpora.wit.csv_rows import RowReader, open_rows
from jobs.corpora.wit.streams import FAILURES, PARQUET, ByteSource, fast_stream, foreign_format, opened
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.counts import Counts
from jobs.store.writer import Reject
from jobs.tables import WIT_COLUMNS

NEEDED = ("language", "page_url", "image_url", "page_title", "is_main_image")
CHUNK = 1 << 20


@dataclass
class WitConfig:
    """Which files, and which rows of them."""

    name: str = "wit"
    path: str = MISSING  # file, folder or glob; local or s3://
    language: str | None = "en"  # null: every language


@dataclass(frozen=True)
class MatchedRow:
    """A row that is kept: its fields by WIT column (None where the file has no such column), and its terms."""

    fields: dict[str, str | None]
    terms: list[str]


def split_of(uri: str) -> str:
    """train, val or test as the file's name says, else empty."""
    found = re.search(r"(?:^|[._-])(train|val|test)(?=[._-])", uri.rsplit("/", 1)[-1])
    return found.group(1) if found else ""


def find_files(path: str) -> Sequence[locations.Object]:
    """The corpus's files: what `path` names, and of a folder only what is called .tsv, .tsv.gz or .tsv.zst.

    Raises:
        InputError: nothing there.
    """
    found = locations.find(path)
    if len(found) == 1 or has_magic(path):
        return found
    named = [o for o in found if re.search(r"\.tsv(\.gz|\.zst)?$", o.uri)]
    if not named:
        hint = " (corpus=wit_base reads Parquet)" if any(o.uri.endswith(".parquet") for o in found) else ""
        raise InputError(f"{path}: {len(found)} files, none of them .tsv, .tsv.gz or .tsv.zst{hint}")
    return named


def check_header(uri: str) -> None:
    """Read the first line of `uri`.

    Raises:
        InputError: empty, unreadable, of another format, without a needed column or with one twice; the sentence names
            file and column.
    """
    with locations.named_errors(uri):
        try:
            header = _header(uri)
            if missing := [c for c in NEEDED if c not in header]:
                raise InputError(f"{uri}: no column {', '.join(missing)} in its header")
        except InputError:
            if name := foreign_format(uri):
                advice = "corpus=wit_base reads unpacked Parquet" if name.endswith(PARQUET) else "unpack or convert it"
                raise InputError(f"{uri}: is {name}; corpus=wit reads .tsv, .tsv.gz and .tsv.zst; {advice}") from None
            raise
    if twice := [c for c in WIT_COLUMNS if header.count(c) > 1]:
        raise InputError(f"{uri}: column {', '.join(twice)} stands twice in its header")


def _header(uri: str) -> list[str]:
    try:
        with open_rows(uri) as file:
            return file.header
    except InputError:
        raise
    except ValueError as error:  # pyarrow's errors are such
        raise InputError(f"{uri}: cannot be read as WIT ({first_line(error)})") from error


def scan_file(
    uri: str,
    *,
    language: str | None,
    matcher: TitleMatcher,
    counts: Counts,
    reject: Callable[[Reject], None],
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[MatchedRow]:
    """The rows of `language` whose page title holds a term, in file order.

    `counts.rows_in` and `counts.filtered` (by `language` and `title`) are kept up to date; what is not a row
    goes to `reject`, which counts it. `progress(compressed_bytes, rows)` is called with what came since the
    last call.

    `counts.tallies` says under `read_by_csv` what the csv module read, by file with the first place and reason: rows.
    """
    found = _Scan(uri, language=language, matcher=matcher, counts=counts, reject=reject, progress=progress)
    with opened(uri) as (source, kind):
        try:
            yield from found.scanned(source, fast_stream(source, kind))
            return
        except UncertainError as doubt:
            if source.failure is not None:
                raise source.failure from None
            offset, reason = doubt.offset, doubt.reason
    # The stream can give no more, or there is no header that the byte scan can use.
    with open_rows(uri, offset) as reader:
        yield from found.parsed(reader, offset, reason)


def scanner() -> str:
    """How this process looks through files, for the run to say."""
    return "NumPy" if index_c.kernel() is None else "compiled loop"


class _Scan:
    """What is found in a file, by whichever way it is read."""

    def __init__(
        self,
        uri: str,
        *,
        language: str | None,
        matcher: TitleMatcher,
        counts: Counts,
        reject: Callable[[Reject], None],
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._uri, self._language, self._matcher = uri, language, matcher
        self._counts, self._reject, self._progress = counts, reject, progress
        self._told_bytes = self._told_rows = 0
        self._by_csv = ""

    def scanned(self, source: ByteSource, stream: object) -> Iterator[MatchedRow]:
        """The hits of a file from its start on, by the byte scan and where it is in doubt by the csv module.

        Raises:
            UncertainError: it can be read no further in this way; all before its offset was given out.
        """
        scan = FastScan(stream, chunk=CHUNK)
        place = _places(scan.header)
        while True:
            try:
                hits = scan.hits(
                    language=self._language,
                    matcher=self._matcher,
                    counts=self._counts,
                    progress=lambda _: self._tell(source.tell()),
                )
                for fields, terms in hits:
                    yield _hit(fields, place, terms)
                return
            except UncertainError as doubt:
                if doubt.broken or not {"language", "page_title"} <= place.keys():
                    raise
                offset, reason = doubt.offset, doubt.reason
            back, size = scan.give_back()
            reader = RowReader(self._uri, source, back, header=scan.header, offset=offset)
            try:
                yield from self.parsed(reader, offset, reason, until=offset + size)
            except FAILURES as error:
                raise UncertainError(str(error), reader.row_offset, broken=True) from error
            back.push(reader.unread())
            scan.resume(reader.offset)

    def parsed(self, reader: RowReader, offset: int, reason: str, *, until: int | None = None) -> Iterator[MatchedRow]:
        """The hits of the rows from `offset` on, by the csv module; up to the row that begins at `until` or behind."""
        place = _places(reader.header)
        at_language, at_title = place["language"], place["page_title"]
        counts = self._counts
        for row in reader.rows():
            counts.rows_in += 1
            self._note_csv(offset, reason)
            if counts.rows_in % 2048 == 0:
                self._tell(reader.compressed_position())
            if isinstance(row, Reject):
                self._reject(row)
            elif self._language is not None and row[at_language] != self._language:
                counts.filtered["language"] += 1
            elif not _is_text(row[at_title]):
                self._reject(reader.reject("invalid_utf8", "the title is not UTF-8"))
            elif not (terms := self._matcher.match(row[at_title])):
                counts.filtered["title"] += 1
            elif not all(map(_is_text, row)):
                self._reject(reader.reject("invalid_utf8", "the row is not UTF-8"))
            else:
                yield _hit(row, place, terms)
            if until is not None and reader.offset >= until:
                return
        self._tell(reader.compressed_position())

    def _note_csv(self, offset: int, reason: str) -> None:
        # One entry a file: a file may be in doubt in a million places.
        self._by_csv = self._by_csv or f"{self._uri.rsplit('/', 1)[-1]}, first at byte {offset:,} ({reason})"
        tally = self._counts.tallies.setdefault("read_by_csv", {})
        tally[self._by_csv] = tally.get(self._by_csv, 0) + 1

    def _tell(self, position: int) -> None:
        """Tell `progress` what came since it was last told."""
        if self._progress is not None:
            self._progress(max(position - self._told_bytes, 0), self._counts.rows_in - self._told_rows)
            self._told_bytes, self._told_rows = max(position, self._told_bytes), self._counts.rows_in


def _places(header: list[str]) -> dict[str, int]:
    return {name: header.index(name) for name in WIT_COLUMNS if name in header}


def _is_text(field: str) -> bool:
    """Whether it was UTF-8: bytes that were not are lone surrogates."""
    try:
        field.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hit(fields: list[str], place: dict[str, int], terms: list[str]) -> MatchedRow:
    return MatchedRow({name: fields[place[name]] if name in place else None for name in WIT_COLUMNS}, terms)
