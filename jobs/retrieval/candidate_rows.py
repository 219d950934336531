"""The pictures that a search returned, looked up in its corpus's Parquet files: as records and as neighbours."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.errors import first_line
from actors.ids import content_id
from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.files.threads import in_threads
from jobs.store.object_rows import RowLookup
from jobs.store.reading import TableSource
from jobs.tables import TABLES, WIT_COLUMNS

THREADS = 16
EXCLUDED, ABSENT, NO_URL, SAME = "excluded", "not_in_corpus", "no_url", "same_picture"


@dataclass
class MetadataConfig:
    """The Parquet files that describe a corpus's pictures."""

    path: str = MISSING  # a file, a folder or a glob of Parquet files
    id: str = "uid"  # column of the ids that the search returned: corpus.id of remine retrieve
    url: str = "url"  # column of the pictures' URLs
    caption: str | None = "text"  # column of the pictures' captions; null: there is none


@dataclass(frozen=True)
class CandidateTables:
    """Rows of the tables `records` and `neighbors`, and how many neighbours were left out, by reason."""

    records: list[dict[str, Any]]
    neighbors: list[dict[str, Any]]
    left_out: Counter[str]


def best_neighbors(neighbors: TableSource, k: int | None, *, queries: int | None = None) -> pa.Table:
    """Return the `k` best neighbours of each query (None: all), sorted by query and rank.

    Args:
        queries: number of queries, counted from the table's first; None: all.
    """
    columns = ["query_id", "rank", "item_id", "score", "probability"]
    batches = neighbors.batches(columns)
    parts = [TABLES["neighbors"].schema().empty_table().select(columns)]
    parts += [
        rows if k is None else rows.filter(pc.less_equal(rows["rank"], k))
        for rows in (batches if queries is None else _of_first(batches, queries))
    ]
    return pa.concat_tables(parts).sort_by([("query_id", "ascending"), ("rank", "ascending")])


def _of_first(batches: Iterable[pa.Table], queries: int) -> Iterator[pa.Table]:
    """Yield the rows of the first queries; the neighbours of a query are consecutive."""
    first: dict[str, None] = {}
    for rows in batches:
        first = dict.fromkeys(islice(first | dict.fromkeys(pc.unique(rows["query_id"]).to_pylist()), queries))
        kept = rows.filter(pc.is_in(rows["query_id"], pa.array(list(first), pa.string())))
        yield kept
        if kept.num_rows < rows.num_rows:
            return


def find_metadata(config: MetadataConfig) -> list[Object]:
    """Return the Parquet files, sorted by name.

    Raises:
        InputError: there are none.
    """
    files = [file for file in locations.find(config.path) if file.uri.lower().endswith(".parquet")]
    if not files:
        raise InputError("has no .parquet file", key="corpus.path", value=config.path)
    return files


def read_metadata(
    files: Sequence[Object], config: MetadataConfig, ids: pa.Array
) -> dict[str, tuple[str | None, str | None]]:
    """Return the (URL, caption) of the pictures `ids`, by id; if an id has several rows, the first one.

    Reads the id column of all files, and the other columns only of row groups that contain some of the ids.

    Raises:
        InputError: a file cannot be read or lacks a column.
    """
    columns = [config.url, *([config.caption] if config.caption else [])]

    def matches(file: Object) -> list[dict[str, Any]]:
        _check_columns(file, [config.id, *columns])
        lookup = RowLookup([file.uri], key=config.id, columns=columns)
        return [row for rows in lookup.matching(ids) for row in rows.to_pylist()]

    described: dict[str, tuple[str | None, str | None]] = {}
    for rows in in_threads(matches, files, THREADS):
        for row in rows:
            described.setdefault(row[config.id], (row[config.url], row[config.caption] if config.caption else None))
    return described


def candidates(
    neighbors: pa.Table, described: dict[str, tuple[str | None, str | None]], exclusion_filter: ExclusionFilter
) -> CandidateTables:
    """Return a record for each distinct picture, and the neighbours with the pictures' ids.

    Ids of a corpus that share a URL are one picture: a query keeps its better rank, and its record has the id that came
    first.

    Args:
        neighbors: sorted by query and rank.
        described: (URL, caption) by id.
        exclusion_filter: the exclusions, by id or URL.
    """
    records: dict[str, dict[str, Any]] = {}
    rows, left_out = [], Counter[str]()
    shown: set[tuple[str, str]] = set()  # (query, picture)
    for row in neighbors.to_pylist():
        url, caption = described.get(row["item_id"], (None, None))
        url = (url or "").strip()
        image_id = content_id(url)
        if reason := _reason(row, url, image_id, described=described, exclusion_filter=exclusion_filter, shown=shown):
            left_out[reason] += 1
            continue
        shown.add((row["query_id"], image_id))
        rows.append({**row, "item_id": image_id})
        records.setdefault(image_id, _record(row["item_id"], image_id, url, caption))
    return CandidateTables(list(records.values()), rows, left_out)


def _reason(
    row: dict[str, Any],
    url: str,
    image_id: str,
    *,
    described: dict[str, tuple[str | None, str | None]],
    exclusion_filter: ExclusionFilter,
    shown: set[tuple[str, str]],
) -> str | None:
    """Return why a neighbour is left out; None if it is kept."""
    if row["item_id"] not in described:
        return ABSENT
    if not url:
        return NO_URL
    if exclusion_filter.hit(row["item_id"], image_id, url):
        return EXCLUDED
    return SAME if (row["query_id"], image_id) in shown else None


def _record(item_id: str, image_id: str, url: str, caption: str | None) -> dict[str, Any]:
    return {
        **dict.fromkeys(WIT_COLUMNS),
        "record_id": item_id,  # the corpus's id, which joins the record to the search
        "image_id": image_id,
        "image_url": url,
        "caption_alt_text_description": caption,
        "split": "",
        "terms": [],
        "methods": [],
    }


def _check_columns(file: Object, columns: Sequence[str]) -> None:
    fs, path = locations.filesystem(file.uri)
    with locations.named_errors(file.uri), fs.open_input_file(path) as stream:
        try:
            schema = pq.read_schema(stream)
        except pa.ArrowInvalid as error:
            raise InputError(f"cannot be read ({first_line(error)})", place=file.uri) from error
    delimited.require_columns(
        file.uri, schema.names, columns, hint=" (choose with corpus.id=, corpus.url=, corpus.caption=)"
    )
    for name in columns:
        kind = schema.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            raise InputError(f"column {name} is {kind}, not text; name another with corpus.…=", place=file.uri)
