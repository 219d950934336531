"""Modes `input=FILE` and `topics=` of `items`: the rows of a user's file, or one item that asks for page titles.

The file is read once, into a spool, before anything is written, so that a fault in the last line leaves no trace. The
spool has one block of prepared rows per unit, in temporary files, and checks ids and shared pictures. Page titles by
topic are those of Century, appendix G.
"""

import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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
from actors.quantities import quantity
from jobs.errors import InputError, as_input_error
from jobs.items_from import input_rows, row_items
from jobs.items_from.input_rows import Row, UserFile
from jobs.items_from.items_config import STOP, FileKeys, ItemsConfig
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
        InputError: a column or list does not fit, no row is usable, or with on_error=stop a row is not.
    """
    assert cfg.input is not None
    table_plan.check_limit(cfg.limit)
    file = input_rows.open_file(cfg.input, encoding=cfg.encoding, delimiter=cfg.delimiter)
    roles = row_items.roles_of(cfg, file)
    pictures = open_pictures(cfg, file, roles.pictures)
    records = pictures.by_url and bool(roles.pictures)
    reader = row_items.ItemRowReader(cfg, file, roles, pictures)
    exclusion_filter = ExclusionFilter(excluded.marks)
    with (
        Spool("items") as folder,
        UnitSpool(
            folder.path,
            cfg.unit_rows,
            exclusion_filter,
            repeated=reader.repeated,
            records=records,
            gold=bool(roles.gold),
        ) as spool,
    ):
        for line, row in islice(file.rows(spool.reject), cfg.limit):
            prepared = reader.items(line, row)
            if isinstance(prepared, Reject):
                spool.reject(prepared)
            else:
                spool.add(line, row, prepared)
        reader.finish()
        spool.finish(file)
        if spool.rejected and cfg.on_error == STOP:
            raise InputError(
                f"{spool.faults(file)}\nnothing was written; correct the file, or leave these rows out by "
                "on_error=reject",
                place=file.object.uri,
            )
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
            lines=(spool.faults(file),) if spool.rejected else (),
            tables=("records", "texts", ITEMS) if records else ("texts", ITEMS),
            condition=cfg.condition,
            limit=table_plan.RowLimit(cfg.limit, None, None, per_input=False, noun="rows") if cfg.limit else None,
            own_units=("records",) if records and spool.shares_pictures else (),
            rejects=spool.all_rejects,
        )


def file_attributes(cfg: ItemsConfig) -> set[str] | None:
    """Return the attributes that the items of a file will have, by its columns; None without a file.

    Raises:
        InputError: the file cannot be read, or a column does not fit.
    """
    if cfg.input is None:
        return None
    file = input_rows.open_file(cfg.input, encoding=cfg.encoding, delimiter=cfg.delimiter)
    roles = row_items.roles_of(cfg, file)
    attributes = set(file.columns) - set(roles.named) if roles.attributes is None else set(roles.attributes)
    return attributes | ({row_items.SET, row_items.TEXT_COLUMN} if cfg.item_per else set())


FAULTS_SHOWN = 10  # rows that the message about unusable rows lists
GOLD = "gold"  # tally of the items whose right answers are known, or are not
SCHEMAS = {name: TABLES[name].schema() for name in ("records", "texts", ITEMS)} | {"rejects": REJECTS}


@dataclass
class _Block:
    """The rows of the unit being collected."""

    prepared: list[tuple[int, Row, Sequence[ItemRow]]] = field(default_factory=list)  # without excluded items
    rejects: list[Reject] = field(default_factory=list)
    items: int = 0
    excluded: int = 0


class _EarlierIds:
    """The lines of ids, by their hash; holds 16 bytes per id, in sorted runs that at least double in size."""

    def __init__(self) -> None:
        self._runs: list[tuple[np.ndarray, np.ndarray]] = []

    def lines(self, hashes: np.ndarray) -> np.ndarray:
        """Return the line of each hash, int64; 0 where it is new."""
        lines = np.zeros(len(hashes), np.int64)
        for run, lines_of in self._runs:
            at = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            lines = np.where(run[at] == hashes, lines_of[at], lines)
        return lines

    def add(self, hashes: np.ndarray, lines: np.ndarray) -> None:
        """Add distinct new hashes."""
        if len(hashes):
            self._runs.append((hashes, lines))
        while len(self._runs) > 1 and 2 * len(self._runs[-1][0]) > len(self._runs[-2][0]):
            (first, lines_of_first), (second, lines_of_second) = self._runs[-2:]
            self._runs[-2:] = [(np.concatenate([first, second]), np.concatenate([lines_of_first, lines_of_second]))]
        if self._runs:
            run, lines_of = self._runs[-1]
            order = np.argsort(run)
            self._runs[-1] = run[order], lines_of[order]


class UnitSpool:
    """Spool that collects items unit by unit in `folder`, and returns the rows of each unit later.

    It holds one unit, 16 bytes per item and 8 per picture in memory. A row with an id of an earlier row is rejected.

    Args:
        folder: the folder for temporary files.
        unit_rows: items per unit; the items of one row are never divided.
        exclusion_filter: the exclusions; items with an excluded picture are left out.
        repeated: returns the reject of a row (line, row) that repeats the id of the row in an earlier line.
        records: whether pictures become records.
        gold: whether the file has right answers, so that items without them are counted.
    """

    def __init__(
        self,
        folder: Path,
        unit_rows: int,
        exclusion_filter: ExclusionFilter,
        *,
        repeated: Callable[[int, Row, int], Reject],
        records: bool,
        gold: bool = False,
    ) -> None:
        self._folder, self._unit_rows, self._exclusion_filter = folder, unit_rows, exclusion_filter
        self._repeated, self._records, self._gold = repeated, records, gold
        self._block = _Block()
        self._counts: list[tuple[int, int, dict[str, int]]] = []  # by unit: items, excluded items, matched exclusions
        self._earlier, self._pictures = _EarlierIds(), array("Q")
        self._records_before = [0]  # number of records before each unit
        self._readers: dict[str, pa.ipc.RecordBatchFileReader] = {}
        self._rejected: Counter[str] = Counter()  # by reason
        self._first_rejects: list[Reject] = []  # to be printed
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

    @property
    def rejected(self) -> int:
        """Number of rows that cannot become items."""
        return self._rejected.total()

    def reject(self, reject: Reject) -> None:
        """Add input that could not become an item to the unit being collected."""
        self._block.rejects.append(reject)
        if len(self._block.rejects) >= self._unit_rows:
            self._close_unit()

    def add(self, line: int, row: Row, items: Sequence[ItemRow]) -> None:
        """Add the items of one row."""
        block, kept = self._block, []
        for prepared in items:
            names = [name for picture in prepared.pictures for name in (picture.image_id, picture.name)]
            if self._exclusion_filter.hit(*names):
                block.excluded += 1
            else:
                kept.append(prepared)
        block.prepared.append((line, row, kept))
        block.items += len(kept)
        if block.items + block.excluded >= self._unit_rows:
            self._close_unit()

    def _close_unit(self) -> None:
        block, self._block = self._block, _Block()
        items = self._distinct(block)
        block.rejects.sort(key=lambda reject: reject.position)
        rows: dict[str, list[dict[str, Any]]] = {
            ITEMS: [prepared.item for prepared in items],
            "texts": [text for prepared in items for text in prepared.texts],
            "records": [],
            "rejects": [asdict(reject) for reject in block.rejects],
        }
        if self._records:
            for prepared in items:
                of_item = prepared.item["item_id"], dict(prepared.item["attributes"])
                rows["records"] += [record_of(picture, *of_item) for picture in prepared.pictures]
        for name, writer in self._writers.items():
            table = schemas.to_table(rows[name], SCHEMAS[name]).combine_chunks()
            (batch,) = table.to_batches() or [pa.RecordBatch.from_pylist([], schema=SCHEMAS[name])]
            writer.write_batch(batch)
        self._rejected.update(reject.reason for reject in block.rejects)
        self._first_rejects += block.rejects[: FAULTS_SHOWN - len(self._first_rejects)]
        self._counts.append((len(items), block.excluded, self._exclusion_filter.take_matched()))
        self._pictures.frombytes(hash_texts([row["image_id"] for row in rows["records"]]).tobytes())
        self._records_before.append(len(self._pictures))

    def _distinct(self, block: _Block) -> list[ItemRow]:
        """Return the items of the unit's rows; a row with an id of an earlier row is added to the block's rejects."""
        hashes = hash_texts([prepared.item["item_id"] for _, _, items in block.prepared for prepared in items])
        earlier, seen = self._earlier.lines(hashes), dict[int, int]()
        distinct: list[ItemRow] = []
        first = 0
        for line, row, items in block.prepared:
            here = slice(first, first + len(items))
            first = here.stop
            keys = hashes[here].tolist()
            lines = [before or seen.get(key, 0) for before, key in zip(earlier[here].tolist(), keys, strict=True)]
            if first_line := next(filter(None, lines), None):
                block.rejects.append(self._repeated(line, row, first_line))
                continue
            seen |= dict.fromkeys(keys, line)
            distinct += items
        self._earlier.add(np.fromiter(seen, np.uint64, len(seen)), np.fromiter(seen.values(), np.int64, len(seen)))
        return distinct

    def finish(self, file: UserFile) -> None:
        """Write the last unit.

        Raises:
            InputError: no row became an item.
        """
        block = self._block
        if block.prepared or block.rejects or not self._counts:
            self._close_unit()
        self._stack.close()
        self._readers = {name: pa.ipc.open_file(pa.OSFile(self._path(name))) for name in SCHEMAS}
        if not sum(items + excluded for items, excluded, _ in self._counts):
            if not self.rejected:
                raise InputError("has no rows; name a file with at least one item", place=file.object.uri)
            raise InputError(f"no row can become an item; {self.faults(file)}", place=file.object.uri)
        self._note_first_pictures()

    def faults(self, file: UserFile) -> str:
        """Return the number of rows that cannot become items by reason, and the first of them on a line each."""
        reasons = [f"{n:,} {reason.replace('_', ' ')}" for reason, n in self._rejected.most_common()]
        shown = [f"{file.counted} {reject.position:,}: {reject.message}" for reject in self._first_rejects]
        more = self.rejected - len(shown)
        lines = [*shown, *([f"… and {more:,} more"] if more else [])]
        noun = quantity(self.rejected, "row")
        return "\n    ".join(
            [f"{noun} cannot become {'items' if self.rejected > 1 else 'an item'} ({', '.join(reasons)}):", *lines]
        )

    def all_rejects(self) -> Iterator[Reject]:
        """Yield the rows that could not become items, in the file's order."""
        for number in range(len(self._counts)):
            yield from self._rejects(number)

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
        raise InputError("topics= makes an item without pictures; omit it", key="exclusions", value=cfg.exclusions)
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
