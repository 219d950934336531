"""Files of a run that are not tables: tasks, sheets to choose from, pages, copies of pictures, approximate indexes.

Only files that a job of remine wrote are changed. Others that name a picture are reported.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.purging.matching import Gone, columns_of, matches
from jobs.store import locations
from jobs.store.place import is_written_by_run

LARGEST = 1 << 30  # bytes; larger files are not read
TEXTS = (".json", ".jsonl", ".csv", ".tsv", ".txt", ".html", ".xml", ".md")
PICTURES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".tif", ".tiff", ".bmp", ".avif", ".jp2", ".ppm")
PAGE, SHEETS = "index.html", ("choose.csv", "rankings.csv")  # of `choose` and `show_links`
GENERATOR, HEAD = b'<meta name="generator" content="remine">', 4096  # what all pages have, in their first bytes
INDEX, INDEX_IDS = "corpus.faiss", "ids.parquet"  # of `retrieve faiss.out=`


@dataclass
class ChangedFiles:
    """What happened to the files: those rewritten or removed, and those of others in which something was found."""

    rewritten: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    @property
    def found(self) -> list[str]:
        """The files that name or show something that must go, as far as their content tells."""
        return sorted([*self.rewritten, *self.removed, *self.left])


class Needles:
    """Finds what must go in text: ids and addresses."""

    def __init__(self, gone: Gone) -> None:
        self.ids = {mark for mark in gone.marks if ":" not in mark}
        self._filter = gone.exclusion_filter()
        self._urls = {url for url in gone.urls if len(url) > len("https://")}

    def in_text(self, text: str) -> bool:
        """Whether `text` has one of the ids as a word, or one of the addresses."""
        if any(word in self.ids for word in _words(text)):
            return True
        return "//" in text and (any(url in text for url in self._urls) or self._filter.hit(*_addresses(text)))

    def in_rows(self, rows: pa.Table) -> bool:
        """Whether a row names one of the ids or addresses."""
        return bool(matches(rows, self._filter).any())

    def is_picture(self, name: str) -> bool:
        """Whether a file is named after one of the pictures."""
        stem, _, suffix = name.rpartition(".")
        return f".{suffix.lower()}" in PICTURES and stem in self.ids


_WORD = re.compile(r"\w+")


def _words(text: str) -> Iterator[str]:
    """The words of a text, with and without the signs around and inside them."""
    for part in text.split():
        yield part.strip("'\"()[]{};,:")
    yield from (match[0] for match in _WORD.finditer(text))


def _addresses(text: str) -> list[str]:
    parts = text.replace("\\/", "/").replace('"', " ").replace("'", " ").replace("<", " ").replace(",", " ").split()
    return [part.strip("()[]{};") for part in parts if "//" in part]


def other_files(root: str, tables: Iterable[str]) -> list[str]:
    """The files below `root` that no run of a table has written, in order."""
    folders = [f"{table}/" for table in tables]
    return [
        file.uri
        for file in locations.listing(root)
        if file.size <= LARGEST
        and not any(file.uri.startswith(folder) and is_written_by_run(folder, file.uri) for folder in folders)
    ]


def purge_files(files: Sequence[str], tables: Iterable[str], needles: Needles, *, act: bool) -> ChangedFiles:
    """Rewrite tasks and sheets without what must go; remove copies of pictures, indexes, and pages.

    Pages are removed rather than rewritten, because their figures count the pictures too; `report` writes them again.

    Args:
        files: what `other_files` returned.
        tables: the uris of the tables.
        act: False only finds the files.
    """
    ours, changed = _Ours(frozenset(tables), frozenset(files)), ChangedFiles()
    for uri in files:
        name = _name(uri).lower()
        if needles.is_picture(_name(uri)):
            (changed.removed if ours.is_task_file(uri) else changed.left).append(uri)
        elif name == INDEX_IDS and f"{_folder(uri)}/{INDEX}" in files:
            if any(needles.ids.intersection(rows["item_id"].to_pylist()) for rows in _ids(uri)):
                changed.removed += [uri, f"{_folder(uri)}/{INDEX}"]
        elif name.endswith(".parquet"):
            if _has_rows(uri, needles):
                changed.left.append(uri)
        elif name.endswith(TEXTS):
            text = locations.read_bytes(uri).decode("utf-8", "surrogateescape")
            if needles.in_text(text):
                _purge_text(uri, text, needles, ours, changed, act=act)
    if act:
        locations.remove(changed.removed)
    return changed


def pages_with_pictures(files: Sequence[str], tables: Iterable[str]) -> list[str]:
    """The pages of `report`, `choose` and `show_links`. They embed pictures without naming them."""
    ours = _Ours(frozenset(tables), frozenset(files))
    return [uri for uri in files if ours.is_page(uri)]


@dataclass(frozen=True)
class _Ours:
    """Knows which files jobs of remine wrote: pages by their heads, other files by their neighbours."""

    tables: frozenset[str]
    files: frozenset[str]

    def is_page(self, uri: str) -> bool:
        if not uri.endswith(".html"):
            return False
        fs, path = locations.filesystem(uri)
        with fs.open_input_stream(path, compression=None) as stream:
            return GENERATOR in stream.read(HEAD)

    def is_task_file(self, uri: str) -> bool:
        folder, _, inside = _folder(uri).rpartition("/")
        return inside in ("label_studio", "prodigy", "pictures") and f"{folder}/assignments" in self.tables

    def is_sheet(self, uri: str) -> bool:
        return _name(uri) in SHEETS and f"{_folder(uri)}/{PAGE}" in self.files


def _name(uri: str) -> str:
    return uri.rsplit("/", 1)[-1]


def _folder(uri: str) -> str:
    return uri.rsplit("/", 1)[0]


def _has_rows(uri: str, needles: Needles) -> bool:
    """Whether a Parquet file of another program, or a release, has rows about what must go."""
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_file(path) as stream:
        try:
            with pq.ParquetFile(stream) as file:
                names = [f.name for f in file.schema_arrow if pa.types.is_string(f.type)]
                columns = columns_of(names)
                groups = range(file.num_row_groups if columns else 0)
                return any(needles.in_rows(file.read_row_group(group, columns=columns)) for group in groups)
        except pa.ArrowInvalid:
            return False


def _ids(uri: str) -> Iterator[pa.RecordBatch]:
    fs, path = locations.filesystem(uri)
    with fs.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
        yield from file.iter_batches()


def _purge_text(uri: str, text: str, needles: Needles, ours: _Ours, changed: ChangedFiles, *, act: bool) -> None:
    if ours.is_page(uri):
        changed.removed.append(uri)
        return
    kept = _without(text, _name(uri), needles) if ours.is_task_file(uri) or ours.is_sheet(uri) else None
    if kept is None:
        changed.left.append(uri)
        return
    changed.rewritten.append(uri)
    if act:
        locations.replace(uri, kept.encode("utf-8", "surrogateescape"))


def _without(text: str, name: str, needles: Needles) -> str | None:
    """The text without the tasks, lines or rows that name what must go; None if it has another form."""
    if name.endswith(".csv"):
        return _rows_without(text, needles)
    if name.endswith(".jsonl"):
        return "".join(line for line in io.StringIO(text, newline="\n") if not needles.in_text(line))
    tasks = json.loads(text) if name.endswith(".json") else None
    if not isinstance(tasks, list):
        return None
    kept = [task for task in tasks if not needles.in_text(json.dumps(task, ensure_ascii=False))]
    return json.dumps(kept, ensure_ascii=False, indent=1)


def _rows_without(text: str, needles: Needles) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out)
    for row in csv.reader(io.StringIO(text, newline="")):
        if not any(needles.in_text(cell) for cell in row):
            writer.writerow(row)
    return out.getvalue()
