"""A search's corpus in memory, either of one process or mapped from a copy that all processes of a machine share."""

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from actors.ids import content_id
from jobs.corpora.vectors import UnitVectors, VectorBlock, VectorLayout
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files.machine_copy import MachineCopy
from jobs.store.units import Unit

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
