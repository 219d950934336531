"""The interface that `mine` requires of a corpus: a module with the functions of `Corpus` (see also `CORPORA`)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from actors.titles import TitleMatcher
from jobs.store.counts import Counts
from jobs.store.files.objects import Object
from jobs.store.writer import Rejects


@dataclass(frozen=True)
class MatchedRow:
    """A row whose title matches.

    Attributes:
        fields: the values by WIT column (`jobs.tables.WIT_COLUMNS`); None for a column that the file lacks.
        terms: the folded terms that the title contains, sorted.
    """

    fields: dict[str, str | None]
    terms: list[str]


@dataclass(frozen=True)
class TitleSearch:
    """What the files of a corpus are searched for, and where the search of a file reports.

    Attributes:
        language: of the rows; None: any.
        matcher: finds the terms in a title.
        counts: `rows_in` and `filtered` (by `language` and `title`) are kept up to date, so that rows, filtered rows
            and rejects add up to the rows read.
        reject: called with input that cannot become a row, its position and the reason; counts it.
        progress: called with the compressed bytes and the rows read since its last call.
    """

    language: str | None
    matcher: TitleMatcher
    counts: Counts
    reject: Rejects
    progress: Callable[[int, int], None] | None = None


class Corpus(Protocol):
    """The functions of a module that reads a corpus."""

    def find_files(self, path: str) -> Sequence[Object]:
        """Return the files of a path, folder or glob; raise InputError if there are none."""

    def check_header(self, uri: str) -> None:
        """Raise InputError if the file cannot be read or lacks a required column; called for all files first."""

    def scan_file(self, uri: str, search: TitleSearch) -> Iterator[MatchedRow]:
        """Yield the rows of the language whose title contains a term, in file order."""

    def scanner(self) -> str:
        """Return the name of the method by which this process scans files; the run prints it."""
