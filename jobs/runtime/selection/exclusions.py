"""Pictures that must not be used, because people reported or withdrew them. Every job accepts `exclusions=FILE`.

The file has one picture per line: its image_id (in either case) or its URL (in any spelling that
`jobs.runtime.selection.picture_urls` understands); `#` begins a comment. Each job prints how many entries match a
picture. Rows that are already in a table stay until `purge` removes them; a command with a longer list than its table's
is refused.

Each entry is converted to marks, short strings that identify pictures. Rows with a URL are compared by the picture that
the URL points to. Tables that know pictures only by image_id (vectors, neighbors, ratings) are compared by the ids of
the URL's usual spellings; if the record of a picture has another URL, such as that of a thumbnail, list the image_id.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import ID, content_id
from actors.status import Status
from actors.untrusted import text_lines
from jobs.errors import InputError
from jobs.runtime.selection import picture_urls
from jobs.runtime.selection.picture_urls import PictureName
from jobs.store.counts import Counts
from jobs.store.files import locations

if TYPE_CHECKING:
    from jobs.store.runs.table_run import TableRun

KEPT = "exclusions.txt"
TALLY = "exclusions"  # name of the tally in a unit's counts: mark -> rows that it matched
HOLDS_PICTURE = ("bytes", "path", "pictures")  # columns from which a stage could get the picture
URLS = ("image_url", "source_url")
_BY_URL = "url:"  # prefix of marks that are compared with the picture of a row's URL
SHOWN = "_shown"  # list<string>: other ids and URLs of the row's pictures; dropped before the stages
# An image_id or URL in quotes, or an image_id followed by other cells or a comment.
_CELLS = re.compile(r"[\"'](?:[0-9a-f]{32}|https?:)|[0-9a-f]{32}\s*[,;|#\t\0\"']", re.IGNORECASE)


@dataclass(frozen=True)
class Exclusions:
    """The list of excluded pictures: the text and the marks of each entry."""

    names: tuple[str, ...] = ()
    marks_of: tuple[frozenset[str], ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def marks(self) -> frozenset[str]:
        """The marks of all entries."""
        return frozenset().union(*self.marks_of)

    def summary(self, matched: Iterable[str]) -> str:
        """Return a line with the number of entries that match a picture; empty without a list."""
        if not self.names:
            return ""
        hits = frozenset(matched)
        absent = [name for name, marks in zip(self.names, self.marks_of, strict=True) if hits.isdisjoint(marks)]
        if not absent:
            return f"exclusions: {len(self):,} of {len(self):,} entries match a picture here"
        return f"exclusions: {len(absent):,} of {len(self):,} entries match no picture here, for example {absent[0]}"


class ExclusionFilter:
    """The list as used in one process: finds the pictures on it, and counts matches by mark.

    Attributes:
        matched: mark -> rows that it matched.
    """

    def __init__(self, marks: frozenset[str]) -> None:
        self.matched: Counter[str] = Counter()
        self._marks = marks
        self._set = pa.array(sorted(marks), pa.string())
        self._has_urls = any(mark.startswith(_BY_URL) for mark in marks)

    def __bool__(self) -> bool:
        return bool(self._marks)

    @property
    def fingerprint(self) -> str:
        """A hash of the list."""
        return content_id(*sorted(self._marks))

    def hit(self, *names: str | None) -> bool:
        """Return whether a picture with these ids and URLs is on the list."""
        hits = {mark for name in names if name for mark in self._hits(name)} if self._marks else ()
        self.matched.update(hits)
        return bool(hits)

    def mask(self, names: pa.ChunkedArray | pa.Array) -> np.ndarray:
        """Return bool [names]: which of the ids or URLs are on the list; nulls are not."""
        if not self._marks or not len(names):
            return np.zeros(len(names), bool)
        names = names.cast(pa.string())
        hit = _matches(pc.is_in(names, self._set))
        for entry in pc.value_counts(names.filter(pa.array(hit))).to_pylist():
            self.matched[entry["values"]] += entry["counts"]
        if self._has_urls:
            # Comparing a million URLs of Wikimedia as strings takes a second; parsing each takes half a minute.
            plain = _matches(pc.match_substring_regex(names, picture_urls.PLAIN))
            for row in np.flatnonzero(_matches(pc.match_substring(names, "//")) & ~plain & ~hit).tolist():
                hit[row] = self.hit(names[row].as_py())
        return hit

    def copy(self) -> "ExclusionFilter":
        """Return the same list, without matches."""
        return ExclusionFilter(self._marks)

    def take_matched(self) -> dict[str, int]:
        """Return `matched`, for the tallies of a unit, and reset it."""
        matched, self.matched = self.matched, Counter()
        return dict(matched)

    def _hits(self, name: str) -> set[str]:
        candidates = {name}
        if self._has_urls and picture_urls.is_web(name):
            candidates.update(mark for picture in picture_urls.pictures_of(name) for mark in _row_marks(picture))
        return candidates & self._marks


def read_exclusions(uri: str | None) -> Exclusions:
    """Return the list at `uri`, without duplicates; an empty one if `uri` is None.

    Raises:
        InputError: the file cannot be read, is not UTF-8, has no entry, or has an entry with several cells of a sheet,
            which would match nothing.
    """
    if uri is None:
        return Exclusions()
    (file,) = locations.find(uri)[:1]
    with locations.named_errors(uri):
        data = locations.read_bytes(file.uri)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"byte {error.start} is not UTF-8"
        raise InputError(why, key="exclusions", value=uri, remedy="save the list as UTF-8") from error
    lines = [line.partition(" #")[0].strip() for line in text_lines(text)]
    names = tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    if not names:
        raise InputError("no entries", key="exclusions", value=uri, remedy="give one image_id or URL per line")
    if cells := next((name for name in names if _CELLS.match(name)), None):
        why = f"{cells!r} is more than an image_id or URL"
        raise InputError(why, key="exclusions", value=uri, remedy="give one per line, without quotes")
    return Exclusions(names, tuple(marks_of(name) for name in names))


def identity(listed: Exclusions) -> dict[str, str]:
    """Return the part of a run's identity that describes the list; empty without a list."""
    return {"exclusions": content_id(*sorted(listed.marks))} if listed else {}


