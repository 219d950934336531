"""Mapping of Century's released list of pictures to the columns of `records`."""

from collections.abc import Mapping
from typing import Any

METHODS = {
    "knowledge_graph": "with_knowledge_graph",
    "language_model": "with_foundation_model",
    "manual": "manually_curated",
}
SPLITS = {"val": "validation"}


def record_columns(row: Mapping[str, str]) -> dict[str, Any]:
    """Return the columns of `records` that a row of `pictures.csv` has under other names; empty for other rows."""
    columns: dict[str, Any] = {}
    if page := row.get("wikipedia_url"):
        columns["page_url"] = page
    if split := row.get("wit_split"):
        columns["split"] = {released: name for name, released in SPLITS.items()}.get(split, split)
    if methods := row.get("century_method"):
        names = {released: name for name, released in METHODS.items()}
        columns["methods"] = [names.get(method, method) for method in map(str.strip, methods.split(";")) if method]
        if len(columns["methods"]) == 1:
            columns["credited_method"] = columns["methods"][0]
    return columns


def released_method(record: Mapping[str, Any]) -> str:
    """Return `century_method` of a row of `records`: the credited method, else the methods that found the picture."""
    credited = record["credited_method"]
    methods = [credited] if credited else record["methods"] or ()
    return ";".join(METHODS.get(method, method) for method in methods)
