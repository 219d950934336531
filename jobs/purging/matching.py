"""Matching of the rows about withdrawn pictures: by their own columns, and through items, responses and texts.

The ids and URLs that a purge removes are kept in a journal for the next run after an interruption. Without it, that run
could not find all rows again: the items and responses that led to them may already be removed.
"""

import contextlib
import json
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import ID
from jobs.errors import InputError
from jobs.runtime.process.console import say
from jobs.runtime.selection.exclusions import ExclusionFilter, marks_of
from jobs.store.files import locations
from jobs.store.reading import TableSource
from jobs.store.run_files import read_json

# Columns that name what a row is about.
IDS = ("image_id", "item_id", "query_id", "response_id", "text_id", "set_id", "record_id", "image_ids")
OWN_URLS = ("image_url", "source_url")
URLS = (*OWN_URLS, "final_url")  # many pictures may be redirected to one, so that it does not name them in other tables
DIMS = "dims"  # of metrics: JSON, which names the item that a metric of one item is about
_ITEM_OF_METRIC = r'"unit":"(?P<item>[^"\\]*)"'
# Table -> ids of its rows under which other tables name them. Not of neighbors, whose two ids are two pictures. A
# record of `candidates` has the id by which the search in the corpus names the picture.
NAMED_BY = {
    "records": ("image_id", "record_id"),
    "images": ("image_id",),
    "items": ("item_id",),
    "responses": ("response_id",),
}


@dataclass
class Gone:
    """Ids and URLs of the withdrawn pictures, and of everything that shows or describes them.

    Attributes:
        marks: the marks of the list of exclusions (`jobs.runtime.selection.exclusions`), and the ids found from them.
        urls: the pictures' URLs as the tables spell them, for files that are not tables.
        pictures: the image_ids among the marks, without ids of items, responses and texts.
        matched: the marks that occur in rows of records, images, items or responses, for the summary of the list.
        others: ids of records, items, responses and texts among the marks. Only content hashes: an id that a user
            chose, such as 7, may be a word of any text.
    """

    marks: set[str]
    urls: set[str] = field(default_factory=set)
    pictures: set[str] = field(default_factory=set)
    matched: set[str] = field(default_factory=set)
    others: set[str] = field(default_factory=set)

    def exclusion_filter(self) -> ExclusionFilter:
        """Return a filter that finds rows by all marks."""
        return ExclusionFilter(frozenset(self.marks))


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the columns among `names` by which rows are matched."""
    return [name for name in (*IDS, *URLS, DIMS) if name in names]


def matches(rows: pa.Table, exclusion_filter: ExclusionFilter) -> np.ndarray:
    """Return bool [rows]: whether a row names one of the filter's marks."""
    hit = np.zeros(rows.num_rows, bool)
    for name in columns_of(rows.column_names):
        column = rows[name]
        if name == DIMS:
            column = pc.struct_field(pc.extract_regex(column, _ITEM_OF_METRIC), "item")
        if not pa.types.is_list(column.type):
            hit |= exclusion_filter.mask(column)
            continue
        for chunk, begin in _with_offsets(column):
            inner = exclusion_filter.mask(chunk.flatten())
            parents = pc.list_parent_indices(chunk).to_numpy()
            hit[begin + parents[inner]] = True
    return hit


def _with_offsets(column: pa.ChunkedArray) -> Iterator[tuple[pa.Array, int]]:
    begin = 0
    for chunk in column.chunks:
        yield chunk, begin
        begin += len(chunk)


