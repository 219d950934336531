"""The title holds the phrase, without case: as a plain loop finds it, whatever the mode and the folding."""

import re
import sys
import unicodedata
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.titles import CASES, COMPOSITIONS, MATCHES, Fold, TitleMatcher
from tests.cases import check_cases

FOLDS = [Fold(case=c, compose=f, dashes=d) for c, f, d in product(CASES, [None, *COMPOSITIONS], [False, True])]
NASTY = "aAbB İIiıßẞΣσςſﬁéÉe\u0301\u0345\u00a0戦Ａａ²-–−_.*😀\u1fb3\u0390'"


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


def test_letters_beyond_ascii() -> None:
    cases = [
        ("Straße", "die STRASSE", False),  # lower() and not casefold(), as in the paper
        ("İstanbul", "İSTANBUL", True),
        ("ÉTÉ 36", "l'été 36", True),
        ("戦争", "太平洋戦争", True),
        ("a b", "a\u00a0b", False),
        ("e\u0301t", "ét", False),
        ("1914–18", "1914-18", False),
    ]

    def check(term: str, title: str, result: bool) -> None:
        assert bool(TitleMatcher([term]).match(title)) is result

    check_cases(check, cases)


def test_a_fold_makes_equal_what_it_says() -> None:
    cases = [
        (Fold(case="casefold"), "Straße", "STRASSE"),
        (Fold(case="casefold"), "ὈΔΥΣΣΕΎΣ", "Ὀδυσσεύσ"),
        (Fold(compose="NFC"), "e\u0301te\u0301", "Été"),
        (Fold(compose="NFKC"), "film", "ﬁlm"),
        (Fold(compose="NFKC"), "War 2", "Ｗａｒ ２"),
        (Fold(dashes=True), "1914–18", "1914-18"),
        (Fold(dashes=True), "Austro-Hungary", "Austro‑Hungary"),
        (Fold(case="casefold", compose="NFC", dashes=True), "STRASSE—E\u0301", "straße-é"),
    ]

    def check(match: str, fold: Fold, term: str, title: str) -> None:
        assert TitleMatcher([term], match=match, fold=fold).match(title)
        assert not TitleMatcher([term], match=match).match(title)

    check_cases(check, [(match, *case) for match in MATCHES for case in cases])


@pytest.mark.parametrize("fold", [f for f in FOLDS if f.compose != "NFC" or f.dashes][1::3], ids=str)
def test_folding_twice_is_folding_once_for_every_letter(fold: Fold) -> None:
    letters = [c for c in map(chr, range(sys.maxunicode + 1)) if c != c.casefold() or unicodedata.decomposition(c)]
    assert [letter for letter in letters if fold(fold(letter)) != fold(letter)] == []


@given(text=st.text(NASTY, max_size=8) | st.text(max_size=8), fold=st.sampled_from(FOLDS))
def test_folding_is_done_once_and_for_all(text: str, fold: Fold) -> None:
    assert fold(fold(text)) == fold(text)
    if fold.compose:
        assert len({fold(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}) == 1


@given(titles=st.lists(st.text(NASTY, max_size=6), min_size=1, max_size=6), fold=st.sampled_from(FOLDS))
def test_joined_titles_fold_as_each_alone(titles: list[str], fold: Fold) -> None:
    assert fold("\0".join(titles)).split("\0") == [fold(title) for title in titles]


@pytest.mark.parametrize("terms", [[], ["", " "]])
def test_no_term_is_refused(terms: list[str]) -> None:
    with pytest.raises(ValueError, match="no search terms"):
        TitleMatcher(terms)


def test_unknown_words_are_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"match=prefix: .*substring, word, exact"):
        TitleMatcher(["a"], match="prefix")
    with pytest.raises(ValueError, match=r"case=upper: .*lower, casefold"):
        Fold(case="upper")
    with pytest.raises(ValueError, match=r"compose=NFD: .*NFC, NFKC"):
        Fold(compose="NFD")


def plainly(terms: list[str], title: str, match: str, fold: Fold) -> list[str]:
    """Return the terms that a loop finds."""
    folded, result = fold(title), []
    for term in sorted({fold(t).strip() for t in terms} - {""}):
        places = [m.start() for m in re.finditer(f"(?={re.escape(term)})", folded)]
        if match == "exact":
            hit = folded.strip() == term
        elif match == "word":
            hit = any(not (joins(folded, at) or joins(folded, at + len(term))) for at in places)
        else:
            hit = bool(places)
        if hit:
            result.append(term)
    return result


