"""What a model is asked about: pictures, or items with their pictures and texts, as rows for the stages that ask.

A table `images` is read as it is, each picture an item; a table `items` brings lists of image_ids and text_ids, which
are looked up in `images=` and `texts=`. What is known about a picture comes from `records=`. A prompt's context field
is the item's attribute of that name, else its texts of that role (`text`: all of them), else the record's column.

Tables that were derived from one parent share their units' names, and then one object of each is read; else the other
table is searched, row group by row group, and only rows that are asked for are kept in memory.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.ids import content_id
from actors.items import TARGETS
from actors.status import Status
from jobs.errors import InputError
from jobs.judging.settings import AskingConfig
from jobs.runtime import exclusions
from jobs.store import locations
from jobs.store.footers import data_objects
from jobs.store.locations import Object
from jobs.store.reading import TableSource, open_table, read_unit, reading_rows
from jobs.store.units import Unit
from jobs.store.writer import UnitTask
from jobs.tables import TABLES

PICTURES = pa.list_(pa.large_binary())
TEXT_FIELD = "text"  # the item's own texts, in their order


@dataclass(frozen=True)
class ItemTables:
    """The tables that items are read from; `images` and `texts` only beside a table of items."""

    items: TableSource
    images: TableSource | None = None
    texts: TableSource | None = None
    records: TableSource | None = None

    @property
    def sides(self) -> dict[str, TableSource]:
        """The tables beside the items, by name."""
        named = {"images": self.images, "texts": self.texts, "records": self.records}
        return {name: table for name, table in named.items() if table is not None}

    @property
    def pictures(self) -> TableSource | None:
        """The table of the pictures, if there is one."""
        return self.items if self.items.name == "images" else self.images

    @property
    def identity(self) -> dict[str, Any]:
        """What a run's identity says of its inputs."""
        return {"input": self.items.identity, **{name: table.identity for name, table in self.sides.items()}}

    def units(self) -> list[Unit]:
        """The items' units, each with what it is joined to: an object of the same unit, or a whole table.

        Raises:
            InputError: pictures that were fetched for other records.
        """
        units, sides = self.items.units(), []
        parents = [footer.unit.parent for footer in self.items.footers]
        for table in self.sides.values():
            objects = table.by_unit()
            joined = [objects.get(u.name) or objects.get(parent) for u, parent in zip(units, parents, strict=True)]
            if self.items.name == "images" and units and not any(joined):
                raise InputError(f"{self.items.uri} was not fetched for {table.uri}: they have no unit in common")
            if all(joined):
                sides.append([source for source in joined if source is not None])
            else:
                whole = _whole(table)
                sides.append([whole] * len(units))
        return [
            Unit(unit.name, (*unit.inputs, *(side[place] for side in sides)), rows=unit.rows)
            for place, unit in enumerate(units)
        ]


def open_sources(
    uri: str, *, images: str | None, texts: str | None, records: str | None, fields: Sequence[str], pictures: bool
) -> ItemTables:
    """Open what is asked about.

    Args:
        fields: context that the prompt may take.
        pictures: whether the prompt shows them.

    Raises:
        InputError: a table that is not there, is not complete, or is missing for what the prompt takes.
    """
    main = open_table(uri, "images", "items")
    if main.name == "images" and (images or texts):
        raise InputError(f"{'images' if images else 'texts'}= goes with a table of items, and {uri} is one of images")
    if main.name == "items" and pictures and not images:
        raise InputError(f"{uri} is a table of items and the prompt shows a picture: say where with images=")
    if TEXT_FIELD in fields and not texts:
        raise InputError(f"the prompt takes the items' own texts: give texts= and a table of items as input= ({uri})")
    if records and main.name == "images" and fields and not set(fields) & set(TABLES["records"].columns):
        raise InputError(f"no context field of the prompt ({', '.join(fields)}) is a column of records")
    return ItemTables(
        main,
        images=open_table(images, "images") if images else None,
        texts=open_table(texts, "texts") if texts else None,
        records=open_table(records, "records") if records else None,
    )


