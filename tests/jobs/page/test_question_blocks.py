"""A question's block: which answers it lists, in which part of the colour scale they are, and what each rater gave."""

from dataclasses import replace
from typing import Any

from jobs.metrics.distributions import Distribution, Distributions
from jobs.page.page_contents import Page, PictureRating, Wording, letters_of
from jobs.page.render import FEW_UNUSED, MAX_COLUMNS, AnswerBar, QuestionBlock, _rubrics, by_answer
from tests.factories import TableInMemory, rating


def distributions(
    answers: dict[str, list[str | None]], *, allowed: list[str], question: str = "q", **columns: Any
) -> list[Distribution]:
    """Return the distributions of the answers of each rater."""
    rows = [
        rating(f"i{number}", rater, question, value, answers=allowed, **columns)
        for rater, values in answers.items()
        for number, value in enumerate(values)
    ]
    counted = Distributions()
    table: Any = TableInMemory("ratings", rows)
    for batch in table.batches(table._rows.column_names):
        counted.add(batch)
    return counted.result()


def block_of(listed: list[Distribution], words: Wording | None = None) -> QuestionBlock:
    page = Page("t", distributions=listed, wording={("r", "q"): words} if words else {})
    (section,) = _rubrics(page, letters_of(listed, []))
    (block,) = section.questions
    assert section.name == block.rubric == "r"
    return block


def test_answers_are_in_three_parts_of_the_colour_scale() -> None:
    places = (0, 0.26, 0.27, 0.54, 0.55, 1)
    bands = [AnswerBar("1", "", True, place).band for place in places]
    assert bands == ["near", "near", "middle", "middle", "far", "far"]
    assert AnswerBar("1", "", False, 0).band == "unlisted"


def test_each_rater_has_the_share_of_each_answer() -> None:
    answers: dict[str, list[str | None]] = {"n": ["b", "b", "a", "other"], "m": ["b"], "o": [None]}
    listed = distributions(answers, allowed=["b", "a", "c"], score=None)
    block = block_of(listed, Wording("Title", "Text?", {"a": "first"}))
    assert (block.title, block.text, block.ordinal, block.left_out) == ("Title", "Text?", False, 0)
    assert [(bar.code, bar.label, bar.listed, bar.position) for bar in block.answers] == [
        ("b", "", True, 0), ("a", "first", True, 1 / 3), ("c", "", True, 2 / 3), ("other", "", False, 1)
    ]  # fmt: skip
    assert [(row.letter, row.name) for row in block.rows] == [("A", "m"), ("B", "n"), ("C", "o")]
    shares = [[share.share for share in row.shares] for row in block.rows]
    assert shares == [[1, 0, 0, 0], [0.5, 0.25, 0, 0.25], [None] * 4]
    assert block.rows[1].share_of("other").count == 1
    assert (block.most, block_of(listed[-1:]).most) == (1, 0.01)
    unnamed = block_of(listed)
    assert (unnamed.title, unnamed.text) == ("q", "")


def test_words_without_a_rubric_all_have_a_share_but_an_open_question_has_none() -> None:
    words: list[str | None] = [f"w{n:02}" for n in range(2 * MAX_COLUMNS)]
    free, few = distributions({"m": words, "n": ["a", "b"]}, allowed=["a"], score=None)
    block = block_of([free, few])
    assert [bar.code for bar in block.answers] == ["a", "b", *words]
    assert [share.share for share in block.rows[0].shares] == [0, 0, *[1 / len(words)] * len(words)]
    too_many = replace(free, answers=(), reason="more than 512 different answers")
    assert [[share.share for share in row.shares] for row in block_of([too_many, few]).rows] == [
        [None, None], [0.5, 0.5]
    ]  # fmt: skip


def test_answers_that_nobody_gave_share_a_line_if_there_are_several() -> None:
    def unused(count: int, *answers: str | None) -> frozenset[str]:
        allowed = ["a", *(f"u{n}" for n in range(count))]
        return block_of(distributions({"m": [*answers]}, allowed=allowed, score=None)).unused

    assert unused(FEW_UNUSED, "a") == {f"u{n}" for n in range(FEW_UNUSED)}
    assert unused(FEW_UNUSED - 1, "a") == unused(FEW_UNUSED, None) == frozenset()  # without answers all are unused
    assert unused(FEW_UNUSED, "a", "u0") == frozenset()


def test_a_scale_of_many_answers_has_only_summaries_and_a_likelihood_adds_no_columns() -> None:
    levels = [str(n) for n in range(MAX_COLUMNS + 1)]
    few: dict[str, list[str | None]] = {"m": ["1", "2"]}
    assert len(block_of(distributions(few, allowed=levels[:-1])).answers) == MAX_COLUMNS
    assert block_of(distributions(few, allowed=levels)).answers == ()
    scores: dict[str, list[str | None]] = {"clip": [f"{n}.5" for n in range(3 * MAX_COLUMNS)]}
    listed = [*distributions(few, allowed=levels[:3]), *distributions(scores, allowed=levels[:3])]
    block = block_of(listed)
    assert [bar.code for bar in block.answers] == levels[:3]
    assert [[share.share for share in row.shares] for row in block.rows] == [[None] * 3, [0, 0.5, 0.5]]


def test_questions_of_a_rubric_are_in_the_order_of_the_wording() -> None:
    listed = [
        distribution
        for question in ("a", "b", "z")
        for distribution in distributions({"m": ["1"]}, allowed=["1"], question=question)
    ]
    page = Page("t", distributions=listed, wording={("r", "z"): Wording("Z"), ("r", "b"): Wording("B")})
    (section,) = _rubrics(page, {"m": "A"})
    assert [question.title for question in section.questions] == ["Z", "B", "a"]


def test_equal_answers_of_a_line_are_joined_the_most_frequent_first() -> None:
    def answered(rater: str, answer: str | None, status: str = "ok") -> PictureRating:
        return PictureRating(rater, "q", answer, status)

    ratings = [answered("a", "x"), None, answered("b", "y"), answered("c", "y"), answered("d", None, "refused"),
               answered("e", None, "error")]  # fmt: skip
    joined = by_answer(ratings)
    assert [(first.rater, [one.rater for one in group]) for first, group in joined] == [
        ("b", ["b", "c"]), ("a", ["a"]), ("d", ["d"]), ("e", ["e"])
    ]  # fmt: skip
