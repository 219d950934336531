"""Released annotations: one row per item and labeller, without names of people."""

from collections import Counter
from pathlib import Path
from typing import Any

from jobs.annotation.century_annotations import ENDINGS, METHOD, PERSON, RATER, SOURCE, STATUS
from jobs.releasing.released_files import Column
from jobs.releasing.released_rows import (
    RESPONSE_COLUMNS,
    Annotations,
    Subjects,
    read_annotations,
    read_pictures,
    read_responses,
    read_terms,
)
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from tests.factories import TableInMemory, rating, write_table


def released(folder: Path, rows: list[dict[str, Any]], *, comments: bool = False) -> Annotations:
    source = open_table(write_table(folder / "ratings", "ratings", rows), "ratings")
    return read_annotations(
        [source],
        lambda item: None if item == "withheld" else {"item": item},
        subject={"item": Column("what was rated")},
        pseudonym=lambda name: f"p-{name}",
        comments=comments,
        question_texts={("r", "look"): "How does it look?"},
    )


def test_answers_to_one_item_are_one_row(tmp_path: Path) -> None:
    human = {"method": "human", "comment": "Hm."}
    result = released(tmp_path, [
        rating("i", "ann", "look", "good", **human),
        rating("i", "ann", "fit", "2", **human, status="out_of_range"),
        rating("i", "m@1", "look", "bad"),
        rating("i", "boss", "look", "good", method="gold"),
        rating("withheld", "ann", "look", "good", **human),
        rating("j", "ann", "look", None, **human, status="skipped"),
        rating("j", "ann", "fit", None, **human, status="reported"),
        rating("k", "ann", "look", "good", **human),
        rating("k", "ann", "fit", None, **human, status="reported"),
        rating("l", "m@1", "look", None, status="refused"),
    ])  # fmt: skip
    by_key = {(row["item"], row[SOURCE], row[RATER]): row for row in result.rows}
    assert set(by_key) == {("i", PERSON, "p-ann"), ("i", "m@1", ""), ("i", PERSON, "p-boss"), ("j", PERSON, "p-ann"),
                           ("k", PERSON, "p-ann"), ("l", "m@1", "")}  # fmt: skip
    assert [(row["item"], row[METHOD], row[RATER]) for row in result.rows] == [
        ("i", "closed", ""), ("i", "gold", "p-boss"), ("i", "human", "p-ann"), ("j", "human", "p-ann"),
        ("k", "human", "p-ann"), ("l", "closed", ""),
    ]  # fmt: skip
    assert list(result.columns) == ["item", METHOD, SOURCE, RATER, "rating.fit", "rating.look", STATUS, ENDINGS]
    endings = {key[0]: row[ENDINGS] for key, row in by_key.items() if row[RATER] == "p-ann"}
    assert endings == {  # each answer that is not ok
        "i": "rating.fit=out_of_range", "j": "rating.fit=reported;rating.look=skipped", "k": "rating.fit=reported",
    }  # fmt: skip
    ann = by_key["i", PERSON, "p-ann"]
    assert (ann["rating.look"], ann["rating.fit"], ann[STATUS]) == ("good", None, "ok")  # a value that is not ok
    statuses = {key[0]: row[STATUS] for key, row in by_key.items()}
    assert {name: statuses[name] for name in "jkl"} == {"j": "reported", "k": "reported", "l": "refused"}
    assert (result.people, result.models, result.ratings) == ({"p-ann", "p-boss"}, {"m@1"}, 9)
    assert result.left_out == {"not about a released item": 1}
    assert result.columns["rating.look"].description == "How does it look?"
    assert result.columns["rating.fit"].description == "answer to fit"
    assert not {"rating.rubric", "rating.target", "rating.sample", "rating.comment"} & set(result.columns)


def test_columns_that_distinguish_rows_are_released(tmp_path: Path) -> None:
    rows = [
        rating("i", "m", "look", "good"),
        rating("i", "m", "look", "bad") | {"rubric": "s"},
        rating("i", "m", "look", "bad", target="Mali", sample=1),
        rating("i", "ann", "look", "bad", method="human", comment="Hm."),
        rating("i", "ann", "fit", "bad", method="human", comment="Hm."),
        rating("i", "ann", "hue", "red", method="human", comment="Ah."),
        rating("i", "ann", "size", "5", method="human"),
    ]
    result = released(tmp_path, rows, comments=True)
    assert len(result.rows) == 4
    # In the order of the columns: by method, model, rubric and target.
    assert [(row["rating.target"], row["rating.rubric"], row["rating.look"]) for row in result.rows] == [
        (None, "r", "good"), ("Mali", "r", "bad"), (None, "s", "bad"), (None, "r", "bad")
    ]  # fmt: skip
    assert {row["rating.rubric"] for row in result.rows} == {"r", "s"}
    assert {row["rating.target"] for row in result.rows} == {None, "Mali"}
    assert {row["rating.sample"] for row in result.rows} == {0, 1}
    assert {row.get("rating.comment") for row in result.rows} == {None, "Hm.\nAh."}  # each once
    assert {"rating.rubric", "rating.target", "rating.sample", "rating.comment"} <= set(result.columns)


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
