"""Database queries of the pages: filters, orders, pairs of raters, and exclusions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from jobs.errors import InputError
from jobs.judging.kept_rubric import Rubrics, read_rubrics
from jobs.runtime.selection.exclusions import ExclusionFilter, marks_of
from jobs.store.reading import open_table
from jobs.viewer import loading, picture_details, queries
from jobs.viewer.facets import read_facets, side_bar
from jobs.viewer.queries import View, view_of
from tests.factories import image_row, rating, write_table
from tests.jobs.viewer.queried import NOTHING, loaded, shown
from tests.jobs.viewer.small_study import BLUE, GOLD, GREEN, IDS, RED, URLS, write_study


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_study(tmp_path_factory.mktemp("study"))


@pytest.fixture(scope="module")
def cursor(place: str) -> Iterator[Any]:
    with duckdb.connect() as connection:
        loading.load(connection, loading.open_places([place]), NOTHING)
        yield connection


def test_pictures_are_filtered_by_facts_and_by_ratings(cursor: Any) -> None:
    assert shown(cursor) == IDS
    assert shown(cursor, status="missing") != IDS
    assert shown(cursor, q="GREEN <B>") == [GREEN]
    assert shown(cursor, q="author of gold") == [GOLD]
    assert shown(cursor, region="North") == [BLUE]
    assert shown(cursor, question="r/fit", value="5") == [RED, GOLD]
    assert shown(cursor, question="r/fit", value="5", rater="p1") == [RED, GOLD]
    assert shown(cursor, question="r/fit", value="5", rater="m") == [GOLD]
    assert shown(cursor, question="r/right") == [RED]
    assert shown(cursor, rated="unparsed") == [GOLD]
    assert shown(cursor, rater="nobody' OR true --") == []


def test_pictures_are_sorted_by_disagreement_and_score(cursor: Any) -> None:
    lines = {
        row["item_id"]: (row["n"], row["disagreement"], row["score"])
        for row in queries.fetch(cursor, "SELECT * FROM lines WHERE question = 'fit'")
    }
    # Red: 1, 1, 5 on a scale whose answers are 4 apart: distances 0, 4, 4 of 4; blue: 4, 4, 1.
    assert lines[RED] == (3, pytest.approx(2 / 3), pytest.approx(7 / 3))
    assert lines[BLUE] == (3, pytest.approx(1 / 2), 3)
    assert lines[GREEN][1] == pytest.approx(1 / 3)
    assert lines[GOLD][1] == 0
    assert shown(cursor, sort="disagreement", question="r/fit") == [RED, BLUE, GREEN, GOLD]
    assert shown(cursor, sort="highest", question="r/fit") == [GOLD, BLUE, RED, GREEN]
    assert shown(cursor, sort="lowest", question="r/fit") == [GREEN, RED, BLUE, GOLD]
    assert shown(cursor, sort="region")[0] == BLUE
    assert shown(cursor, sort="drop table") == IDS


def test_a_page_of_the_list_and_its_address(cursor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "PICTURES_PER_PAGE", 3)
    rows = queries.pictures(cursor, View(page="2"))
    assert ([row["image_id"] for row in rows.rows], rows.total) == ([GOLD], 4)
    assert [row["image_id"] for row in queries.pictures(cursor, View(), offset=1, limit=2).rows] == [GREEN, BLUE]
    assert [row["image_id"] for row in queries.pictures(cursor, View(page="2"), offset=0, limit=1).rows] == [RED]
    view = view_of({"q": " a&b ", "page": "3", "rater": "", "other": "x"})
    assert view.address() == "?q=a%26b&page=3"
    assert view.address(rater="é") == "?q=a%26b&rater=%C3%A9"
    assert [view_of({"page": page}).number for page in ("0", "-1", "x", "9" * 30, "")] == [1, 1, 1, 10**9, 1]


def test_ratings_responses_and_spans_have_their_pictures(cursor: Any) -> None:
    rows = queries.ratings(cursor, View(question="r/right"))
    assert [(row["image_id"], row["value"], row["comment"]) for row in rows.rows] == [(RED, "2", "Seen.")]
    assert queries.ratings(cursor, View(q="rather not")).rows[0]["image_id"] == GOLD
    assert {row["rater"] for row in queries.ratings(cursor, View(q="blue", rater="p1")).rows} == {"p1"}
    assert queries.ratings(cursor, View(region="North", sort="highest")).rows[0]["score"] == 4
    (first, *_) = queries.ratings(cursor, View(rater="m")).rows
    assert (first["value"], first["probability"]) == ("1", 0.6)
    assert {row["item_id"] for row in queries.ratings(cursor, View(q="About-RED")).rows} == {"about-red"}
    (response,) = queries.responses(cursor, View(q="red DOOR")).rows
    assert response["image_id"] == RED
    assert queries.responses(cursor, View(model="x"))[:2] == ([], 0)
    (span,) = queries.spans(cursor, View(value="colour")).rows
    assert (span["image_id"], span["start"], span["end"]) == (RED, 2, 5)


def test_ratings_are_sorted_by_score_rater_and_question(tmp_path: Path) -> None:
    rows = [
        rating("i", "n", "fit", "3"),
        rating("i", "m", "right", "1"),
        rating("i", "p", "fit", None),
        rating("j", "m", "fit", "5", target="b"),
        rating("j", "m", "fit", "2", target="a"),
    ]
    cursor = loaded(tmp_path, ratings=rows, images=[image_row("", image_id="i")])
    orders = {
        sort: [row["value"] for row in queries.ratings(cursor, View(sort=sort)).rows] for sort in queries.RATING_SORTS
    }
    assert orders == {
        "place": ["3", "1", None, "5", "2"],
        "highest": ["5", "3", "2", "1", None],
        "lowest": ["1", "2", "3", "5", None],
        "rater": ["1", "5", "2", "3", None],
        "question": ["3", None, "2", "5", "1"],
    }


def test_each_list_has_its_filters(tmp_path: Path) -> None:
    response = {"item_id": "i", "prompt": "p", "condition": "", "sample": 0, "text": "t", "model": "w", "status": "ok"}
    span = {"item_id": "i", "rater": "m", "condition": "", "method": "claims", "kind": "mistake", "start": 0, "end": 1,
            "marked": True, "status": "ok", "category": "a"}  # fmt: skip
    other_span = {"rater": "n", "kind": "omission", "category": "b", "status": "error"}
    cursor = loaded(
        tmp_path,
        images=[image_row("", image_id="i"), image_row("", image_id="j")],
        ratings=[rating("i", "m", "fit", "1", target="x"), rating("j", "m", "fit", None, target="y")],
        responses=[
            {"response_id": "first", **response},
            {"response_id": "second", **response, "prompt": "q", "status": "refused", "refusal_kind": "explicit"},
        ],
        spans=[{"text_id": "first", **span}, {"text_id": "second", **span, **other_span}],
    )

    def ids(rows: queries.ListedRows, column: str) -> list[str]:
        assert rows.total == len(rows.rows)
        return [row[column] for row in rows.rows]

    for view in (View(kind="explicit"), View(prompt="q"), View(status="refused")):
        assert ids(queries.responses(cursor, view), "response_id") == ["second"], view
    for view in (View(rater="n"), View(kind="omission"), View(status="error"), View(value="b")):
        assert ids(queries.spans(cursor, view), "text_id") == ["second"], view
    for view in (View(target="y"), View(rated="unparsed"), View(rated="unparsed", status="ok")):
        assert ids(queries.ratings(cursor, view), "item_id") == ["j"], view


def test_two_raters_side_by_side(cursor: Any) -> None:
    rows, matrix = queries.side_by_side(cursor, View(a="m", b="p1", question="r/fit"))
    assert matrix.values == ["1", "3", "4", "5"]
    assert matrix.counts == {("1", "5"): 1, ("3", "1"): 1, ("4", "1"): 1, ("5", "5"): 1}
    assert [(row["image_id"], row["distance"]) for row in rows.rows] == [
        (RED, 1),
        (BLUE, 0.75),
        (GREEN, 0.5),
        (GOLD, 0),
    ]
    only = queries.side_by_side(cursor, View(a="m", b="p1", question="r/fit", differ="1", vb="1"))[0]
    assert {row["image_id"] for row in only.rows} == {BLUE, GREEN}
    of_cell = queries.side_by_side(cursor, View(a="m", b="p1", question="r/fit", va="1", vb="5"))[0]
    assert [(row["image_id"], row["probability_a"]) for row in of_cell.rows] == [(RED, 0.6)]
    assert queries.side_by_side(cursor, View(a="m", b="nobody"))[0].total == 0


def test_only_answers_to_the_same_question_about_the_same_target_are_compared(tmp_path: Path) -> None:
    common = {"answers": ["9", "10"], "probabilities": [0.25, 0.75]}
    rows = [rating("i", "m", "fit", "9", **common), rating("i", "p", "fit", "10", comment="Yes.", **common)]
    for column, value in (("target", "t"), ("condition", "c"), ("rubric", "s"), ("question", "q"), ("sample", 1)):
        rows += [row | {column: value, "value": "9", "score": 9.0} for row in rows[:1]]
        rows += [row | {column: f"{value}2" if column != "sample" else 2} for row in rows[1:2]]
    rows += [rating(item, rater, "fit", "10") for item in ("k", "h", "j") for rater in "pm"]
    rows += [rating("h", rater, "fit", "10", target=target) for target in ("y", "x") for rater in "pm"]
    cursor = loaded(tmp_path, ratings=rows, images=[image_row("", image_id="i")])
    pairs, matrix = queries.side_by_side(cursor, View(a="m", b="p"))
    assert matrix == (["9", "10"], {("9", "10"): 1, ("10", "10"): 5})
    assert [(row["item_id"], row["target"]) for row in pairs.rows] == [
        ("i", ""), ("h", ""), ("h", "x"), ("h", "y"), ("j", ""), ("k", "")
    ]  # fmt: skip
    first = pairs.rows[0]
    assert [first[name] for name in ("a", "b", "comment_a", "comment_b", "probability_a", "probability_b")] == [
        "9", "10", None, "Yes.", 0.25, 0.75
    ]  # fmt: skip
    other = [rating("i", rater, "fit", "1") | {"rubric": "u"} for rater in "mp"]
    cursor = loaded(tmp_path / "two", ratings=[*rows, *other], images=[image_row("", image_id="i")])
    totals = {question: queries.side_by_side(cursor, View(a="m", b="p", question=question))[0].total
              for question in ("", "r/fit", "u/fit", "u/q")}  # fmt: skip
    assert totals == {"": 7, "r/fit": 6, "u/fit": 1, "u/q": 0}
    assert [queries.as_number(text) for text in ("2", "no", "1e1")] == [(2, "2"), (float("inf"), "no"), (10, "1e1")]


def test_two_conditions_of_a_rater_and_two_questions_side_by_side(tmp_path: Path) -> None:
    """The mean scores, differences and distances are those of a plain loop over the items."""
    without, with_article = {"i": 1, "j": 4, "k": 3}, {"i": 5, "j": 4, "h": 2}
    rows = [rating(item, "m", "fit", str(score)) for item, score in without.items()]
    rows += [rating(item, "m", "fit", str(score)) | {"condition": "article"} for item, score in with_article.items()]
    rows += [rating(item, "m", "fine", "2") | {"rubric": "s"} for item in "ij"]
    cursor = loaded(tmp_path, ratings=rows, images=[image_row("", image_id=name) for name in "hijk"])
    view = View(a="m", b="m", ca=queries.EMPTY, cb="article", question="r/fit")
    pairs, matrix = queries.side_by_side(cursor, view)
    assert [(row["image_id"], row["a"], row["b"], row["distance"]) for row in pairs.rows] == [
        ("i", "1", "5", 1), ("j", "4", "4", 0),
    ]  # fmt: skip
    assert matrix.shares == [("1", 0.5, 0), ("4", 0.5, 0.5), ("5", 0, 0.5)]
    both = [(without[item], with_article[item]) for item in without if item in with_article]
    (of_fit,) = queries.compared_questions(cursor, view)
    assert of_fit == {
        "name": "r/fit", "question": "fit", "n": len(both), "same": sum(a == b for a, b in both),
        "mean_a": sum(a for a, _ in both) / 2, "mean_b": sum(b for _, b in both) / 2,
        "difference": sum(b - a for a, b in both) / 2, "distance": sum(abs(b - a) / 4 for a, b in both) / 2,
    }  # fmt: skip
    (of_two,) = queries.compared_questions(cursor, View(a="m", b="m", ca=queries.EMPTY, question="r/fit", qb="s/fine"))
    assert (of_two["n"], of_two["mean_a"], of_two["mean_b"]) == (2, 2.5, 2)
    assert [row["name"] for row in queries.compared_questions(cursor, View(a="m", b="m"))] == ["r/fit", "s/fine"]
    assert queries.compared_questions(cursor, View()) == []


def test_two_runs_of_the_same_rater_are_two_raters(tmp_path: Path) -> None:
    """Such as with another prompt; other tables of the two folders have no rating in common."""
    for run, scores in (("first", "13"), ("second", "55")):
        rows = [rating(item, "m", "fit", score) for item, score in zip("ij", scores, strict=True)]
        write_table(tmp_path / run / "ratings" / "m", "ratings", rows)
        write_table(tmp_path / run / "ratings" / "n", "ratings", [rating(run, "n", "fit", "1")])
    write_table(tmp_path / "images", "images", [image_row("", image_id=name) for name in "ij"])
    metrics = [{"metric": "mean_score", "dims": f'{{"rubric": "r", "question": "fit", "rater": "{rater}"}}', "n": 2}
               for rater in "mn"]  # fmt: skip
    cursor = loaded(tmp_path, metrics=metrics)
    raters = {row["rater"] for row in queries.ratings(cursor, View()).rows}
    assert raters == {"m (first)", "m (second)", "n"}
    (compared,) = queries.compared_questions(cursor, View(a="m (first)", b="m (second)"))
    assert (compared["n"], compared["same"], compared["difference"]) == (2, 0, 3)
    # the report does not say of which run the number is
    assert [bool(row["address"]) for row in queries.numbers(cursor, View()).rows] == [False, True]


def test_lists_of_rows_have_pages(cursor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "ROWS_PER_PAGE", 3)
    ratings = queries.ratings(cursor, View(rater="p1", page="2"))
    assert ([row["image_id"] for row in ratings.rows], ratings.total) == ([GOLD], 4)
    pairs = queries.side_by_side(cursor, View(a="m", b="p1", question="r/fit", page="2"))[0]
    assert ([row["image_id"] for row in pairs.rows], pairs.total) == ([GOLD], 4)


def described_items(count: int) -> dict[str, Any]:
    """Return pictures and items with the columns of a user's file; the last picture has a record with another title."""
    names = [f"i{n}" for n in range(count)]
    items = [
        {"item_id": name, "kind": "image", "image_ids": [name],
         "attributes": [("title" if n else "page_title", f"Picture {n}"), ("region", "NS"[n % 2]),
                        ("year", str(9 + n % 3)), ("empty", "")]}
        for n, name in enumerate(names)
    ]  # fmt: skip
    of_pair = [("title", "A pair"), ("year", "11")]
    items.append({"item_id": "two", "kind": "pair", "image_ids": names[:2], "attributes": of_pair})
    records = [{"record_id": "r", "image_id": names[-1], "image_url": "u", "page_title": "Recorded"}]
    ratings = [rating(name, "m", "fit", "1") for name in names]
    return {
        "images": [image_row("", image_id=name) for name in names],
        "items": items,
        "records": records,
        "ratings": ratings,
    }


