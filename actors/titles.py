"""Finding search terms in page titles (Century, appendix E: the title contains the phrase, without case)."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

SEPARATOR = "\0"  # between titles that are matched at once: neither cased nor combining, so folding stops at it
MATCHES = ("substring", "word", "exact")
CASES = ("lower", "casefold")
COMPOSITIONS = ("NFC", "NFKC")
_Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
_FORMS: dict[str, tuple[_Form, _Form]] = {"NFC": ("NFD", "NFC"), "NFKC": ("NFKD", "NFKC")}  # taken apart, together
# Unicode's dash punctuation and the minus sign become the hyphen of the keyboard.
_DASHES = {ord(c): "-" for c in "\u058a\u05be\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d"}


@dataclass(frozen=True)
class Fold:
    """What is made of terms and titles alike before they are compared.

    Attributes:
        case: `lower`, the paper's rule (str.lower), or `casefold`, which also takes ß for ss and ς for σ.
        compose: None, or the Unicode form both are brought to. With `NFC` a letter and its accent count as the
            accented letter however they are encoded; with `NFKC` so do ligatures, full-width and superscript forms.
        dashes: whether every dash and the minus sign count as the hyphen.

    Raises:
        ValueError: another word than these.
    """

    case: str = "lower"
    compose: str | None = None
    dashes: bool = False

    def __post_init__(self) -> None:
        if self.case not in CASES:
            raise ValueError(f"case={self.case}: there are {', '.join(CASES)}")
        if self.compose is not None and self.compose not in COMPOSITIONS:
            raise ValueError(f"compose={self.compose}: there are {', '.join(COMPOSITIONS)}, or null for none")

    def __call__(self, text: str) -> str:
        """`text` folded; folding it again changes nothing, and joined texts fold as each alone."""
        if text.isascii():
            return text.lower()
        apart, together = _FORMS.get(self.compose or "", (None, None))
        if apart:  # case is taken from letters without their accents, or the order of the two would matter
            text = unicodedata.normalize(apart, text)
        text = text.casefold() if self.case == "casefold" else text.lower()
        if together:
            text = unicodedata.normalize(together, text)
        return text.translate(_DASHES) if self.dashes else text

    def whole(self, text: str) -> str:
        """`text` folded, without the white space around it."""
        return self(text).strip()


class TitleMatcher:
    """All terms that a title holds, nested and overlapping ones included.

    `match` says what holding means: `substring`; `word`, where no letter, digit, mark or underscore of the title may
    adjoin one at either end of the term (in writing without spaces few terms stand so); or `exact`, where the
    title is the term. Terms are folded; empty ones and those equal after folding count once. Building takes about 1 s
    per 100,000 terms (Aho-Corasick; nothing for `exact`).

    Raises:
        ValueError: no term is left, or no such `match`.
    """

    def __init__(self, terms: Iterable[str], *, match: str = "substring", fold: Fold | None = None) -> None:
        if match not in MATCHES:
            raise ValueError(f"match={match}: there are {', '.join(MATCHES)}")
        self._fold, self._mode = fold or Fold(), match
        self.terms: Sequence[str] = sorted({folded for term in terms if (folded := self._fold.whole(term))})
        if not self.terms:
            raise ValueError("no search terms: every term is empty")
        # such a term would be found across two titles
        self._one_by_one = any(SEPARATOR in term for term in self.terms)
        if match == "exact":
            self._known = frozenset(self.terms)
        else:
            import ahocorasick_rs

            self._automaton = ahocorasick_rs.AhoCorasick(self.terms)

    def match(self, title: str) -> list[str]:
        """The folded terms that `title` holds, sorted."""
        folded = self._fold(title)
        if self._mode == "exact":
            whole = folded.strip()
            return [whole] if whole in self._known else []
        hits = self._automaton.find_matches_as_indexes(folded, overlapping=True)
        if self._mode == "word":
            hits = [hit for hit in hits if _is_word(folded, hit[1], hit[2])]
        return sorted({self.terms[index] for index, _, _ in hits}) if hits else []

    def match_joined(self, titles: str) -> dict[int, list[str]]:
        """The terms that each of the titles joined by `SEPARATOR` holds: index of the title -> its terms.

        Titles without a term are not in it. No title holds the separator. Folding looks at a letter's neighbours
        (final sigma, accents) and takes the separator for what it takes the end of a text for.
        """
        if self._one_by_one:
            return {number: terms for number, one in enumerate(titles.split(SEPARATOR)) if (terms := self.match(one))}
        folded = self._fold(titles)
        if self._mode == "exact":
            each = enumerate(one.strip() for one in folded.split(SEPARATOR))
            return {number: [whole] for number, whole in each if whole in self._known}
        hits = self._automaton.find_matches_as_indexes(folded)
        if not hits:
            return {}
        # Not overlapping, in order of place: enough to say which titles may hold something.
        numbers: set[int] = set()
        number = done = 0
        for _, start, _ in hits:
            number += folded.count(SEPARATOR, done, start)
            done = start
            numbers.add(number)
        each_title = titles.split(SEPARATOR)
        found = ((number, self.match(each_title[number])) for number in sorted(numbers))
        return {number: terms for number, terms in found if terms}

    def match_all(self, titles: Sequence[str]) -> dict[int, list[str]]:
        """The terms that each of `titles` holds: its index -> its terms; titles without a term are not in it."""
        joined = SEPARATOR.join(titles)
        if not titles or joined.count(SEPARATOR) == len(titles) - 1:
            return self.match_joined(joined)
        return {number: terms for number, title in enumerate(titles) if (terms := self.match(title))}

    def inside_words(self, title: str, terms: Iterable[str]) -> list[str]:
        """Those of `terms`, which `title` holds, that stand nowhere in it as words of their own (pain in Spain)."""
        folded = self._fold(title)
        return [term for term in terms if not any(_is_word(folded, at, at + len(term)) for at in _places(folded, term))]


def _places(text: str, part: str) -> Iterable[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _is_word(text: str, start: int, end: int) -> bool:
    """Whether no word goes on across `start` or `end`."""
    return not (
        (start > 0 and _of_word(text[start - 1]) and _of_word(text[start]))
        or (end < len(text) and _of_word(text[end - 1]) and _of_word(text[end]))
    )


@lru_cache(maxsize=4096)
def _of_word(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"
