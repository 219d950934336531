"""Worker of `mine`: reads one file of a corpus and writes the records that match."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.ids import content_id
from actors.titles import Fold, TitleMatcher
from jobs.corpora.corpus import Corpus, MatchedRow, TitleSearch
from jobs.corpora.terms import unpack
from jobs.corpora.wit import reader, wit_base
from jobs.corpora.wit.reader import split_of
from jobs.runtime.board import Reporter
from jobs.runtime.selection import exclusions
from jobs.store.files import locations
from jobs.store.writer import UnitTask, UnitWriter
from jobs.tables import TABLES, WIT_COLUMNS

CORPORA: Mapping[str, Corpus] = {"wit": reader, "wit_base": wit_base}  # by corpus.name
ROWS_AT_A_TIME = 1000  # matched rows held before they are written: a few MB of article text
TERMS_COUNTED = 1000  # number of the most frequent terms whose counts are in a unit's footer


class MineUnit:
    """Reads one file and writes the records that match; each actor builds the matcher once.

    With a limit, it reads until the file has yielded that many records.

    Args:
        terms: URI of the packed terms (`jobs.corpora.terms.pack`).
        excluded: URI of the list of exclusions; None without a list.
        match: see `TitleMatcher`.
        corpus: a name of `CORPORA`.
        language: language of the rows; None: any.
        step: compressed bytes per unit of progress.
    """

    def __init__(
        self, *, terms: str, excluded: str | None, match: str, fold: Fold, corpus: str, language: str | None, step: int
    ) -> None:
        # Arrow's own allocator keeps the memory of a file's rows: 6 of a worker's 244 MB.
        pa.set_memory_pool(pa.system_memory_pool())
        self._sources = unpack(locations.read_bytes(terms))
        self._excluded = exclusions.load(excluded)
        self._matcher, self._is_substring = TitleMatcher(self._sources, match=match, fold=fold), match == "substring"
        self._corpus, self._language, self._step = CORPORA[corpus], language, step
        self._bytes_left = 0  # bytes read but not reported yet, less than a step

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Write the records of the file; count hits by term, and hits inside longer words for match=substring."""
        uri = task.unit.inputs[0].uri
        repeats: Counter[str] = Counter()
        hits: Counter[str] = Counter()
        inside: Counter[str] = Counter()
        records: list[dict[str, Any]] = []
        kept = 0

        def progress(size: int, rows: int) -> None:
            steps, self._bytes_left = divmod(size + self._bytes_left, self._step)
            report.add(steps, rows=rows)

        search = TitleSearch(self._language, self._matcher, writer.counts, writer.reject, progress)
        for row in self._corpus.scan_file(uri, search):
            record = record_of(uri, row, self._sources, repeats)
            if self._excluded.hit(record["image_id"], record["image_url"]):
                writer.counts.filtered["excluded"] += 1
                continue
            records.append(record)
            kept += 1
            hits.update(row.terms)
            if self._is_substring:
                inside.update(self._matcher.inside_words(row.fields["page_title"] or "", row.terms))
            report.add(0, matched=1)
            if len(records) >= ROWS_AT_A_TIME:
                _write(writer, records)
                records.clear()
            if kept == task.unit.limit:
                break
        if records:
            _write(writer, records)
        if kept == task.unit.limit:
            # The scan counts the rows of a buffer before it yields their hits, including rows after the limit, which do
            # not count.
            writer.counts.rows_in = kept + writer.counts.filtered.total() + writer.counts.rejected.total()
        frequent = dict(hits.most_common(TERMS_COUNTED))
        writer.counts.tallies["scanned_by"] = {self._corpus.scanner(): 1}
        writer.counts.tallies["term"] = frequent
        if frequent_inside := {term: n for term, n in inside.items() if term in frequent}:
            writer.counts.tallies["inside_word"] = frequent_inside
        exclusions.count(writer.counts, self._excluded.take_matched())


def record_of(uri: str, row: MatchedRow, sources: Mapping[str, Sequence[str]], repeats: Counter[str]) -> dict[str, Any]:
    """Return a row of the table `records`.

    Args:
        sources: term -> its sources, which become the record's methods.
        repeats: content -> equal rows of the file so far; updated, so that each of them has a separate id.
    """
    name = PurePosixPath(uri).name
    content = content_id(name, *(row.fields[c] or "" for c in WIT_COLUMNS))
    repeats[content] += 1
    return {
        "record_id": content if repeats[content] == 1 else content_id(content, str(repeats[content])),
        "image_id": content_id(row.fields["image_url"] or ""),
        **row.fields,
        "split": split_of(uri),
        "terms": row.terms,
        "methods": sorted({source for term in row.terms for source in sources[term]}),
    }


def _write(writer: UnitWriter, records: list[dict[str, Any]]) -> None:
    writer.write(schemas.to_table(records, TABLES["records"].schema()))
