"""Reader of WIT (Wikipedia-based Image Text): tab-separated files with a header and CSV quoting, gzip, zstd or plain.

Quoted fields may contain tabs, newlines and doubled quotes. The byte scan (`byte_scan`) reads the file; where it might
differ from the csv module, that module reads about a megabyte (`csv_rows`) before the byte scan continues. A row
without the header's width is rejected with its position. So is a row that is not UTF-8, if it has the wanted language
and its title cannot be decoded or contains a term; other rows are not decoded. The rows around a reject are kept. A
truncated or damaged compressed file gives the rows before the damage and one reject with its position.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from glob import has_magic

from actors.errors import first_line
from actors.settings import Location
from jobs.corpora.corpus import MatchedRow, TitleSearch
from jobs.corpora.wit import row_index
from jobs.corpora.wit.byte_scan import FastScan, UncertainError
from jobs.corpora.wit.csv_rows import RowReader, open_rows
from jobs.corpora.wit.streams import FAILURES, PARQUET, ByteSource, fast_stream, foreign_format, opened
from jobs.errors import InputError
from jobs.runtime.configuration.key_types import MISSING
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.writer import Reject
from jobs.tables import WIT_COLUMNS

NEEDED = ("language", "page_url", "image_url", "page_title", "is_main_image")
CHUNK = 1 << 20


@dataclass
class WitConfig:
    """The files, and which of their rows to read."""

    name: str = "wit"
    path: Location[str] = MISSING  # file, folder or glob; local or s3://
    language: str | None = "en"  # null: every language


def split_of(uri: str) -> str:
    """Return train, val or test if the file's name contains it, else an empty string."""
    match = re.search(r"(?:^|[._-])(train|val|test)(?=[._-])", uri.rsplit("/", 1)[-1])
    return match.group(1) if match else ""


def find_files(path: str) -> Sequence[Object]:
    """Return the files at `path`; in a folder, those called .tsv, .tsv.gz or .tsv.zst.

    Raises:
        InputError: there is no such file.
    """
    files = locations.find(path)
    if len(files) == 1 or has_magic(path):
        return files
    tsv_files = [o for o in files if re.search(r"\.tsv(\.gz|\.zst)?$", o.uri)]
    if not tsv_files:
        hint = " (corpus=wit_base reads Parquet)" if any(o.uri.endswith(".parquet") for o in files) else ""
        raise InputError(f"{len(files)} files, none of them .tsv, .tsv.gz or .tsv.zst{hint}", place=path)
    return tsv_files


def check_header(uri: str) -> None:
    """Read the first line of `uri` and check its columns.

    Raises:
        InputError: the file is empty, unreadable or in another format, or its header lacks or repeats a required
            column; the message has the file and column.
    """
    with locations.named_errors(uri):
        try:
            header = _header(uri)
            if missing := [c for c in NEEDED if c not in header]:
                raise InputError(
                    f"no column {', '.join(missing)} in its header, which WIT's files have; "
                    "read your own file with remine items",
                    place=uri,
                )
        except InputError:
            if name := foreign_format(uri):
                advice = "corpus=wit_base reads unpacked Parquet" if name.endswith(PARQUET) else "unpack or convert it"
                raise InputError(
                    f"the format is {name}; corpus=wit reads .tsv, .tsv.gz and .tsv.zst; {advice}", place=uri
                ) from None
            raise
    if repeated := [c for c in WIT_COLUMNS if header.count(c) > 1]:
        raise InputError(f"duplicate column {', '.join(repeated)} in its header", place=uri)


def _header(uri: str) -> list[str]:
    try:
        with open_rows(uri) as file:
            return file.header
    except InputError:
        raise
    except ValueError as error:  # includes pyarrow's errors
        raise InputError(f"cannot be read as WIT ({first_line(error)})", place=uri) from error


def scan_file(uri: str, search: TitleSearch) -> Iterator[MatchedRow]:
    """Yield the rows of the language whose page title contains a term, in file order (see `TitleSearch`).

    `counts.tallies["read_by_csv"]` contains the number of rows that the csv module read, by file with the first
    position and reason.

    Raises:
        InputError: the file cannot be read or has no usable header.
    """
    scan = _Scan(uri, search)
    with opened(uri) as (source, kind):
        try:
            yield from scan.scanned(source, fast_stream(source, kind))
            return
        except UncertainError as doubt:
            if source.failure is not None:
                raise source.failure from None
            offset, reason = doubt.offset, doubt.reason
    # The stream cannot be read further, or the byte scan cannot use the header.
    with open_rows(uri, offset) as reader:
        yield from scan.parsed(reader, offset, reason)


