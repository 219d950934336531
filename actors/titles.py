"""Find search terms in page titles (Century, appendix E: the title contains the phrase, regardless of case)."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from actors.errors import SettingError

LONGEST_TERM = 1000  # characters: the time to search for a term of a repeated character grows with its square
SEPARATOR = "\0"  # joins titles; neither cased nor combining, so folding treats it as the end of a text
MATCHES = ("substring", "word", "exact")
CASES = ("lower", "casefold")
COMPOSITIONS = ("NFC", "NFKC")
_Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
_FORMS: dict[str, tuple[_Form, _Form]] = {"NFC": ("NFD", "NFC"), "NFKC": ("NFKD", "NFKC")}  # decomposed, composed
# Unicode's dash punctuation and the minus sign become the ASCII hyphen.
_DASHES = {ord(c): "-" for c in "\u058a\u05be\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d"}


@dataclass(frozen=True)
class Fold:
    """The normalisation of terms and titles before they are compared.

    Attributes:
        case: `lower`, the paper's rule (str.lower), or `casefold`, which also takes ß for ss and ς for σ.
        compose: None, or a Unicode form. With `NFC` a letter and its accent equal the accented letter however they
            are encoded; with `NFKC` ligatures, full-width and superscript forms also equal their plain letters.
        dashes: whether every dash and the minus sign equal the hyphen.

    Raises:
        ValueError: a value is not allowed; the message begins with KEY=VALUE.
    """

    case: str = "lower"
    compose: str | None = None
    dashes: bool = False

    def __post_init__(self) -> None:
        if self.case not in CASES:
            raise SettingError(f"must be one of {', '.join(CASES)}", "case", self.case)
        if self.compose is not None and self.compose not in COMPOSITIONS:
            raise SettingError(f"must be one of {', '.join(COMPOSITIONS)}, or null", "compose", self.compose)

    def __call__(self, text: str) -> str:
        """Return `text` folded; folding is idempotent, and joined texts fold like each of them alone."""
        if text.isascii():
            return text.lower()
        decomposed, composed = _FORMS.get(self.compose or "", (None, None))
        if decomposed:  # letters are folded without their accents: otherwise the order of the two steps would matter
            text = unicodedata.normalize(decomposed, text)
        text = text.casefold() if self.case == "casefold" else text.lower()
        if composed:
            text = unicodedata.normalize(composed, text)
        return text.translate(_DASHES) if self.dashes else text

    def whole(self, text: str) -> str:
        """Return `text` folded, without surrounding white space."""
        return self(text).strip()


class TitleMatcher:
    """Finder of all terms that a title contains, including nested and overlapping ones.

    Terms are folded; empty terms are dropped, and terms that are equal after folding count once. Building the matcher
    takes about 1 s per 100,000 terms (Aho-Corasick), and no time for `exact`.

    Args:
        match: `substring`; `word`: no word of the title continues across either end of the term (words consist of
            letters, digits, marks and underscores, so few terms match in scripts without spaces); `exact`: the title
            is the term.

    Raises:
        ValueError: no term is left, or `match` is unknown.
    """

    def __init__(self, terms: Iterable[str], *, match: str = "substring", fold: Fold | None = None) -> None:
        if match not in MATCHES:
            raise SettingError(f"must be one of {', '.join(MATCHES)}", "match", match)
        self._fold, self._mode = fold or Fold(), match
        self.terms: Sequence[str] = sorted({folded for term in terms if (folded := self._fold.whole(term))})
        if not self.terms:
            raise ValueError("no search terms: all terms are empty")
        # such a term could match across two titles
        self._one_by_one = any(SEPARATOR in term for term in self.terms)
        if match == "exact":
            self._exact = frozenset(self.terms)
        else:
            import ahocorasick_rs

            self._automaton = ahocorasick_rs.AhoCorasick(self.terms)

    def match(self, title: str) -> list[str]:
        """Return the folded terms that `title` contains, sorted."""
        folded = self._fold(title)
        if self._mode == "exact":
            whole = folded.strip()
            return [whole] if whole in self._exact else []
        hits = self._automaton.find_matches_as_indexes(folded, overlapping=True)
        if self._mode == "word":
            hits = [hit for hit in hits if _is_word(folded, hit[1], hit[2])]
        return sorted({self.terms[index] for index, _, _ in hits}) if hits else []

    def match_joined(self, titles: str) -> dict[int, list[str]]:
        """Return the terms in titles joined by `SEPARATOR`, by index of the title; titles without a term are left out.

        No title may contain the separator. Folding depends on a letter's neighbours (final sigma, accents) and treats
        the separator like the end of a text.
        """
        if self._one_by_one:
            return {
                number: terms for number, title in enumerate(titles.split(SEPARATOR)) if (terms := self.match(title))
            }
        folded = self._fold(titles)
        if self._mode == "exact":
            numbered = enumerate(title.strip() for title in folded.split(SEPARATOR))
            return {number: [title] for number, title in numbered if title in self._exact}
        hits = self._automaton.find_matches_as_indexes(folded)
        if not hits:
            return {}
        # Without overlaps, in order of position: enough to find the titles that may contain a term.
        numbers: set[int] = set()
        number = previous = 0
        for _, start, _ in hits:
            number += folded.count(SEPARATOR, previous, start)
            previous = start
            numbers.add(number)
        separate = titles.split(SEPARATOR)
        matches = ((number, self.match(separate[number])) for number in sorted(numbers))
        return {number: terms for number, terms in matches if terms}

    def match_all(self, titles: Sequence[str]) -> dict[int, list[str]]:
        """Return the terms in `titles`, by index of the title; titles without a term are left out."""
        joined = SEPARATOR.join(titles)
        if not titles or joined.count(SEPARATOR) == len(titles) - 1:
            return self.match_joined(joined)
        return {number: terms for number, title in enumerate(titles) if (terms := self.match(title))}

    def inside_words(self, title: str, terms: Iterable[str]) -> list[str]:
        """Return the `terms` that `title` contains only inside longer words (pain in Spain)."""
        folded = self._fold(title)
        return [
            term for term in terms if not any(_is_word(folded, at, at + len(term)) for at in _positions(folded, term))
        ]


def _positions(text: str, part: str) -> Iterable[int]:
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + 1)


def _is_word(text: str, start: int, end: int) -> bool:
    """Return whether no word continues across `start` or `end`."""
    return not (
        (start > 0 and _is_word_character(text[start - 1]) and _is_word_character(text[start]))
        or (end < len(text) and _is_word_character(text[end - 1]) and _is_word_character(text[end]))
    )


@lru_cache(maxsize=4096)
def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"
