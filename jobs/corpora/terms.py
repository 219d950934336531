"""Search terms: a `terms` table, or a CSV, TSV, Parquet or plain text file with one column of phrases."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    encoding: str | None = None  # of a .csv, .tsv or .txt file; null: by its byte-order mark, else UTF-8
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
        phrases, sources = _read_file(config, found[0].uri)
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


def _read_file(config: TermsConfig, uri: str) -> tuple[list[str | None], list[str | None]]:
    """Return the phrases of a file, and the source of each where there is a column `source`."""
    name = uri.lower()
    if not name.endswith(KINDS):
        raise InputError(f"{uri}: terms are read from {', '.join(KINDS)} files, and from tables of terms")
    if name.endswith(".parquet"):
        return _read_parquet(config, uri)
    if name.endswith(".txt"):
        lines: list[str | None] = list(_text(uri, config.encoding).splitlines())
        return lines, [None] * len(lines)
    dialect = delimited.read_dialect(uri, encoding=config.encoding, encoding_key="terms.encoding")
    column = _phrase_column(uri, dialect.header, config.column)
    phrases: list[str | None] = []
    sources: list[str | None] = []
    columns = [column, *(name for name in dialect.header if name == "source")]
    for _, row in delimited.records(uri, dialect, columns):
        phrases.append(row[column])
        sources.append(row.get("source"))
    return phrases, sources


def _read_parquet(config: TermsConfig, uri: str) -> tuple[list[str | None], list[str | None]]:
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_file(path) as stream:
        try:
            table = pq.read_table(stream)
        except pa.ArrowException as error:
            raise InputError(f"{uri}: not a readable Parquet file") from error
    column = _phrase_column(uri, table.column_names, config.column)
    phrases = table[column].to_pylist()
    if wrong := next((phrase for phrase in phrases if not isinstance(phrase, str | None)), None):
        raise InputError(f"{uri}: column {column} holds {type(wrong).__name__}, not text")
    return phrases, table["source"].to_pylist() if "source" in table.column_names else [None] * len(phrases)


def _text(uri: str, encoding: str | None) -> str:
    data = locations.read_bytes(uri)
    encoding = delimited.marked_encoding(data) or encoding or "utf-8"
    try:
        return data.decode(encoding)
    except LookupError as error:
        raise InputError(f"terms.encoding={encoding}: not an encoding; for instance utf-8 or cp1252 are") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{uri}: byte {error.start} is not {encoding.removesuffix('-sig').upper()}; save it as UTF-8, "
            "or name its encoding, for instance terms.encoding=cp1252"
        ) from error


def _phrase_column(uri: str, header: Sequence[str], named: str | None) -> str:
    """Return the column of phrases: `named`, else the first of `COLUMNS` that the file has, in any case.

    A single column of another name is not taken for it: the first phrase of a list without a header would be lost.
    """
    column = named or next((c for name in COLUMNS for c in header if c.lower() == name), None)
    hint = " (choose one with terms.column=; a list without a header is a .txt file)"
    if column is None:
        raise InputError(f"{uri}: no column {' or '.join(COLUMNS)}; there are {', '.join(header)}{hint}")
    delimited.require_columns(uri, header, [column], hint=hint)
    return column
