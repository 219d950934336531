"""Kinds of spans: their categories, the order of their texts, and files that are refused."""

from typing import Any

import pytest

from jobs.annotation.span_labels import Label, SpanLabels
from tests.cases import check_cases

MISTAKE = {"name": "mistakes", "kind": "mistake", "text": "generated", "labels": [
    {"value": "added_detail", "label": "Added detail", "colour": "#d62728"}, {"value": "swap", "label": "Mix-up"},
]}  # fmt: skip
OMISSION = {"name": "omissions", "kind": "omission", "text": "reference", "labels": [
    {"value": "missing", "label": "Missing"}
]}  # fmt: skip


def labels(*kinds: dict[str, Any], **more: Any) -> SpanLabels:
    return SpanLabels.from_dict({"name": "test", "kinds": list(kinds or (MISTAKE, OMISSION)), **more})


def test_a_category_is_found_by_its_value_and_by_its_label() -> None:
    kind = labels().named("mistakes")
    assert kind is not None
    words = {word: kind.category(word) for word in ("swap", "Mix-up", "ADDED DETAIL", "added_detail", "missing", "")}
    assert words == {
        "swap": "swap", "Mix-up": "swap", "ADDED DETAIL": "added_detail", "added_detail": "added_detail",
        "missing": None, "": None,
    }  # fmt: skip
    assert labels().named("mistake") is None


def test_texts_without_a_place_are_read_last() -> None:
    ordered = labels(texts=["reference", "generated"])
    assert ordered.in_reading_order(["title", "generated", "note", "reference"]) == [
        "reference", "generated", "title", "note"
    ]  # fmt: skip
    assert labels().in_reading_order(["b", "a"]) == ["b", "a"]


def test_values_of_labels_are_texts_and_missing_ones_empty() -> None:
    label = {"value": 1, "label": 2, "hotkey": 3, "colour": None, "guidance": "Mark."}
    read = labels(OMISSION | {"labels": [label], "title": None, "guidance": 4}, instructions=None)
    (kind,) = read.kinds
    assert kind.labels == (Label("1", "2", hotkey="3", guidance="Mark."),)
    assert (kind.title, kind.guidance, read.instructions, read.texts) == ("", "4", "", ())
    assert labels(instructions="Look.").instructions == "Look."
    wrong: list[Any] = [[], "mistakes", None]
    for kinds in wrong:
        with pytest.raises(ValueError, match="kinds"):
            SpanLabels.from_dict({"name": "test", "kinds": kinds})


def test_indistinguishable_kinds_are_refused() -> None:
    def refused(kind: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            labels(MISTAKE, kind)

    of_labels = [{"value": "missing", "label": "Missing"}, {"value": "gone", "label": "missing"}]
    cases = [
        (OMISSION | {"name": "mistakes"}, "duplicate name"),
        (OMISSION | {"kind": "mistake"}, "duplicate kind"),
        (OMISSION | {"labels": of_labels}, "two labels share a word"),
        (OMISSION | {"labels": "missing"}, "at least one entry"),
        (OMISSION | {"labels": [{"value": "missing", "label": "Missing", "colour": "red"}]}, "colour 'red'"),
        (OMISSION | {"title": "Omissions", "hue": "red"}, "unknown key 'hue'"),
        ({key: value for key, value in OMISSION.items() if key != "text"}, "missing key 'text'"),
        (OMISSION | {"labels": ["missing"]}, "'missing' must be a mapping with value, label, colour, hotkey, guidance"),
        (OMISSION | {"labels": [{"value": "missing"}]}, "missing key 'label'; required are value, label"),
    ]
    check_cases(refused, cases)