def gather(tables: Sequence[TableSource], marks: frozenset[str]) -> Gone:
    """Return `marks` and the ids of everything in `tables` that shows or describes one of the pictures.

    These are the pictures' other ids, the items and responses about them, and texts that no other item uses.
    """
    gone = Gone(set(marks), pictures=set(filter(ID.fullmatch, marks)))
    fresh = set(marks)
    sources = [table for table in tables if table.name in NAMED_BY]
    while fresh:
        exclusion_filter = ExclusionFilter(frozenset(fresh))
        named: set[str] = set()
        for table in sources:
            for batch in table.batches(columns_of(table.footers[0].schema.names)):
                rows = batch.filter(pa.array(matches(batch, exclusion_filter)))
                if rows.num_rows:
                    for key in NAMED_BY[table.name]:
                        ids = set(filter(None, rows[key].to_pylist()))
                        named |= ids
                        of_kind = gone.pictures if key == "image_id" else gone.others
                        of_kind.update(ids if key == "image_id" else filter(ID.fullmatch, ids))
                    for name in OWN_URLS:
                        gone.urls.update(filter(None, rows[name].to_pylist() if name in rows.column_names else ()))
        gone.matched.update(exclusion_filter.matched)
        of_urls = {mark for url in gone.urls for mark in marks_of(url)}
        gone.pictures.update(filter(ID.fullmatch, of_urls))
        fresh = (named | of_urls) - gone.marks
        gone.marks |= fresh
    texts = _texts_of(tables, gone)
    gone.marks |= texts
    gone.others.update(filter(ID.fullmatch, texts))
    return gone


def _texts_of(tables: Sequence[TableSource], gone: Gone) -> set[str]:
    """Return the text_ids of removed items, and of texts whose source is removed, unless another item uses them."""
    exclusion_filter = gone.exclusion_filter()
    sources = pa.array(sorted(gone.others), pa.string())
    texts: set[str] = set()
    items = [table for table in tables if table.name == "items"]
    for table in items:
        for batch in table.batches(["item_id", "image_ids", "text_ids"]):
            rows = batch.filter(pa.array(matches(batch.drop_columns(["text_ids"]), exclusion_filter)))
            texts.update(_flat(rows["text_ids"]))
    for table in (table for table in tables if table.name == "texts"):
        for batch in table.batches(["text_id", "source"]):
            texts.update(batch.filter(pc.is_in(batch["source"], sources))["text_id"].to_pylist())
    for table in items if texts else ():
        for batch in table.batches(["item_id", "image_ids", "text_ids"]):
            others = batch.filter(pa.array(~matches(batch.drop_columns(["text_ids"]), exclusion_filter)))
            texts.difference_update(_flat(others["text_ids"]))
    return texts


def _flat(column: pa.ChunkedArray) -> list[str]:
    return [text for texts in column.to_pylist() for text in texts or ()]


FILE = "_purge.json"  # in the folder that is purged; removed when the purge is complete
PARTS = tuple(part.name for part in fields(Gone))


@dataclass(frozen=True)
class Journal:
    """The journal of a purge.

    Attributes:
        purge: the name of the purge.
        listed: the hash of its list of exclusions.
        gone: the ids and URLs to remove.
    """

    purge: str
    listed: str
    gone: Gone


def uri_of(root: str) -> str:
    """Return the uri of the journal of a purge of `root`."""
    return locations.join(root, FILE)


def read(root: str, listed: str) -> Journal | None:
    """Return the journal of an interrupted purge of `root`; None if there is none.

    Raises:
        InputError: the journal is damaged, or the interrupted purge used another list.
    """
    uri = uri_of(root)
    if not locations.exists(uri):
        return None
    content = read_json(uri)
    if content.get("listed") != listed:
        why = f"{uri} belongs to an interrupted purge with another list"
        raise InputError(why, key="exclusions", remedy="complete that purge first, by running it again with its list")
    return Journal(content["purge"], listed, Gone(*(set(content[part]) for part in PARTS)))


def begin(root: str, listed: str, gone: Gone, earlier: Journal | None) -> Journal:
    """Write and return the journal of a purge; it includes the ids and URLs of `earlier`, if there is one."""
    purge = earlier.purge if earlier else secrets.token_hex(8)
    if earlier:
        gone = Gone(*(getattr(gone, part) | getattr(earlier.gone, part) for part in PARTS))
    content = {"purge": purge, "listed": listed, **{part: sorted(getattr(gone, part)) for part in PARTS}}
    locations.replace(uri_of(root), json.dumps(content, indent=1).encode())
    return Journal(purge, listed, gone)


@contextlib.contextmanager
def mentioned_if_interrupted(root: str) -> Iterator[None]:
    """Warn that the journal, which lists ids and URLs, still exists if the block raises."""
    try:
        yield
    except BaseException:
        say(
            f"purge: not complete; {uri_of(root)} keeps the ids and URLs that remain to be removed: run the same "
            "command again, which also removes that file",
            err=True,
            level="warning",
        )
        raise