def test_columns_of_a_users_file_are_searched_filter_and_name_pictures(tmp_path: Path) -> None:
    cursor = loaded(tmp_path, **described_items(8))
    titles = {row["image_id"]: row["title"] for row in queries.pictures(cursor, View()).rows}
    assert titles == {**{f"i{n}": f"Picture {n}" for n in range(7)}, "i7": "Recorded"}
    assert shown(cursor, q="picture 3") == ["i3"]
    assert shown(cursor, q="picture 7") == ["i7"]  # its words, though a record names it
    assert shown(cursor, q="a pair") == ["i0", "i1"]
    assert {row["item_id"] for row in queries.ratings(cursor, View(q="picture 3")).rows} == {"i3"}
    year, region = ("year", "11"), ("region", "S")
    by_year = View(attributes=(year,))
    assert [row["image_id"] for row in queries.pictures(cursor, by_year).rows] == ["i0", "i1", "i2", "i5"]
    # A rating is of an item, and only that item's year counts: another item of the picture may have another one.
    assert [row["item_id"] for row in queries.ratings(cursor, by_year).rows] == ["i2", "i5"]
    assert shown(cursor, rater="m", **{"attribute.year": "11"}) == ["i2", "i5"]
    both = view_of({"attribute.year": " 11 ", "region": "S", "attribute.": "", "attribute.none": ""})
    assert [row["image_id"] for row in queries.pictures(cursor, both).rows] == ["i1", "i5"]
    assert (both.attributes, both.address()) == ((year,), "?region=S&attribute.year=11")
    assert view_of({"attribute.it's": "a&b"}).address(page="2") == "?page=2&attribute.it%27s=a%26b"
    assert [row["image_id"] for row in queries.pictures(cursor, View(attributes=(year, region))).rows] == ["i1", "i5"]
    either = View(attributes=(year, ("year", "9")))
    assert [row["image_id"] for row in queries.pictures(cursor, either).rows] == ["i0", "i1", "i2", "i3", "i5", "i6"]


