"""The cells of Arrow columns as texts, the same for whatever type the program that wrote a file gave a column."""

import uuid
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.untrusted import cell_text


def column_texts(column: Any) -> pa.Array:
    """Return the cells of a column as trimmed strings (`actors.untrusted.cell_text`); empty ones are null.

    Raises:
        pa.ArrowException: the column has lists, objects or bytes that are not UTF-8.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array.type, pa.BaseExtensionType):
        array = _uuids(array.storage) if array.type.extension_name == "arrow.uuid" else array.storage
    if pa.types.is_nested(array.type) or pa.types.is_fixed_size_binary(array.type):
        raise pa.ArrowNotImplementedError(f"{array.type} holds no text")
    if pa.types.is_floating(array.type) or pa.types.is_decimal(array.type):
        array = _numbers(array)
    trimmed = pc.utf8_trim_whitespace(array.cast(pa.string()))
    return pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)


def list_texts(column: Any) -> pa.Array:
    """Return the lists of a column as the texts of their entries, which must not be lists, joined by commas.

    Raises:
        pa.ArrowException: as for `column_texts`.
    """
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    texts = column_texts(pc.list_flatten(array))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, pc.fill_null(texts, "")), ",")
    return pc.if_else(
        pc.and_(pc.is_valid(array), pc.greater(pa.array(lengths), 0)), joined, pa.scalar(None, pa.string())
    )


def _numbers(array: pa.Array) -> pa.Array:
    """Return numbers that may have a fraction as texts, each distinct one converted once."""
    array = array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
    coded = array.dictionary_encode()
    values = coded.dictionary
    distinct = values.to_numpy(zero_copy_only=False) if pa.types.is_floating(values.type) else values.to_pylist()
    return pa.array([cell_text(value) for value in distinct], pa.string()).take(coded.indices)


def _uuids(storage: pa.Array) -> pa.Array:
    texts = [None if value is None else str(uuid.UUID(bytes=value)) for value in storage.to_pylist()]
    return pa.array(texts, pa.string())
