"""Files of a run that are not data objects: tasks, sheets, pages, copies of pictures, indexes, run files, rejects.

Only files that a job of remine wrote in a known form are changed: tasks, lines, entries and rows that name a withdrawn
picture are removed from JSON, JSON lines, CSV and Parquet. Others that name a picture are reported, and so are those
whose content cannot be read.
"""

import contextlib
import csv
import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from actors.full_reads import read_full
from jobs.annotation.imported_rows import REPORTED
from jobs.annotation.tool import TOOLS
from jobs.corpora.delimited import delimiter_of
from jobs.corpora.wit.wit_base import PLACES_FILE
from jobs.curation.curation_rules import NEAR_FILE
from jobs.purging.matching import IDS
from jobs.purging.mentions import has_strings, has_texts
from jobs.purging.needles import PICTURES, Needles
from jobs.runtime.selection.exclusions import KEPT, TALLY
from jobs.store.files import faults, locations
from jobs.store.files.objects import Object
from jobs.store.reading import TableSource
from jobs.store.run_files import FOLDER, IDENTITY
from jobs.store.runs import lock, place
from jobs.store.writer import REJECTS, rejects_uri

LARGEST = 1 << 30  # bytes; larger files, and compressed ones that hold more, are not read
SHOWN = 10  # names of files that are printed
ROWS = 10_000  # of a Parquet file of others, at a time
HEAD = 4096  # first bytes, by which pages and binary files are recognised
TASKS = (*TOOLS, "pictures")  # folders next to `assignments`
PAGE, SHEETS = "index.html", ("choose.csv", "rankings.csv")  # of `choose` and `link show`
GENERATOR = b'<meta name="generator" content="remine">'  # what all pages have in their heads
INDEX, INDEX_IDS = "corpus.faiss", "ids.parquet"  # of `retrieve faiss.out=`
REJECTED = "_rejects"
LISTS = (REPORTED, NEAR_FILE, PLACES_FILE)  # run files that list pictures and cannot be derived from footers


@dataclass
class ChangedFiles:
    """The uris of the files that a purge changed, left unchanged or did not check.

    Attributes:
        rewritten, removed: changed files.
        left: unchanged files that name a picture.
        unchecked: files that were not read, because they are binary, damaged or too large.
        unread: those of them that a job of remine wrote, so that they may name a picture.
    """

    rewritten: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def found(self) -> list[str]:
        """The sorted uris of all files that name or show a withdrawn picture, as far as they were read."""
        return sorted([*self.rewritten, *self.removed, *self.left])


@dataclass(frozen=True)
class OtherFiles:
    """The files below a folder that are not data objects of its tables.

    Attributes:
        files: the files in the order of the listing, without lists of exclusions and leases.
        tables: the uris of the tables.
        in_use: the uris of the rejects of current generations, which `rewrite_tables` rewrites.
        root: the folder, whose own name does not count.
    """

    files: Sequence[Object]
    tables: frozenset[str]
    in_use: frozenset[str]
    root: str = ""

    @property
    def uris(self) -> list[str]:
        """The uris of the files."""
        return [file.uri for file in self.files]

    def to_purge(self) -> list[Object]:
        """Return the files for `purge_files`: all except those that `rewrite_tables` writes again."""
        return [
            file
            for file in self.files
            if file.uri not in self.in_use and not (self._is_derived(file.uri) or _is_passing(file.uri))
        ]

    def derived(self) -> list[Object]:
        """Return the run files that are derived from a table, by its run and by `rewrite_tables`."""
        return [file for file in self.files if self._is_derived(file.uri) and not _is_passing(file.uri)]

    def set_aside(self) -> list[str]:
        """Return the uris of damaged files that a repair set aside: nobody can tell whom they show."""
        return [file.uri for file in self.files if place.is_set_aside(file.uri)]

    def is_of(self, uri: str, folder: str) -> bool:
        """Return whether `uri` is directly in the folder `folder` of one of the tables."""
        table, _, inside = _folder(uri).rpartition("/")
        return inside == folder and table in self.tables

    def _is_derived(self, uri: str) -> bool:
        return self.is_of(uri, FOLDER) and _name(uri) not in LISTS


