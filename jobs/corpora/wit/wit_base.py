"""wikimedia/wit_base: Parquet files of Wikipedia's captioned pictures (300 pixels wide) with the WIT rows about them.

A file's row is a picture; its `wit_features` are what the TSV files have as rows of their own: one entry a page that
shows it. They come as a list of structs, or as a struct of lists, as the `datasets` library writes a Sequence. Matching
reads the languages and titles, and the texts of row groups with a hit; the pictures' bytes and embeddings are never
touched by it. A row group that cannot be read is one reject, the others are kept.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.errors import first_line
from actors.titles import TitleMatcher
from jobs.corpora.corpus import MatchedRow
from jobs.errors import InputError
from jobs.sources.records import read_records
from jobs.store import locations
from jobs.store.counts import Counts
from jobs.store.locations import Object
from jobs.store.writer import Reject, UnitTask
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
ROWS_AT_A_TIME = 512  # pictures whose texts are held at once
BUFFER = 4 << 20  # bytes of a column read ahead; without a bound a whole column chunk is
THREADS = 8  # files whose list of pictures is read at once
# what pyarrow raises of damaged pages and of a lost connection, and Python of text that is not UTF-8
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
PLACES = pa.schema({"image_url": pa.string(), "path": pa.string(), "row_group": pa.int32(), "row": pa.int64()})

Wanted = list[tuple[int, list[str]]]  # of a picture: numbers of its entries that matched, with the terms


def find_files(path: str) -> list[Object]:
    """The corpus's files: what `path` names, and of a folder only the .parquet files.

    Raises:
        InputError: nothing there.
    """
    found = locations.find(path)
    named = [o for o in found if o.uri.endswith(".parquet")]
    if not named:
        hint = " (corpus=wit reads TSV)" if any(re.search(r"\.tsv(\.gz|\.zst)?$", o.uri) for o in found) else ""
        raise InputError(f"{path}: {len(found)} file{'s' * (len(found) > 1)}, none of them .parquet{hint}")
    return named


def check_header(uri: str) -> None:
    """Look at the schema of `uri`.

    Raises:
        InputError: no Parquet, or without a needed column, or one of another type; the sentence names file and column.
    """
    with locations.named_errors(uri):
        try:
            with _opened(uri) as (file, _):
                leaves, schema = _leaves(file), file.schema_arrow
        except pa.ArrowException as error:
            raise InputError(f"{uri}: not a readable Parquet file") from error
        except OSError as error:
            if "thrift" in str(error):  # how pyarrow says that a footer is no footer
                raise InputError(f"{uri}: not a readable Parquet file") from error
            raise
    needed = [("image_url",), *((FEATURES, c) for c in NEEDED_OF_ENTRY)]
    if missing := [".".join(name) for name in needed if name not in leaves]:
        raise InputError(f"{uri}: no column {', '.join(missing)}; wit_base has them")
    if fault := _misshapen(schema):
        raise InputError(f"{uri}: {fault}")


def _misshapen(schema: pa.Schema) -> str:
    """What of the schema is not as wit_base has it, though the names are there; empty if nothing."""
    features = schema.field(FEATURES).type
    kinds = {"image_url": schema.field("image_url").type}
    if _is_list(features) and pa.types.is_struct(features.value_type):
        kinds |= {f"{FEATURES}.{field.name}": field.type for field in features.value_type}
    elif pa.types.is_struct(features) and all(_is_list(field.type) for field in features if field.name in OF_ENTRY):
        kinds |= {f"{FEATURES}.{field.name}": field.type.value_type for field in features if field.name in OF_ENTRY}
    else:
        return f"{FEATURES} is {features}, neither a list of structs nor a struct of lists"
    for name in ("image_url", *(f"{FEATURES}.{of}" for of in TEXTS_OF_ENTRY)):
        kind = kinds.get(name)
        kind = kind.value_type if isinstance(kind, pa.DictionaryType) and name == "image_url" else kind
        if kind not in (pa.string(), pa.large_string(), pa.null()):
            return f"column {name} is {kind}, not text"
    return ""


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def scan_file(
    uri: str,
    *,
    language: str | None,
    matcher: TitleMatcher,
    counts: Counts,
    reject: Callable[[Reject], None],
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[MatchedRow]:
    """The entries of `language` whose page title holds a term, in file order, as `wit.scan_file` gives rows.

    `counts.rows_in` counts entries; `progress(bytes, rows)` gets a row group's share of the file, and its entries.
    """
    with _opened(uri) as (file, stream):
        told_rows, told_bytes, size, first = counts.rows_in, 0, stream.size(), 0
        groups = _Groups(uri, file, stream, _leaves(file), language, matcher, counts, reject)
        for group in range(file.num_row_groups):
            yield from groups.hits(group, first)
            first += file.metadata.row_group(group).num_rows
            if progress:
                read = size * first // max(file.metadata.num_rows, 1)
                progress(read - told_bytes, counts.rows_in - told_rows)
                told_rows, told_bytes = counts.rows_in, read


def scanner() -> str:
    """How this process looks through files, for the run to say."""
    return "pyarrow"


class _UnequalError(Exception):
    """A struct of lists whose lists do not belong together."""


@dataclass(frozen=True)
class _Groups:
    """Goes through one opened file a row group at a time; in each the entries that do not match are counted first."""

    uri: str
    file: pq.ParquetFile
    stream: pa.NativeFile
    leaves: dict[tuple[str, ...], str]
    language: str | None
    matcher: TitleMatcher
    counts: Counts
    reject: Callable[[Reject], None]

    def hits(self, group: int, first: int) -> Iterator[MatchedRow]:
        """The hits of a row group whose first row is the file's row `first`."""
        seen = Counts()
        try:
            wanted = self._wanted(group, seen)
        except (*UNREADABLE, _UnequalError) as error:
            self._check_connection(group)
            self._refuse(first, f"row group {group} cannot be read ({first_line(error)})")
            return
        self.counts.rows_in += seen.rows_in
        self.counts.filtered += seen.filtered
        left = dict(wanted)
        try:
            for row, picture in self._pictures(group, sorted(wanted)):
                made = [_hit(picture, entry, terms) for entry, terms in left.pop(row)]
                self.counts.rows_in += len(made)
                yield from made
        except UNREADABLE as error:
            self._check_connection(group)
            for row in sorted(left):
                for _ in left[row]:
                    self._refuse(first + row, f"a matching row cannot be read ({first_line(error)})")

    def _refuse(self, row: int, message: str) -> None:
        self.counts.rows_in += 1
        self.reject(Reject(self.uri, row, "corrupt", message))

    def _wanted(self, group: int, seen: Counts) -> dict[int, Wanted]:
        """By picture of the row group: the entries that match. `seen` is raised by the other ones."""
        columns = [self.leaves[FEATURES, "language"], self.leaves[FEATURES, "page_title"]]
        found: dict[int, Wanted] = {}
        begin = 0
        for batch in self._batches(group, columns):
            parents, languages = _entries(batch.column(0), "language")
            others, titles = _entries(batch.column(0), "page_title")
            if not parents.equals(others):
                raise _UnequalError("the lists of wit_features differ in length")
            numbers = list(range(len(parents)))
            if self.language is not None:
                numbers = pc.indices_nonzero(pc.fill_null(pc.equal(languages, self.language), False)).to_pylist()
                _filter(seen, "language", len(parents) - len(numbers))
            wanted = titles.take(pa.array(numbers, pa.int64())).to_pylist()
            hits = self.matcher.match_all([title or "" for title in wanted])
            _filter(seen, "title", len(numbers) - len(hits))
            of = parents.to_pylist() if hits else []
            firsts = {row: place for place, row in reversed(list(enumerate(of)))}
            for number, terms in hits.items():
                row = of[numbers[number]]
                found.setdefault(begin + row, []).append((numbers[number] - firsts[row], terms))
            begin += batch.num_rows
        return found

    def _pictures(self, group: int, rows: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The wanted rows of the group with all that a record needs, in order."""
        if not rows:
            return
        names: list[tuple[str, ...]] = [(c,) for c in OF_PICTURE] + [(FEATURES, c) for c in OF_ENTRY]
        begin = 0
        for batch in self._batches(group, [self.leaves[name] for name in names if name in self.leaves]):
            here = [row for row in rows if begin <= row < begin + batch.num_rows]
            taken = batch.take(pa.array([row - begin for row in here], pa.int64())).to_pylist()
            begin += batch.num_rows
            yield from zip(here, taken, strict=True)

    def _batches(self, group: int, columns: list[str]) -> Iterator[pa.RecordBatch]:
        found: Iterator[pa.RecordBatch] = self.file.iter_batches(
            ROWS_AT_A_TIME, row_groups=[group], columns=columns, use_threads=False
        )
        return found

    def _check_connection(self, group: int) -> None:
        """Read the row group's bytes as they are: a lost connection, which raises here, is no damaged file."""
        columns = self.file.metadata.row_group(group)
        for number in range(columns.num_columns):
            chunk = columns.column(number)
            if chunk.path_in_schema in self.leaves.values():
                self.stream.seek(chunk.dictionary_page_offset or chunk.data_page_offset)
                self.stream.read(min(chunk.total_compressed_size, BUFFER))


def _filter(seen: Counts, rule: str, rows: int) -> None:
    if rows:
        seen.rows_in += rows
        seen.filtered[rule] += rows


def _entries(features: pa.Array, name: str) -> tuple[pa.Array, pa.Array]:
    """Of each entry: the number of its picture in the batch, and its field `name`."""
    if pa.types.is_struct(features.type):
        lists = pc.struct_field(features, name)
        return pc.list_parent_indices(lists), pc.list_flatten(lists)
    return pc.list_parent_indices(features), pc.struct_field(pc.list_flatten(features), name)


def _hit(picture: dict[str, Any], entry: int, terms: list[str]) -> MatchedRow:
    features = picture[FEATURES]
    if isinstance(features, dict):  # a struct of lists; a list that is too short lacks the value
        own = {name: (values or [])[entry : entry + 1] for name, values in features.items()}
        own = {name: values[0] if values else None for name, values in own.items()}
    else:
        own = features[entry]
    both = {**{name: value for name, value in picture.items() if name != FEATURES}, **own}
    return MatchedRow({name: _text(both[name]) if name in both else None for name in WIT_COLUMNS}, terms)


def _text(value: object) -> str:
    """As the TSV files have it: empty for nothing, true and false in small letters."""
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def picture_places(files: Sequence[Object], urls: pa.Array) -> pa.Table:
    """Where the pictures of `urls` lie: image_url, path (inside the file system), row_group, row; the first of several.

    Reads the column image_url of every file and nothing else.

    Raises:
        InputError: a file cannot be read.
    """
    with ThreadPoolExecutor(THREADS) as pool:
        found = pa.concat_tables(pool.map(lambda file: _places_in(file.uri, urls), files))
    numbered = found.append_column("place", pa.array(range(found.num_rows), pa.int64()))
    firsts = numbered.group_by("image_url", use_threads=False).aggregate([("place", "min")])
    return found.take(firsts["place_min"])


def of_records(task: UnitTask, *, places: str, repeated: str | None) -> pa.Table:
    """What to read for a unit of records: image_id, source_url, path, row_group, row; null where no file has it."""
    records = read_records(task.unit, ["image_id", "image_url"], repeated)
    known, place_of = _kept_places(places)
    places_of = pa.array([place_of.get(url) for url in records["image_url"].to_pylist()], pa.int64())
    columns = {name: known[name].take(places_of) for name in ("path", "row_group", "row")}
    return pa.table({"image_id": records["image_id"], "source_url": records["image_url"], **columns})


def pack_places(places: pa.Table) -> bytes:
    """`places` as the bytes of a Parquet file, which `of_records` reads."""
    out = pa.BufferOutputStream()
    pq.write_table(places, out, compression="zstd")
    packed: bytes = out.getvalue().to_pybytes()
    return packed


@lru_cache(maxsize=1)
def _kept_places(uri: str) -> tuple[pa.Table, dict[str, int]]:
    table = pq.read_table(pa.BufferReader(locations.read_bytes(uri))).combine_chunks()
    return table, {url: place for place, url in enumerate(table["image_url"].to_pylist())}


def _places_in(uri: str, urls: pa.Array) -> pa.Table:
    parts, path = [PLACES.empty_table()], locations.filesystem(uri)[1]
    with locations.named_errors(uri):
        try:
            with _opened(uri) as (file, _):
                if ("image_url",) not in _leaves(file):
                    raise InputError(f"{uri}: no column image_url; wit_base has it")
                for group in range(file.num_row_groups):
                    column = file.read_row_group(group, columns=["image_url"], use_threads=False)["image_url"]
                    rows = pc.indices_nonzero(pc.is_in(column, urls))
                    same = {"path": [path] * len(rows), "row_group": [group] * len(rows)}
                    parts.append(pa.table({"image_url": column.take(rows), **same, "row": rows}).cast(PLACES))
        except pa.ArrowException as error:
            raise InputError(f"{uri}: its column image_url cannot be read ({first_line(error)})") from error
    return pa.concat_tables(parts)


@contextmanager
def _opened(uri: str) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile]]:
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as stream, pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False) as file:
        yield file, stream


def _leaves(file: pq.ParquetFile) -> dict[tuple[str, ...], str]:
    """Parquet's path of each column that matters: ("image_url",) or ("wit_features", "language") -> path.

    What stands between the names (list.element, list.item, bag.array) is the writer's choice.
    """
    found: dict[tuple[str, ...], str] = {}
    for number in range(len(file.schema)):
        path = file.schema.column(number).path
        first, *rest = path.split(".")
        if first == FEATURES:
            if named := [name for name in rest if name in OF_ENTRY]:
                found[first, named[0]] = path
        elif not rest:
            found[first,] = path
    return found
