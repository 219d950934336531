"""Pictures that must not be used, because people reported or withdrew them. Every job honours `exclusions=FILE`.

The file has one picture a line: its image_id (in either case) or its URL (in any of the spellings of
`jobs.runtime.picture_urls`); `#` begins a comment. Each job says how many entries match a picture. What is already in
a table
stays there until its job is run again with the list, which, as it changes the output, takes `overwrite=true`.

An entry becomes marks: short strings by which pictures are found. Rows that have a URL are compared by what it names.
Tables that know pictures by their image_id alone (vectors, neighbors, ratings) are compared by the ids of the URL's
usual spellings; of a picture whose record has another one, such as a thumbnail's, list the image_id.
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

from actors.ids import content_id
from actors.status import Status
from jobs.errors import InputError
from jobs.runtime import picture_urls
from jobs.runtime.picture_urls import Named
from jobs.store import locations
from jobs.store.counts import Counts

if TYPE_CHECKING:
    from jobs.store.run import TableRun

KEPT = "exclusions.txt"
TALLY = "exclusions"  # in a unit's counts: mark -> rows that it matched
ID = re.compile(r"[0-9a-f]{32}")
HOLDS_PICTURE = ("bytes", "path", "pictures")  # columns through which a stage could reach the picture
URLS = ("image_url", "source_url")
_BY_URL = "url:"  # begins the marks that are compared with what a row's URL names
SHOWN = "_shown"  # list<string>: further ids and URLs of the row's pictures; left out of what the stages get


@dataclass(frozen=True)
class Exclusions:
    """The list as it was read: the text of each entry, and the marks of each."""

    names: tuple[str, ...] = ()
    marks_of: tuple[frozenset[str], ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def marks(self) -> frozenset[str]:
        """The marks of all entries."""
        return frozenset().union(*self.marks_of)

    def summary(self, matched: Iterable[str]) -> str:
        """How many entries match a picture, in words; empty without a list."""
        if not self.names:
            return ""
        found = frozenset(matched)
        absent = [name for name, marks in zip(self.names, self.marks_of, strict=True) if found.isdisjoint(marks)]
        if not absent:
            return f"exclusions: {len(self):,} of {len(self):,} entries match a picture here"
        return f"exclusions: {len(absent):,} of {len(self):,} entries match no picture here, for example {absent[0]}"


class Barred:
    """The list as one process uses it: finds the pictures on it, and counts by which marks.

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

    def hit(self, *names: str | None) -> bool:
        """Whether a picture with these ids and URLs is on the list."""
        found = {mark for name in names if name for mark in self._found(name)} if self._marks else ()
        self.matched.update(found)
        return bool(found)

    def mask(self, names: pa.ChunkedArray | pa.Array) -> np.ndarray:
        """bool [names]: which of the ids or URLs are on the list; nulls are not."""
        if not self._marks or not len(names):
            return np.zeros(len(names), bool)
        names = names.cast(pa.string())
        hit = _matches(pc.is_in(names, self._set))
        for entry in pc.value_counts(names.filter(pa.array(hit))).to_pylist():
            self.matched[entry["values"]] += entry["counts"]
        if self._has_urls:
            # A million URLs of Wikimedia take a second as they are compared here, and half a minute parsed one by one.
            plain = _matches(pc.match_substring_regex(names, picture_urls.PLAIN))
            for place in np.flatnonzero(_matches(pc.match_substring(names, "//")) & ~plain & ~hit).tolist():
                hit[place] = self.hit(names[place].as_py())
        return hit

    def take_matched(self) -> dict[str, int]:
        """`matched`, for the tallies of a unit; counting begins again from nothing."""
        matched, self.matched = self.matched, Counter()
        return dict(matched)

    def _found(self, name: str) -> set[str]:
        asked = {name}
        if self._has_urls and picture_urls.is_web(name):
            asked.update(mark for each in picture_urls.named(name) for mark in _asked_marks(each))
        return asked & self._marks


