"""Readers of knowledge bases, whose rows describe an entity (a node) by its lemmas, glosses, articles or pictures.

Exports of WordNet and BabelNet are tables with one or several rows per node; the configuration maps their columns. A
row becomes a `NodeEntry`; entries become rows of the tables that `jobs.kb` writes. The files are its work units; a
large Parquet file is cut between nodes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.errors import first_line
from actors.ids import content_id
from actors.settings import Location
from actors.untrusted import cell_text
from jobs.corpora import delimited, json_files
from jobs.corpora.delimited import Dialect, text_batches
from jobs.corpora.user_tables import opened_parquet
from jobs.errors import InputError
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.selection.exclusions import ID
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.units import BYTES, Unit, unit_of_file
from jobs.store.writer import Reject

SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl")
ROWS = 20_000  # rows in memory as Python objects


@dataclass
class NodeColumns:
    """The source's columns; null: the source has no such column."""

    node: str = "node"  # identifier of the node
    language: str | None = None  # language of the row's texts
    lemmas: str | None = None  # one lemma, or a list of them
    title: str | None = None  # the title of the article
    gloss: str | None = None  # a short description
    article: str | None = None  # text of the article
    images: str | None = None  # an image_id, URL or path inside the folder of pictures, or a list of them


@dataclass
class KnowledgeBaseConfig:
    """The source of a knowledge base; `conf/knowledge_base/` has named ones."""

    name: str = MISSING
    path: Location[str] = MISSING  # a file, a folder or a glob of .parquet, .csv, .tsv or .jsonl files
    encoding: str | None = None  # rarely: encoding of .csv and .tsv files; null: by their byte-order mark, else UTF-8
    language: str = ""  # BCP 47 tag of rows without a language
    columns: NodeColumns = field(default_factory=NodeColumns)
    separator: str | None = None  # rarely: splits a lemmas or images field of a text file into several
    # rarely: words per window of an article, each embedded alone: SigLIP's text tower reads 64 tokens
    window_words: int = 40
    overlap_words: int = 10  # rarely: words that a window shares with the previous one
    windows: int | None = None  # rarely: maximum number of windows per article; null: all


class NodeEntry(NamedTuple):
    """The content of a row about a node."""

    node_id: str
    language: str
    lemmas: tuple[str, ...]
    title: str
    gloss: str
    article: str
    images: tuple[str, ...]


class BadRow(NamedTuple):
    """A row without a node, with a value that is not text, or a line that is not JSON; `row` is then the line."""

    row: int
    message: str
    reason: str = "no_node"


def find_files(config: KnowledgeBaseConfig) -> list[Object]:
    """Return the files of the knowledge base, sorted by name.

    Raises:
        InputError: there are no files, a key has an invalid value, a file lacks a column or has a duplicate one, or a
            .jsonl file does not begin with JSON lines.
    """
    if config.window_words < 1 or not 0 <= config.overlap_words < config.window_words:
        raise InputError(
            f"knowledge_base.window_words={config.window_words}, overlap_words={config.overlap_words}: "
            "window_words must be at least 1, and overlap_words from 0 to less than that"
        )
    if config.windows is not None and config.windows < 1:
        raise InputError("must be at least 1, or null for all", key="knowledge_base.windows", value=config.windows)
    files = [o for o in locations.find(config.path) if o.uri.lower().endswith(SUFFIXES)]
    if not files:
        raise InputError(f"has no {', '.join(SUFFIXES)} file", key="knowledge_base.path", value=config.path)
    required = _source_columns(config.columns)
    for file in files:
        header = column_names(file.uri, config.encoding)
        if header is None:
            next(json_files.lines(file.uri, lambda _: None))
        else:
            delimited.require_columns(
                file.uri, header, required.values(), hint=" (choose with knowledge_base.columns.…=)"
            )
    return files


