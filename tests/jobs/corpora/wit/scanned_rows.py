"""Rows of WIT files that tests write, and what scanning them gives."""

import random
from pathlib import Path
from typing import Any

import pytest

from actors.titles import SEPARATOR, TitleMatcher
from jobs.corpora.corpus import MatchedRow, TitleSearch
from jobs.corpora.wit import csv_rows, reader
from jobs.corpora.wit.reader import scan_file
from jobs.store.counts import Counts
from jobs.store.writer import Reject

NARROW = list(reader.NEEDED)


HEADER = "\t".join(NARROW) + "\n"


class Every(TitleMatcher):
    """Every title holds a term."""

    def __init__(self) -> None:
        super().__init__(["x"])

    def match(self, title: str) -> list[str]:
        return ["x"]

    def match_joined(self, titles: str) -> dict[int, list[str]]:
        return {number: ["x"] for number in range(titles.count(SEPARATOR) + 1)}


class Scanned:
    """The rows of a file by outcome; raises unless they balance."""

    def __init__(self, path: Path, language: str | None = None, *, csv_alone: bool = False) -> None:
        self.counts, self.rejects = Counts(), list[Reject]()
        self.hits: list[MatchedRow] = []
        arguments: Any = {"language": language, "matcher": Every(), "counts": self.counts, "reject": self._reject}
        if csv_alone:
            with csv_rows.open_rows(str(path)) as rows_reader:
                self.hits.extend(reader._Scan(str(path), TitleSearch(**arguments)).parsed(rows_reader, 0, ""))
            self.counts.tallies.clear()
        else:
            self.hits.extend(scan_file(str(path), TitleSearch(**arguments)))
        self.counts.rows_out = len(self.hits)
        assert self.counts.balances()

    def _reject(self, reject: Reject) -> None:
        self.counts.rejected[reject.reason] += 1
        self.rejects.append(reject)

    @property
    def titles(self) -> list[str | None]:
        return [hit.fields["page_title"] for hit in self.hits]

    @property
    def reasons(self) -> list[str]:
        return [reject.reason for reject in self.rejects]


def row(title: str, language: str = "en") -> str:
    return f"{language}\thttp://p\thttps://i\t{title}\ttrue\n"


def scan(tmp_path: Path, content: str | bytes, name: str = "f.tsv", *, language: str | None = None) -> Scanned:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return Scanned(path, language)


def set_chunk(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    for module in (reader, csv_rows):
        monkeypatch.setattr(module, "CHUNK", size)


def many(n: int = 3000) -> tuple[list[str], bytes]:
    """Titles that compress badly, and the file that holds them."""
    rng = random.Random(7)
    titles = [f"{i} {rng.random()}" for i in range(n)]
    return titles, (HEADER + "".join(map(row, titles))).encode()