def test_a_page_has_24_pictures_or_50_rows(tmp_path: Path) -> None:
    images = [image_row("", image_id=f"i{n}") for n in range(51)]
    cursor = loaded(tmp_path, images=images, ratings=[rating(f"i{n}", "m", "fit", "1") for n in range(51)])
    pictures, ratings = queries.pictures(cursor, View()), queries.ratings(cursor, View())
    assert (len(pictures.rows), pictures.total, len(ratings.rows), ratings.total) == (24, 51, 50, 51)


def test_samples_are_compared_one_by_one_and_the_first_is_the_raters_answer(tmp_path: Path) -> None:
    rows = [
        *(rating("i", rater, "fit", value, sample=n) for rater in "mp" for n, value in enumerate(("1", "5"))),
        rating("j", "m", "fit", "2"),
        rating("j", "p", "fit", None),  # no answer to compare
        rating("k", "m", "fit", "2"),
        rating("k", "p", "fit", None, status="ok", score=2.5),  # a score between the answers
    ]
    cursor = loaded(tmp_path, ratings=rows, images=[image_row("", image_id="i")])
    pairs, matrix = queries.side_by_side(cursor, View(a="m", b="p"))
    assert (pairs.total, matrix.counts) == (3, {("1", "1"): 1, ("5", "5"): 1, ("2", ""): 1})
    differing = queries.side_by_side(cursor, View(a="m", b="p", differ="1"))[0]
    assert [row["item_id"] for row in differing.rows] == ["k"]
    lines = {row["item_id"]: row for row in queries.fetch(cursor, "SELECT * FROM lines")}
    assert (lines["i"]["n"], lines["i"]["score"], lines["i"]["disagreement"]) == (2, 1, 0)
    (item,) = picture_details.items_of(
        cursor, "i", View(), rubrics=Rubrics({}), texts=picture_details.Texts([]), person=""
    )
    assert {value: len(raters) for (value, _), raters in item.lines[0].by_answer.items()} == {"1": 2}


