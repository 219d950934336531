"""Reader of wikimedia/wit_base: Parquet files of Wikipedia's captioned pictures (300 pixels wide) with their WIT rows.

Each row is a picture; its `wit_features` have one entry per page that shows it, which in the TSV files is a row. They
are a list of structs, or a struct of lists as the `datasets` library writes a Sequence. Matching reads languages and
titles, and the texts of row groups with a hit, but never the pictures' bytes or embeddings. A row group that cannot be
read becomes one reject; the others are kept.
"""

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.errors import first_line
from actors.quantities import quantity
from jobs.corpora.cell_texts import is_list
from jobs.corpora.corpus import MatchedRow, TitleSearch
from jobs.corpora.user_tables import opened_parquet
from jobs.errors import InputError
from jobs.store.counts import Counts
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.writer import Reject
from jobs.tables import WIT_COLUMNS

FEATURES = "wit_features"
PICTURE, RENDITION = "image", "w300"
OF_PICTURE = (
    "image_url",
    "mime_type",
    "original_height",
    "original_width",
    "caption_attribution_description",
)
OF_ENTRY = tuple(c for c in WIT_COLUMNS if c not in OF_PICTURE)
NEEDED_OF_ENTRY = ("language", "page_url", "page_title", "is_main_image")
TEXTS_OF_ENTRY = ("language", "page_url", "page_title")
ROWS_AT_A_TIME = 512  # pictures whose texts are in memory at a time
BUFFER = 4 << 20  # bytes of a column read ahead; by default pyarrow reads a whole column chunk
THREADS = 8  # files read at a time for their image URLs
# raised by pyarrow for damaged pages and lost connections, and by Python for text that is not UTF-8
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
PLACES_FILE = "places.parquet"  # in _run/ of fetched images: the records' pictures in the files of wit_base
PLACES = pa.schema({"image_url": pa.string(), "path": pa.string(), "row_group": pa.int32(), "row": pa.int64()})

EntryHits = list[tuple[int, list[str]]]  # numbers of a picture's matching entries, with their terms


def find_files(path: str) -> list[Object]:
    """Return the .parquet files at `path`.

    Raises:
        InputError: there is no such file.
    """
    files = locations.find(path)
    parquet_files = [o for o in files if o.uri.endswith(".parquet")]
    if not parquet_files:
        hint = " (corpus=wit reads TSV)" if any(re.search(r"\.tsv(\.gz|\.zst)?$", o.uri) for o in files) else ""
        raise InputError(f"{quantity(len(files), 'file')}, none of them .parquet{hint}", place=path)
    return parquet_files


def check_header(uri: str) -> None:
    """Check the schema of `uri`.

    Raises:
        InputError: the file is not Parquet, or a required column is missing or has another type; the message has the
            file and column.
    """
    with opened_parquet(uri) as file:
        leaves, schema = _leaves(file), file.schema_arrow
    needed = [("image_url",), *((FEATURES, c) for c in NEEDED_OF_ENTRY)]
    if missing := [".".join(name) for name in needed if name not in leaves]:
        raise InputError(f"no column {', '.join(missing)}; the files of wit_base have them", place=uri)
    if fault := _misshapen(schema):
        raise InputError(fault, place=uri)


def _misshapen(schema: pa.Schema) -> str:
    """Return how the schema's types differ from wit_base's; empty if they do not."""
    features = schema.field(FEATURES).type
    kinds = {"image_url": schema.field("image_url").type}
    if is_list(features) and pa.types.is_struct(features.value_type):
        kinds |= {f"{FEATURES}.{field.name}": field.type for field in features.value_type}
    elif pa.types.is_struct(features) and all(is_list(field.type) for field in features if field.name in OF_ENTRY):
        kinds |= {f"{FEATURES}.{field.name}": field.type.value_type for field in features if field.name in OF_ENTRY}
    else:
        return f"{FEATURES} is {features}, neither a list of structs nor a struct of lists"
    for name in ("image_url", *(f"{FEATURES}.{column}" for column in TEXTS_OF_ENTRY)):
        kind = kinds.get(name)
        kind = kind.value_type if isinstance(kind, pa.DictionaryType) and name == "image_url" else kind
        if kind not in (pa.string(), pa.large_string(), pa.null()):
            return f"column {name} is {kind}, not text"
    return ""


