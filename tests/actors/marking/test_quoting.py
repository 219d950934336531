"""Quotations after two questions: which faults are sent back, and which of two answers counts."""

from collections.abc import Sequence
from typing import Any

from actors.marking.quotes import Located, QuoteFault
from actors.marking.quoting import Passage, Quoted, quotations
from actors.vlm.errors import ScoringError

TEXT = "a red house by a red river"
FIRST: Any = "first"
AGAIN: Any = "again"


class Scripted:
    """A model that gives the answers of a list, and keeps the requests."""

    def __init__(self, *answers: Sequence[str | ScoringError]) -> None:
        self.answers, self.asked = list(answers), list[Any]()

    def write(self, requests: Sequence[Any]) -> list[str | ScoringError]:
        self.asked.append(requests)
        answers = self.answers.pop(0)
        assert len(answers) == len(requests)
        return list(answers)

    def score(self, requests: Sequence[Any]) -> list[Any]:
        raise AssertionError("scored")


def passage(text: str = TEXT, **more: Any) -> Passage:
    return Passage(text, FIRST, AGAIN, {"text": text}, **more)


def test_answers_without_faults_are_asked_once() -> None:
    failed = ScoringError("answer_cut", "cut")
    model = Scripted(["house\nriver", "NONE", failed])
    results = quotations(model, [passage(pictures=("p",)), passage(), passage()])
    assert results == [Quoted([Located(6, 11, ""), Located(21, 26, "")], [], False), Quoted([], [], False), failed]
    assert [(r.step, r.words, r.pictures) for r in model.asked[0]] == [
        (FIRST, {"text": TEXT}, ("p",)), (FIRST, {"text": TEXT}, ()), (FIRST, {"text": TEXT}, ()),
    ]  # fmt: skip
    assert len(model.asked) == 1


def test_lines_without_a_place_are_sent_back_once_with_the_reason() -> None:
    """The spans of both answers count, by place, and the faults of the second one."""
    model = Scripted(["river\nred\nboat\nboat", "house", ""], ["house\nship\na red house", "NONE"])
    first, second, third = quotations(model, [passage(pictures=("p",)), passage(), passage()])
    (again, empty) = model.asked[1]
    assert (again.step, again.pictures, again.words["text"]) == (AGAIN, ("p",), TEXT)
    assert again.words["faults"] == (
        "- red (these words are in the description more than once)\n- boat (these words are not in the description)"
    )
    assert empty.words["faults"] == "- (no answer) (write NONE if there is nothing to list)"
    assert first == Quoted(
        [Located(0, 11, ""), Located(6, 11, ""), Located(21, 26, "")], [QuoteFault("ship", "absent")], True
    )
    assert second == Quoted([Located(6, 11, "")], [], False)
    assert third == Quoted([], [], True)


def test_of_one_place_the_first_answers_label_counts() -> None:
    labels = ("colour", "thing")
    model = Scripted(["colour: house\nriver"], ["thing: house\nthing: river"])
    (result,) = quotations(model, [passage(labels=labels)])
    assert result == Quoted([Located(6, 11, "colour"), Located(21, 26, "thing")], [], True)
    assert model.asked[1][0].words["faults"] == ("- river (the line does not begin with one of the labels and a colon)")


def test_a_second_answer_that_fails_leaves_the_first() -> None:
    model = Scripted(["house\nboat"], [ScoringError("answer_cut", "cut")])
    (result,) = quotations(model, [passage()])
    assert result == Quoted([Located(6, 11, "")], [QuoteFault("boat", "absent")], True)
