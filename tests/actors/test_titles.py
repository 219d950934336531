"""The title contains the phrase, without case: as a plain loop finds it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.titles import TitleMatcher, fold


def test_overlapping_and_nested_terms_are_all_found() -> None:
    matcher = TitleMatcher(["War", "World War", "world war ii", "ar i", "peace"])
    assert matcher.match("The World War II museum") == ["ar i", "war", "world war", "world war ii"]
    assert matcher.match("warped") == ["war"]  # contains, not a whole word: the paper's rule
    assert matcher.match("") == []
    assert matcher.match("nothing") == []


def test_terms_are_stripped_folded_and_counted_once() -> None:
    matcher = TitleMatcher([" War ", "war", "WAR", "", "  "])
    assert list(matcher.terms) == ["war"]
    assert matcher.match("WAR war War") == ["war"]


@pytest.mark.parametrize(
    ("term", "title", "found"),
    [
        ("Straße", "die STRASSE", False),  # lower() and not casefold(), as in the paper
        ("İstanbul", "İSTANBUL", True),
        ("ÉTÉ 36", "l'été 36", True),
        ("戦争", "太平洋戦争", True),
        ("a b", "a\u00a0b", False),
        ("e\u0301t", "ét", False),
    ],
)
def test_letters_beyond_ascii(term: str, title: str, found: bool) -> None:
    assert bool(TitleMatcher([term]).match(title)) is found


@pytest.mark.parametrize("terms", [[], ["", " "]])
def test_no_term_is_refused(terms: list[str]) -> None:
    with pytest.raises(ValueError, match="no search terms"):
        TitleMatcher(terms)


WORDS = st.text("aAbB İßΣσς戦😀 .*", max_size=5)


@given(terms=st.lists(WORDS, max_size=8), title=st.text("aAbB İßΣσς戦😀 .*", max_size=20))
def test_a_plain_loop_finds_the_same(terms: list[str], title: str) -> None:
    expected = sorted({fold(t) for t in terms if fold(t) and fold(t) in title.lower()})
    assert TitleMatcher([*terms, "zzz"]).match(title) == expected
