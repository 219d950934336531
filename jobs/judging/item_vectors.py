"""Reading of pictures or items with their pictures' vectors, as the rows that an encoder rates (`zero_shot`)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from actors.items import TARGETS
from actors.status import Status
from jobs.errors import InputError
from jobs.judging.items import ItemTables
from jobs.judging.joined_rows import lookup
from jobs.models.encoder_inputs import PICTURES, VECTORS, EncoderInput
from jobs.runtime.selection import exclusions
from jobs.store.pieces import read_piece
from jobs.store.reading import open_table
from jobs.store.writer import UnitTask


def open_vectors(uri: str, embeddings: str | None) -> ItemTables:
    """Open the table of the pictures or items, and for items also the table of their pictures' vectors.

    Args:
        uri: a table of embeddings, of images, or of items.
        embeddings: for a table of items: the embeddings of their pictures.

    Raises:
        InputError: a table does not exist or is incomplete, or `embeddings` is missing or not allowed.
    """
    source = open_table(uri, "embeddings", "images", "items")
    if source.name != "items":
        if embeddings:
            raise InputError(
                f"embeddings={embeddings}: allowed only for a table of items, and input={uri} is a table of "
                f"{source.name}; omit it"
            )
        return ItemTables(source)
    if not embeddings:
        raise InputError(f"input={uri}: a table of items; set embeddings= to the vectors of their pictures")
    return ItemTables(source, vectors=open_table(embeddings, "embeddings"))


def read_item_vectors(task: UnitTask) -> pa.Table:
    """Return the items of a unit with the vector of their picture.

    The unit's inputs are an object of the table `items`, and an object of the table `embeddings` or that whole table.

    Returns:
        `item_id`, `embedding: list<float>`, `status`, `error_kind`, `error_message`, `targets: list<string>`, and
        `jobs.runtime.selection.exclusions.SHOWN`. An item without a picture, or whose picture has no vector, is
        `missing_input`; one with several pictures is `skipped`.
    """
    _, vectors = task.unit.inputs
    items = read_piece(task.unit, ["item_id", "image_ids", TARGETS]).to_pylist()
    ids = {i for item in items for i in item["image_ids"] or ()}
    columns = ["kind", "embedding", "status", "error_kind", "error_message"]
    rows = lookup(vectors, "item_id", ids, columns)
    outcomes = [_item_vector(item["image_ids"] or (), rows) for item in items]
    return pa.table({
        "item_id": pa.array([item["item_id"] for item in items], pa.string()),
        "embedding": pa.array([outcome["embedding"] for outcome in outcomes], pa.list_(pa.float32())),
        **{name: pa.array([o[name] for o in outcomes], pa.string()) for name in columns[2:]},
        TARGETS: pa.array([item[TARGETS] for item in items], pa.list_(pa.string())),
        exclusions.SHOWN: pa.array([item["image_ids"] for item in items], pa.list_(pa.string())),
    })  # fmt: skip


def _item_vector(image_ids: Sequence[str], rows: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the vector and the outcome of an item with the pictures `image_ids`."""
    failure = {"embedding": None, "status": Status.MISSING_INPUT.value, "error_kind": "no_picture"}
    if len(image_ids) > 1:
        message = f"the item has {len(image_ids)} pictures; an encoder rates one"
        skipped = {"status": Status.SKIPPED.value, "error_kind": "picture_count", "error_message": message}
        return {**failure, **skipped}
    row = rows.get(image_ids[0]) if image_ids else None
    if row is None or row["kind"] != "image":
        message = "the item has no picture" if not image_ids else "the table of embeddings does not have the picture"
        return {**failure, "error_message": message}
    vector = None if row["embedding"] is None else np.asarray(row["embedding"], np.float32)
    return {**row, "embedding": vector}


INPUTS = {"images": PICTURES, "embeddings": VECTORS, "items": EncoderInput(read_item_vectors, "item_id")}