def test_spans_that_are_not_marked_are_left_out_unless_they_failed(tmp_path: Path) -> None:
    span = {"item_id": "i", "rater": "m", "condition": "", "method": "claims", "kind": "mistake", "start": 0, "end": 1}
    rows = [
        span | {"text_id": name, "marked": marked, "status": status}
        for name, marked, status in (("claim", False, "ok"), ("failed", False, "error"), ("marked", True, "ok"))
    ]
    shown = queries.spans(loaded(tmp_path, spans=rows), View()).rows
    assert [row["text_id"] for row in shown] == ["failed", "marked"]


def test_a_picture_in_several_tables_and_its_region_and_responses(tmp_path: Path) -> None:
    rows = [
        image_row("", image_id="i", status="missing"),
        image_row("", image_id="i", rendition="w300"),
        image_row("", image_id="j"),
    ]
    items = [{"item_id": "pair", "kind": "image", "image_ids": ["i"], "attributes": [("region", "North")]}]
    response = {"item_id": "pair", "model": "w", "prompt": "", "condition": "", "sample": 0, "text": "", "status": "ok"}
    cursor = loaded(
        tmp_path,
        images=rows,
        items=items,
        responses=[{"response_id": "s", **response}, {"response_id": "t", **response, "item_id": "j"}],
        ratings=[
            *(rating(item, "m", "region", "South") for item in "ij"),
            *(rating("j", rater, "region", answer) for rater, answer in (("n", "East"), ("o", "South"))),
            rating("s", "judge", "fit", "3"),
            rating("t", "other", "fit", "3"),
        ],
    )
    assert shown(cursor) == ["i", "j"]
    assert [shown(cursor, region=region) for region in ("North", "South")] == [["i"], ["j"]]
    assert queries.responses(cursor, View()).rows[0]["image_id"] == "i"
    assert [shown(cursor, rater=rater) for rater in ("judge", "other")] == [["i"], ["j"]]