def joins(text: str, at: int) -> bool:
    """Return whether the characters on both sides of `at` belong to one word."""
    pair = text[at - 1 : at + 1] if at else ""
    return len(pair) == 2 and all(c.isalnum() or c == "_" or unicodedata.category(c).startswith("M") for c in pair)


WORDS = st.text(NASTY, max_size=4)


@given(
    terms=st.lists(WORDS, max_size=8),
    titles=st.lists(st.text(NASTY, max_size=14), min_size=1, max_size=5),
    match=st.sampled_from(MATCHES),
    fold=st.sampled_from(FOLDS),
)
def test_a_plain_loop_finds_the_same(terms: list[str], titles: list[str], match: str, fold: Fold) -> None:
    terms = [*terms, titles[0], "zzz"]
    matcher = TitleMatcher(terms, match=match, fold=fold)
    expected = [plainly(terms, title, match, fold) for title in titles]
    assert [matcher.match(title) for title in titles] == expected
    by_title = {number: result for number, result in enumerate(expected) if result}
    assert matcher.match_joined("\0".join(titles)) == matcher.match_all(titles) == by_title


def test_a_title_that_contains_the_separator_keeps_the_numbers_of_the_others() -> None:
    matcher = TitleMatcher(["war", "tower"], match="substring", fold=Fold())
    assert matcher.match_all(["a\0b", "war", "peace", "tower\0war"]) == {1: ["war"], 3: ["tower", "war"]}
    assert list(matcher.match_all(["war", "peace", "tower"])) == [0, 2]
    assert matcher.match_all([]) == {}


@pytest.mark.parametrize("match", MATCHES)
def test_a_term_that_contains_the_separator_hides_no_other(match: str) -> None:
    """Between the two titles it would be found first, and its last letter begins the other term."""
    matcher = TitleMatcher(["r\0w", "work"], match=match)
    assert matcher.match_joined("war\0work") == {1: ["work"]}
    assert matcher.match_all(["r\0w", "work"]) == {0: ["r\0w"], 1: ["work"]}


def test_a_word_stands_alone() -> None:
    cases = [
        ("Pain", True),
        ("the pain's end", True),
        ("Spain", False),
        ("painful", False),
        ("Spain and pain", True),
        ("pain_2", False),
        ("x-pain.", True),
        ("pain\u0301", False),
        ("痛pain", False),
    ]

    def check(title: str, word: bool) -> None:
        assert bool(TitleMatcher(["pain"], match="word").match(title)) is word
        assert (TitleMatcher(["pain"]).inside_words(title, ["pain"]) == []) is word

    check_cases(check, cases)


def test_a_term_that_ends_in_a_sign_is_a_word_in_every_position() -> None:
    assert TitleMatcher(["(film)", "war!"], match="word").match("cold war!(film)x") == ["(film)", "war!"]


def test_exact_is_the_whole_title() -> None:
    matcher = TitleMatcher(["Siege of Acre", "acre"], match="exact")
    assert matcher.match(" siege of ACRE ") == ["siege of acre"]
    assert matcher.match("the siege of Acre") == []
    assert matcher.match_joined("x\0 Acre\0Acres") == {1: ["acre"]}


def test_a_thousand_nested_terms() -> None:
    terms = ["a" * n for n in range(1, 200)]
    assert len(TitleMatcher(terms).match("a" * 150)) == 150
    assert TitleMatcher(terms, match="word").match("a" * 150) == ["a" * 150]


def test_a_term_that_overlaps_itself_is_looked_for_at_every_place() -> None:
    matcher = TitleMatcher(["a a"])
    assert matcher.match("ba a a") == ["a a"]
    assert matcher.inside_words("ba a a", ["a a"]) == []  # its second place is a separate word
    assert matcher.inside_words("ba a b", ["a a"]) == ["a a"]


def test_every_dash_equals_the_hyphen() -> None:
    dashes = {character for character in map(chr, range(0x10000)) if unicodedata.category(character) == "Pd"}
    folded = {character: Fold(dashes=True)(f"a{character}b") for character in dashes | {"\u2212"}}
    rare = "\u1400\u1806\u2e17\u2e1a\u2e40\u2e5d\u301c\u3030\u30a0\ufe31\ufe32"
    assert {character for character, text in folded.items() if text != "a-b"} == set(rare)
    assert Fold()("a\u2013b") == "a\u2013b"
