"""Names of entities in free text: the lemmas and titles of a knowledge base that occur in a text."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from actors.untrusted import text_lines
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource

_WORD = re.compile(r"[^\W_]+")
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.)])\s+")


class NamedNode(NamedTuple):
    """A node with the lemma or title that was found, and its position among the node's names, from 0."""

    place: int
    node_id: str
    lemma: str


class NameMatch(NamedTuple):
    """A node whose name occurs in a text.

    Attributes:
        node_id: the node.
        lemma: its lemma or title.
        share: number of words of the lemma / number of words of the line that contains it.
    """

    node_id: str
    lemma: str
    share: float


def words_of(text: str) -> list[str]:
    """Return the words of a text without case, accents and punctuation; underscores separate words, as in WordNet."""
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    plain = "".join(char for char in decomposed if not unicodedata.combining(char))
    return _WORD.findall(plain)


def lines_of(text: str, most: int) -> list[list[str]]:
    """Return the words of the first `most` lines with words, without list markers."""
    lines = (words_of(_LIST_MARK.sub("", line)) for line in text_lines(text))
    return [words for words in lines if words][:most]


def spans(count: int, longest: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last + 1 of every run of at most `longest` of `count` words, longest first."""
    for length in range(min(count, longest), 0, -1):
        for first in range(count - length + 1):
            yield first, first + length


def phrase_hashes(texts: Iterable[str], *, lines: int, longest: int) -> Hashes:
    """Return the distinct hashes of all runs of words in texts (see `hash_texts`)."""
    phrases = {
        " ".join(words[first:last])
        for text in texts
        for words in lines_of(text, lines)
        for first, last in spans(len(words), longest)
    }
    return np.unique(hash_texts(sorted(phrases)))


class LemmaIndex:
    """The nodes of a knowledge base by the words of their lemmas and titles, in all languages.

    Reads the table `nodes` once; memory holds the wanted names.

    Args:
        nodes: the table.
        wanted: hashes of words joined by spaces (`phrase_hashes`).
    """

    def __init__(self, nodes: TableSource, wanted: Hashes) -> None:
        self._nodes: dict[str, set[NamedNode]] = defaultdict(set)
        for batch in nodes.batches(["node_id", "lemmas", "titles"]):
            names = [entry for row in batch.to_pylist() for entry in _names(row)]
            keys = [" ".join(words_of(entry.lemma)) for entry in names]
            is_wanted = np.isin(hash_texts(pa.array(keys, pa.string())), wanted)
            for number in np.flatnonzero(is_wanted).tolist():
                self._nodes[keys[number]].add(names[number])

    def __len__(self) -> int:
        """Return the number of distinct wanted names that exist."""
        return len(self._nodes)

    def nodes(self, key: str) -> list[NamedNode]:
        """Return the nodes with a name of these words: first those for which it is the first name, then by id."""
        return sorted(self._nodes.get(key, ()))

    def matches(self, text: str, *, lines: int, longest: int) -> list[NameMatch]:
        """Return the nodes whose names occur in a text, best first, each once.

        Lines are in order; within a line longer names come first, and the words of a longer name do not count again.

        Args:
            lines: number of lines to search.
            longest: number of words of the longest name.
        """
        best: dict[str, NameMatch] = {}
        for words in lines_of(text, lines):
            taken: set[int] = set()
            for first, last in spans(len(words), longest):
                if taken.intersection(range(first, last)):
                    continue
                if nodes := self.nodes(" ".join(words[first:last])):
                    taken.update(range(first, last))
                    for node in nodes:
                        share = (last - first) / len(words)
                        best.setdefault(node.node_id, NameMatch(node.node_id, node.lemma, share))
        return list(best.values())


def _names(row: dict[str, object]) -> Iterator[NamedNode]:
    node = str(row["node_id"])
    for _, title in row["titles"] or ():  # type: ignore[attr-defined]
        yield NamedNode(0, node, title)
    for _, lemmas in row["lemmas"] or ():  # type: ignore[attr-defined]
        for place, lemma in enumerate(lemmas or ()):
            yield NamedNode(place, node, lemma)