def column_names(uri: str, encoding: str | None = None) -> list[str] | None:
    """Return the columns of a file; None for JSON lines, whose objects may have different columns."""
    if uri.lower().endswith(".jsonl"):
        return None
    if not uri.lower().endswith(".parquet"):
        return list(_dialect(uri, encoding).header)
    with opened_parquet(uri) as file:
        return list(file.schema_arrow.names)


def entries(
    uri: str, config: KnowledgeBaseConfig, *, span: tuple[int, int] | None = None
) -> Iterator[NodeEntry | BadRow]:
    """Yield the rows of one file in order, with one batch in memory at a time.

    A row without a node, or with an object instead of text, becomes a `BadRow`, and so does a line that is not JSON.

    Args:
        span: the first row and one past the last in a Parquet file; None: all rows.

    Raises:
        InputError: the file cannot be read.
    """
    if uri.lower().endswith(".jsonl"):
        yield from _of_lines(uri, config)
        return
    row = span[0] if span else 0
    try:
        for batch in _batches(uri, config, span):
            for values in batch:
                row += 1
                yield _entry(values, config, row)
    except (pa.ArrowInvalid, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read after row {row} ({first_line(error)})", place=uri) from error


def _of_lines(uri: str, config: KnowledgeBaseConfig) -> Iterator[NodeEntry | BadRow]:
    names = _source_columns(config.columns)
    bad: list[Reject] = []
    for line, row in json_files.lines(uri, bad.append):
        yield from (BadRow(reject.position, reject.message, reject.reason) for reject in bad)
        bad.clear()
        yield _entry(_renamed(row, names), config, line)
    yield from (BadRow(reject.position, reject.message, reject.reason) for reject in bad)


def windows(text: str, config: KnowledgeBaseConfig) -> list[str]:
    """Return an article's overlapping windows of words, each joined by single spaces."""
    words = text.split()
    step = config.window_words - config.overlap_words
    last = max(len(words) - config.overlap_words, 1)
    cut = [" ".join(words[first : first + config.window_words]) for first in range(0, last, step)] if words else []
    return cut[: config.windows]


def image_id(name: str) -> str:
    """Return the picture's id: `name` if it is an id, else the id that `fetch` gives to this URL or path."""
    return name if ID.fullmatch(name) else content_id(name)


def text_id(role: str, node: str, language: str, text: str) -> str:
    """Return the id of a node's text; equal texts of two nodes have different ids."""
    return content_id(role, node, language, text)


def _source_columns(columns: NodeColumns) -> dict[str, str]:
    """Return the column of each field that the source has."""
    return {field.name: name for field in fields(columns) if (name := getattr(columns, field.name))}


def _batches(uri: str, config: KnowledgeBaseConfig, span: tuple[int, int] | None) -> Iterator[Iterable[dict[str, Any]]]:
    names = _source_columns(config.columns)
    columns = list(dict.fromkeys(names.values()))
    if uri.lower().endswith((".csv", ".tsv")):
        for table in text_batches(uri, _dialect(uri, config.encoding), columns):
            for batch in table.to_batches(ROWS):
                yield [_renamed(row, names) for row in batch.to_pylist()]
        return
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_file(path) as stream:
        for batch in _parquet_batches(pq.ParquetFile(stream), columns, span):
            yield [_renamed(row, names) for row in batch.to_pylist()]


def _parquet_batches(
    file: pq.ParquetFile, columns: list[str], span: tuple[int, int] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of `span`, reading only row groups that contain some of them."""
    low, high = span or (0, file.metadata.num_rows)
    begin = 0
    for group in range(file.num_row_groups):
        end = begin + file.metadata.row_group(group).num_rows
        if begin < high and end > low:
            first = begin
            for batch in file.iter_batches(ROWS, row_groups=[group], columns=columns):
                start, stop = max(low - first, 0), min(high - first, batch.num_rows)
                if start < stop:
                    yield batch.slice(start, stop - start)
                first += batch.num_rows
        begin = end


def _dialect(uri: str, encoding: str | None) -> Dialect:
    return delimited.read_dialect(uri, encoding=encoding, encoding_key="knowledge_base.encoding")


def _renamed(row: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    return {key: row.get(name) for key, name in names.items()}


def _entry(values: dict[str, Any], config: KnowledgeBaseConfig, row: int) -> NodeEntry | BadRow:
    for key, value in values.items():
        # An object (such as lemmas by language) would otherwise be read as a list of its keys.
        texts = value if isinstance(value, list | tuple) and key in ("lemmas", "images") else [value]
        if types := [type(text).__name__ for text in texts if isinstance(text, dict | list | tuple | bytes)]:
            return BadRow(
                row, f"column {_source_columns(config.columns)[key]} has a {types[0]} instead of text", "no_text"
            )
    node = cell_text(values.get("node"))
    if node is None:
        return BadRow(row, f"column {config.columns.node} is empty")
    return NodeEntry(
        node,
        (cell_text(values.get("language")) or "") or config.language,
        _names(values.get("lemmas"), config.separator),
        (cell_text(values.get("title")) or ""),
        (cell_text(values.get("gloss")) or ""),
        (cell_text(values.get("article")) or ""),
        _names(values.get("images"), config.separator),
    )


def _names(value: Any, separator: str | None) -> tuple[str, ...]:
    """Return the names in a field: distinct, in order, without empty names."""
    if isinstance(value, str):
        parts: Sequence[Any] = value.split(separator) if separator else [value]
    else:
        parts = value if isinstance(value, list | tuple) else [value]
    return tuple(dict.fromkeys(filter(None, map(cell_text, parts))))


ROW_SPAN = "span"  # in a unit's `extra`: first row and one past the last


def node_units(files: Sequence[Object], *, node: str, unit_rows: int) -> Iterator[Unit]:
    """Yield the files' units: one per file, or parts of a Parquet file with about `unit_rows` rows.

    All rows of a node must be in one unit, because they become one row of `nodes`: a file is cut only if the rows of
    each node are consecutive. Text files are not cut, because finding their rows would require reading the file.

    Args:
        node: the column of the nodes.
    """
    for file in files:
        if not file.uri.lower().endswith(".parquet"):
            yield unit_of_file(file)
            continue
        ends = _ends(file, node, unit_rows)
        rows = ends[-1]
        if len(ends) < 3:
            yield unit_of_file(file, rows=rows)
            continue
        for first, last in pairwise(ends):
            unit = unit_of_file(file, piece=f"rows {first}-{last}", rows=last - first)
            share = file.size * last // rows - file.size * first // rows
            yield replace(unit, extra={ROW_SPAN: [first, last], BYTES: share})


def _ends(file: Object, node: str, unit_rows: int) -> list[int]:
    """Return the ends of the parts: 0, the number of rows and, if the file can be cut, ends between them."""
    with opened_parquet(file.uri) as parquet:
        rows = parquet.metadata.num_rows
        whole = [0, rows]
        if rows <= unit_rows:
            return whole
        column = parquet.read(columns=[node])[node]
    try:
        names = pc.fill_null(pc.utf8_trim_whitespace(column.cast(pa.string())), "").combine_chunks()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # rows with lists or objects are rejected one by one
        return whole
    places = np.flatnonzero(pc.not_equal(names, "").to_numpy(zero_copy_only=False))
    named = names.take(pa.array(places))
    if not len(named):
        return whole
    changes = pc.not_equal(named.slice(1), named.slice(0, len(named) - 1)).to_numpy(zero_copy_only=False)
    starts = places[np.append(True, changes)]
    if len(starts) != pc.count_distinct(named).as_py():
        return whole
    at = np.searchsorted(starts, np.arange(unit_rows, rows, unit_rows))
    return [0, *np.unique(starts[at[at < len(starts)]]).tolist(), rows]