def test_a_picture_has_its_items_texts_spans_and_answers(cursor: Any, place: str) -> None:
    tables = loading.open_places([place])
    options: dict[str, Any] = {
        "rubrics": read_rubrics(tables.of("ratings")),
        "texts": picture_details.Texts(tables.of("texts")),
    }
    picture, response = picture_details.items_of(cursor, RED, View(), person="p1", **options)
    (line,) = picture.lines
    raters = {value: [rating.rater for rating in raters] for (value, _), raters in line.by_answer.items()}
    assert (raters, line.correction) == ({"1": ["m", "n"], "5": ["p1"]}, "5")
    assert list(raters) == ["1", "5"]  # the answer of most raters first
    of_blue = picture_details.items_of(cursor, BLUE, View(), person="", **options)[0].lines[0].by_answer
    assert [len(rating) for rating in of_blue.values()] == sorted(map(len, of_blue.values()), reverse=True)
    assert [choice.value for choice in line.choices] == list("12345")
    assert picture.kind == "picture"
    assert (response.kind, response.texts[0]) == ("response", ("generated", "A red door, not a gate."))
    assert response.texts[1][1] == "A red door."
    assert response.spans[0][-3:] == ("A ", "red", " door, not a gate.")
    (gold, *_) = picture_details.items_of(cursor, GOLD, View(question="r/fit"), person="", **options)
    assert [(rating.rater, rating.text) for rating in gold.lines[0].failed] == [("q", "I would rather not.")]
    assert picture_details.find_picture(cursor, "nothing") is None