def other_files(root: str, tables: Sequence[TableSource], *, without: Sequence[str] = ()) -> OtherFiles:
    """Return the files below `root` that are neither data objects of `tables` nor among the uris `without`."""
    listed, end = locations.listing(root), f"/{FOLDER}/{IDENTITY}"
    begun = {file.uri.removesuffix(end) for file in listed if file.uri.endswith(end)}  # perhaps without a unit
    uris = frozenset({table.uri for table in tables} | begun)
    folders = {f"{uri}/" for uri in uris}
    skipped = {file for uri in uris for file in _skipped(uri)}
    skipped.update(without)

    def is_data(uri: str) -> bool:
        return uri.endswith(".parquet") and f"{_folder(uri)}/" in folders

    others = [file for file in listed if file.uri not in skipped and not is_data(file.uri)]
    in_use = frozenset(
        rejects_uri(table.uri, record["unit"]["name"], record["generation"])
        for table in tables
        for footer in table.footers
        if (record := footer.record) is not None and any(record["counts"]["rejected"].values())
    )
    return OtherFiles(others, uris, in_use, locations.absolute(root))


def _is_passing(uri: str) -> bool:
    """Return whether a purge removes the file unread: one that is set aside, or that a process writes or has left."""
    return place.is_temporary(uri) or place.is_set_aside(uri)


def _skipped(table: str) -> list[str]:
    return [locations.join(table, FOLDER, name) for name in (KEPT, lock.LEASE)]


def purge_files(files: Sequence[Object], others: OtherFiles, needles: Needles, *, act: bool) -> ChangedFiles:
    """Delete what `needles` finds from tasks, sheets and lists; remove copies of pictures, indexes and pages.

    Pages are removed rather than rewritten, because their numbers include the pictures; `report` writes them again.

    Args:
        files: the files to purge, from `others`.
        others: all files; those that remine wrote are recognised by their neighbours.
        act: whether to change the files; False only lists them.
    """
    ours, changed = _Ours(others), ChangedFiles()
    for file in files:
        vanishes = (FileNotFoundError,) if place.is_temporary(file.uri) else ()
        with locations.named_errors(file.uri), contextlib.suppress(*vanishes):
            _purge_file(file, needles, ours, changed, act=act)
    changed.unread = [uri for uri in changed.unchecked if ours.is_ours(uri)]
    if act:
        locations.remove(changed.removed)
    return changed


def _purge_file(file: Object, needles: Needles, ours: "_Ours", changed: ChangedFiles, *, act: bool) -> None:
    uri, name = file.uri, _name(file.uri)
    if needles.is_picture(name):
        (changed.removed if ours.is_task_file(uri) else changed.left).append(uri)
    elif ours.is_named(uri, needles):
        changed.left.append(uri)
    elif name == INDEX and ours.is_index(uri):
        return
    elif name.lower().endswith(PICTURES):
        if file.size > LARGEST:
            changed.unchecked.append(uri)
        elif needles.in_bytes(locations.read_bytes(uri)):
            changed.left.append(uri)
    elif name.lower().endswith(".parquet"):
        try:
            _purge_parquet(uri, needles, ours, changed, act=act)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            if not faults.is_damage(error):
                raise
            changed.unchecked.append(uri)
    elif (text := _text(file)) is None:
        changed.unchecked.append(uri)
    else:
        _purge_text(uri, text, needles, ours, changed, act=act)


def first_names(uris: Sequence[str]) -> str:
    """Return the first `SHOWN` names, sorted, and the number of the others, as a text."""
    more = f" and {len(uris) - SHOWN:,} more" if len(uris) > SHOWN else ""
    return f"{', '.join(sorted(uris)[:SHOWN])}{more}"


