"""Reading of pictures or items as the rows from which stages prepare prompts, all of them or those drawn (`draw.*`).

In a table `images`, each picture is an item. In a table `items`, each row lists image_ids and text_ids, which are
looked up in the tables `images=` and `texts=`. Columns about a picture come from the table `records=`. The value of a
context field is the item's attribute of that name, or else its texts with that role (`text`: all of them), or else the
record's column.

Tables derived from the same parent share the names of their units, so that only one object of each is read. Of any
other table, each machine keeps a copy for looking rows up, without pictures (`jobs.judging.joined_rows`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.ids import content_id
from actors.items import EMPTY_CONTEXT, JUDGED, NO_RESPONSE, RESPONSE_STATUS, TARGETS
from actors.status import Status
from jobs.errors import InputError
from jobs.judging.joined_rows import lookup, lookup_pictures
from jobs.judging.model_config import AskingConfig
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.draws import CompleteDrawConfig, Draw, draw_columns, usable
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files.objects import CompactList, Object
from jobs.store.pieces import STANDARD, PieceRule, in_pieces, read_piece
from jobs.store.reading import TableSource, open_table
from jobs.store.units import WHOLE, Unit
from jobs.store.writer import UnitTask
from jobs.tables import TABLES

PICTURES = pa.list_(pa.large_binary())
DRAWN = "drawn"  # `Unit.extra`: the rows of the unit to read, ascending; all if absent
TEXT_FIELD = "text"  # all texts of an item, in their order


@dataclass(frozen=True)
class ItemTables:
    """The tables from which items are read; `images`, `texts` and `vectors` are set only for a table of items."""

    items: TableSource
    images: TableSource | None = None
    texts: TableSource | None = None
    records: TableSource | None = None
    questions: TableSource | None = None  # the items' own questions (`jobs.judging.own_questions`)
    vectors: TableSource | None = None

    @property
    def joined_tables(self) -> dict[str, TableSource]:
        """Return the tables joined to the items, by name."""
        named = {
            "images": self.images,
            "texts": self.texts,
            "records": self.records,
            "questions": self.questions,
            "embeddings": self.vectors,
        }
        return {name: table for name, table in named.items() if table is not None}

    @property
    def pictures(self) -> TableSource | None:
        """Return the table of the pictures, if there is one."""
        return self.items if self.items.name == "images" else self.images

    @property
    def identity(self) -> dict[str, Any]:
        """Return the part of a run's identity that describes the inputs."""
        return {"input": self.items.identity, **{name: table.identity for name, table in self.joined_tables.items()}}

    def units(self, cut: PieceRule = STANDARD) -> list[Unit]:
        """Return the items' units, cut into pieces.

        Each unit has one more input per joined table: the table's object of that unit, or the whole table.

        Args:
            cut: how the units are cut.

        Raises:
            InputError: the pictures were fetched for other records.
        """
        units, inputs_by_table = self.items.units(), []
        parents = [footer.unit.parent for footer in self.items.footers]
        for name, table in self.joined_tables.items():
            objects = table.by_unit()
            matches = [objects.get(u.name) or objects.get(parent) for u, parent in zip(units, parents, strict=True)]
            if self.items.name == "images" and units and not any(matches):
                why = f"{self.items.uri} was not fetched for it (they have no unit in common)"
                raise InputError(
                    why, key=name, value=table.uri, remedy=f"set {name}= to the table that remine fetch read"
                )
            if all(matches):
                inputs_by_table.append([source for source in matches if source is not None])
            else:
                inputs_by_table.append([table.whole()] * len(units))
        joined = [
            Unit(unit.name, (*unit.inputs, *(inputs[index] for inputs in inputs_by_table)), rows=unit.rows)
            for index, unit in enumerate(units)
        ]
        return list(in_pieces(joined, cut))


class ItemUnits(NamedTuple):
    """The units of a run.

    Attributes:
        units: in the order of the items' table; with a draw, each lists the rows to read.
        rows: the number of items that are read.
        lines: lines to print about the draw; empty without a draw.
    """

    units: Sequence[Unit]
    rows: int
    lines: list[str]


def open_sources(
    uri: str, *, images: str | None, texts: str | None, records: str | None, fields: Sequence[str], pictures: bool
) -> ItemTables:
    """Open the tables from which items are read.

    Args:
        uri: the table `images` or `items`.
        images: the table of the items' pictures.
        texts: the table of the items' texts.
        records: the table of records about the pictures.
        fields: context fields of the prompt.
        pictures: whether the prompt shows pictures.

    Raises:
        InputError: a table does not exist or is incomplete, or the prompt needs a table that is not given.
    """
    main = open_table(uri, "images", "items", key="input")
    if main.name == "images" and (images or texts):
        key = f"images={images}" if images else f"texts={texts}"
        raise InputError(f"{key}: allowed only for a table of items, and input={uri} is a table of images; omit it")
    if main.name == "items" and pictures and not images:
        why = "a table of items, and the prompt shows a picture"
        raise InputError(why, key="input", value=uri, remedy="name its table with images=")
    if TEXT_FIELD in fields and not texts:
        why = "the prompt uses the items' texts"
        raise InputError(why, key="input", value=uri, remedy="set texts=, and input= to a table of items")
    if records and main.name == "images" and fields and not set(fields) & set(TABLES["records"].columns):
        why = f"no context field of the prompt ({', '.join(fields)}) is a column of records"
        raise InputError(why, key="records", value=records, remedy="omit it")
    return ItemTables(
        main,
        images=open_table(images, "images", key="images") if images else None,
        texts=open_table(texts, "texts", key="texts") if texts else None,
        records=open_table(records, "records", key="records") if records else None,
    )


