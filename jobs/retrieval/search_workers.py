"""Workers of `retrieve`: search one unit of the corpus for all queries, or the whole corpus for one unit of queries."""

import json
import os
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from actors.ids import content_id
from actors.search_queries import Queries, SearchSettings
from actors.searcher import BadRows, Search
from jobs.corpora.vectors import UnitVectors, VectorBlock, VectorLayout
from jobs.retrieval.queries import CORPUS_TALLY, NOT_FINITE, OUT_OF_RANGE, ZERO, Calibration, neighbors, read_queries
from jobs.runtime.board import Reporter
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files.spool import MachineCopy
from jobs.store.units import Unit
from jobs.store.writer import Reject, UnitTask, UnitWriter


@dataclass(frozen=True)
class SearchTask:
    """The settings of both workers."""

    search: SearchSettings
    layout: VectorLayout
    threads: int | None  # None: the CPUs of this process
    excluded: str | None  # URI of the list of exclusions


class _Searcher:
    """Base of both workers: the task, its threads, and the rejection of rows that cannot be scored."""

    def __init__(self, task: SearchTask) -> None:
        import torch

        # Ray sets OMP_NUM_THREADS to the requested logical CPUs, whatever the machine has.
        self._threads = task.threads or len(os.sched_getaffinity(0))
        torch.set_num_threads(self._threads)
        self._task = task
        self._excluded = exclusions.load(task.excluded)

    def _reject(self, writer: UnitWriter, unit: UnitVectors, places: Mapping[str, np.ndarray]) -> None:
        """Write bad rows (row numbers in the unit, by reason) to the rejects in order, and count them."""
        pairs = [(place, reason) for reason, bad in places.items() for place in bad.tolist()]
        for place, reason in sorted(pairs):
            file, row = unit.source(place)
            writer.reject(Reject(file, row, reason, f"row {row} cannot be scored; no query has it as a neighbour"))
            unit.counts[reason] += 1
            unit.counts["searched"] -= 1


class ScanUnit(_Searcher):
    """Worker that searches one unit of the corpus for all queries, held in memory, and writes their k best rows."""

    def __init__(self, task: SearchTask, *, queries: Sequence[Unit]) -> None:
        """Read the queries, which are units of tables `embeddings`."""
        super().__init__(task)
        units, vectors = zip(*(read_queries(unit, self._excluded) for unit in queries), strict=True)
        self._ids = pa.concat_arrays([unit.ids for unit in units])
        self._queries = Queries(np.concatenate(vectors), task.search)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Search one unit of the corpus and write its best rows for each query."""
        unit = UnitVectors(task.unit, self._task.layout, exclusion_filter=self._excluded)
        search = Search(self._queries, ids=unit.ids, threads=self._threads)
        for block in unit.blocks(search.block_rows):
            bad = search.add(block.vectors, block.places)
            self._reject(writer, unit, _by_reason(bad))
            report.add(len(block.places))
        report.add((task.unit.rows or 0) - unit.counts["searched"] - writer.counts.rejected.total())
        rows = neighbors(self._ids, search.finish(), None)
        writer.counts.rows_in = rows.num_rows + writer.counts.rejected.total()
        writer.counts.tallies[CORPUS_TALLY] = dict(unit.counts)
        exclusions.count(writer.counts, self._excluded.take_matched())
        writer.write(rows)


class SearchQueries(_Searcher):
    """Worker that searches the whole corpus, held in memory, for one unit of queries."""

    def __init__(
        self, task: SearchTask, *, corpus: Sequence[Unit], first: str, calibration: Calibration | None, shared: bool
    ) -> None:
        """Read the corpus.

        Args:
            first: the unit of queries that carries the corpus's counts and rejects.
            shared: whether several processes on a machine may search.
        """
        super().__init__(task)
        self._first, self._calibration = first, calibration
        corpus = sorted(corpus, key=lambda unit: unit.name)  # gives rejects the same order as a scan's units
        self._corpus = ResidentCorpus(corpus, task.layout, self._excluded, shared=shared)

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Search for one unit of queries and write its neighbours."""
        unit, vectors = read_queries(task.unit, self._excluded)
        settings = self._task.search
        search = Search(Queries(vectors, settings), ids=self._ids, threads=self._threads)
        bad: dict[str, list[np.ndarray]] = defaultdict(list)
        for block, places in self._corpus.blocks:
            for reason, rows in _by_reason(search.add(block, places)).items():
                bad[reason].append(rows)
        table = neighbors(unit.ids, search.finish(), self._calibration)
        if task.unit.name == self._first:
            self._count_corpus(writer, {reason: np.concatenate(places) for reason, places in bad.items()})
        unit.account(writer.counts, settings.k, table.num_rows)
        writer.write(table)
        report.add(unit.rows)

    def _ids(self, places: np.ndarray) -> list[str]:
        """Return the item ids of the corpus's rows, in the order of `places`."""
        ids = np.empty(len(places), object)
        starts = self._corpus.starts
        numbers = np.searchsorted(starts, places, "right") - 1
        for number in np.unique(numbers).tolist():
            inside = np.flatnonzero(numbers == number)
            ids[inside] = self._corpus.units[number].ids(places[inside] - starts[number])
        names: list[str] = ids.tolist()
        return names

    def _count_corpus(self, writer: UnitWriter, bad: Mapping[str, np.ndarray]) -> None:
        total: Counter[str] = Counter()
        starts = self._corpus.starts.tolist()
        for unit, start, end in zip(self._corpus.units, starts[:-1], starts[1:], strict=True):
            inside = {reason: places[(places >= start) & (places < end)] - start for reason, places in bad.items()}
            self._reject(writer, unit, inside)
            total += unit.counts
        writer.counts.tallies[CORPUS_TALLY] = dict(total)
        exclusions.count(writer.counts, self._corpus.matched)


