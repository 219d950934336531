"""The released pictures: links with metadata, without bytes; and the search terms."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors.fetching.signed_urls import gives_access, without_secrets
from jobs.corpora.released_pictures import SPLITS, released_method
from jobs.releasing.files import Column
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource

PICTURE_COLUMNS = {  # the first six as Century released them
    "image_url": Column("link to the picture", "url"),
    "wikipedia_url": Column("page that shows the picture", "url"),
    "wit_split": Column("split of WIT: train, validation or test; empty if unknown"),
    "century_method": Column("how the picture was found: with_knowledge_graph, with_foundation_model or "
                             "manually_curated; several, joined by a semicolon, if the set was not curated"),
    "is_starter_set": Column("whether the picture is in the starter set", "boolean"),
    "century_id": Column("id of the picture"),
    "page_title": Column("title of the page"),
    "author": Column("author of the picture according to its source; empty if unknown"),
    "licence": Column("licence of the picture according to its source; empty if unknown"),
}  # fmt: skip
TERM_COLUMNS = {"terms": Column("a search term for page titles")}


@dataclass
class ReleasedPictures:
    """The pictures of a release, sorted by id.

    Attributes:
        rows: id -> row of `pictures.csv`.
        left_out: reason -> number of pictures.
        licences: licence -> number of pictures, empty if unknown.
    """

    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def licences(self) -> Counter[str]:
        """Licence -> number of pictures; empty if unknown."""
        return Counter(row["licence"] or "" for row in self.rows.values())


def read_pictures(
    records: TableSource, *, starter: TableSource | None, images: TableSource | None, exclusion_filter: ExclusionFilter
) -> ReleasedPictures:
    """Return the pictures of records that have a link, without excluded ones; the first of several records is used.

    Args:
        starter: the table of records of the starter set.
        images: the table with authors and licences.
    """
    in_starter = _ids(starter) if starter else None
    credits = _credits(images) if images else {}
    pictures = ReleasedPictures()
    seen: set[str] = set()
    columns = ["image_id", "image_url", "page_url", "page_title", "split", "methods", "credited_method"]
    for batch in records.batches(columns):
        for row in batch.to_pylist():
            name, url = row["image_id"], row["image_url"]
            if name in seen:
                continue
            seen.add(name)
            if exclusion_filter.hit(name, url or ""):
                pictures.left_out["excluded"] += 1
            elif not (url or "").startswith(("http://", "https://")):
                pictures.left_out["without a link"] += 1
            elif _gives_access(url):
                pictures.left_out["with a link that contains credentials or a signature"] += 1
            else:
                author, licence = credits.get(name, (None, None))
                pictures.rows[name] = {
                    "image_url": url,
                    "wikipedia_url": without_secrets(row["page_url"] or "") or None,
                    "wit_split": SPLITS.get(row["split"] or "", row["split"]),
                    "century_method": released_method(row),
                    "is_starter_set": None if in_starter is None else name in in_starter,
                    "century_id": name,
                    "page_title": row["page_title"],
                    "author": author,
                    "licence": licence,
                }
    pictures.rows = dict(sorted(pictures.rows.items()))
    return pictures


def _gives_access(url: str) -> bool:
    try:
        return gives_access(url)
    except ValueError:
        return True


def _ids(records: TableSource) -> set[str]:
    return {name for batch in records.batches(["image_id"]) for name in batch["image_id"].to_pylist()}


def _credits(images: TableSource) -> dict[str, tuple[str | None, str | None]]:
    """Return author and licence by image_id, None where unknown."""
    credits: dict[str, tuple[str | None, str | None]] = {}
    for batch in images.batches(["image_id", "author", "licence"]):
        for row in batch.to_pylist():
            author, licence = (
                None if row[name] in (None, "", "unknown") else row[name] for name in ("author", "licence")
            )
            before = credits.get(row["image_id"], (None, None))
            credits[row["image_id"]] = (before[0] or author, before[1] or licence)
    return credits


def read_terms(sources: Sequence[TableSource], further: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield the distinct search terms of tables and of `further`, sorted, as rows of `search_terms.csv`."""
    terms = set(further) | {
        term for source in sources for batch in source.batches(["term"]) for term in batch["term"].to_pylist()
    }
    yield from ({"terms": term} for term in sorted(terms))
