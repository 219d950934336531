"""The released pictures of a study without records: those of its items, with the attributes that are to be published.

A row has the picture's file name without folders, and a link only if the study's table has one: nothing of the
researcher's disk is released.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from jobs.errors import InputError
from jobs.releasing.released_files import Column
from jobs.releasing.released_rows import ReleasedPictures, credits_of, is_private
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import TableSource

FILE = {"file": Column("name of the picture's file; empty if unknown")}
KNOWN = {  # columns that every release has; an attribute of this name fills them
    "image_url": Column("link to the picture; empty if it is not published", "url"),
    "page_title": Column("title of the picture or its page"),
    "author": Column("author of the picture; empty if unknown"),
    "licence": Column("licence of the picture; empty if unknown"),
}
ID = {"century_id": Column("id of the picture")}
SUBJECT = {"item_id": Column("id of what was rated: a picture, perhaps with texts"), **FILE, **ID}


def read_pictures(
    items: Sequence[TableSource],
    *,
    images: TableSource | None,
    columns: Sequence[str],
    exclusion_filter: ExclusionFilter,
) -> ReleasedPictures:
    """Return the pictures of items, without excluded ones.

    A link is left out unless it begins with http:// or https:// and contains no credentials.

    Args:
        images: the table with file names, and authors and licences that no attribute has.
        columns: attributes of items that become columns; of several items of a picture, the first counts.

    Raises:
        InputError: no item has an attribute of `columns`.
    """
    if wrong := next((name for name in columns if name in (*FILE, *ID)), None):
        raise InputError(f"{wrong} is already a column of pictures.csv", key="columns", value=list(columns))
    named, credits = (_names(images), credits_of(images)) if images else ({}, {})
    pictures = ReleasedPictures(
        columns=FILE | KNOWN | {name: Column(f"{name} of the picture") for name in columns if name not in KNOWN} | ID
    )
    seen: set[str] = set()
    present: set[str] = set()
    for source in items:
        for batch in source.batches(["image_ids", "attributes"]):
            for row in batch.to_pylist():
                attributes = dict(row["attributes"] or ())
                present |= attributes.keys()
                for name in row["image_ids"] or ():
                    if name in seen:
                        continue
                    seen.add(name)
                    place = named.get(name, "")
                    if exclusion_filter.hit(name, place, attributes.get("image_url") or ""):
                        pictures.left_out["excluded"] += 1
                    else:
                        texts = {column: attributes.get(column) for column in (*KNOWN, *columns)}
                        pictures.rows[name] = _row(name, place, texts, credits.get(name, (None, None)))
    if unknown := next((name for name in columns if name not in present), None):
        raise InputError(
            f"no item has an attribute {unknown}; must be of {', '.join(sorted(present)) or 'none'}",
            key="columns",
            value=list(columns),
        )
    pictures.rows = dict(sorted(pictures.rows.items()))
    return pictures


def _row(name: str, place: str, texts: Mapping[str, Any], credits: tuple[str | None, str | None]) -> dict[str, Any]:
    url = texts["image_url"] or (place if place.startswith(("http://", "https://")) else "")
    is_link = url.startswith(("http://", "https://")) and not is_private(url)
    return {
        **texts,
        "file": (place.partition("?")[0] if "://" in place else place).rpartition("/")[2] or None,
        "image_url": url if is_link else None,
        "author": texts["author"] or credits[0],
        "licence": texts["licence"] or credits[1],
        "century_id": name,
    }


def _names(images: TableSource) -> dict[str, str]:
    """Return the path or URL of each picture."""
    rows = (row for batch in images.batches(["image_id", "source_url"]) for row in batch.to_pylist())
    return {row["image_id"]: row["source_url"] or "" for row in rows}