@pytest.mark.parametrize("entry", [RED, URLS[0]])
def test_excluded_pictures_and_all_about_them_are_left_out(place: str, entry: str) -> None:
    with duckdb.connect() as connection:
        loading.load(connection, loading.open_places([place]), ExclusionFilter(marks_of(entry)))
        assert shown(connection) == [GREEN, BLUE, GOLD]
        for table, column in (
            ("ratings", "item_id"),
            ("responses", "item_id"),
            ("spans", "item_id"),
            ("items", "item_id"),
        ):
            ids = {row["id"] for row in queries.fetch(connection, f"SELECT {column} AS id FROM {table}")}
            assert not ids & {RED, "about-red"}, table


def test_a_picture_is_left_out_by_the_address_in_its_record(tmp_path: Path) -> None:
    """A picture from a folder has the address of the file, and only its record that of the web."""
    images = [image_row(f"/pictures/{name}.jpg", image_id=name) for name in "ij"]
    records = [{"record_id": name, "image_id": name, "image_url": f"https://x.example/{name}.jpg"} for name in "ij"]
    ratings = [rating(name, "m", "fit", "1") for name in "ij"]
    excluded = ExclusionFilter(marks_of("https://x.example/i.jpg"))
    cursor = loaded(tmp_path, excluded, images=images, records=records, ratings=ratings)
    assert shown(cursor) == ["j"]
    assert [row["item_id"] for row in queries.ratings(cursor, View()).rows] == ["j"]


