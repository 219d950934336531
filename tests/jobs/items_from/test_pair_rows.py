"""The row of a pair, by hand."""

from actors.ids import content_id
from jobs.items_from.pair_rows import pair_item

FIRST = {
    "item_id": "b", "image_ids": ["i1"], "text_ids": ["t1", "t2", "gone"],
    "attributes": [("prompt", "a dog"), ("model", "x"), ("seed", "1")],
}  # fmt: skip
SECOND = {
    "item_id": "a", "image_ids": ["i2"], "text_ids": ["t3", "t4"],
    "attributes": [("prompt", "a dog"), ("model", "y"), ("size", "2")],
}  # fmt: skip
TEXTS = {
    "t1": {"role": "prompt", "language": "en", "text": "a dog"},
    "t2": {"role": "note", "language": "en", "text": "big"},
    "t3": {"role": "prompt", "language": "en", "text": "a dog"},
    "t4": {"role": "note", "language": "de", "text": "big"},
}


def test_a_pair_has_what_both_items_share_once_and_what_differs_by_place() -> None:
    item, texts = pair_item(FIRST, SECOND, TEXTS, "a dog")
    assert (item["item_id"], item["kind"], item["image_ids"]) == (content_id("pair", "b", "a"), "pair", ["i1", "i2"])
    assert [{**text, "text_id": ""} for text in texts] == [
        {"text_id": "", "role": "prompt", "language": "en", "source": item["item_id"], "text": "a dog"}
    ]
    assert item["text_ids"] == [text["text_id"] for text in texts]
    attributes = dict(item["attributes"])
    pair, pair_set = attributes.pop("pair"), attributes.pop("pair_set")
    assert attributes == {
        "prompt": "a dog", "first_model": "x", "second_model": "y", "first_seed": "1", "second_size": "2",
        "first": "b", "second": "a",
    }  # fmt: skip
    turned, other_texts = pair_item(SECOND, FIRST, TEXTS, "a dog")
    assert (dict(turned["attributes"])["pair"], dict(turned["attributes"])["pair_set"]) == (pair, pair_set)
    assert turned["item_id"] != item["item_id"]
    assert {text["text_id"] for text in texts}.isdisjoint(text["text_id"] for text in other_texts)
    assert dict(pair_item(FIRST, SECOND, TEXTS, "a cat")[0]["attributes"])["pair_set"] != pair_set
