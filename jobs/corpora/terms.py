"""Search terms: a `terms` table, or a CSV, TSV, Parquet or plain text file with one column of phrases."""

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import PurePosixPath

import pyarrow as pa
import pyarrow.parquet as pq
from omegaconf import MISSING

from actors.ids import content_id
from actors.titles import Fold
from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.reading import open_table

COLUMNS = ("term", "terms", "phrase", "page_title")  # what a column of phrases is called in the wild
KINDS = (".csv", ".tsv", ".txt", ".parquet")


@dataclass
class TermsConfig:
    """Where the search terms come from."""

    path: str = MISSING  # a table of terms, or a .csv, .tsv, .txt or .parquet file
    column: str | None = None  # the column of phrases; null: term, terms, phrase or page_title, in any case
    source: str | None = None  # what the rows found are credited to; null: the table's sources, or the file's name


@dataclass
class FoldConfig:
    """What is made of terms and titles alike before they are compared."""

    case: str = "lower"  # the paper's rule; casefold: also ß as ss, final sigma as sigma
    compose: str | None = None  # NFC: accents count the same composed and decomposed; NFKC: also ligatures, full width
    dashes: bool = False  # every dash and the minus sign count as the hyphen


def fold_of(config: FoldConfig) -> Fold:
    """The fold that `config` describes.

    Raises:
        InputError: no such case or composition.
    """
    try:
        return Fold(case=config.case, compose=config.compose, dashes=config.dashes)
    except ValueError as error:
        raise InputError(f"fold.{error}") from error


def read_terms(config: TermsConfig, fold: Fold | None = None) -> dict[str, tuple[str, ...]]:
    """The terms, folded (in lower case without a `fold`), and the sources each came from.

    Raises:
        InputError: nothing there, no such column, or no term in it.
    """
    found = locations.find(config.path)
    data = [o for o in found if not o.uri.rsplit("/", 1)[-1].startswith((".", "_"))]
    if len(found) == 1:
        phrases, sources = _read_file(found[0].uri, config.column)
    elif any("/_run/" in o.uri for o in data):
        table = open_table(config.path, "terms")
        rows = pa.concat_tables(list(table.batches(["term", "source"])))
        phrases, sources = rows["term"].to_pylist(), rows["source"].to_pylist()
    else:
        raise InputError(f"terms.path={config.path}: {len(found)} files; name one file or a table of terms")
    fold = fold or Fold()
    stem = PurePosixPath(found[0].uri).name.split(".")[0]
    by_term: dict[str, set[str]] = {}
    for phrase, source in zip(phrases, sources, strict=True):
        if phrase and (term := fold.whole(phrase)):
            by_term.setdefault(term, set()).add(config.source or source or stem)
    if not by_term:
        raise InputError(f"terms.path={config.path}: no term in it")
    return {term: tuple(sorted(of)) for term, of in sorted(by_term.items())}


def fingerprint(terms: Mapping[str, tuple[str, ...]]) -> str:
    """A hash of the terms and their sources, for the identity of what they find."""
    return content_id(*(part for term, of in terms.items() for part in (term, *of, "")))


def pack(terms: Mapping[str, tuple[str, ...]]) -> bytes:
    """The terms and their sources as JSON; sources are few and repeat."""
    sources = sorted(set(terms.values()))
    number = {of: n for n, of in enumerate(sources)}
    packed = {"sources": sources, "terms": list(terms), "of": [number[of] for of in terms.values()]}
    return json.dumps(packed, ensure_ascii=False).encode()


def unpack(data: bytes) -> dict[str, tuple[str, ...]]:
    """What `pack` was given."""
    packed = json.loads(data)
    sources = [tuple(of) for of in packed["sources"]]
    return {term: sources[number] for term, number in zip(packed["terms"], packed["of"], strict=True)}


def _read_file(uri: str, column: str | None) -> tuple[list[str | None], list[str | None]]:
    fs, path = locations.filesystem(uri)
    name = uri.lower()
    if not name.endswith(KINDS):
        raise InputError(f"{uri}: terms are read from {', '.join(KINDS)} files, and from tables of terms")
    with locations.named_errors(uri):
        if name.endswith(".parquet"):
            with fs.open_input_file(path) as stream:
                try:
                    table = pq.read_table(stream)
                except pa.ArrowException as error:
                    raise InputError(f"{uri}: not a readable Parquet file") from error
            return _columns(uri, {c: table[c].to_pylist() for c in table.column_names}, column)
        data = locations.read_bytes(uri)
    if name.endswith(".txt"):
        lines: list[str | None] = list(_text(uri, data, "utf-8-sig").splitlines())
        return lines, [None] * len(lines)
    text = io.StringIO(_text(uri, data, delimited.marked(data)), newline="")
    try:
        dialect = delimited.look_at(uri, delimiter="\t" if name.endswith(".tsv") else None)
        rows = list(csv.reader(text, delimiter=dialect.delimiter, strict=True))[dialect.before :]
    except csv.Error as error:
        raise InputError(f"{uri}: cannot be read as CSV ({error})") from error
    header = list(dialect.header)
    for number, row in enumerate(rows, start=1 + dialect.before):
        if any(row[len(header) :]):  # an unquoted "Lima, Peru" would be searched as Lima
            raise InputError(
                f"{uri}: row {number} has {len(row)} fields, the header {len(header)}; put terms in quotes"
            )
    if twice := next((c for c in header if header.count(c) > 1), None):
        raise InputError(f"{uri}: column {twice} stands twice in its header")
    by_column = dict(zip(header, zip_longest(*rows[1:]), strict=False))
    absent = [None] * (len(rows) - 1)  # of a column that stands in the header alone
    return _columns(uri, {name: list(by_column.get(name, absent)) for name in header}, column)


def _text(uri: str, data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise InputError(f"{uri}: not {encoding.removesuffix('-sig').upper()} (byte {error.start})") from error


def _columns(
    uri: str, columns: Mapping[str, list[str | None]], wanted: str | None
) -> tuple[list[str | None], list[str | None]]:
    """The phrases and, where there is a column `source`, what each is credited to."""
    # A single column of another name is not taken for it: the first phrase of a list without a header would be lost.
    known = [wanted] if wanted else [c for name in COLUMNS for c in columns if c.lower() == name]
    if not known or known[0] not in columns:
        named = wanted or " or ".join(COLUMNS)
        hint = "choose with terms.column=; a list without a header is a .txt file"
        raise InputError(f"{uri}: no column {named}; there are {', '.join(columns)} ({hint})")
    phrases = columns[known[0]]
    if strange := next((p for p in phrases if not isinstance(p, str | None)), None):
        raise InputError(f"{uri}: column {known[0]} holds {type(strange).__name__}, not text")
    return phrases, columns.get("source", [None] * len(phrases))