def test_what_is_about_an_item_with_an_excluded_picture_is_left_out(tmp_path: Path) -> None:
    items = [{"item_id": name, "kind": "image", "image_ids": [picture]} for name, picture in (("x", "i"), ("y", "j"))]
    response = {"model": "w", "prompt": "", "condition": "", "sample": 0, "text": "", "status": "ok"}
    tables: dict[str, list[dict[str, Any]]] = {
        "images": [image_row("", image_id=name) for name in "ij"],
        "items": [
            *items,
            *({"item_id": f"text-{name}", "kind": "response", "response_id": f"of-{name}"} for name in "xy"),
        ],
        "responses": [{"response_id": f"of-{name}", "item_id": name, **response} for name in "xy"],
        "ratings": [rating(f"of-{name}", "m", "fit", "1") for name in "xy"],
    }
    cursor = loaded(tmp_path, ExclusionFilter(frozenset("i")), **tables)
    assert [row["response_id"] for row in queries.responses(cursor, View()).rows] == ["of-y"]
    assert [row["item_id"] for row in queries.ratings(cursor, View()).rows] == ["of-y"]
    assert queries.fetch(cursor, "SELECT item_id FROM items ORDER BY ALL") == [{"item_id": "text-y"}, {"item_id": "y"}]


def test_trial_runs_below_a_folder_are_left_out_and_named(tmp_path: Path) -> None:
    rows = [rating(f"i{n}", "m", "fit", "1") for n in range(3)]
    place = tmp_path / "R"
    whole = write_table(place / "whole", "ratings", rows)
    same = write_table(place / "same", "ratings", rows[:1], limit=1)
    changed = write_table(place / "changed", "ratings", rows[:2], limit=2, rubric_hash="earlier")
    last = write_table(place / "z", "ratings", rows[2:], limit=1, rubric_hash="older")
    alone = write_table(place / "alone", "ratings", [rating("i0", "n", "fit", "1")], limit=1, model="n")
    responses = [{"response_id": "s", "item_id": "i0", "model": "w", "prompt": "", "condition": "", "sample": 0,
                  "text": "", "status": "ok"}]  # fmt: skip
    write_table(place / "responses", "responses", responses, model="w")
    again = write_table(place / "responses-trial", "responses", responses, model="w", limit=1)
    tables = loading.open_places([str(place)])
    assert {source.uri for source in tables.of("ratings")} == {whole, alone}
    assert set(tables.left_out) == {same, changed, last, again}
    assert f"limit=2); {whole}" in tables.left_out[changed]
    assert f"limit=1); {whole}" in tables.left_out[last]
    assert [source.uri for source in loading.open_places([same]).of("ratings")] == [same]
    for listed in ([str(place), same], [whole, changed]):
        with pytest.raises(InputError, match=r"is a trial run \(limit="):
            loading.open_places(listed)
    write_table(place / "another", "ratings", rows, rubric_hash="earlier")
    with pytest.raises(InputError, match="same key"):
        loading.open_places([str(place)])


