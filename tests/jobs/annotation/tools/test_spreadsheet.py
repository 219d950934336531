"""A study as a spreadsheet: its columns, one row per question, and what it cannot ask."""

import csv
import io
import re
from dataclasses import replace

import pytest

from actors.rubrics.people import FreeText
from jobs.annotation.form import Form, FormQuestion, Option, OwnSet, ShownItem, WelfareConfig
from jobs.annotation.span_labels import SpanLabels
from jobs.annotation.tool import PlacedItem
from jobs.annotation.tools import spreadsheet
from tests.cases import check_cases

OPTIONS = (Option("1", "low", "", ""), Option("2", "=high", "", ""))
TONE = FormQuestion("tone", "Tone?", "As a whole.", OPTIONS, (), about_target=True)
CLEAR = FormQuestion("clear", "Clear?", "", OPTIONS, (), about_target=True)
FORM = Form(
    rubric="r",
    instructions="",
    questions=(TONE, CLEAR),
    span_labels=None,
    welfare=WelfareConfig(),
    pictures=2,
    texts=("prompt",),
)
ITEM = ShownItem(
    "i",
    ("p0", "p1"),
    ("https://x/0.jpg", "https://x/1.jpg"),
    (("Title", "A boat"),),
    {"prompt": ("t", "=a boat")},
    (("Page", "https://w/boat"),),
)
LABELS = SpanLabels("mistakes", ())


def rows(form: Form, item: ShownItem = ITEM, rater: str | None = "bo") -> list[dict[str, str | int]]:
    return list(spreadsheet.rows(form, item, target="joy", assigned_to=rater, place=3))


def test_columns_are_what_people_read_and_then_what_they_fill_in() -> None:
    bare = WelfareConfig(comment="", report="")
    cases = {
        "all": (
            FORM,
            "place image image_2 about prompt target wording answers value comment skipped reported question rater "
            "item_id",
        ),
        "no comment, no report": (
            replace(FORM, welfare=bare, texts=()),
            "place image image_2 about target wording answers value skipped question rater item_id",
        ),
        "no picture to report, and free text": (
            replace(FORM, pictures=0, texts=(), free_texts=(FreeText("why", "Why?"),)),
            "place about target wording answers value why comment skipped question rater item_id",
        ),
        "no target": (
            replace(FORM, questions=(replace(TONE, about_target=False),), pictures=1),
            "place image about prompt wording answers value comment skipped reported question rater item_id",
        ),
    }
    check_cases(lambda form, expected: _equal(spreadsheet.header(form), expected.split()), cases)


def _equal(got: object, expected: object) -> None:
    assert got == expected


def test_a_row_per_question_with_all_that_people_see() -> None:
    first, second = rows(FORM)
    assert first == {
        "place": 3,
        "rater": "bo",
        "item_id": "i",
        "target": "joy",
        "question": "tone",
        "image": "https://x/0.jpg",
        "image_2": "https://x/1.jpg",
        "prompt": "'=a boat",
        "about": "Title: A boat\nPage: https://w/boat",
        "wording": "Tone? As a whole.",
        "answers": "low / =high",
    }
    assert (second["question"], second["wording"]) == ("clear", "Clear?")
    assert rows(FORM, rater=None)[0]["rater"] == ""


def test_the_items_own_questions_follow_those_of_the_form() -> None:
    form = replace(FORM, questions=(TONE,), own_question=CLEAR)
    item = replace(ITEM, own_set=OwnSet("s", (("1", "Is there a boat?"), ("2", "Is it red?"))))
    asked = [(row["question"], row["wording"]) for row in rows(form, item)]
    assert asked == [("tone", "Tone? As a whole."), ("1", "Is there a boat?"), ("2", "Is it red?")]


def test_the_page_next_to_a_sheet_shows_each_picture_once_under_its_places() -> None:
    shown = replace(ITEM, pictures=("../pictures/a%23b.jpg", "https://x/1.jpg"), item_id="<i>")
    tasks = [PlacedItem(shown, target, "bo", place) for place, target in ((2, "joy"), (1, "fear"))]
    tasks.append(PlacedItem(replace(ITEM, item_id="j"), "joy", "bo", 3))
    for blur in (True, False):
        form = replace(FORM, welfare=WelfareConfig(blur=blur, notice="Some are < sad."))
        page = spreadsheet.task_files(form, tasks)["html"]
        assert re.findall(r"<h2>(.*?)</h2>", page) == ["1, 2", "3"]
        assert re.findall(r'src="(.*?)"', page) == [*shown.pictures, *ITEM.pictures]
        assert ("<i>" in page, "Some are &lt; sad." in page, "<script" in page) == (False, True, False)
        assert len(re.findall(r'class="remine-picture remine-blurred"', page)) == (4 if blur else 0)
    assert set(spreadsheet.task_files(replace(FORM, pictures=0), tasks[:0])) == {"csv"}


def test_the_file_says_that_it_is_utf_8() -> None:
    text = spreadsheet.as_csv(FORM, rows(FORM))
    assert text[0] == "\ufeff"
    read = list(csv.DictReader(io.StringIO(text[1:])))
    assert list(read[0]) == spreadsheet.header(FORM)
    assert [(row["question"], row["value"], row["about"]) for row in read] == [
        ("tone", "", "Title: A boat\nPage: https://w/boat"), ("clear", "", "Title: A boat\nPage: https://w/boat")
    ]  # fmt: skip


def test_what_rows_of_questions_cannot_ask_is_refused() -> None:
    why = (FreeText("why", "Why?"),)
    spreadsheet.check(FORM)
    spreadsheet.check(replace(FORM, questions=(TONE,), free_texts=why))  # one question: a row per item
    cases = [
        (replace(FORM, span_labels=LABELS), "cannot mark spans"),
        (replace(FORM, free_texts=why), r"free text \(why\)"),
        (replace(FORM, texts=("prompt", "value")), "a column 'value' has another meaning"),
        (replace(FORM, questions=(TONE,), free_texts=(FreeText("comment", "?"),)), "a column 'comment'"),
        (replace(FORM, texts=("time",)), "a column 'time' has another meaning; rename the role"),
        (replace(FORM, pictures=0, texts=("reported",)), "a column 'reported'"),
        (replace(FORM, questions=(TONE,), free_texts=(FreeText("order", "?"),)), "a column 'order'"),
        (replace(FORM, questions=(), free_texts=why), r"free text \(why\)"),
        (replace(FORM, questions=(TONE,), free_texts=why, own_question=CLEAR), r"free text \(why\)"),
    ]

    def check(form: Form, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            spreadsheet.check(form)

    check_cases(check, cases)