def not_checked(uris: Sequence[str]) -> str:
    """Return the end of a message about files that were not read."""
    return f"not checked, because they are not text, damaged or larger than 1 GiB: {first_names(uris)}"


def pages_with_pictures(others: OtherFiles) -> list[str]:
    """Return the uris of the pages of `report`, `choose` and `link show`, which embed pictures without naming them."""
    ours = _Ours(others)
    return [uri for uri in others.uris if ours.is_page(uri)]


class _Ours:
    """Knows which files jobs of remine wrote: pages by their heads, other files by their neighbours."""

    def __init__(self, others: OtherFiles) -> None:
        self._others, self._uris = others, frozenset(others.uris)

    def is_page(self, uri: str) -> bool:
        return uri.endswith(".html") and GENERATOR in _head(uri)

    def is_task_file(self, uri: str) -> bool:
        folder, _, inside = _folder(uri).rpartition("/")
        return inside in TASKS and f"{folder}/assignments" in self._others.tables

    def is_named(self, uri: str, needles: Needles) -> bool:
        """Return whether a file of others is named after a picture, or is in a folder that is."""
        return not self.is_ours(uri) and needles.in_path(uri.removeprefix(self._others.root))

    def is_ours(self, uri: str) -> bool:
        is_of_job = (self.is_task_file, self.is_sheet, self.is_run_file, self.is_rejects, self.is_index)
        return any(is_kind(uri) for is_kind in is_of_job)

    def is_sheet(self, uri: str) -> bool:
        return _name(uri) in SHEETS and f"{_folder(uri)}/{PAGE}" in self._uris

    def is_list(self, uri: str) -> bool:
        return _name(uri) in LISTS and self.is_run_file(uri)

    def is_run_file(self, uri: str) -> bool:
        return self._others.is_of(uri, FOLDER)

    def is_rejects(self, uri: str) -> bool:
        return self._others.is_of(uri, REJECTED)

    def is_index(self, uri: str) -> bool:
        return (
            _name(uri) in (INDEX, INDEX_IDS)
            and {
                f"{_folder(uri)}/{INDEX}",
                f"{_folder(uri)}/{INDEX_IDS}",
            }
            <= self._uris
        )


def _name(uri: str) -> str:
    return uri.rsplit("/", 1)[-1]


def _folder(uri: str) -> str:
    return uri.rsplit("/", 1)[0]


def _head(uri: str) -> bytes:
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as stream:
        return read_full(stream, min(HEAD, stream.size()))


def _text(file: Object) -> str | None:
    """Return the content of a text file, decompressed if it is gzip; None if it is not text or is too large."""
    if file.size > LARGEST:
        return None
    if file.uri.endswith(".gz"):
        data = _decompressed(locations.read_bytes(file.uri))
    elif b"\0" in _head(file.uri):
        return None
    else:
        data = locations.read_bytes(file.uri)
    return None if data is None or b"\0" in data[:HEAD] else data.decode("utf-8", "surrogateescape")


def _decompressed(data: bytes) -> bytes | None:
    """Return the decompressed content of gzip `data`; None if it is damaged or too large."""
    try:
        with gzip.GzipFile(fileobj=pa.BufferReader(data)) as stream:
            content = stream.read(LARGEST + 1)
    except (OSError, EOFError, zlib.error):
        return None
    return content if len(content) <= LARGEST else None