def test_the_trial_run_of_a_pipeline_is_left_out(tmp_path: Path) -> None:
    rows = [rating(f"i{n}", "m", "fit", "1") for n in range(3)]
    whole_links = write_table(tmp_path / "R/links", "links", [])  # the viewer does not show them
    trial_links = write_table(tmp_path / "R/trials/links", "links", [], limit=1)
    for out, of_run, links in (("R", rows, whole_links), ("R/trials", rows[:1], trial_links)):
        write_table(tmp_path / out / "ratings", "ratings", of_run, links=open_table(links).identity)
    tables = loading.open_places([f"{tmp_path}/R"])
    assert [source.uri for source in tables.of("ratings")] == [f"{tmp_path}/R/ratings"]
    assert tables.left_out == {
        f"{tmp_path}/R/trials/ratings": f"{tmp_path}/R/trials/ratings: a trial run; {tmp_path}/R/ratings has its rows "
        "too"
    }


def test_what_cannot_be_viewed(place: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="name at least one table"):
        loading.open_places([])
    with pytest.raises(InputError, match="no table here"):
        loading.open_places([str(tmp_path)])
    write_table(tmp_path / "terms", "terms", [])
    with pytest.raises(InputError, match="no table of images, records"):
        loading.open_places([str(tmp_path)])
    damaged = tmp_path / "images"
    write_table(damaged, "images", [])
    next(damaged.glob("*.parquet")).write_bytes(b"PAR1")
    tables = loading.open_places([place, str(tmp_path)])
    assert list(tables.left_out) == [str(damaged)]
    write_table(tmp_path / "again", "ratings", [rating(RED, "m", "fit", "1")])
    assert loading.open_places([place, str(tmp_path)]).runs == {
        f"{place}/ratings/m": "R", f"{tmp_path}/again": tmp_path.name,
    }  # fmt: skip


def test_numbers_of_pictures_have_bounds_and_histograms(tmp_path: Path) -> None:
    years = [*range(1950, 1959), 1959, None]
    items = [{"item_id": f"i{n}", "kind": "image", "image_ids": [f"i{n}"],
              "attributes": [("year", "unknown" if year is None else str(year)), ("hall", "AB"[n % 2])]}
             for n, year in enumerate(years)]  # fmt: skip
    ratings = [rating(f"i{n}", rater, "fit", str(1 + (n + shift) % 3)) | {"answers": ["1", "2", "3"],
               "probabilities": [0.5, 0.3, 0.2]} for n in range(11) for shift, rater in enumerate("mn")]  # fmt: skip
    images = [image_row("", image_id=f"i{n}") for n in range(11)]
    cursor = loaded(tmp_path, images=images, items=items, ratings=ratings)
    facets = read_facets(cursor, Rubrics({}))
    assert {name: kept[:3] for name, kept in facets.numbers.items()} == {
        "attribute.year": ("year", 1950, 1959), "score.r/fit": ("fit", 1.5, 2.5),
        "probability.r/fit": ("fit", pytest.approx(0.25), pytest.approx(0.4)), "disagreement": ("disagreement", 0.5, 1),
    }  # fmt: skip
    late = {"from.attribute.year": "1956", "attribute.hall": "A"}
    assert shown(cursor, **late) == ["i6", "i8"]
    assert shown(cursor, **{"from.score.r/fit": "2", "to.score.r/fit": "2"}) == ["i2", "i5", "i8"]
    assert {row["item_id"] for row in queries.ratings(cursor, view_of(late)).rows} == {"i6", "i8"}
    counts = side_bar(cursor, view_of(late), facets)
    assert counts.attributes == {"hall": {"A": 2, "B": 2}}  # as if no hall were chosen
    years_of_hall = counts.histograms["attribute.year"]  # as if no year were chosen
    assert (sum(years_of_hall), years_of_hall[0], years_of_hall[-1]) == (5, 1, 0)
    assert sum(counts.histograms["score.r/fit"]) == 2
    with pytest.raises(InputError, match=r"from\.attribute\.year=x: must be a number"):
        shown(cursor, **{"from.attribute.year": "x"})