def keep(run: "TableRun", listed: Exclusions) -> str | None:
    """Store the marks with the run, where workers read them, and return their uri; None if the list is empty."""
    return run.keep(KEPT, "\n".join(sorted(listed.marks)).encode()) if listed else None


@lru_cache(maxsize=4)
def _read_marks(uri: str) -> frozenset[str]:
    return frozenset(filter(None, locations.read_bytes(uri).decode().split("\n")))


def load(uri: str | None) -> ExclusionFilter:
    """Load the list that `keep` stored at `uri`; a process reads it once."""
    return ExclusionFilter(_read_marks(uri) if uri else frozenset())


def count(counts: Counts, matched: Mapping[str, int]) -> None:
    """Add the matches of a unit's rows to its counts, for the summary of the run."""
    if matched:
        tally = counts.tallies.setdefault(TALLY, {})
        for mark, rows in matched.items():
            tally[mark] = tally.get(mark, 0) + rows


def withhold(rows: pa.Table, *, item: str, exclusion_filter: ExclusionFilter) -> pa.Table:
    """Return `rows` with the pictures of excluded rows set to null and their status to `reported`.

    A row is excluded if the value in column `item`, in one of the columns `URLS`, or in column `SHOWN` is on the list.
    `SHOWN` is dropped.
    """
    shown = rows[SHOWN] if SHOWN in rows.column_names else None
    rows = rows.drop_columns([SHOWN]) if shown is not None else rows
    if not exclusion_filter:
        return rows
    out = np.zeros(rows.num_rows, bool)
    for name in (item, *(name for name in URLS if name in rows.column_names)):
        out |= exclusion_filter.mask(rows[name])
    if shown is not None:
        out |= np.fromiter((exclusion_filter.hit(*(names or ())) for names in shown.to_pylist()), bool, rows.num_rows)
    hit = pa.array(out)
    for name in HOLDS_PICTURE:
        if name in rows.column_names:
            column = rows[name]
            rows = _set(rows, name, pc.if_else(hit, pa.scalar(None, column.type), column))
    before = rows["status"] if "status" in rows.column_names else pa.scalar(Status.OK.value)
    return _set(rows, "status", pc.if_else(hit, pa.scalar(Status.REPORTED.value), before))


def marks_of(name: str) -> frozenset[str]:
    """Return the marks of an entry, an image_id or a URL."""
    if ID.fullmatch(name.lower()):
        return frozenset({name.lower()})
    # The name itself is a mark too, since items of other tools have ids that are not hashes.
    marks = {name, content_id(name)}
    for picture in picture_urls.pictures_of(name):
        marks.update(_entry_marks(picture))
    marks.update(content_id(url) for url in picture_urls.spellings(name))
    marks.update(picture_urls.plain_spellings(name))
    return frozenset(marks)


def _entry_marks(entry: PictureName) -> list[str]:
    """Return the marks of the picture that an entry of the list refers to; see `_row_marks`."""
    if entry.query is None:
        return [_by_url("any query", entry.place)]
    return [_by_url("query", entry.place, entry.query), _by_url("no query", entry.place)]


def _row_marks(row: PictureName) -> list[str]:
    """Return the marks of the picture that a row refers to; an entry that shares one of them refers to it too.

    Queries are compared only where both URLs have one.
    """
    parts = ("no query", row.place) if row.query is None else ("query", row.place, row.query)
    return [_by_url("any query", row.place), _by_url(*parts)]


def _by_url(*parts: str) -> str:
    return f"{_BY_URL}{content_id(*parts)}"


def _matches(column: Any) -> np.ndarray:
    mask: np.ndarray = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(bool)
    return mask


def _set(rows: pa.Table, name: str, column: Any) -> pa.Table:
    if name in rows.column_names:
        return rows.set_column(rows.column_names.index(name), name, column)
    return rows.append_column(name, column)
