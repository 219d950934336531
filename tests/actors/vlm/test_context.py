"""Truncation of context: the score is kept, the rows name what was cut, and a prompt that can fit does."""

from collections.abc import Callable, Mapping

import pytest

from actors.vlm import context
from tests.cases import check_cases


class Words:
    """A tokenizer whose tokens are words."""

    def as_data(self, text: str) -> str:
        return text

    def token_starts(self, text: str) -> list[int]:
        return [place for place in range(len(text)) if place == 0 or text[place - 1] == " "]


ITEM = {"title": "a b", "article": "c d e f g h", "caption": "i j k"}
FIELDS = ("title", "article", "caption")


def fitted(
    make: Callable[[Mapping[str, str]], int], *, limit: int | None = None, first: tuple[str, ...] = ("article",)
) -> tuple[dict[str, str], list[str] | None, int]:
    """Return the context that is kept, the fields that were cut, and the number of prompts made."""
    created: list[dict[str, str]] = []

    def build(texts: dict[str, str]) -> tuple[dict[str, str], int]:
        created.append(texts)
        return texts, make(texts)

    texts, cut = context.fitted(ITEM, build, fields=FIELDS, first=first, limit=limit, by=Words())
    return texts, cut, len(created)


def words_of(texts: Mapping[str, str]) -> int:
    return sum(len(text.split()) for text in texts.values())


def test_a_context_that_fits_is_whole_and_the_prompt_is_rendered_once() -> None:
    assert fitted(lambda texts: 0) == (ITEM, None, 1)
    assert fitted(lambda texts: 0, limit=11) == (ITEM, None, 1)


def test_the_fields_to_cut_first_lose_their_ends_and_are_named_in_the_order_of_the_fields() -> None:
    texts, cut, _ = fitted(lambda texts: 0, limit=9)
    assert (texts, cut) == (ITEM | {"article": "c d e f "}, ["article"])
    texts, cut, _ = fitted(lambda texts: 0, limit=3)  # then the others, from the last to the first
    assert (texts, cut) == ({"title": "a b", "article": "", "caption": "i "}, ["article", "caption"])


def test_a_prompt_that_is_too_long_is_cut_by_as_much_as_it_exceeds() -> None:
    texts, cut, output = fitted(lambda texts: words_of(texts) - 7)
    assert (texts["article"], cut, output) == ("c d ", ["article"], 2)


def test_what_is_cut_may_shorten_the_prompt_by_less_or_more() -> None:
    """A part may not show a field, or show it twice; as long as the rest fits, the prompt does."""

    def check(weight: float) -> None:
        texts, cut, output = fitted(
            lambda texts: round(weight * len(texts["article"].split())) + len(texts["title"]) - 2
        )
        assert round(weight * len(texts["article"].split())) + len(texts["title"]) <= 2
        assert output <= context.CUTS + 1
        assert cut == [field for field in FIELDS if texts[field] != ITEM[field]]

    check_cases(check, [0, 0.3, 1, 2])


def test_each_attempt_cuts_twice_as_much_and_the_last_all() -> None:
    kept = []

    def build(texts: dict[str, str]) -> tuple[None, int]:
        kept.append(words_of(texts))
        return None, 1

    context.fitted({"a": "x " * 99 + "x"}, build, fields=("a",), first=(), limit=None, by=Words())
    assert kept == [100, 99, 97, 93, 85, 69, 0]
    kept.clear()
    context.fitted({"a": "x " * 4 + "x"}, build, fields=("a",), first=(), limit=None, by=Words())
    assert kept == [5, 4, 2, 0]


def test_positions_that_are_left_for_a_prompt() -> None:
    def check(positions: int | None, answer: int, budget: int | None) -> None:
        assert context.token_budget(positions, answer) == budget

    check_cases(check, [(None, 9, None), (100, 9, 91), (100, 25, 75), (100, 26, 75)])


def test_options() -> None:
    context.check_options(1)
    context.check_options(None, "skip")
    for options in ((0,), (None, "none")):
        with pytest.raises(ValueError, match=r"max_context_tokens=0|empty_context=none"):
            context.check_options(*options)


def test_empty_context() -> None:
    assert context.is_empty({"title": " ", "article": None}, ("title", "article", "caption"))
    assert not context.is_empty({"title": " ", "article": "x"}, ("title", "article"))
    assert not context.is_empty({}, ())


def test_a_prompt_that_does_not_fit_without_context_is_returned_without_it() -> None:
    texts, cut, output = fitted(lambda texts: 1)
    assert (set(texts.values()), cut) == ({""}, list(FIELDS))
    assert output <= context.CUTS + 1
