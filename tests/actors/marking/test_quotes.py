"""Quotations in a model's answer and their places in the text; nothing is guessed."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from actors.marking.quotes import Located, Passage, Quoted, QuoteFault, occurrences, quotations, read_answer
from actors.vlm.errors import ScoringError
from tests.cases import check_cases

TEXT = "A black dog and a black cat; the cat's catalogue lies\non a small  table."
ONE = ("mistake",)


def words(answer: str, *, labels: tuple[str, ...] = ONE, in_order: bool = False) -> list[str]:
    return [TEXT[s.start : s.end] for s in read_answer(answer, TEXT, labels, in_order=in_order).spans]


def reasons(answer: str, *, labels: tuple[str, ...] = ONE, in_order: bool = False) -> list[str]:
    return [fault.reason for fault in read_answer(answer, TEXT, labels, in_order=in_order).faults]


def test_nothing_to_mark() -> None:
    answers = ["NONE", "none.", "**None**", "- NONE", '"none"']
    assert {answer: read_answer(answer, TEXT, ONE) for answer in answers} == dict.fromkeys(answers, ([], []))


def test_a_quotation_in_any_usual_form() -> None:
    answers = ["dog", '- "dog"', "1. dog", "2) “dog”", "* `dog`", "```\ndog\n```", "„dog“", "DOG", "dog\ndog"]
    assert {answer: words(answer) for answer in answers} == {answer: ["dog"] for answer in answers}


def test_spans_are_sorted_and_white_space_may_differ() -> None:
    assert words("lies on a small table\nblack dog") == ["black dog", "lies\non a small  table"]


def test_words_are_not_found_inside_longer_ones() -> None:
    assert occurrences("cat", TEXT) == [(24, 27), (33, 36)]
    assert occurrences("catalog", TEXT) == [(39, 46)]  # nowhere a whole word
    assert occurrences("", TEXT) == occurrences("black [[ ]] cat", TEXT) == []
    assert occurrences("the", "The dog bathes.") == [(0, 3)]


def test_repeated_words_need_their_context_or_as_many_quotations() -> None:
    assert reasons("black") == ["ambiguous"]
    assert words("a [[black]] cat") == ["black"]
    assert read_answer("a [[black]] cat", TEXT, ONE).spans[0].start == 18
    assert [span.start for span in read_answer("black\nblack", TEXT, ONE).spans] == [2, 18]
    assert [span.start for span in read_answer('" black "\nblack', TEXT, ONE).spans] == [2, 18]
    assert reasons("black\nblack\nblack") == ["ambiguous"] * 3


def test_what_is_not_in_the_text_is_a_fault() -> None:
    answer = read_answer("Here are the mistakes:\n- dog\n- otter", TEXT, ONE)
    assert [fault.reason for fault in answer.faults] == ["absent", "absent"]
    assert [TEXT[s.start : s.end] for s in answer.spans] == ["dog"]
    assert reasons("") == reasons(" \n ") == ["empty_answer"]
    assert reasons("[[black]] and [[dog]]") == ["absent"]


def test_several_labels() -> None:
    labels = ("added_detail", "noun")
    (span,) = read_answer("- noun: dog", TEXT, labels).spans
    assert span.label == "noun"
    assert read_answer("Added detail: dog", TEXT, labels).spans[0].label == "added_detail"
    assert read_answer("noun: dog", TEXT, ("Noun", "verb")).spans[0].label == "Noun"
    assert reasons("dog\nverb: dog", labels=labels) == ["unknown_label", "unknown_label"]


def test_pieces_in_the_order_of_the_text() -> None:
    pieces = ["black", "dog", "black", "cat", "cat's", "small", "table"]
    assert words("\n".join(pieces), in_order=True) == pieces
    assert [fault.reason for fault in read_answer("dog\nblack\ncatalogue", TEXT, ONE).faults] == ["ambiguous"]
    between = read_answer("dog\nblack\ncatalogue", TEXT, ONE, in_order=True)
    assert [(s.start, s.end) for s in between.spans] == [(8, 11), (18, 23), (39, 48)]


def test_a_piece_between_its_neighbours_may_touch_them() -> None:
    text = "a-b-a-c"
    for pieces, spans in (
        (["a-b", "-", "a-c"], [(0, 3), (3, 4), (4, 7)]),
        (["-", "b-a-c"], [(1, 2), (2, 7)]),
        (["a-b-a", "-"], [(0, 5), (5, 6)]),
    ):
        answer = read_answer("\n".join(pieces), text, ONE, in_order=True)
        assert [(span.start, span.end) for span in answer.spans] == spans
    assert read_answer("b\n-\nc", text, ONE, in_order=True).faults[0].reason == "ambiguous"  # 3 or 5


def test_words_that_look_like_the_form_of_an_answer() -> None:
    cases = [
        ('"a" and "b"', 'They saw "a" and "b".', (9, 20)),  # not one quotation in marks
        ('""', 'They saw "".', (9, 11)),
        ("'cat'", "A cat.", (2, 5)),
        ("noun: cat", "A noun: cat.", (2, 11)),  # a single label is not written
        ("NONE\ncat", "NONE, cat", (0, 4)),  # no word for an empty list, next to others
        ("none of it", "It has none of it.", (7, 17)),
    ]

    def check(line: str, text: str, span: tuple[int, int]) -> None:
        (first, *_) = read_answer(line, text, ONE).spans
        assert (first.start, first.end, first.label) == (*span, "mistake")

    check_cases(check, cases)


def test_a_duplicate_has_the_label_of_its_first_line() -> None:
    answer = read_answer("noun: dog\nverb: dog", TEXT, ("noun", "verb"))
    assert [(span.start, span.label) for span in answer.spans] == [(8, "noun")]
    assert not answer.faults


@given(st.text(alphabet="ab 猫\n", min_size=1, max_size=30), st.data())
def test_a_quoted_span_is_where_the_text_has_its_words(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    quote = text[start : data.draw(st.integers(start + 1, len(text)))]
    for span in read_answer(quote, text, ONE).spans:
        assert text[span.start : span.end].split() == quote.split() or "\n" in quote


QUOTED_TEXT = "a red house by a red river"
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


def passage(text: str = QUOTED_TEXT, **more: Any) -> Passage:
    return Passage(text, FIRST, AGAIN, {"text": text}, **more)


def test_answers_without_faults_are_asked_once() -> None:
    failed = ScoringError("answer_cut", "cut")
    model = Scripted(["house\nriver", "NONE", failed])
    results = quotations(model, [passage(pictures=("p",)), passage(), passage()])
    assert results == [Quoted([Located(6, 11, ""), Located(21, 26, "")], [], False), Quoted([], [], False), failed]
    assert [(r.step, r.words, r.pictures) for r in model.asked[0]] == [
        (FIRST, {"text": QUOTED_TEXT}, ("p",)), (FIRST, {"text": QUOTED_TEXT}, ()), (FIRST, {"text": QUOTED_TEXT}, ()),
    ]  # fmt: skip
    assert len(model.asked) == 1


def test_lines_without_a_place_are_sent_back_once_with_the_reason() -> None:
    """The spans of both answers count, by place, and the faults of the second one."""
    model = Scripted(["river\nred\nboat\nboat", "house", ""], ["house\nship\na red house", "NONE"])
    first, second, third = quotations(model, [passage(pictures=("p",)), passage(), passage()])
    (again, empty) = model.asked[1]
    assert (again.step, again.pictures, again.words["text"]) == (AGAIN, ("p",), QUOTED_TEXT)
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
