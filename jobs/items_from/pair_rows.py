"""Conversion of two rows of `items` to the row of their pair and its rows of `texts`.

Attributes describe a pair: `pair` is the same in both orders, `pair_set` in all pairs of one prompt, and `first` and
`second` are the items' ids in the order in which their pictures are shown. An attribute with the same value in both
items is kept; one that differs becomes `first_NAME` and `second_NAME`.
"""

from collections.abc import Mapping
from typing import Any

from actors.ids import content_id
from actors.items import FIRST, PAIR, PAIR_SET, SECOND


def pair_item(
    first: Mapping[str, Any], second: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]], value: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a pair's row of `items`, and its rows of `texts`: those with a role and text that both items have.

    Args:
        first, second: rows of `items`, in the order in which they are shown.
        texts: rows of `texts` by their id.
        value: the value that the two items share, such as the prompt.
    """
    item_id = content_id("pair", first["item_id"], second["item_id"])
    of_second = {_content(texts[name]) for name in second["text_ids"] or () if name in texts}
    rows = [
        # A text's id contains its item, because units must share no rows for joins to stay local to a unit.
        {
            "text_id": content_id("pair", item_id, text["role"], text["text"]),
            "role": text["role"],
            "language": text["language"],
            "source": item_id,
            "text": text["text"],
        }
        for name in first["text_ids"] or ()
        if name in texts and _content(text := texts[name]) in of_second
    ]
    item = {
        "item_id": item_id,
        "kind": PAIR,
        "image_ids": [*first["image_ids"], *second["image_ids"]],
        "text_ids": [row["text_id"] for row in rows],
        "attributes": list((_attributes(first, second) | {PAIR_SET: content_id("set", value)}).items()),
    }
    return item, rows


def _attributes(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, str]:
    ids = (first["item_id"], second["item_id"])
    one, other = (dict(item["attributes"] or ()) for item in (first, second))
    merged: dict[str, str] = {}
    for name in dict.fromkeys([*one, *other]):
        if one.get(name) == other.get(name):
            merged[name] = one[name]
            continue
        merged |= {
            f"{place}_{name}": value
            for place, attributes in ((FIRST, one), (SECOND, other))
            if (value := attributes.get(name))
        }
    return merged | {PAIR: content_id("pair of", *sorted(ids)), FIRST: ids[0], SECOND: ids[1]}


def _content(text: Mapping[str, Any]) -> tuple[str, str, str]:
    return text["role"], text["language"] or "", text["text"] or ""
