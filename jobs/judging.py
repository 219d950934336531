"""What `jobs.judge` reads: pictures with their records, or items with their pictures and texts, and the targets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from actors.status import Status
from jobs import exclusions
from jobs.config import CONF
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.reading import TableSource, read_unit
from jobs.store.units import Unit
from jobs.store.writer import Task

TARGET_LISTS = CONF / "labels"


def read_targets(given: Any) -> tuple[str, ...] | None:
    """The labels that `targets=` names: a list, a file with one a line (`#` begins a comment), or a list of
    `conf/labels`; None if nothing is given.

    Raises:
        InputError: no such file or list, or one that is empty or names a label twice.
    """
    if given is None:
        return None
    lines = [str(entry) for entry in given] if isinstance(given, list | tuple) else _lines(str(given))
    named = [text for line in lines if (text := line.partition(" #")[0].strip()) and not text.startswith("#")]
    if not named:
        raise InputError(f"targets={given}: no label in it")
    if twice := next((label for label in named if named.count(label) > 1), None):
        raise InputError(f"targets={given}: label {twice!r} stands twice")
    return tuple(named)


def _lines(given: str) -> list[str]:
    kept = TARGET_LISTS / f"{given}.txt"
    if "/" not in given and kept.is_file() and not Path(given).is_file():
        return kept.read_text(encoding="utf-8").splitlines()
    try:
        (file,) = locations.find(given)[:1]
    except InputError as error:
        known = ", ".join(sorted(path.stem for path in TARGET_LISTS.glob("*.txt")))
        raise InputError(f"targets={given}: no such file, and no such list of conf/labels ({known})") from error
    with locations.named_errors(given):
        data = locations.read_bytes(file.uri)
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"targets={given}: not a text file in UTF-8") from error


def joined(images: TableSource, records: TableSource | None) -> list[Unit]:
    """The units of `images`, each with the records' object of the same unit as second input.

    Raises:
        InputError: the pictures were not fetched for these records.
    """
    if records is None:
        return images.units()
    there = records.by_unit()
    units = []
    for unit in images.units():
        if unit.name not in there:
            raise InputError(f"{images.uri} was not fetched for {records.uri}: no unit {unit.name} there")
        units.append(Unit(unit.name, (*unit.inputs, there[unit.name]), rows=unit.rows))
    return units


def pictures(task: Task, *, context: Sequence[str]) -> pa.Table:
    """A unit's pictures with their records' context columns, joined by image_id."""
    shown = read_unit(task.unit.inputs[0].uri, columns=["image_id", "bytes", "status"])
    shown = shown.rename_columns(["item_id", "bytes", "status"])
    if not context:
        return shown
    about = read_unit(task.unit.inputs[1].uri, columns=["image_id", *context])
    place = {image: i for i, image in enumerate(about["image_id"].to_pylist())}
    order = pa.array([place.get(item) for item in shown["item_id"].to_pylist()], pa.int64())
    for name in context:
        shown = shown.append_column(name, about[name].take(order))
    return shown


def with_items(items: TableSource, images: TableSource | None, texts: TableSource | None) -> list[Unit]:
    """The units of `items`, each with the objects in which its pictures and texts may lie.

    Where the tables have the same units, that is one object of each; else all of them.
    """
    units = []
    for unit in items.units():
        inputs = list(unit.inputs)
        for table in (images, texts):
            if table is not None:
                there = table.by_unit()
                inputs += [there[unit.name]] if unit.name in there else list(there.values())
        units.append(Unit(unit.name, tuple(inputs), rows=unit.rows))
    return units


def items(task: Task, *, images: str | None, texts: str | None, context: Sequence[str], kept: str | None) -> pa.Table:
    """A unit's items with their picture, their own targets and their context.

    A context field is the attribute of that name, else the item's texts of that role. `kept` is where the list of
    exclusions lies (`jobs.exclusions.keep`): it names pictures, which are not items here.
    """
    wanted = ["item_id", "image_ids", "text_ids", "targets", "attributes"]
    rows = read_unit(task.unit.inputs[0].uri, columns=wanted).to_pylist()
    others = [source.uri for source in task.unit.inputs[1:]]
    shown = _found(others, images, "image_id", ["bytes", "status"], {i for r in rows for i in r["image_ids"] or ()})
    said = _found(others, texts, "text_id", ["role", "text"], {i for r in rows for i in r["text_ids"] or ()})
    withheld = exclusions.kept(kept)
    made = []
    for row in rows:
        ids = row["image_ids"] or []
        picture = shown.get(ids[0], {}) if len(ids) == 1 else {}
        status = picture.get("status") if len(ids) <= 1 else Status.SKIPPED.value
        hidden = any(i in withheld for i in ids)
        attributes = dict(row["attributes"] or ())
        own = [said[i] for i in row["text_ids"] or () if i in said]
        made.append(
            {
                "item_id": row["item_id"],
                "bytes": None if hidden else picture.get("bytes"),
                "status": Status.REPORTED.value if hidden else status,
                "targets": row["targets"] or None,
                **{f: attributes.get(f) or "\n\n".join(t["text"] for t in own if t["role"] == f) for f in context},
            }
        )
    schema = pa.schema(
        [("item_id", pa.string()), ("bytes", pa.large_binary()), ("status", pa.string())]
        + [("targets", pa.list_(pa.string()))]
        + [(name, pa.string()) for name in context]
    )
    return pa.Table.from_pylist(made, schema=schema)


def _found(
    uris: Sequence[str], table: str | None, key: str, columns: Sequence[str], wanted: set[str]
) -> dict[str, dict[str, Any]]:
    """The rows of `table` whose key is wanted, by key; of several renditions of a picture the first in order."""
    found: dict[str, dict[str, Any]] = {}
    for uri in uris if wanted else ():
        if table and uri.startswith(table.rstrip("/") + "/"):
            fs, path = locations.filesystem(uri)
            with fs.open_input_file(path) as stream:
                read = pq.read_table(stream, columns=[key, *columns], filters=[(key, "in", sorted(wanted))])
            for row in read.to_pylist():
                found.setdefault(row[key], row)
    return found


def rows_of_items(rows: pa.Table, *, questions: int, targets: int) -> list[int]:
    """How many ratings each item becomes: questions x its own targets, or the rubric's `targets` where it has none."""
    return [questions * (len(own) if own else targets) for own in rows["targets"].to_pylist()]
