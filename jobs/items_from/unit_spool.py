"""Spool of prepared rows in temporary files, one block per unit, with checks of duplicate ids and shared pictures."""

from array import array
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from jobs.errors import InputError
from jobs.items_from.input_rows import UserFile
from jobs.items_from.output import ITEMS, UnitRows
from jobs.items_from.row_items import ItemRow, record_of
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import hash_texts
from jobs.store.units import Unit, unit_of_file
from jobs.store.writer import REJECTS, Reject
from jobs.tables import TABLES

REJECTS_SHOWN = 3
GOLD = "gold"  # tally of the items whose right answers are known, or are not
SCHEMAS = {name: TABLES[name].schema() for name in ("records", "texts", ITEMS)} | {"rejects": REJECTS}


@dataclass
class _Block:
    """The rows of the unit being collected, and their counts."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in SCHEMAS})
    ids: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)  # pictures that become rows of `records`
    lines: list[int] = field(default_factory=list)
    excluded: int = 0
    tallies: dict[str, int] = field(default_factory=dict)


class UnitSpool:
    """Spool that collects items unit by unit in `folder`, and returns the rows of each unit later.

    It holds one unit, 16 bytes per item and 8 per picture in memory.

    Args:
        folder: the folder for temporary files.
        unit_rows: items per unit; the items of one row are never divided.
        exclusion_filter: the exclusions; items with an excluded picture are left out.
        records: whether pictures become records.
        gold: whether the file has right answers, so that items without them are counted.
    """

    def __init__(
        self, folder: Path, unit_rows: int, exclusion_filter: ExclusionFilter, *, records: bool, gold: bool = False
    ) -> None:
        self._folder, self._unit_rows, self._exclusion_filter = folder, unit_rows, exclusion_filter
        self._records, self._gold = records, gold
        self._block = _Block()
        self._counts: list[tuple[int, int, dict[str, int]]] = []  # by unit: items, excluded items, matched exclusions
        self._lines, self._ids, self._pictures = array("q"), array("Q"), array("Q")
        self._records_before = [0]  # number of records before each unit
        self._readers: dict[str, pa.ipc.RecordBatchFileReader] = {}
        self.first_rejects: list[Reject] = []  # to be printed
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._writers = {
            name: self._stack.enter_context(pa.ipc.new_file(self._path(name), schema))
            for name, schema in SCHEMAS.items()
        }
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stack.close()

    def _path(self, name: str) -> str:
        return str(self._folder / f"{name}.arrow")

    def reject(self, reject: Reject) -> None:
        """Add input that could not become an item to the unit being collected."""
        if len(self.first_rejects) < REJECTS_SHOWN:
            self.first_rejects.append(reject)
        self._block.rows["rejects"].append(asdict(reject))
        if len(self._block.rows["rejects"]) >= self._unit_rows:
            self._close_unit()

    def add(self, line: int, items: Sequence[ItemRow]) -> None:
        """Add the items of one row."""
        block = self._block
        for prepared in items:
            names = [name for picture in prepared.pictures for name in (picture.image_id, picture.name)]
            if self._exclusion_filter.hit(*names):
                block.excluded += 1
                continue
            block.ids.append(prepared.item["item_id"])
            block.lines.append(line)
            block.rows[ITEMS].append(prepared.item)
            block.rows["texts"] += prepared.texts
            if self._records:
                attributes = dict(prepared.item["attributes"])
                block.rows["records"] += [
                    record_of(picture, prepared.item["item_id"], attributes) for picture in prepared.pictures
                ]
                block.pictures += [picture.image_id for picture in prepared.pictures]
        if len(block.ids) + block.excluded >= self._unit_rows:
            self._close_unit()

    def _close_unit(self) -> None:
        block, self._block = self._block, _Block()
        for name, writer in self._writers.items():
            rows = schemas.to_table(block.rows[name], SCHEMAS[name]).combine_chunks()
            (batch,) = rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=SCHEMAS[name])]
            writer.write_batch(batch)
        self._counts.append((len(block.ids), block.excluded, self._exclusion_filter.take_matched()))
        self._lines.extend(block.lines)
        self._ids.frombytes(hash_texts(block.ids).tobytes())
        self._pictures.frombytes(hash_texts(block.pictures).tobytes())
        self._records_before.append(len(self._pictures))

    def finish(self, file: UserFile, *, same: str) -> None:
        """Write the last unit, and check that no two items have the same id.

        Args:
            file: the user's file, for messages.
            same: what rows with the same id have in common.

        Raises:
            InputError: two rows have the same id, or no row became an item.
        """
        block = self._block
        if block.ids or block.excluded or block.rows["rejects"] or not self._counts:
            self._close_unit()
        self._stack.close()
        self._readers = {name: pa.ipc.open_file(pa.OSFile(self._path(name))) for name in SCHEMAS}
        if not sum(items + excluded for items, excluded, _ in self._counts):
            first = next((self._rejects(number) for number in range(len(self._counts)) if self._rejects(number)), [])
            if not first:
                raise InputError("has no rows; name a file with at least one item", place=file.object.uri)
            why = f"{file.counted} {first[0].position}: {first[0].message}"
            raise InputError(f"no row that can become an item; {why}", place=file.object.uri)
        ids = np.frombuffer(self._ids, np.uint64)
        order = np.argsort(ids, kind="stable")
        repeats = np.flatnonzero(ids[order][1:] == ids[order][:-1])
        if len(repeats):
            earliest = repeats[np.argmin(order[repeats + 1])]
            one, other = (self._lines[int(order[index])] for index in (earliest, earliest + 1))
            raise InputError(f"{file.counted}s {one} and {other} have the same {same}", place=file.object.uri)
        self._note_first_pictures()

    def _note_first_pictures(self) -> None:
        """Find the first record of each picture, and whether a picture is in several units."""
        pictures = np.frombuffer(self._pictures, np.uint64)
        _, first, group = np.unique(pictures, return_index=True, return_inverse=True)
        self._is_first = np.zeros(len(pictures), bool)
        self._is_first[first] = True
        unit = np.searchsorted(np.array(self._records_before[1:]), np.arange(len(pictures)), side="right")
        self.shares_pictures = bool((unit != unit[first][group]).any())

    def units(self, file: UserFile) -> list[Unit]:
        """Return the units, whose names sort in the file's order."""
        whole = unit_of_file(file.object)
        return [
            Unit(
                f"{whole.name}-{number:09}",
                whole.inputs,
                piece=f"unit {number}",
                rows=items + excluded + len(self._rejects(number)),
                extra={"number": number},
            )
            for number, (items, excluded, _) in enumerate(self._counts)
        ]

    def rows(self, number: int) -> UnitRows:
        """Return the rows of a unit; of a picture's records, only the first in the file."""
        tables = {name: pa.Table.from_batches([self._readers[name].get_batch(number)]) for name in SCHEMAS}
        if self._records:
            first, last = self._records_before[number : number + 2]
            tables["records"] = tables["records"].filter(pa.array(self._is_first[first:last]))
        rejects = self._rejects(number)
        items, excluded, matched = self._counts[number]
        return UnitRows(
            tables,
            rows_in=items + excluded + len(rejects),
            filtered=Counter({"excluded": excluded} if excluded else {}),
            rejects=rejects,
            tallies={
                **({GOLD: _known_gold(tables[ITEMS]["gold"])} if self._gold else {}),
                **({exclusions.TALLY: matched} if matched else {}),
            },
        )

    def _rejects(self, number: int) -> list[Reject]:
        return [Reject(**row) for row in self._readers["rejects"].get_batch(number).to_pylist()]


def _known_gold(gold: pa.ChunkedArray) -> dict[str, int]:
    """Return the number of items by what is known about their right answers."""
    none_right = pc.sum(pc.equal(pc.list_value_length(gold), 0)).as_py() or 0
    counts = {"known": len(gold) - gold.null_count - none_right, "none is right": none_right}
    return {name: n for name, n in {**counts, "unknown": gold.null_count}.items() if n}
