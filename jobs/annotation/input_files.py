"""The files that an import reads, and their format."""

from collections.abc import Sequence

from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.store.files import locations

FORMATS = {
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"),
    "parquet": (".parquet",),
    "label_studio": (".json",),
    "prodigy": (".jsonl", ".jsonl.gz"),
    "century": (".csv", ".csv.gz"),
}
IMPLIED = ("csv", "parquet", "label_studio", "prodigy")  # formats that a file's name implies


def files_of(uri: str, format_: str | None) -> list[locations.Object]:
    """Return the files at `uri` (a file, folder or glob); if there are several, those whose names fit `format_`.

    Raises:
        InputError: there is no such file.
    """
    base = locations.absolute(uri)
    files = [file for file in locations.find(uri) if file.uri == base or not _is_hidden(file.uri, base)]
    if format_ and len(files) > 1:
        files = [file for file in files if file.uri.lower().endswith(FORMATS[format_])]
    if not files:
        expected = f"no file of format={format_} ({', '.join(FORMATS[format_])})" if format_ else "no file to read"
        raise InputError(f"input={uri}: {expected}")
    return files


def _is_hidden(uri: str, base: str) -> bool:
    """Return whether a program wrote a file for its own use (`_run/…`, `.part`), judging by its path below `base`.

    If a glob matched the file, only its name counts.
    """
    below = uri.removeprefix(f"{base}/") if uri.startswith(f"{base}/") else uri.rsplit("/", 1)[-1]
    return any(part[:1] in ("_", ".") for part in below.split("/"))


def format_of(files: Sequence[locations.Object]) -> str:
    """Return the format that the files' names imply.

    Raises:
        InputError: a name implies no format, or the files have several formats.
    """
    formats = {
        file.uri: next((name for name in IMPLIED if file.uri.lower().endswith(FORMATS[name])), None) for file in files
    }
    if unknown := next((uri for uri, format_ in formats.items() if format_ is None), None):
        advice = delimited.workbook_advice(unknown) or f"set format={'|'.join(FORMATS)}"
        raise InputError(f"{unknown}: the name does not imply a format; {advice}")
    distinct = sorted({format_ for format_ in formats.values() if format_})
    if len(distinct) > 1:
        raise InputError(f"input: files of several formats ({', '.join(distinct)}); choose one with format=")
    return distinct[0]
