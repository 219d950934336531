"""Options of the filters: the values of each column in order, with labels and counts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from actors.rubrics.rubric_questions import Answer
from jobs.judging.kept_rubric import KeptQuestion, KeptRubric, Rubrics, of_levels
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.viewer import facets as module
from jobs.viewer import loading
from jobs.viewer.facets import Facets, read_facets
from tests.factories import image_row, rating, write_table

LEVELS = of_levels("r", "fit", "How well?", [("a", "poor", 1.0), ("b", "fair", 2.0), ("c", "good", 3.0)], {})


def facets(folder: Path, *, second: bool) -> Facets:
    answers = [("m", "c"), ("m", "c"), ("p", "a"), ("m", "x"), ("p", "c"), ("p", None), ("m", "c")]
    rows = [rating(f"i{n}", rater, "fit", value) for n, (rater, value) in enumerate(answers)]
    rows += [rating("i0", "q", "warm_hue", "d") | {"rubric": "s"}] * second
    items = [
        {"item_id": f"i{n}", "kind": "image", "image_ids": [f"i{n}"], "attributes": [("region", region)]}
        for n, region in enumerate(("South", "South", "North"))
    ]
    write_table(folder / "ratings", "ratings", rows)
    write_table(folder / "items", "items", items)
    write_table(folder / "images", "images", [image_row("", image_id=f"i{n}") for n in range(4)])
    with duckdb.connect() as connection:
        loading.load(connection, loading.open_places([str(folder)]), ExclusionFilter(frozenset()))
        return read_facets(connection, Rubrics({"r": LEVELS}))


def test_values_have_their_labels_and_counts(tmp_path: Path) -> None:
    shown = facets(tmp_path, second=False)
    assert shown.questions == [("r/fit", "fit", 7)]
    # in the order of the rubric, and after them what it does not list
    assert shown.values == {"r/fit": [("a", "a — poor", 1), ("c", "c — good", 4), ("x", "x", 1)]}
    assert [(one.value, one.rows) for one in shown.raters] == [("m", 4), ("p", 3)]
    assert [(one.value, one.rows) for one in shown.rated] == [("ok", 6), ("unparsed", 1)]
    assert [(one.value, one.rows) for one in shown.regions] == [("North", 1), ("South", 2)]  # by name


def test_attributes_of_few_values_filter(tmp_path: Path) -> None:
    values: dict[str, Callable[[int], str]] = {
        "target": lambda n: "ab"[n % 2],  # tells the region, which has another filter
        "year": lambda n: str(8 + n % 50),
        "many": lambda n: str(n % 51),
        "id": str,
        "same": lambda n: "x",
        "some": lambda n: "ab"[n] if n < 2 else "",  # as many values as items
        "half": lambda n: "ab"[n % 2] if n < 4 else "",  # half as many
        **{f"more{k}": lambda n: "ab"[n % 2] for k in range(8)},
    }
    images = [image_row("", image_id=f"i{n}") for n in range(102)]
    items = [{"item_id": f"i{n}", "kind": "image", "image_ids": [f"i{n}"],
              "attributes": [(name, value(n)) for name, value in values.items()]} for n in range(102)]  # fmt: skip
    write_table(tmp_path / "images", "images", images)
    write_table(tmp_path / "items", "items", items)
    with duckdb.connect() as connection:
        loading.load(connection, loading.open_places([str(tmp_path)]), ExclusionFilter(frozenset()))
        shown = read_facets(connection, Rubrics({}))
    assert list(shown.attributes) == ["year", *(f"more{k}" for k in range(7))]
    assert [one.value for one in shown.attributes["year"]][:3] == ["8", "9", "10"]
    assert [one.rows for one in shown.attributes["year"]][:3] == [3, 3, 2]
    assert shown.attributes["more0"] == [("a", "a", 51), ("b", "b", 51)]
    assert (shown.region_label, [one.value for one in shown.regions]) == ("target", ["a", "b"])


def test_questions_of_several_rubrics_name_theirs(tmp_path: Path) -> None:
    shown = facets(tmp_path, second=True)
    assert shown.questions == [("r/fit", "r: fit", 7), ("s/warm_hue", "s: warm_hue", 1)]
    assert shown.values["s/warm_hue"] == [("d", "d", 1)]


def test_questions_and_answers_are_in_the_order_of_their_rubric(tmp_path: Path) -> None:
    """Neither in alphabetical order nor in that of their frequency; what the rubric lacks comes last, by name."""
    levels = tuple(Answer(value, "", score) for value, score in (("z", 1.0), ("a", 2.0)))
    kept = KeptRubric("rubric", "r", tuple(KeptQuestion(name, "", "", "ordinal", levels) for name in ("size", "fit")))
    answers = [("other", "1"), ("fit", "a"), ("fit", "a"), ("fit", "b"), ("fit", "z"), ("fit", "c"), ("fit", "c"),
               ("fit", "c"), ("size", "z"), ("another", "1")]  # fmt: skip
    rows = [rating(f"i{n}", "m", question, value) for n, (question, value) in enumerate(answers)]
    write_table(tmp_path / "ratings", "ratings", rows)
    with duckdb.connect() as connection:
        loading.load(connection, loading.open_places([str(tmp_path)]), ExclusionFilter(frozenset()))
        shown = read_facets(connection, Rubrics({"r": kept}))
    assert [question.label for question in shown.questions] == ["size", "fit", "another", "other"]
    assert shown.values["r/fit"] == [("z", "z", 1), ("a", "a", 2), ("c", "c", 3), ("b", "b", 1)]


def test_the_answers_of_a_question_are_limited_by_themselves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ANSWERS", 2)
    rows = [rating(f"i{n}", "m", "fit", "abbccc"[n]) for n in range(6)] + [rating("i0", "m", "hue", "d")]
    write_table(tmp_path / "ratings", "ratings", rows)
    with duckdb.connect() as connection:
        loading.load(connection, loading.open_places([str(tmp_path)]), ExclusionFilter(frozenset()))
        values = read_facets(connection, Rubrics({"r": LEVELS})).values
    assert values == {"r/fit": [("b", "b — fair", 2), ("c", "c — good", 3)], "r/hue": [("d", "d", 1)]}


def test_each_filter_has_the_values_of_its_column(tmp_path: Path) -> None:
    response = {"item_id": "i", "condition": "", "sample": 0, "text": "t"}
    span = {"item_id": "i", "condition": "", "method": "human", "start": 0, "end": 1, "marked": True, "status": "ok"}
    tables: dict[str, list[dict[str, Any]]] = {
        "images": [image_row("", image_id="i"), image_row("", image_id="j", status="missing")],
        "ratings": [rating("i", "m", "fit", "1", target="Mali")],
        "responses": [
            {"response_id": "r1", **response, "model": "w", "prompt": "short", "status": "ok"},
            {"response_id": "r2", **response, "model": "w", "prompt": "long", "status": "refused",
             "refusal_kind": "explicit"},
        ],
        "spans": [
            {"text_id": "t1", **span, "rater": "p1", "kind": "mistake", "category": "colour"},
            {"text_id": "t2", **span, "rater": "p1", "kind": "omission", "category": None},
        ],
    }  # fmt: skip
    for name, rows in tables.items():
        write_table(tmp_path / name, name, rows)
    with duckdb.connect() as connection:
        loading.load(connection, loading.open_places([str(tmp_path)]), ExclusionFilter(frozenset()))
        shown = read_facets(connection, Rubrics({}))
    names = ("statuses", "targets", "models", "prompts", "refusals", "span_raters", "span_kinds", "categories",
             "response_statuses")  # fmt: skip
    assert {name: [(option.value, option.rows) for option in getattr(shown, name)] for name in names} == {
        "statuses": [("missing", 1), ("ok", 1)],
        "targets": [("Mali", 1)],
        "models": [("w", 2)],
        "prompts": [("long", 1), ("short", 1)],
        "refusals": [("explicit", 1)],
        "span_raters": [("p1", 2)],
        "span_kinds": [("mistake", 1), ("omission", 1)],
        "categories": [("colour", 1)],
        "response_statuses": [("ok", 1), ("refused", 1)],
    }


def test_the_filter_of_regions_has_the_name_of_their_only_source(tmp_path: Path) -> None:
    def label(place: Path, *names: str, question: str = "fit") -> str:
        items = [
            {"item_id": name, "kind": "image", "image_ids": [name], "attributes": [(name, "North")]} for name in names
        ]
        write_table(place / "images", "images", [image_row("", image_id=name) for name in (*names, "i")])
        write_table(place / "items", "items", items)
        write_table(place / "ratings", "ratings", [rating("i", "m", question, "South")])
        with duckdb.connect() as connection:
            loading.load(connection, loading.open_places([str(place)]), ExclusionFilter(frozenset()))
            return read_facets(connection, Rubrics({})).region_label

    assert label(tmp_path / "one", "target") == "target"
    assert label(tmp_path / "two", "target", "sub_region") == "region"
    assert label(tmp_path / "answers", "target", question="sub_region") == "region"