@dataclass(frozen=True)
class Reader:
    """Reads a unit's items; travels to the workers.

    Attributes:
        kind: images or items.
        sides: names of the tables that a unit's further inputs are of, in their order.
        fields: context columns to be made.
        pictures: whether bytes are read.
    """

    kind: str
    sides: tuple[str, ...]
    fields: tuple[str, ...]
    pictures: bool

    def __call__(self, task: UnitTask) -> pa.Table:
        """A unit's items as `actors.items` says: `item_id`, `pictures` (list<large_binary>), `status`, `targets`
        (list<string>), each context field (string), and `jobs.runtime.exclusions.SHOWN`."""
        main, *others = task.unit.inputs
        beside = dict(zip(self.sides, others, strict=True))
        return self._images(main, beside) if self.kind == "images" else self._items(main, beside)

    def _images(self, main: Object, beside: dict[str, Object]) -> pa.Table:
        rows = read_unit(main.uri, columns=["image_id", "source_url", "status", *(["bytes"] if self.pictures else [])])
        count = rows.num_rows
        if self.pictures:
            pictures = pa.chunked_array([_each_alone(chunk) for chunk in rows["bytes"].chunks], PICTURES)
        else:
            pictures = pa.array([[]] * count, PICTURES)
        names = rows["image_id"].to_pylist()
        about = _about(beside.get("records"), names, self.fields)
        contexts = [about.get(name, {}) for name in names]
        known = [[url] for url in rows["source_url"].to_pylist()]
        return self._made(names, pictures, rows["status"], known=known, targets=[None] * count, contexts=contexts)

    def _items(self, main: Object, beside: dict[str, Object]) -> pa.Table:
        own = ["item_id", "image_ids", "text_ids", "targets", "attributes"]
        items = read_unit(main.uri, columns=own).to_pylist()
        shown = {i for item in items for i in item["image_ids"] or []}
        columns = ["source_url", "status", *(["bytes"] if self.pictures else [])]
        images = lookup(beside.get("images"), "image_id", shown, columns)
        wanted = {t for item in items for t in item["text_ids"] or []}
        texts = lookup(beside.get("texts"), "text_id", wanted if self.fields else (), ["role", "text"])
        about = _about(beside.get("records"), list(shown), self.fields)
        pictures, statuses, contexts, known = [], [], [], []
        for item in items:
            ids = item["image_ids"] or []
            found = [images.get(i) for i in ids] if self.pictures else []
            bad = [row["status"] if row else Status.MISSING_INPUT.value for row in found]
            bad = [status for status in bad if status != Status.OK]
            pictures.append([row["bytes"] if row else None for row in found])
            statuses.append(bad[0] if bad else Status.OK.value)
            known.append([*ids, *(images[i]["source_url"] for i in ids if i in images)])
            first = next((about[i] for i in ids if i in about), {})
            words = _said([texts[t] for t in item["text_ids"] or [] if t in texts])
            contexts.append({**first, **words, **{k: v for k, v in item["attributes"] or () if v}})
        names, targets = [item["item_id"] for item in items], [item["targets"] for item in items]
        shown_with = pa.array(pictures, PICTURES), pa.array(statuses, pa.string())
        return self._made(names, *shown_with, known=known, targets=targets, contexts=contexts)

    def _made(
        self,
        names: list[str],
        pictures: Any,
        status: Any,
        *,
        known: Sequence[Sequence[str | None]],
        targets: Sequence[Any],
        contexts: Sequence[Mapping[str, Any]],
    ) -> pa.Table:
        made = pa.table({"item_id": pa.array(names, pa.string()), "pictures": pictures, "status": status})
        made = made.append_column(TARGETS, pa.array(targets, pa.list_(pa.string())))
        made = made.append_column(exclusions.SHOWN, pa.array(known, pa.list_(pa.string())))
        for field in self.fields:
            made = made.append_column(field, pa.array([_string(each.get(field)) for each in contexts], pa.string()))
        return made


def sources_of(cfg: AskingConfig, *, fields: Sequence[str], pictures: bool) -> ItemTables:
    """The tables that a job's keys name (`open_sources`)."""
    return open_sources(
        cfg.input, images=cfg.images, texts=cfg.texts, records=cfg.records, fields=fields, pictures=pictures
    )


def reading(sources: ItemTables, *, fields: Sequence[str], pictures: bool) -> Reader:
    """How the workers read the items of `sources`."""
    return Reader(sources.items.name, tuple(sources.sides), tuple(fields), pictures)


def lookup(
    source: Object | None, key: str, wanted: Collection[str], columns: Sequence[str]
) -> dict[str, dict[str, Any]]:
    """Rows of a data object, or of a whole table, by their key: the first of each that is `wanted`; none of None."""
    found: dict[str, dict[str, Any]] = {}
    if source is None or not wanted:
        return found
    keys = pa.array(sorted(wanted), pa.string())
    for uri in _objects(source):
        for rows in _hits(uri, key, keys, columns):
            for row in rows.to_pylist():
                found.setdefault(row.pop(key), row)
    return found


def _hits(uri: str, key: str, keys: pa.Array, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Of each row group first the key alone: bytes of pictures that are not asked for are not read."""
    fs, path = locations.filesystem(uri)
    with reading_rows(uri), fs.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
        for group in range(file.num_row_groups):
            hit = pc.is_in(file.read_row_group(group, columns=[key])[key], keys)
            if pc.any(hit).as_py():
                yield file.read_row_group(group, columns=[key, *columns]).filter(hit)


def _about(records: Object | None, names: Sequence[str], fields: Sequence[str]) -> dict[str, dict[str, Any]]:
    columns = [field for field in fields if field in TABLES["records"].columns]
    return lookup(records, "image_id", set(names), columns) if columns else {}


def _said(texts: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """An item's texts by their role, and all of them under `text`."""
    roles: dict[str, list[str]] = {}
    for each in texts:
        for name in {each["role"] or TEXT_FIELD, TEXT_FIELD}:
            roles.setdefault(name, []).append(each["text"] or "")
    return {name: "\n\n".join(said) for name, said in roles.items()}


def _each_alone(pictures: pa.Array) -> pa.Array:
    """A list of one for each picture, over the same bytes."""
    return pa.ListArray.from_arrays(pa.array(range(len(pictures) + 1), pa.int32()), pictures)


def _whole(table: TableSource) -> Object:
    """A table as one input: its place, and an etag that changes when any of its objects does."""
    objects = [footer.object for footer in table.footers]
    return Object(table.uri, sum(o.size for o in objects), content_id(*(f"{o.uri}:{o.etag}" for o in objects)))


def _objects(source: Object) -> list[str]:
    if source.uri.endswith(".parquet"):
        return [source.uri]
    return [each.uri for each in data_objects(source.uri, locations.listing(source.uri))]


def _string(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else ", ".join(map(str, value))
