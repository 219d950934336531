"""Reader of search terms: a table `terms`, or a CSV, TSV, Parquet or plain text file with a column of phrases."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from actors.ids import content_id
from actors.titles import LONGEST_TERM, Fold
from actors.untrusted import text_lines
from jobs.corpora import delimited
from jobs.corpora.user_tables import opened_parquet
from jobs.errors import InputError
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.process.console import say
from jobs.store.files import locations
from jobs.store.reading import open_table

COLUMNS = ("term", "terms", "phrase", "page_title")  # usual names of a column of phrases
_INNER = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]+")
KINDS = (".csv", ".tsv", ".txt", ".parquet")


@dataclass
class TermsConfig:
    """Keys of the source of search terms."""

    path: Any = MISSING  # a table of terms, or a .csv, .tsv, .txt or .parquet file; or a list of them
    column: str | None = None  # the column of phrases; null: term, terms, phrase or page_title, in any case
    encoding: str | None = None  # rarely: of a .csv, .tsv or .txt file; null: by its byte-order mark, else UTF-8
    # rarely: the source to which hits are credited; null: the column `source`, else the file's name
    source: str | None = None


@dataclass
class FoldConfig:
    """The normalisation of terms and titles before they are compared."""

    case: str = "lower"  # the paper's rule; casefold: also ß as ss, final sigma as sigma
    # rarely: NFC: composed and decomposed accents are equal; NFKC: ligatures and full-width forms too
    compose: str | None = None
    dashes: bool = False  # rarely: every dash and the minus sign equal the hyphen


def fold_of(config: FoldConfig) -> Fold:
    """Return the fold that `config` describes.

    Raises:
        InputError: an unknown case or composition.
    """
    try:
        return Fold(case=config.case, compose=config.compose, dashes=config.dashes)
    except ValueError as error:
        raise InputError(f"fold.{error}") from error


def read_terms(config: TermsConfig, fold: Fold | None = None) -> dict[str, tuple[str, ...]]:
    """Return the folded terms (in lower case by default) of all files and tables, with the sources of each.

    If there are several paths, a table may be empty, which is printed: models' responses may have no usable line.

    Raises:
        InputError: a file, its column or its terms are missing.
    """
    fold = fold or Fold()
    by_term: dict[str, set[str]] = {}
    paths = _paths(config.path)
    for path in paths:
        terms = 0
        for phrase, source in _phrases(config, path):
            if phrase and (term := fold.whole(phrase)):
                by_term.setdefault(term, set()).add(source)
                terms += 1
        if not terms and (len(paths) == 1 or is_file(path)):
            raise InputError("has no terms; at least one is required", key="terms.path", value=path)
        if not terms:
            say(f"  terms.path={path}: has no terms")
    if not by_term:
        raise InputError("no terms; at least one is required", key="terms.path", value=paths)
    return {term: tuple(sorted(names)) for term, names in sorted(by_term.items())}


def is_file(path: str) -> bool:
    """Return whether a path of terms is a file, judging by its extension, rather than a table."""
    return path.lower().endswith(KINDS)


def read_phrases(path: str) -> set[str]:
    """Return the terms in a file as written, without outer white space.

    Raises:
        InputError: the file, its column or its terms are missing.
    """
    phrases = {phrase.strip() for phrase, _ in _phrases(TermsConfig(path=path), path) if phrase and phrase.strip()}
    if not phrases:
        raise InputError("has no terms; at least one is required", key="terms", value=path)
    return phrases


def _paths(value: Any) -> list[str]:
    """Return the entries of `terms.path`."""
    paths = [value] if isinstance(value, str) else value
    if not isinstance(paths, list) or not paths or not all(isinstance(path, str) and path for path in paths):
        raise InputError("must be a table of terms or a file, or a list of them", key="terms.path", value=value)
    return list(dict.fromkeys(paths))


def _phrases(config: TermsConfig, path: str) -> Iterator[tuple[str | None, str]]:
    """Yield the phrases in a file or table, each with the source credited with its hits."""
    everything = locations.find(path)
    files = [o for o in everything if not o.uri.rsplit("/", 1)[-1].startswith((".", "_"))] or everything
    stem = PurePosixPath(files[0].uri).name.split(".")[0]
    if len(files) == 1:
        for line, phrase, source in zip(*_read_file(config, files[0].uri), strict=True):
            _check_length(path, phrase, f"line {line:,}")
            yield phrase, config.source or source or stem
    elif any("/_run/" in o.uri for o in files):
        for batch in open_table(path, "terms").batches(["term", "source"]):
            for phrase, source in zip(batch["term"].to_pylist(), batch["source"].to_pylist(), strict=True):
                _check_length(path, phrase, "a term")
                yield phrase, config.source or source
    else:
        raise InputError(f"{len(files)} files; name one file or a table of terms", key="terms.path", value=path)


def _check_length(path: str, phrase: str | None, place: str) -> None:
    if phrase and len(phrase) > LONGEST_TERM:
        why = f"{place} has {len(phrase):,} characters; a term has at most {LONGEST_TERM:,}"
        raise InputError(why, key="terms.path", value=path, remedy="shorten or remove it")


def fingerprint(terms: Mapping[str, tuple[str, ...]]) -> str:
    """Return a hash of the terms and their sources, for the identity of `records`."""
    return content_id(*(part for term, sources in terms.items() for part in (term, *sources, "")))


def pack(terms: Mapping[str, tuple[str, ...]]) -> bytes:
    """Return the terms and their sources as JSON; the few combinations of sources are stored once."""
    sources = sorted(set(terms.values()))
    number = {names: n for n, names in enumerate(sources)}
    packed = {"sources": sources, "terms": list(terms), "sources_of": [number[names] for names in terms.values()]}
    return json.dumps(packed, ensure_ascii=False).encode()


def unpack(data: bytes) -> dict[str, tuple[str, ...]]:
    """Return the terms and sources from the JSON of `pack`."""
    packed = json.loads(data)
    sources = [tuple(names) for names in packed["sources"]]
    return {term: sources[number] for term, number in zip(packed["terms"], packed["sources_of"], strict=True)}


def _read_file(config: TermsConfig, uri: str) -> tuple[Sequence[int], list[str | None], list[str | None]]:
    """Return the lines of the phrases in a file, the phrases, and the source of each if there is a column `source`."""
    name = uri.lower()
    if not name.endswith(KINDS):
        raise InputError(f"must be a {', '.join(KINDS)} file or a table of terms", place=uri)
    if name.endswith(".parquet"):
        return _read_parquet(config, uri)
    if name.endswith(".txt"):
        # Separators that are no line ends, as in text from PDFs and web pages, divide words.
        terms: list[str | None] = [_INNER.sub(" ", line) for line in text_lines(_text(uri, config.encoding))]
        return range(1, len(terms) + 1), terms, [None] * len(terms)
    dialect = delimited.read_dialect(uri, encoding=config.encoding, encoding_key="terms.encoding")
    column = _phrase_column(uri, dialect.header, config.column)
    places: list[int] = []
    phrases: list[str | None] = []
    sources: list[str | None] = []
    columns = [column, *(name for name in dialect.header if name == "source")]
    for line, row in delimited.records(uri, dialect, columns):
        places.append(line)
        phrases.append(row[column])
        sources.append(row.get("source", "").strip())
    return places, phrases, sources


def _read_parquet(config: TermsConfig, uri: str) -> tuple[Sequence[int], list[str | None], list[str | None]]:
    with opened_parquet(uri) as file:
        table = file.read()
    column = _phrase_column(uri, table.column_names, config.column)
    phrases = table[column].to_pylist()
    if not_texts := [phrase for phrase in phrases if not isinstance(phrase, str | None)]:
        raise InputError(f"column {column} has {type(not_texts[0]).__name__}, not text", place=uri)
    sources = table["source"].to_pylist() if "source" in table.column_names else [None] * len(phrases)
    return range(1, len(phrases) + 1), phrases, sources


def _text(uri: str, encoding: str | None) -> str:
    data = locations.read_bytes(uri)
    encoding = delimited.marked_encoding(data) or encoding or "utf-8"
    try:
        return data.decode(encoding)
    except LookupError as error:
        why = "unknown encoding; use for instance utf-8 or cp1252"
        raise InputError(why, key="terms.encoding", value=encoding) from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"byte {error.start} is not {encoding.removesuffix('-sig').upper()}; save it as UTF-8, "
            "or name its encoding, for instance terms.encoding=cp1252",
            place=uri,
        ) from error


def _phrase_column(uri: str, header: Sequence[str], configured: str | None) -> str:
    """Return the column of phrases: `configured`, else the first of `COLUMNS` that the file has, in any case.

    A single column with another name is refused: it may be a list without a header, whose first phrase would be lost.
    """
    columns = (delimited.column_in_any_case(uri, header, name, key="terms.column=") for name in COLUMNS)
    column = configured or next(filter(None, columns), None)
    hint = " (choose one with terms.column=; a list without a header is a .txt file)"
    if column is None:
        raise InputError(f"no column {' or '.join(COLUMNS)}; there are {', '.join(header)}{hint}", place=uri)
    delimited.require_columns(uri, header, [column], hint=hint)
    return column