def scan_file(uri: str, search: TitleSearch) -> Iterator[MatchedRow]:
    """Yield the entries of the language whose page title contains a term, in file order (see `TitleSearch`).

    `counts.rows_in` counts entries; `progress(bytes, rows)` receives a row group's share of the file and its entries.
    """
    counts, progress = search.counts, search.progress
    with _opened(uri) as (file, stream):
        reported_rows, reported_bytes, size, first = counts.rows_in, 0, stream.size(), 0
        groups = _Groups(uri, file, stream, _leaves(file), search)
        for group in range(file.num_row_groups):
            yield from groups.hits(group, first)
            first += file.metadata.row_group(group).num_rows
            if progress:
                read = size * first // max(file.metadata.num_rows, 1)
                progress(read - reported_bytes, counts.rows_in - reported_rows)
                reported_rows, reported_bytes = counts.rows_in, read


def scanner() -> str:
    """Return the name of the method by which this process scans files; the run prints it."""
    return "pyarrow"


class _UnequalError(Exception):
    """A struct of lists with different lengths."""


@dataclass(frozen=True)
class _Groups:
    """Scan of an open file by row group; in each, it first counts the entries that do not match."""

    uri: str
    file: pq.ParquetFile
    stream: pa.NativeFile
    leaves: dict[tuple[str, ...], str]
    search: TitleSearch

    def hits(self, group: int, first: int) -> Iterator[MatchedRow]:
        """Yield the hits in a row group whose first row is row `first` of the file."""
        misses = Counts()
        try:
            hits = self._entry_hits(group, misses)
        except (*UNREADABLE, _UnequalError) as error:
            self._check_connection(group)
            self._refuse(first, f"row group {group} cannot be read ({first_line(error)})")
            return
        self.search.counts.rows_in += misses.rows_in
        self.search.counts.filtered += misses.filtered
        unread = dict(hits)
        try:
            for row, picture in self._pictures(group, sorted(hits)):
                matched = [_hit(picture, entry, terms) for entry, terms in unread.pop(row)]
                self.search.counts.rows_in += len(matched)
                yield from matched
        except UNREADABLE as error:
            self._check_connection(group)
            for row in sorted(unread):
                for _ in unread[row]:
                    self._refuse(first + row, f"a matching row cannot be read ({first_line(error)})")

    def _refuse(self, row: int, message: str) -> None:
        self.search.counts.rows_in += 1
        self.search.reject(Reject(self.uri, row, "corrupt", message))

    def _entry_hits(self, group: int, misses: Counts) -> dict[int, EntryHits]:
        """Return the matching entries by row of the picture in the row group; add the others to `misses`."""
        columns = [self.leaves[FEATURES, "language"], self.leaves[FEATURES, "page_title"]]
        by_row: dict[int, EntryHits] = {}
        begin = 0
        for batch in self._batches(group, columns):
            parents, languages = _entries(batch.column(0), "language")
            others, titles = _entries(batch.column(0), "page_title")
            if not parents.equals(others):
                raise _UnequalError("the lists of wit_features differ in length")
            numbers = list(range(len(parents)))
            if (language := self.search.language) is not None:
                numbers = pc.indices_nonzero(pc.fill_null(pc.equal(languages, language), False)).to_pylist()
                _filter(misses, "language", len(parents) - len(numbers))
            in_language = titles.take(pa.array(numbers, pa.int64())).to_pylist()
            hits = self.search.matcher.match_all([title or "" for title in in_language])
            _filter(misses, "title", len(numbers) - len(hits))
            rows = parents.to_pylist() if hits else []
            first_entry = {row: number for number, row in reversed(list(enumerate(rows)))}
            for number, terms in hits.items():
                row = rows[numbers[number]]
                by_row.setdefault(begin + row, []).append((numbers[number] - first_entry[row], terms))
            begin += batch.num_rows
        return by_row

    def _pictures(self, group: int, rows: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield `rows` of the group, in order, with the columns of a record."""
        if not rows:
            return
        names: list[tuple[str, ...]] = [(c,) for c in OF_PICTURE] + [(FEATURES, c) for c in OF_ENTRY]
        begin = 0
        for batch in self._batches(group, [self.leaves[name] for name in names if name in self.leaves]):
            of_batch = [row for row in rows if begin <= row < begin + batch.num_rows]
            pictures = batch.take(pa.array([row - begin for row in of_batch], pa.int64())).to_pylist()
            begin += batch.num_rows
            yield from zip(of_batch, pictures, strict=True)

    def _batches(self, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = self.file.iter_batches(
            ROWS_AT_A_TIME, row_groups=[group], columns=columns, use_threads=False
        )
        return batches

    def _check_connection(self, group: int) -> None:
        """Read the row group's stored bytes; raises if the connection was lost, in which case the file is intact."""
        columns = self.file.metadata.row_group(group)
        for number in range(columns.num_columns):
            chunk = columns.column(number)
            if chunk.path_in_schema in self.leaves.values():
                self.stream.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
                self.stream.read(min(chunk.total_compressed_size, BUFFER))


def _filter(misses: Counts, rule: str, rows: int) -> None:
    if rows:
        misses.rows_in += rows
        misses.filtered[rule] += rows


def _entries(features: pa.Array, name: str) -> tuple[pa.Array, pa.Array]:
    """Return, for each entry, the row of its picture in the batch and its field `name`."""
    if pa.types.is_struct(features.type):
        lists = pc.struct_field(features, name)
        return pc.list_parent_indices(lists), pc.list_flatten(lists)
    return pc.list_parent_indices(features), pc.struct_field(pc.list_flatten(features), name)


def _hit(picture: dict[str, Any], entry: int, terms: list[str]) -> MatchedRow:
    features = picture[FEATURES]
    if isinstance(features, dict):  # a struct of lists; a list that is too short lacks the value
        slices = {name: (values or [])[entry : entry + 1] for name, values in features.items()}
        of_entry = {name: values[0] if values else None for name, values in slices.items()}
    else:
        of_entry = features[entry]
    fields = {**{name: value for name, value in picture.items() if name != FEATURES}, **of_entry}
    return MatchedRow({name: _text(fields[name]) if name in fields else None for name in WIT_COLUMNS}, terms)


def _text(value: object) -> str:
    """Return the value as in the TSV files: empty for null, booleans in lower case."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def picture_places(files: Sequence[Object], urls: pa.Array) -> pa.Table:
    """Return the position of each picture in `urls`: image_url, path in the file system, row_group, row.

    If a picture has several rows, the first one counts. Reads only the column image_url of all files.

    Raises:
        InputError: a file cannot be read.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        places = pa.concat_tables(pool.map(lambda file: _places_in(file.uri, urls), files))
    numbered = places.append_column("place", pa.array(range(places.num_rows), pa.int64()))
    firsts = numbered.group_by("image_url", use_threads=False).aggregate([("place", "min")])
    return places.take(firsts["place_min"])


def places_of(records: pa.Table, places: str) -> pa.Table:
    """Return image_id, source_url, path, row_group and row of records; null if no file has the picture."""
    table, index_of = _kept_places(places)
    indices = pa.array([index_of.get(url) for url in records["image_url"].to_pylist()], pa.int64())
    columns = {name: table[name].take(indices) for name in ("path", "row_group", "row")}
    return pa.table({"image_id": records["image_id"], "source_url": records["image_url"], **columns})


def pack_places(places: pa.Table) -> bytes:
    """Return `places` as the bytes of a Parquet file that `places_of` can read."""
    out = pa.BufferOutputStream()
    pq.write_table(places, out, compression="zstd")
    packed: bytes = out.getvalue().to_pybytes()
    return packed


@lru_cache(maxsize=1)
def _kept_places(uri: str) -> tuple[pa.Table, dict[str, int]]:
    table = pq.read_table(pa.BufferReader(locations.read_bytes(uri))).combine_chunks()
    return table, {url: index for index, url in enumerate(table["image_url"].to_pylist())}


def _places_in(uri: str, urls: pa.Array) -> pa.Table:
    parts, path = [PLACES.empty_table()], locations.filesystem(uri)[1]
    with locations.named_errors(uri):
        try:
            with _opened(uri) as (file, _):
                if ("image_url",) not in _leaves(file):
                    raise InputError("no column image_url; the files of wit_base have it", place=uri)
                for group in range(file.num_row_groups):
                    column = file.read_row_group(group, columns=["image_url"], use_threads=False)["image_url"]
                    rows = pc.indices_nonzero(pc.is_in(column, urls))
                    position = {"path": [path] * len(rows), "row_group": [group] * len(rows), "row": rows}
                    parts.append(pa.table({"image_url": column.take(rows), **position}).cast(PLACES))
        except pa.ArrowException as error:
            raise InputError(f"its column image_url cannot be read ({first_line(error)})", place=uri) from error
    return pa.concat_tables(parts)


@contextmanager
def _opened(uri: str) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile]]:
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as stream, pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False) as file:
        yield file, stream


def _leaves(file: pq.ParquetFile) -> dict[tuple[str, ...], str]:
    """Return the Parquet path of each used column, by its keys ("image_url",) or ("wit_features", "language").

    The parts between the keys (list.element, list.item, bag.array) depend on the writer.
    """
    leaves: dict[tuple[str, ...], str] = {}
    for number in range(len(file.schema)):
        path = file.schema.column(number).path
        first, *rest = path.split(".")
        if first == FEATURES:
            if columns := [name for name in rest if name in OF_ENTRY]:
                leaves[first, columns[0]] = path
        elif not rest:
            leaves[first,] = path
    return leaves