def _by_reason(bad: BadRows) -> dict[str, np.ndarray]:
    return {NOT_FINITE: bad.not_finite, ZERO: bad.zero, OUT_OF_RANGE: bad.out_of_range}


BLOCK_ROWS = 1 << 18  # per block: several pieces of a search on a GPU, one copied while another is multiplied
ROOM = 1.5  # free space needed for a copy, as a multiple of the corpus's size, since tables are slightly compressed
ALIGNED = 64  # arrays begin at multiples of this number of bytes
_DATA, _BLOCKS = "data.bin", "blocks.json"


class ResidentCorpus:
    """All vectors in a corpus's units, with the numbers of their rows in the whole corpus.

    Attributes:
        units: readers of the units, whose `counts` are complete.
        starts: the number of each unit's first row, and of all rows.
        blocks: the rows to search.
        matched: number of rows that each mark of the exclusions matched.
    """

    def __init__(
        self, units: Sequence[Unit], layout: VectorLayout, exclusion_filter: ExclusionFilter, *, shared: bool
    ) -> None:
        """Read the corpus.

        Args:
            units: sorted by name.
            shared: whether to map a copy, which the first process on a machine writes to the temporary files, unless
                they lack room.
        """
        self.units = [UnitVectors(unit, layout, exclusion_filter=exclusion_filter) for unit in units]
        self.starts = np.concatenate([[0], np.cumsum([unit.rows or 0 for unit in units])]).astype(np.int64)
        self._filter = exclusion_filter
        size = sum({source.uri: source.size for unit in units for source in unit.inputs}.values())
        if shared and shutil.disk_usage(tempfile.gettempdir()).free > ROOM * size:
            sources = [json.dumps(unit.to_json(), sort_keys=True) for unit in units]
            name = content_id("corpus", repr(layout), exclusion_filter.fingerprint, *sources)
            self._copy = MachineCopy(name, self._fill)  # in use while this object exists
            self.blocks, self.matched = self._mapped(self._copy.path)
        else:
            self.blocks = [VectorBlock(block.vectors.copy(), block.places) for block in self._read()]
            self.matched = exclusion_filter.take_matched()

    def _read(self) -> Iterator[VectorBlock]:
        """Yield the blocks; each block's vectors are valid only until the next one."""
        for unit, start in zip(self.units, self.starts[:-1].tolist(), strict=True):
            for block in unit.blocks(BLOCK_ROWS):
                yield VectorBlock(block.vectors, block.places + start)

    def _fill(self, folder: Path) -> None:
        listed = []
        with (folder / _DATA).open("wb") as file:
            for block in self._read():
                entries = []
                for array in block:
                    file.write(bytes(-file.tell() % ALIGNED))
                    entries.append([file.tell(), array.dtype.str, array.shape])
                    file.write(np.ascontiguousarray(array).view(np.uint8).data)
                listed.append(entries)
        counts = [dict(unit.counts) for unit in self.units]
        description = {"blocks": listed, "counts": counts, "matched": self._filter.take_matched()}
        (folder / _BLOCKS).write_text(json.dumps(description), encoding="utf-8")

    def _mapped(self, folder: Path) -> tuple[list[VectorBlock], dict[str, int]]:
        description = json.loads((folder / _BLOCKS).read_text(encoding="utf-8"))
        for unit, counts in zip(self.units, description["counts"], strict=True):
            unit.counts = Counter(counts)
        if not description["blocks"]:
            return [], description["matched"]
        data = np.memmap(folder / _DATA, np.uint8, mode="r")
        blocks = [VectorBlock(*(_array(data, *entry) for entry in entries)) for entries in description["blocks"]]
        return blocks, description["matched"]


def _array(data: np.ndarray, begin: int, dtype: str, shape: Sequence[int]) -> Any:
    """Return the array at byte `begin` without copying it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return data[begin : begin + size].view(dtype).reshape(shape)