def scanner() -> str:
    """Return the name of the method by which this process scans files; the run prints it."""
    return "NumPy" if row_index.SCAN is None else "compiled loop"


class _Scan:
    """A pass over a file, by the byte scan or the csv module."""

    def __init__(self, uri: str, search: TitleSearch) -> None:
        self._uri, self._search, self._counts = uri, search, search.counts
        self._reported_bytes = self._reported_rows = 0
        self._by_csv = ""

    def scanned(self, source: ByteSource, stream: object) -> Iterator[MatchedRow]:
        """Yield the hits of a file from its start, by the byte scan or, where it is uncertain, by the csv module.

        Raises:
            UncertainError: the stream cannot be read further; all hits before its offset have been yielded.
        """
        scan = FastScan(stream, chunk=CHUNK)
        columns = _columns(scan.header)
        while True:
            try:
                hits = scan.hits(
                    language=self._search.language,
                    matcher=self._search.matcher,
                    counts=self._counts,
                    progress=lambda _: self._report(source.tell()),
                )
                for fields, terms in hits:
                    if not self._is_header(fields, scan.header):
                        yield _hit(fields, columns, terms)
                return
            except UncertainError as doubt:
                if doubt.broken or not {"language", "page_title"} <= columns.keys():
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
        """Yield the hits of the rows from `offset` to `until`, read by the csv module."""
        columns = _columns(reader.header)
        at_language, at_title = columns["language"], columns["page_title"]
        counts = self._counts
        for row in reader.rows():
            counts.rows_in += 1
            self._note_csv(offset, reason)
            if counts.rows_in % 2048 == 0:
                self._report(reader.compressed_position())
            if isinstance(row, Reject):
                self._search.reject(row)
            elif self._search.language is not None and row[at_language] != self._search.language:
                counts.filtered["language"] += 1
            elif not _is_text(row[at_title]):
                self._search.reject(reader.reject("invalid_utf8", "the title is not UTF-8"))
            elif not (terms := self._search.matcher.match(row[at_title])):
                counts.filtered["title"] += 1
            elif not all(map(_is_text, row)):
                self._search.reject(reader.reject("invalid_utf8", "the row is not UTF-8"))
            elif not self._is_header(row, reader.header):
                yield _hit(row, columns, terms)
            if until is not None and reader.offset >= until:
                return
        self._report(reader.compressed_position())

    def _is_header(self, fields: list[str], header: list[str]) -> bool:
        """Return, and count, whether a row that contains a term is the header again, as in joined files."""
        is_header = [field.strip() for field in fields] == header
        self._counts.filtered.update({"repeated_header": 1} if is_header else {})
        return is_header

    def _note_csv(self, offset: int, reason: str) -> None:
        # One entry per file, since the scan may be uncertain at a million positions.
        self._by_csv = self._by_csv or f"{self._uri.rsplit('/', 1)[-1]}, first at byte {offset:,} ({reason})"
        tally = self._counts.tallies.setdefault("read_by_csv", {})
        tally[self._by_csv] = tally.get(self._by_csv, 0) + 1

    def _report(self, position: int) -> None:
        """Call `progress` with the bytes and rows since the last call."""
        if self._search.progress is not None:
            self._search.progress(max(position - self._reported_bytes, 0), self._counts.rows_in - self._reported_rows)
            self._reported_bytes, self._reported_rows = max(position, self._reported_bytes), self._counts.rows_in


def _columns(header: list[str]) -> dict[str, int]:
    return {name: header.index(name) for name in WIT_COLUMNS if name in header}


def _is_text(field: str) -> bool:
    """Return whether the field was UTF-8; undecodable bytes are lone surrogates."""
    try:
        field.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hit(fields: list[str], columns: dict[str, int], terms: list[str]) -> MatchedRow:
    return MatchedRow({name: fields[columns[name]] if name in columns else None for name in WIT_COLUMNS}, terms)
