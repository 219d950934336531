"""Conversion of rows of `responses` to rows of `items` and `texts`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.ids import content_id
from actors.items import JUDGED, RESPONSE_STATUS
from actors.status import Status, is_blank

GENERATED = "generated"  # role of a response's text
KIND = "response"
OF_RESPONSE = (
    "model",
    "prompt",
    "sample",
    "condition",
    "finish_reason",
    "refusal_kind",
)  # columns that become attributes
LABELS_BY = "labels_by"  # attribute: the raters whose majority gave the labels
TAKEN = frozenset({*OF_RESPONSE, "picture", RESPONSE_STATUS, LABELS_BY})


@dataclass(frozen=True)
class AskedItem:
    """The item that a model was asked about.

    Attributes:
        item: its row of `items`.
        texts: its rows of `texts`, except those with the role of a response.
    """

    item: Mapping[str, Any]
    texts: Sequence[Mapping[str, Any]] = ()


def picture_item(image_id: str) -> AskedItem:
    """Return the item for a response about a picture in a table of images."""
    return AskedItem({"item_id": image_id, "image_ids": [image_id]})


def response_item(
    response: Mapping[str, Any], asked: AskedItem, *, unit: str, labels: Mapping[str, str], role: str = GENERATED
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a response's row of `items`, and its rows of `texts`.

    Args:
        response: a row of `responses`.
        asked: the item that the model was asked about.
        unit: name of the unit. It is part of the ids of the item's own texts: responses about one item share them
            within a unit but never across units, so that joins read one unit.
        labels: attributes that come from ratings.
        role: role of the response's text.

    A response that should have a text, but is blank, gets the status `unparsed`. Its attributes take precedence over
    the item's, and its labels over both. No attribute is named `role`, since context fields would show it instead of
    the text.
    """
    response_id = response["response_id"]
    texts = [{**text, "text_id": content_id("items", unit, text["text_id"])} for text in asked.texts]
    status = Status(response["status"])
    if is_blank(response["text"]):
        status = Status.UNPARSED if status in JUDGED else status
    else:
        text_id = content_id("items", response_id)
        texts.append({"text_id": text_id, "role": role, "source": response_id, "text": response["text"]})
    image_ids = list(asked.item.get("image_ids") or ())
    attributes = dict(asked.item.get("attributes") or ())
    attributes |= {"picture": " ".join(image_ids)} if image_ids else {}
    attributes |= {name: str(value) for name in OF_RESPONSE if (value := response[name]) not in (None, "")}
    attributes |= {RESPONSE_STATUS: status.value, **labels}
    item = {
        "item_id": response_id,
        "kind": KIND,
        "image_ids": image_ids,
        "text_ids": [text["text_id"] for text in texts],
        "response_id": response_id if role == GENERATED else None,  # otherwise the text is not a response to be judged
        "targets": asked.item.get("targets"),
        "gold": asked.item.get("gold"),
        "attributes": [(name, value) for name, value in attributes.items() if name != role],
    }
    return item, texts
