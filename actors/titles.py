"""Finding search terms in page titles (Century, appendix E: the title contains the phrase, without case)."""

from collections.abc import Iterable, Sequence

SEPARATOR = "\0"  # between titles that are matched at once: neither cased nor case-ignorable, so folding stops at it


def fold(text: str) -> str:
    """What is compared: `str.lower` of the stripped text, the paper's rule, on both sides."""
    return text.strip().lower()


class TitleMatcher:
    """All terms that a title contains, in one pass over the title (Aho-Corasick).

    Terms are folded; empty ones and those equal after folding count once. Building takes about 1 s per
    100,000 terms.

    Raises:
        ValueError: no term is left.
    """

    def __init__(self, terms: Iterable[str]) -> None:
        import ahocorasick_rs

        self.terms: Sequence[str] = sorted({folded for term in terms if (folded := fold(term))})
        if not self.terms:
            raise ValueError("no search terms: every term is empty")
        self._automaton = ahocorasick_rs.AhoCorasick(self.terms)
        # such a term would be found across two titles
        self._one_by_one = any(SEPARATOR in term for term in self.terms)

    def match(self, title: str) -> list[str]:
        """The folded terms that occur in `title`, sorted; overlapping ones included."""
        hits = self._automaton.find_matches_as_indexes(title.lower(), overlapping=True)
        return sorted({self.terms[index] for index, _, _ in hits}) if hits else []

    def match_joined(self, titles: str) -> dict[int, list[str]]:
        """The terms that occur in each of the titles joined by `SEPARATOR`: index of the title -> its terms.

        Titles without a term are not in it. No title holds the separator. `str.lower` looks at a letter's neighbours
        (final sigma) and takes the separator for what it takes the end of a text for.
        """
        if self._one_by_one:
            return {number: terms for number, one in enumerate(titles.split(SEPARATOR)) if (terms := self.match(one))}
        folded = titles.lower()
        hits = self._automaton.find_matches_as_indexes(folded)
        if not hits:
            return {}
        # Not overlapping, in order of place: enough to say which titles hold something.
        numbers: set[int] = set()
        number = done = 0
        for _, start, _ in hits:
            number += folded.count(SEPARATOR, done, start)
            done = start
            numbers.add(number)
        each = titles.split(SEPARATOR)
        return {number: self.match(each[number]) for number in sorted(numbers)}