def _without_matches(text: str) -> str:
    """Return a run file without its counts of matched exclusions, whose keys are marks of the list."""

    def stripped(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: stripped(part) for key, part in value.items() if key != TALLY}
        return [stripped(part) for part in value] if isinstance(value, list) else value

    def line_without(line: str) -> str:
        try:
            return json.dumps(stripped(json.loads(line)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return line

    if f'"{TALLY}"' not in text:
        return text
    whole = line_without(text)
    return whole if whole != text else "\n".join(map(line_without, text.splitlines()))


def _purge_parquet(uri: str, needles: Needles, ours: _Ours, changed: ChangedFiles, *, act: bool) -> None:
    """Rewrite a list of a run, remove indexes and unused rejects, and report other files with matching rows.

    Raises:
        pa.ArrowException, OSError, UnicodeDecodeError: the file is damaged or cannot be read.
    """
    if ours.is_index(uri) and _has_rows(uri, partial(_in_index, needles)):
        changed.removed += [uri, f"{_folder(uri)}/{INDEX}"]
    elif ours.is_rejects(uri):
        if _has_rows(uri, partial(_in_rejects, needles)):
            changed.removed.append(uri)
    elif ours.is_list(uri):
        if _has_rows(uri, lambda rows: bool(needles.mask(rows).any())):
            kept = rows_without(locations.read_bytes(uri), needles) if act else None
            changed.rewritten.append(uri)
            if kept is not None:
                locations.replace(uri, kept)
    elif _names_in_parquet(uri, needles):
        changed.left.append(uri)


def _has_rows(uri: str, names: Callable[[pa.Table], bool]) -> bool:
    """Return whether `names` is true for the string columns of any row group of a Parquet file."""
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as stream, pq.ParquetFile(stream) as parquet:
        columns = [field.name for field in parquet.schema_arrow if has_strings(field.type)]
        groups = range(parquet.num_row_groups if columns else 0)
        return any(names(parquet.read_row_group(group, columns=columns)) for group in groups)


def _names_in_parquet(uri: str, needles: Needles) -> bool:
    """Return whether a Parquet file of others names a picture, in any column, name of a column, or metadata."""
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as stream, pq.ParquetFile(stream) as parquet:
        if needles.in_schema(parquet.schema_arrow):
            return True
        columns = [field.name for field in parquet.schema_arrow if has_texts(field.type)]
        batches = parquet.iter_batches(ROWS, columns=columns) if columns else ()
        return any(needles.in_any_column(pa.Table.from_batches([batch])) for batch in batches)


def _in_rejects(needles: Needles, rows: pa.Table) -> bool:
    columns = [name for name in REJECTS.names if name in rows.column_names and name != "position"]
    return any(needles.in_text(text or "") for name in columns for text in rows[name].to_pylist())


def _in_index(needles: Needles, rows: pa.Table) -> bool:
    return "item_id" in rows.column_names and not needles.ids.isdisjoint(rows["item_id"].to_pylist())


def _purge_text(uri: str, text: str, needles: Needles, ours: _Ours, changed: ChangedFiles, *, act: bool) -> None:
    if not (ours.is_task_file(uri) or ours.is_sheet(uri) or ours.is_list(uri)):
        if needles.in_text(_without_matches(text) if ours.is_run_file(uri) else text):
            (changed.removed if ours.is_page(uri) else changed.left).append(uri)
        return
    kept = without(text, _name(uri), needles) if needles.may_name(text) else text
    if kept is None:
        changed.left.append(uri)
    elif kept != text:
        changed.rewritten.append(uri)
        if act:
            locations.replace(uri, kept.encode("utf-8", "surrogateescape"))


_HALVES = re.compile("[\ud800-\udfff]")
FIELDS = (*IDS, "stays")  # the last one of lists of near-duplicates


def without(text: str, name: str, needles: Needles) -> str | None:
    """Return the text of the file `name` without the tasks, lines, entries or rows that `needles` finds.

    Fields for ids are compared as a whole; other texts may have ids as words (`Needles.in_text`). Return None if the
    file is damaged, or neither CSV, JSON lines, nor a JSON array or object whose parts can be removed.
    """
    if name.endswith(".csv"):
        return _rows_without(text, needles)
    try:
        if name.endswith(".jsonl"):
            return "".join(_lines_without(text, needles))
        value = json.loads(text) if name.endswith(".json") else None
        if not isinstance(value, list | dict):
            return None
        kept = _entries_without(value, needles)
        if _names(kept, needles):
            return None
    except (ValueError, RecursionError):
        return None
    return text if kept == value else _as_json(kept, text, indent=1)


def _as_json(value: Any, source: str, **options: Any) -> str:
    """Return `value` as JSON; halves of characters that are escaped in `source`, the text it is from, stay escaped."""
    undecoded = set(_HALVES.findall(source))  # stand for bytes of the file
    text = json.dumps(value, ensure_ascii=False, **options)
    return _HALVES.sub(lambda match: match[0] if match[0] in undecoded else f"\\u{ord(match[0]):04x}", text)


def rows_without(data: bytes, needles: Needles) -> bytes | None:
    """Return the Parquet file without the rows that `needles` finds by ids and addresses; None if there are none."""
    rows = pq.read_table(pa.BufferReader(data))
    gone = needles.mask(rows)
    if not gone.any():
        return None
    out = pa.BufferOutputStream()
    pq.write_table(rows.filter(pa.array(~gone)), out, compression="zstd")
    kept: bytes = out.getvalue().to_pybytes()
    return kept


def _lines_without(text: str, needles: Needles) -> list[str]:
    lines = []
    for line in io.StringIO(text, newline="\n"):
        if needles.may_name(line):
            value = json.loads(line)
            kept = _keys_without(value, needles)
            if kept is None or _names(kept, needles):
                continue
            lines.append(line if kept == value else _as_json(kept, line) + "\n")
        else:
            lines.append(line)
    return lines


def _keys_without(value: Any, needles: Needles) -> Any:
    """Return a line's value without the entries whose key `needles` finds; None if this empties a nested object."""
    if not isinstance(value, dict):
        return value
    kept: dict[str, Any] = {}
    for key, part in value.items():
        if _is_named(key, needles):
            continue
        kept[key] = _keys_without(part, needles)
        if kept[key] is None or (part and kept[key] == {}):
            return None
    return kept


def _entries_without(value: list[Any] | dict[str, Any], needles: Needles) -> list[Any] | dict[str, Any]:
    """Return the elements of a list, or the entries of a mapping, that `needles` does not find."""
    if isinstance(value, list):
        return [element for element in value if not _names(element, needles)]
    return {key: part for key, part in value.items() if not _is_named(key, needles)}


def _is_named(name: str, needles: Needles) -> bool:
    return needles.is_id(name) or needles.in_text(name)


def _names(value: Any, needles: Needles) -> bool:
    return _in_fields(value, needles) or needles.in_text(json.dumps(value, ensure_ascii=False))


def _in_fields(value: Any, needles: Needles, field: str = FIELDS[0]) -> bool:
    """Return whether one of the ids is a value without a key, or of one of the keys `FIELDS`."""
    if isinstance(value, dict):
        return any(_in_fields(part, needles, key) for key, part in value.items())
    if isinstance(value, list):
        return any(_in_fields(part, needles, field) for part in value)
    return field in FIELDS and isinstance(value, str | int) and needles.is_id(str(value))


def _rows_without(text: str, needles: Needles) -> str:
    """Return the sheet without the rows that `needles` finds; the others stay as they are, whatever their delimiter."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # a cell may be a whole article
    lines, kept, begin = list(io.StringIO(text, newline="")), list[str](), 0
    reader = csv.reader(lines, delimiter=delimiter_of(text))
    columns: list[int] = []  # those for ids
    for row in reader:
        of_ids = {row[column].strip() for column in columns if column < len(row)}
        if not any(map(needles.is_id, of_ids)) and not any(needles.in_text(cell) for cell in row):
            kept += lines[begin : reader.line_num]
        begin = reader.line_num
        columns = columns or [n for n, cell in enumerate(row) if cell.strip("\ufeff ").lower() in FIELDS]
    return "".join(kept)