def read_exclusions(uri: str | None) -> Exclusions:
    """The list at `uri`; an empty one without a file. Entries that stand twice count once.

    Raises:
        InputError: the file cannot be read, or has no entry.
    """
    if uri is None:
        return Exclusions()
    (file,) = locations.find(uri)[:1]
    with locations.named_errors(uri):
        text = locations.read_bytes(file.uri).decode("utf-8-sig", "replace")
    lines = [line.partition(" #")[0].strip() for line in text.splitlines()]
    names = tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    if not names:
        raise InputError(f"exclusions={uri}: no picture in it")
    return Exclusions(names, tuple(_marks(name) for name in names))


def identity(listed: Exclusions) -> dict[str, str]:
    """What a run's identity says of the list; nothing without one."""
    return {"exclusions": content_id(*sorted(listed.marks))} if listed else {}


def keep(run: "TableRun", listed: Exclusions) -> str | None:
    """Store the marks with the run, where workers read them; their uri, None if the list is empty."""
    return run.keep(KEPT, "\n".join(sorted(listed.marks)).encode()) if listed else None


@lru_cache(maxsize=4)
def _kept(uri: str) -> frozenset[str]:
    return frozenset(locations.read_bytes(uri).decode().splitlines())


def kept(uri: str | None) -> Barred:
    """The list that `keep` stored, which a process reads once."""
    return Barred(_kept(uri) if uri else frozenset())


def count(counts: Counts, matched: Mapping[str, int]) -> None:
    """Add what a unit's rows matched to its counts, so that the end of a run can tell."""
    if matched:
        tally = counts.tallies.setdefault(TALLY, {})
        for mark, rows in matched.items():
            tally[mark] = tally.get(mark, 0) + rows


def withhold(rows: pa.Table, *, item: str, barred: Barred) -> pa.Table:
    """`rows` with the excluded ones' pictures out of reach and their status `reported`.

    A row is excluded if `item`, one of the columns `URLS` or one of the list in column `SHOWN` is on the list. `SHOWN`
    is dropped.
    """
    shown = rows[SHOWN] if SHOWN in rows.column_names else None
    rows = rows.drop_columns([SHOWN]) if shown is not None else rows
    if not barred:
        return rows
    out = np.zeros(rows.num_rows, bool)
    for name in (item, *(name for name in URLS if name in rows.column_names)):
        out |= barred.mask(rows[name])
    if shown is not None:
        out |= np.fromiter((barred.hit(*(names or ())) for names in shown.to_pylist()), bool, rows.num_rows)
    hit = pa.array(out)
    for name in HOLDS_PICTURE:
        if name in rows.column_names:
            column = rows[name]
            rows = _set(rows, name, pc.if_else(hit, pa.scalar(None, column.type), column))
    before = rows["status"] if "status" in rows.column_names else pa.scalar(Status.OK.value)
    return _set(rows, "status", pc.if_else(hit, pa.scalar(Status.REPORTED.value), before))


def _marks(name: str) -> frozenset[str]:
    if ID.fullmatch(name.lower()):
        return frozenset({name.lower()})
    # Itself too: items of other tools have ids that are not hashes.
    marks = {name, content_id(name)}
    for each in picture_urls.named(name):
        marks.update(_listed_marks(each))
    marks.update(content_id(url) for url in picture_urls.spellings(name))
    marks.update(picture_urls.plain_spellings(name))
    return frozenset(marks)


def _listed_marks(entry: Named) -> list[str]:
    """The marks that an entry of the list makes of what it names; see `_asked_marks`."""
    if entry.query is None:
        return [_by_url("any query", entry.place)]
    return [_by_url("query", entry.place, entry.query), _by_url("no query", entry.place)]


def _asked_marks(row: Named) -> list[str]:
    """The marks of which an entry must have one to name what the row names: queries count where both have one."""
    own = ("no query", row.place) if row.query is None else ("query", row.place, row.query)
    return [_by_url("any query", row.place), _by_url(*own)]


def _by_url(*parts: str) -> str:
    return f"{_BY_URL}{content_id(*parts)}"


def _matches(column: Any) -> np.ndarray:
    found: np.ndarray = pc.fill_null(column, False).to_numpy(zero_copy_only=False).astype(bool)
    return found


def _set(rows: pa.Table, name: str, column: Any) -> pa.Table:
    if name in rows.column_names:
        return rows.set_column(rows.column_names.index(name), name, column)
    return rows.append_column(name, column)
