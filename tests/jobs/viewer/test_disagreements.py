"""The numbers of an item's answers to a question: mean score, and disagreement as a share of the question's scale."""

from pathlib import Path
from typing import Any

import pytest

from jobs.viewer import loading, queries
from tests.factories import image_row, rating
from tests.jobs.viewer.queried import loaded, shown


def test_raters_disagree_by_the_share_of_pairs_with_different_categories(tmp_path: Path) -> None:
    rows = [rating("i", rater, "hue", hue) for rater, hue in zip("abcd", ("red", "red", "red", "blue"), strict=True)]
    (line,) = queries.fetch(loaded(tmp_path, ratings=rows), "SELECT * FROM lines")
    assert line["disagreement"] == pytest.approx(3 / 6)


def test_only_answers_count_for_the_width_of_a_scale(tmp_path: Path) -> None:
    rows = [rating("i", "a", "fit", "1"), rating("i", "b", "fit", "2"), rating("j", "a", "fit", "3")]
    rows.append(rating("j", "b", "fit", "9", status="refused"))
    lines = queries.fetch(loaded(tmp_path, ratings=rows), "SELECT * FROM lines ORDER BY item_id")
    assert [(line["n"], line["disagreement"]) for line in lines] == [(2, 0.5), (1, None)]


def test_likelihoods_are_not_on_the_scale_of_other_answers(tmp_path: Path) -> None:
    """A prompt of `loglik` may have the name of a rubric; its scores have no bounds and conditions of their own."""

    def likelihoods(question: str) -> list[dict[str, Any]]:
        pairs = [("i", "m", -1.0), ("i", "n", -7.0), ("j", "m", -3.0), ("j", "n", -31.0)]
        return [
            rating(item, rater, question, str(score), score=score, method="loglik", condition="lambda=0")
            for item, rater, score in pairs
        ]

    answers = [("i", "p1", "1"), ("i", "p2", "5"), ("j", "p1", "2"), ("j", "p2", "3")]
    of_people = [rating(item, rater, "relevance", value, answers=list("12345")) for item, rater, value in answers]
    images = [image_row("", image_id=name) for name in "ij"]
    rows = [*likelihoods("relevance"), *of_people, *likelihoods("other")]
    cursor = loaded(tmp_path, ratings=rows, images=images)
    lines = queries.fetch(cursor, "SELECT * FROM lines ORDER BY question, item_id")
    assert [(line["question"], line["item_id"], line["score"], line["disagreement"]) for line in lines] == [
        ("other", "i", -4, pytest.approx(6 / 30)), ("other", "j", -17, pytest.approx(28 / 30)),
        ("relevance", "i", 3, 1), ("relevance", "j", 2.5, 0.25),
    ]  # fmt: skip
    assert shown(cursor, sort="highest", question="r/relevance") == ["i", "j"]


def test_an_answer_that_the_question_does_not_allow_has_no_distance(tmp_path: Path) -> None:
    rows = [rating("i", rater, "fit", value, answers=list("12345")) for rater, value in (("a", "1"), ("b", "9"))]
    (line,) = queries.fetch(loaded(tmp_path, ratings=rows), "SELECT * FROM lines")
    assert (line["n"], line["score"], line["disagreement"]) == (1, 1, None)


def test_a_changed_answer_replaces_the_numbers_of_its_item(tmp_path: Path) -> None:
    rows = [rating(item, rater, "fit", value) for item in "ij" for rater, value in (("a", "1"), ("b", "5"))]
    cursor = loaded(tmp_path, ratings=rows)
    cursor.execute("UPDATE ratings SET value = '4', score = 4 WHERE item_id = 'i' AND rater = 'a'")
    loading.refresh_lines(cursor, "i")
    lines = queries.fetch(cursor, "SELECT * FROM lines ORDER BY item_id")
    assert [(line["item_id"], line["score"], line["disagreement"]) for line in lines] == [("i", 4.5, 0.25), ("j", 3, 1)]


def test_an_answer_beyond_all_others_makes_the_scale_of_its_question_wider(tmp_path: Path) -> None:
    answers = [("i", "a", "1"), ("i", "b", "3"), ("j", "a", "1"), ("j", "b", "2")]
    rows = [rating(item, rater, question, value) for question in ("fit", "hue") for item, rater, value in answers]
    rows += [rating("words", rater, "fit", value) for rater, value in (("a", "yes"), ("b", "no"))]  # not on the scale
    cursor = loaded(tmp_path, ratings=rows)
    for score, of_i, of_j in ((5, 1, 0.25), (4, 0.75, 0.25), (0, 0.2, 0.2)):  # widths 4, 4 and 5
        cursor.execute(f"UPDATE ratings SET score = {score} WHERE item_id = 'i' AND rater = 'b' AND question = 'fit'")
        loading.refresh_lines(cursor, "i")
        lines = queries.fetch(cursor, "SELECT * FROM lines ORDER BY question, item_id")
        assert [line["disagreement"] for line in lines] == pytest.approx([of_i, of_j, 1, 1, 0.5]), score


def test_pictures_are_in_order_of_the_mean_of_their_lines(tmp_path: Path) -> None:
    images = [image_row("", image_id=name) for name in "ij"]
    items = [{"item_id": "x", "kind": "image", "image_ids": ["i"]}]
    answers = {"i": "15", "x": "33", "j": "14"}  # disagreements 1 and 0 of i, 3/4 of j
    ratings = [
        rating(item, rater, "fit", value)
        for item, values in answers.items()
        for rater, value in zip("ab", values, strict=True)
    ]
    cursor = loaded(tmp_path, images=images, items=items, ratings=ratings)
    assert shown(cursor, sort="disagreement") == ["j", "i"]


def test_answers_are_compared_under_their_condition_and_equal_scores_do_not_differ(tmp_path: Path) -> None:
    answers = {"x": ("red", "blue"), "y": ("red", "red", "blue")}
    rows = [
        rating("i", f"r{number}", "hue", value, condition=condition)
        for condition, values in answers.items()
        for number, value in enumerate(values)
    ]
    rows += [rating("i", rater, "fit", "3") for rater in "ab"]
    cursor = loaded(tmp_path, ratings=rows)
    lines = queries.fetch(cursor, "SELECT condition, disagreement FROM lines ORDER BY question, condition")
    assert [tuple(line.values()) for line in lines] == [("", 0), ("x", 1), ("y", pytest.approx(2 / 3))]
