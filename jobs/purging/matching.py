"""Which rows concern a picture that must go: by their own columns, and through items, responses and texts."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.ids import ID
from jobs.runtime.exclusions import ExclusionFilter, marks_of
from jobs.store.reading import TableSource

# Columns that name what a row is about.
IDS = ("image_id", "item_id", "query_id", "response_id", "text_id", "image_ids")
OWN_URLS = ("image_url", "source_url")
URLS = (*OWN_URLS, "final_url")  # many pictures may be redirected to one, so that it does not name them in other tables
DIMS = "dims"  # of metrics: JSON, which names the item that a metric of one item is about
_ITEM_OF_METRIC = r'"unit":"(?P<item>[^"\\]*)"'
# Table -> the id of its rows under which other tables name them. Not of neighbors, whose two ids are two pictures.
NAMED_BY = {"records": "image_id", "images": "image_id", "items": "item_id", "responses": "response_id"}


@dataclass
class Gone:
    """What must go.

    Attributes:
        marks: of the list of exclusions (`jobs.runtime.exclusions`), and further ids.
        urls: addresses of the pictures as the tables have them, for files that are not tables.
        pictures: the image_ids among the marks, without ids of items, responses and texts.
        matched: the marks that rows of records, images, items or responses have, for the summary of the list.
    """

    marks: set[str]
    urls: set[str] = field(default_factory=set)
    pictures: set[str] = field(default_factory=set)
    matched: set[str] = field(default_factory=set)

    def exclusion_filter(self) -> ExclusionFilter:
        """A filter that finds rows by all marks."""
        return ExclusionFilter(frozenset(self.marks))


def columns_of(names: Sequence[str]) -> list[str]:
    """The columns among `names` by which rows are matched."""
    return [name for name in (*IDS, *URLS, DIMS) if name in names]


def matches(rows: pa.Table, exclusion_filter: ExclusionFilter) -> np.ndarray:
    """bool [rows]: whether a row names something that must go."""
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
    """Return the marks with the ids of everything in `tables` that shows or describes one of the pictures.

    These are the pictures under further ids, the items and responses about them, and texts that no other item uses.
    """
    gone = Gone(set(marks), pictures=set(filter(ID.fullmatch, marks)))
    fresh = set(marks)
    sources = [table for table in tables if table.name in NAMED_BY]
    while fresh:
        exclusion_filter = ExclusionFilter(frozenset(fresh))
        named: set[str] = set()
        for table in sources:
            key = NAMED_BY[table.name]
            for batch in table.batches(columns_of(table.footers[0].schema.names)):
                rows = batch.filter(pa.array(matches(batch, exclusion_filter)))
                if rows.num_rows:
                    ids = set(filter(None, rows[key].to_pylist()))
                    named |= ids
                    gone.pictures |= ids if key == "image_id" else set()
                    for name in OWN_URLS:
                        gone.urls.update(filter(None, rows[name].to_pylist() if name in rows.column_names else ()))
        gone.matched.update(exclusion_filter.matched)
        of_urls = {mark for url in gone.urls for mark in marks_of(url)}
        gone.pictures.update(filter(ID.fullmatch, of_urls))
        fresh = (named | of_urls) - gone.marks
        gone.marks |= fresh
    gone.marks |= _texts_of(tables, gone.exclusion_filter())
    return gone


def _texts_of(tables: Sequence[TableSource], exclusion_filter: ExclusionFilter) -> set[str]:
    """The text_ids of items that must go, without those of other items."""
    gone: set[str] = set()
    items = [table for table in tables if table.name == "items"]
    for table in items:
        for batch in table.batches(["item_id", "image_ids", "text_ids"]):
            rows = batch.filter(pa.array(matches(batch.drop_columns(["text_ids"]), exclusion_filter)))
            gone.update(_flat(rows["text_ids"]))
    for table in items if gone else ():
        for batch in table.batches(["item_id", "image_ids", "text_ids"]):
            others = batch.filter(pa.array(~matches(batch.drop_columns(["text_ids"]), exclusion_filter)))
            gone.difference_update(_flat(others["text_ids"]))
    return gone


def _flat(column: pa.ChunkedArray) -> list[str]:
    return [text for texts in column.to_pylist() for text in texts or ()]