class ItemReader(Protocol):
    """Reads the items of a unit: a `Reader`, or a reader that adds columns to one."""

    def __call__(self, task: UnitTask, /) -> pa.Table: ...

    def without_copies(self) -> "ItemReader":
        """Return a reader of a few items, for which a copy of a table would take too long."""


@dataclass(frozen=True)
class Reader:
    """Reads the items of a unit; is pickled and sent to the workers.

    Attributes:
        kind: images or items.
        joined_tables: names of the tables of a unit's other inputs, in the order of the inputs.
        fields: context fields, each a column of the result.
        pictures: whether to read the pictures' bytes.
        whole_texts: whether to add each text separately, with its id.
        copies: whether a machine copies whole tables to look rows up.
    """

    kind: str
    joined_tables: tuple[str, ...]
    fields: tuple[str, ...]
    pictures: bool
    whole_texts: bool = False
    copies: bool = True

    def without_copies(self) -> "Reader":
        """Return a reader of a few items, for which a copy of a table would take too long."""
        return replace(self, copies=False)

    def __call__(self, task: UnitTask) -> pa.Table:
        """Return the items of a unit.

        Returns:
            `item_id`, `pictures: list<large_binary>`, `status`, `targets: list<string>`, each context field (string),
            with them `empty_context`, why the item has no text of its condition (null if it has), and
            `jobs.runtime.selection.exclusions.SHOWN`, the ids and URLs that exclusions are compared with. With
            `whole_texts` also `texts` and `text_ids: map<string, list<string>>`, the texts of each role in their order.
        """
        _, *others = task.unit.inputs
        joined = dict(zip(self.joined_tables, others, strict=True))
        if self.kind == "images":
            columns = ["image_id", "source_url", "status", *(["bytes"] if self.pictures else [])]
        else:
            columns = ["item_id", "image_ids", "text_ids", "targets", "attributes"]
        rows = read_piece(task.unit, columns)
        if DRAWN in task.unit.extra:
            rows = rows.take(pa.array(task.unit.extra[DRAWN], pa.int64()))
        return self._images(rows, joined) if self.kind == "images" else self._items(rows.to_pylist(), joined)

    def _images(self, rows: pa.Table, joined: dict[str, Object]) -> pa.Table:
        count = rows.num_rows
        if self.pictures:
            pictures = pa.chunked_array([_single_picture_lists(chunk) for chunk in rows["bytes"].chunks], PICTURES)
        else:
            pictures = pa.array([[]] * count, PICTURES)
        image_ids = rows["image_id"].to_pylist()
        records = self._records(joined.get("records"), image_ids)
        contexts = [records.get(image_id, {}) for image_id in image_ids]
        shown = [[url] for url in rows["source_url"].to_pylist()]
        return self._table(image_ids, pictures, rows["status"], shown=shown, targets=[None] * count, contexts=contexts)

    def _items(self, items: Sequence[Mapping[str, Any]], joined: dict[str, Object]) -> pa.Table:
        image_ids = {i for item in items for i in item["image_ids"] or []}
        images = lookup_pictures(joined.get("images"), image_ids, with_bytes=self.pictures, copies=self.copies)
        text_ids = {t for item in items for t in item["text_ids"] or []}
        needed = text_ids if self.fields or self.whole_texts else ()
        texts = lookup(joined.get("texts"), "text_id", needed, ["role", "text"], copies=self.copies)
        records = self._records(joined.get("records"), list(image_ids))
        pictures, statuses, contexts, shown = [], [], [], []
        for item in items:
            ids = item["image_ids"] or []
            rows = [images.get(i) for i in ids] if self.pictures else []
            row_statuses = [row["status"] if row else Status.MISSING_INPUT.value for row in rows]
            pictures.append([row["bytes"] if row else None for row in rows])
            attributes = dict(item["attributes"] or ())
            if attributes.get(RESPONSE_STATUS, Status.OK) not in JUDGED:
                row_statuses = [NO_RESPONSE]
            statuses.append(next((status for status in row_statuses if status != Status.OK), Status.OK.value))
            shown.append([*ids, *(images[i]["source_url"] for i in ids if i in images)])
            record = next((records[i] for i in ids if i in records), {})
            texts_by_role = _texts_by_role([texts[t] for t in item["text_ids"] or [] if t in texts])
            contexts.append({**record, **texts_by_role, **{k: v for k, v in attributes.items() if v}})
        table = self._table(
            [item["item_id"] for item in items],
            pa.array(pictures, PICTURES),
            pa.array(statuses, pa.string()),
            shown=shown,
            targets=[item["targets"] for item in items],
            contexts=contexts,
        )
        if not self.whole_texts:
            return table
        named = [
            [(texts[t]["role"], t, texts[t]["text"]) for t in item["text_ids"] or [] if t in texts] for item in items
        ]
        for column, place in (("texts", 2), ("text_ids", 1)):
            by_role = [_by_first([(entry[0], entry[place]) for entry in entries]) for entries in named]
            table = table.append_column(column, pa.array(by_role, pa.map_(pa.string(), pa.list_(pa.string()))))
        return table

    def _records(self, source: Object | None, image_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Return, by image_id, the context fields that are columns of `records`."""
        columns = [field for field in self.fields if field in TABLES["records"].columns]
        return lookup(source, "image_id", set(image_ids), columns, copies=self.copies) if columns else {}

    def _table(
        self,
        item_ids: list[str],
        pictures: Any,
        status: Any,
        *,
        shown: Sequence[Sequence[str | None]],
        targets: Sequence[Any],
        contexts: Sequence[Mapping[str, Any]],
    ) -> pa.Table:
        items = pa.table({"item_id": pa.array(item_ids, pa.string()), "pictures": pictures, "status": status})
        items = items.append_column(TARGETS, pa.array(targets, pa.list_(pa.string())))
        items = items.append_column(exclusions.SHOWN, pa.array(shown, pa.list_(pa.string())))
        for field in (*self.fields, EMPTY_CONTEXT) if self.fields else ():
            values = [_string(context.get(field)) for context in contexts]
            items = items.append_column(field, pa.array(values, pa.string()))
        return items


def sources_of(cfg: AskingConfig, *, fields: Sequence[str], pictures: bool) -> ItemTables:
    """Open the tables in a job's keys (`open_sources`)."""
    return open_sources(
        cfg.input, images=cfg.images, texts=cfg.texts, records=cfg.records, fields=fields, pictures=pictures
    )


def reading(sources: ItemTables, *, fields: Sequence[str], pictures: bool) -> Reader:
    """Return the reader that the workers use for the items of `sources`."""
    return Reader(sources.items.name, tuple(sources.joined_tables), tuple(fields), pictures)


def _texts_by_role(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return an item's texts by their role, and all of them under `text`."""
    texts: dict[str, list[str]] = {}
    for row in rows:
        for role in {row["role"] or TEXT_FIELD, TEXT_FIELD}:
            texts.setdefault(role, []).append(row["text"] or "")
    return {role: "\n\n".join(parts) for role, parts in texts.items()}


def _by_first(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    """Return the second values grouped by the first ones, both in their order."""
    grouped: dict[str, list[str]] = {}
    for first, second in pairs:
        grouped.setdefault(first or "", []).append(second)
    return list(grouped.items())


def _single_picture_lists(pictures: pa.Array) -> pa.Array:
    """Return one list per picture, without copying the bytes."""
    return pa.ListArray.from_arrays(pa.array(range(len(pictures) + 1), pa.int32()), pictures)


def _string(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else ", ".join(map(str, value))


def item_units(
    sources: ItemTables, config: CompleteDrawConfig, marks: frozenset[str], cut: PieceRule = STANDARD
) -> ItemUnits:
    """Return the units of `sources`, with the rows of each that are drawn.

    A unit's version covers its drawn rows: if other units of the input change, only units whose drawn rows change are
    rewritten. Reads the narrow columns of the items' table once; holds 8 B per item.

    Args:
        marks: the marks of the exclusions. Excluded pictures, and pictures that are not ok, are not drawn.
        cut: how the units are cut into pieces.

    Raises:
        InputError: the draw is not possible.
    """
    units = sources.units(cut)
    if not config.is_set:
        return ItemUnits(units, sources.items.rows, [])
    table, exclusion_filter = sources.items.name, ExclusionFilter(marks)
    draw = Draw(config, table)
    batches = sources.items.batches(list(dict.fromkeys([*draw_columns(table), *draw.columns])))
    keys = np.concatenate(
        [np.zeros(0, np.uint64), *(draw.add(rows, usable(rows, table, exclusion_filter)) for rows in batches)]
    )
    drawn = draw.drawn()
    is_drawn = drawn.mask(keys)
    return ItemUnits(CompactList(_drawn(units, is_drawn)), int(is_drawn.sum()), [str(drawn)])


def _drawn(units: Iterable[Unit], is_drawn: NDArray[np.bool_]) -> Iterator[Unit]:
    """Yield the units, restricted to the rows for which `is_drawn`, bool [items], is true."""
    first = 0
    for unit in units:
        count = unit.rows or 0
        rows = np.flatnonzero(is_drawn[first : first + count]).tolist()
        first += count
        extra = {**unit.extra, DRAWN: rows, "filtered": {"draw": count - len(rows)} if len(rows) < count else {}}
        of_rows = "" if unit.piece == WHOLE else f"{unit.piece}, "
        yield replace(unit, rows=len(rows), piece=f"{of_rows}draw {content_id(*map(str, rows))}", extra=extra)
