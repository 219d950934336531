"""Pictures and terms of a release, compared with values by hand."""

from collections import Counter
from typing import Any

from jobs.releasing.pictures import read_pictures, read_terms
from jobs.releasing.responses import RESPONSE_COLUMNS, Subjects, read_responses
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.factories import TableInMemory

RECORDS: list[dict[str, Any]] = [
    {"image_id": "b", "image_url": "https://h/b", "page_title": "B", "split": "val", "methods": ["manual", "own"]},
    {"image_id": "a", "image_url": "https://h/a", "page_title": "A", "split": "", "methods": None,
     "page_url": "https://me:word@h/page?n=2&sig=abc"},
    {"image_id": "a", "image_url": "https://h/a2", "page_title": "later"},
    {"image_id": "g", "image_url": "https://h/g", "methods": ["knowledge_graph", "manual"],
     "credited_method": "manual"},
    {"image_id": "c", "image_url": "ftp://h/c"},
    {"image_id": "d", "image_url": None},
    {"image_id": "e", "image_url": "https://user:secret@h/e"},
    {"image_id": "f", "image_url": "https://[h/f"},
    {"image_id": "gone", "image_url": "https://h/gone"},
    {"image_id": "listed", "image_url": "https://h/listed"},
]  # fmt: skip
CREDITS: list[dict[str, Any]] = [
    {"image_id": "a", "author": None, "licence": "CC0"},
    {"image_id": "a", "author": "first", "licence": "CC BY"},
    {"image_id": "a", "author": "second", "licence": None},
    {"image_id": "b", "author": "unknown", "licence": ""},
]


def source(name: str, rows: list[dict[str, Any]]) -> Any:
    return TableInMemory(name, rows)


def test_pictures_with_a_link_and_their_facts() -> None:
    excluded = ExclusionFilter(frozenset({"gone", "https://h/listed"}))
    pictures = read_pictures(
        source("records", RECORDS), starter=source("records", RECORDS[:1]), images=source("images", CREDITS),
        exclusion_filter=excluded,
    )  # fmt: skip
    assert list(pictures.rows) == ["a", "b", "g"]
    a, b, credited = pictures.rows.values()
    assert (a["century_method"], credited["century_method"]) == ("", "manually_curated")
    assert (a["image_url"], a["page_title"], a["author"], a["licence"]) == ("https://h/a", "A", "first", "CC0")
    assert (b["wit_split"], b["century_method"], b["author"], b["licence"]) == (
        "validation", "manually_curated;own", None, None
    )  # fmt: skip
    assert [a["is_starter_set"], b["is_starter_set"]] == [False, True]
    assert [a["wikipedia_url"], b["wikipedia_url"]] == ["https://h/page?n=2", None]
    assert pictures.licences == {"CC0": 1, "": 2}
    assert pictures.left_out == {
        "excluded": 2, "without a link": 2, "with a link that contains credentials or a signature": 2
    }  # fmt: skip
    alone = read_pictures(source("records", RECORDS[:1]), starter=None, images=None, exclusion_filter=excluded)
    assert alone.rows["b"]["is_starter_set"] is None


def test_terms_are_distinct_and_sorted() -> None:
    terms = [source("terms", [{"term": "war"}, {"term": "art"}]), source("terms", [{"term": "war"}])]
    assert [row["terms"] for row in read_terms(terms, ["march", "art"])] == ["art", "march", "war"]


def test_a_response_is_about_its_first_released_picture() -> None:
    items: list[dict[str, Any]] = [
        {"item_id": "r1", "image_ids": ["x", "a", "b"], "response_id": "r1"},
        {"item_id": "r2", "image_ids": ["x"], "response_id": "r2"},
        {"item_id": "plain", "image_ids": ["b"], "response_id": None},
    ]
    subjects = Subjects([source("items", items)], {"a": {}, "b": {}})
    assert [subjects.picture(name) for name in ("a", "r1", "r2", "plain", "nowhere")] == ["a", "a", None, "b", None]
    assert subjects.rated_response("r1") == {"response_id": "r1", "century_id": "a"}
    assert [subjects.rated_response(name) for name in ("r2", "plain", "nowhere")] == [None] * 3


def test_a_response_has_its_columns_and_its_picture() -> None:
    answer = {"model": "m@1", "prompt": "long", "condition": "article", "sample": 2, "status": "refused",
              "refusal_kind": "full", "text": "No."}  # fmt: skip
    rows = [{"response_id": f"s-{name}", "item_id": name, **answer} for name in ("a", "x")]
    left_out = Counter[str]()
    (released,) = read_responses([source("responses", rows)], Subjects([], {"a": {}}), left_out)
    assert released == {
        "response_id": "s-a", "century_id": "a", **{f"response.{name}": value for name, value in answer.items()}
    }  # fmt: skip
    assert set(released) == set(RESPONSE_COLUMNS)
    assert left_out == {"not about a released picture": 1}
