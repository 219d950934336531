"""Reading of the rows that an encoder takes from a unit: pictures, texts, or vectors of pictures."""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.errors import InputError
from jobs.store.pieces import read_piece
from jobs.store.writer import UnitTask

PICTURE_COLUMNS = ["image_id", "source_url", "bytes", "status", "error_kind", "error_message"]
TEXT_COLUMNS = ["text_id", "text"]
VECTOR_COLUMNS = ["item_id", "kind", "embedding", "status", "error_kind", "error_message"]


class EncoderInput(NamedTuple):
    """The way in which the rows of a table are read for an encoder.

    Attributes:
        read: returns the rows of a unit.
        item: the column with the ids of the rows.
        decodes: whether the rows are bytes of pictures, which another stage decodes first.
    """

    read: Callable[[UnitTask], pa.Table]
    item: str
    decodes: bool = False

    @property
    def pools(self) -> list[str]:
        """Return the pools of the stages, in their order."""
        return ["decode", "embed"] if self.decodes else ["embed"]


def read_pictures(task: UnitTask) -> pa.Table:
    """Read the columns of a unit's pictures that the decoder needs."""
    return read_piece(task.unit, PICTURE_COLUMNS)


def read_texts(task: UnitTask) -> pa.Table:
    """Read the columns of a unit's texts that the encoder needs."""
    return read_piece(task.unit, TEXT_COLUMNS)


def read_vectors(task: UnitTask) -> pa.Table:
    """Read a unit's vectors of pictures.

    Raises:
        InputError: some of the vectors are of texts.
    """
    uri = task.unit.inputs[0].uri
    rows = read_piece(task.unit, VECTOR_COLUMNS)
    if not pc.all(pc.equal(rows["kind"], "image"), min_count=0).as_py():
        raise InputError(f"input: {uri}: embeddings of texts, but zero_shot rates pictures; use embeddings of images")
    return rows


PICTURES = EncoderInput(read_pictures, "image_id", decodes=True)
TEXTS = EncoderInput(read_texts, "text_id")
VECTORS = EncoderInput(read_vectors, "item_id")
