"""Modes `input=FILE` and `topics=` of `items`: the rows of a user's file, or one item that asks for page titles.

The file is read once, into a spool, before anything is written, so that a fault in the last line leaves no trace. The
spool has one block of prepared rows per unit, in temporary files, and checks ids and shared pictures. Page titles by
topic are those of Century, appendix G.
"""

import json
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.ids import content_id
from jobs.errors import InputError, as_input_error
from jobs.items_from import input_rows, row_items
from jobs.items_from.input_rows import UserFile
from jobs.items_from.items_config import FileKeys, ItemsConfig
from jobs.items_from.items_output import ITEMS, ItemsPlan, UnitRows, rows_of
from jobs.items_from.named_pictures import open_pictures
from jobs.items_from.row_items import ItemRow, record_of
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions
from jobs.store import table_plan
from jobs.store.files.spool import Spool
from jobs.store.hashing import hash_texts
from jobs.store.identity import identity_of
from jobs.store.units import Unit, unit_of_file
from jobs.store.writer import REJECTS, Reject
from jobs.tables import TABLES
from jobs.terms_from.descriptions import TopicList

# The keys that the rows depend on. The folder or table of pictures is not included, since ids are hashes of names.


@contextmanager
def file_plan(cfg: ItemsConfig, excluded: Exclusions) -> Iterator[ItemsPlan]:
    """Read and check the file, and yield what to write; its spool exists until the generator is closed.

    Raises:
        InputError: a column, picture or list does not fit, two rows have the same id, or no row is usable.
    """
    assert cfg.input is not None
    table_plan.check_limit(cfg.limit)
    file = input_rows.open_file(cfg.input, encoding=cfg.encoding, delimiter=cfg.delimiter)
    roles = row_items.roles_of(cfg, file)
    pictures = open_pictures(cfg, file)
    records = pictures.by_url and bool(roles.pictures)
    reader = row_items.ItemRowReader(cfg, file, roles, pictures)
    exclusion_filter = ExclusionFilter(excluded.marks)
    with (
        Spool("items") as folder,
        UnitSpool(folder.path, cfg.unit_rows, exclusion_filter, records=records, gold=bool(roles.gold)) as spool,
    ):
        for line, row in islice(file.rows(spool.reject), cfg.limit):
            prepared = reader.items(line, row)
            if isinstance(prepared, Reject):
                spool.reject(prepared)
            else:
                spool.add(line, prepared)
        reader.finish()
        same = f"columns.id={roles.id}" if roles.id else "pictures and texts; remove one, or set columns.id="
        spool.finish(file, same=same)
        yield ItemsPlan(
            units=spool.units(file),
            identity={
                **identity_of(
                    cfg,
                    {"input": file.object.uri, "pictures": type(pictures).__name__.lower(), "unit_rows": cfg.unit_rows},
                    base=FileKeys,
                ),
                **({"limit": cfg.limit} if cfg.limit else {}),
            },
            read=lambda unit: spool.rows(unit.extra["number"]),
            lines=tuple(
                f"rejected: {file.at(reject.position)}: {reject.message} ({reject.reason})"
                for reject in spool.first_rejects
            ),
            tables=("records", "texts", ITEMS) if records else ("texts", ITEMS),
            condition=cfg.condition,
            limit=table_plan.RowLimit(cfg.limit, None, None, per_input=False, noun="rows") if cfg.limit else None,
            own_units=("records",) if records and spool.shares_pictures else (),
        )


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


TOPICS_KIND = "description"


@contextmanager
def topic_plan(cfg: ItemsConfig, excluded: Exclusions) -> Iterator[ItemsPlan]:
    """Yield the plan of one item without pictures or texts, whose attributes are the lists that a prompt shows.

    Raises:
        InputError: the list of topics is invalid, or there is a list of exclusions, which would have no effect.
    """
    if excluded:
        raise InputError(f"exclusions={cfg.exclusions}: topics= makes an item without pictures; omit it")
    try:
        topics = TopicList.from_dict(cfg.topics)
    except ValueError as error:
        raise as_input_error(error) from error
    item_id = content_id(ITEMS, json.dumps(asdict(topics), sort_keys=True, ensure_ascii=False))
    item = {
        "item_id": item_id,
        "kind": TOPICS_KIND,
        "image_ids": [],
        "text_ids": [],
        "targets": [],
        "gold": None,
        "attributes": list({"topics": topics.name, **topics.attributes}.items()),
    }
    yield ItemsPlan(
        units=[Unit(item_id, (), rows=1)],
        identity={"topics": item_id},
        read=lambda unit: UnitRows({ITEMS: rows_of(ITEMS, [item]), "texts": rows_of("texts", [])}, rows_in=1),
        condition=cfg.condition,
        lines=[f"asks for {topics.titles} titles about {sum(map(len, topics.categories.values()))} topics"],
    )
