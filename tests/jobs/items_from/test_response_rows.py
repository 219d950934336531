"""The item of a response: its texts' ids, which attribute wins, and what is a response to be judged."""

from typing import Any

from actors.ids import content_id
from jobs.items_from.response_rows import AskedItem, picture_item, response_item

TEXTS = [{"text_id": "t", "role": "prompt", "source": "s", "text": "A boat."}]
ASKED = AskedItem(
    {
        "item_id": "i",
        "image_ids": ["p", "q"],
        "targets": ["joy"],
        "gold": [("shown", "1")],
        "attributes": [("region", "x"), ("model", "of the item"), ("picture", "none"), ("generated", "no")],
    },
    TEXTS,
)


def response(**columns: Any) -> dict[str, Any]:
    return {
        "response_id": "r", "model": "m", "prompt": "explicit", "sample": 0, "condition": "", "finish_reason": None,
        "refusal_kind": "hedge", "text": "It is a boat.", "status": "ok", **columns,
    }  # fmt: skip


def test_a_response_has_its_own_texts_and_the_items_pictures() -> None:
    item, texts = response_item(response(), ASKED, unit="u", labels={})
    of_item, of_text = content_id("items", "u", "t"), content_id("items", "r")
    assert texts == [
        {"text_id": of_item, "role": "prompt", "source": "s", "text": "A boat."},
        {"text_id": of_text, "role": "generated", "source": "r", "text": "It is a boat."},
    ]
    assert (item["text_ids"], item["image_ids"], item["item_id"], item["kind"]) == (
        [of_item, of_text], ["p", "q"], "r", "response"
    )  # fmt: skip
    assert (item["response_id"], item["targets"], item["gold"]) == ("r", ["joy"], [("shown", "1")])
    assert TEXTS[0]["text_id"] == "t"  # that of another unit has another id
    assert response_item(response(), ASKED, unit="v", labels={})[1][0]["text_id"] == content_id("items", "v", "t")


def test_labels_win_over_the_response_and_it_over_the_item() -> None:
    labels = {"labels_by": "people", "prompt": "by people"}
    attributes = dict(response_item(response(), ASKED, unit="u", labels=labels)[0]["attributes"])
    assert attributes == {
        "region": "x", "model": "m", "prompt": "by people", "picture": "p q", "sample": "0", "refusal_kind": "hedge",
        "response_status": "ok", "labels_by": "people",
    }  # fmt: skip


def test_the_condition_and_the_end_of_a_response_are_attributes() -> None:
    item, _ = response_item(response(condition="c", finish_reason="stop"), ASKED, unit="u", labels={})
    assert dict(item["attributes"]).items() >= {"condition": "c", "finish_reason": "stop"}.items()


def test_an_empty_text_counts_as_none() -> None:
    for text in ("", None, "\n", " \u200b"):
        item, texts = response_item(response(text=text, status="truncated"), ASKED, unit="u", labels={})
        assert [one["role"] for one in texts] == ["prompt"]
        assert (len(item["text_ids"]), dict(item["attributes"])["response_status"]) == (1, "unparsed")
    item, _ = response_item(response(text=None, status="refused"), ASKED, unit="u", labels={})
    assert dict(item["attributes"])["response_status"] == "refused"


def test_a_text_of_another_role_is_not_judged_as_a_response() -> None:
    item, texts = response_item(response(), ASKED, unit="u", labels={"caption": "x"}, role="caption")
    assert item["response_id"] is None
    assert texts[-1]["role"] == "caption"
    assert "caption" not in dict(item["attributes"])  # context fields would show it instead of the text
    assert dict(item["attributes"])["generated"] == "no"


def test_a_picture_alone_has_nothing_else() -> None:
    item, texts = response_item(response(), picture_item("p"), unit="u", labels={})
    assert (item["image_ids"], len(texts), item["targets"], item["gold"]) == (["p"], 1, None, None)
    assert dict(item["attributes"])["picture"] == "p"
    bare, _ = response_item(response(), AskedItem({"item_id": "i", "image_ids": None}), unit="u", labels={})
    assert bare["image_ids"] == []
    assert "picture" not in dict(bare["attributes"])
