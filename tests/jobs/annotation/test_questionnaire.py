"""From words in files to answers, by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from actors.rubrics.people import PeopleOption, PeopleQuestion
from actors.rubrics.rubric_questions import Answer, Question
from actors.status import Status
from jobs.annotation.questionnaire import ISSUE, answer_set, list_questionnaire, rubric_questionnaire
from tests.cases import check_cases

SCALE = Question("q", "How sad?", "", "ordinal", (
    Answer("1", "Not at all", 1.0), Answer("2", "Somewhat", 2.0), Answer("3", "2", 3.0), Answer("4", "very", 4.0),
    Answer("5", "VERY", 5.0),
))  # fmt: skip


def test_values_labels_options_and_numbers_name_an_answer() -> None:
    people = PeopleQuestion(
        "",
        (
            PeopleOption("no sadness", "1"),
            PeopleOption("cannot say", None),
            PeopleOption("somewhat", "4"),
            PeopleOption("2", "4"),
        ),
        (),
    )
    answers = answer_set(SCALE, people)
    meanings = {word: answers.meaning(word) for word in (
        "1", " not  AT all ", "No sadness", "3.0", "3,0", "2", "somewhat", "very", "cannot say", "6", "x", " ", None,
        "-3,0", "3,0,0",
    )}  # fmt: skip
    assert [meanings[word].answer_index for word in ("1", " not  AT all ", "No sadness", "3.0", "3,0")] == [
        0,
        0,
        0,
        2,
        2,
    ]
    assert meanings["2"].answer_index == 1  # a value names itself, whatever has it as its label
    ambiguous = {word: (meanings[word].status, meanings[word].kind) for word in ("somewhat", "very")}
    assert set(ambiguous.values()) == {(Status.OUT_OF_RANGE, "ambiguous")}
    assert (meanings["cannot say"].status, meanings["cannot say"].kind) == (Status.REFUSED, "no_rating")
    assert {(meanings[word].status, meanings[word].kind) for word in ("6", "x", "-3,0", "3,0,0")} == {
        (Status.OUT_OF_RANGE, "unknown_answer")
    }
    assert {(meanings[word].status, meanings[word].kind) for word in (" ", None)} == {(Status.SKIPPED, "no_answer")}


def test_values_that_differ_in_case_alone_are_ambiguous() -> None:
    question = Question("q", "?", "", "nominal", (Answer("A", "first"), Answer("a", "second"), Answer("b", "A")))
    answers = answer_set(question, None)
    assert answers.meaning("a").kind == answers.meaning("A").kind == "ambiguous"
    assert [answers.meaning(word).answer_index for word in ("first", "SECOND", "B")] == [0, 1, 2]


def test_a_list_of_answers_has_scores_only_on_a_scale() -> None:
    ordinal, nominal = (list_questionnaire("r", ["0", "1.5"], ordinal=ordinal) for ordinal in (True, False))
    assert ordinal.answers("any").scores == (0.0, 1.5)
    assert ordinal.answers("any").meaning("1,5").answer_index == 1
    assert nominal.answers("any").scores == (None, None)
    assert [nominal.answers("any").meaning(word).answer_index for word in ("0", "1,5")] == [0, None]
    assert list_questionnaire("r", ["1", "1.0"], ordinal=False).answers("any").values == ("1", "1.0")
    assert (ordinal.question("Anything"), ordinal.question(ISSUE)) == ("Anything", ISSUE)
    assert ordinal.answers(ISSUE).values == ("no", "yes")


def test_a_list_of_answers_needs_two_different_ones_and_numbers_on_a_scale() -> None:
    def check(answers: list[str], ordinal: bool, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            list_questionnaire("r", answers, ordinal=ordinal)

    cases = [
        ([], False, r"answers=\[\]: at least two"),
        (["yes"], False, r"answers=\[yes\]: at least two"),
        (["yes", "no", " YES"], False, r"answers=\[yes,no, YES\]: at least two .* different"),
        (["1", "1.0"], True, r"answers=\[1,1\.0\]: must be different finite numbers on an ordinal scale"),
        (["1", "nan"], True, "must be different finite numbers"),
        (["inf", "1"], True, "must be different finite numbers"),
        (["1", "high"], True, r"answers=\[1,high\]: must be numbers on an ordinal scale .*'high'.* scale=nominal"),
    ]
    check_cases(check, cases)


def test_a_questions_name_comes_before_the_text_of_another() -> None:
    questions = [replace(SCALE, name="q", text="Mood"), replace(SCALE, name="mood"), replace(SCALE, name="last")]
    rubric: Any = SimpleNamespace(
        name="r", people=None, asks_own_questions=False, asks_targets=False, targets=(), questions=questions
    )
    questionnaire = rubric_questionnaire(rubric)
    named = [questionnaire.question(text) for text in ("Q", " MOOD", "how  sad?", "last", "other")]
    assert named == ["q", "mood", "mood", "last", None]
    assert questionnaire.asked == ("q", "mood", "last")
    options = (PeopleOption("hardly", "1"), PeopleOption("lots", "5"))
    rubric.people = SimpleNamespace(questions={"last": PeopleQuestion("", options, ())})
    questionnaire = rubric_questionnaire(rubric)
    assert (questionnaire.asked, [*questionnaire.sets]) == (("last",), ["q", "mood", "last"])
    assert [questionnaire.answers(name).meaning("lots").answer_index for name in ("last", "q")] == [4, None]


def test_booleans_are_yes_and_no_where_these_are_the_answers() -> None:
    yes_no = list_questionnaire("r", ["no", "Yes"], ordinal=False).answers("q")
    assert [yes_no.meaning(text).answer_index for text in ("true", "False", "TRUE", "yes")] == [1, 0, 1, 1]
    others = list_questionnaire("r", ["true", "no", "yes"], ordinal=False).answers("q")
    assert [others.meaning(text).answer_index for text in ("true", "false")] == [0, 1]
    numbers = list_questionnaire("r", ["1", "2"], ordinal=True).answers("q")
    assert numbers.meaning("true").status == "out_of_range"
