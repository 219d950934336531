"""Arrow schemas of stages' inputs and outputs; `jobs.tables` adds keys, versions and descriptions for tables.

A stage class declares the columns that it needs as `INPUTS` and those that it returns as `OUTPUTS`. The stage runner
(`jobs.runtime.stage_contract`) checks batches against both.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from actors.untrusted import storable

STR, I32, I64, F64 = pa.string(), pa.int32(), pa.int64(), pa.float64()
STRS = pa.list_(STR)
_END = {"status": STR, "error_kind": STR, "error_message": STR}  # how the work on a row ended

# Tables
IMAGES = pa.schema({
    "image_id": STR,
    "rendition": STR,
    "bytes": pa.large_binary(),
    "format": STR,
    "width": I32,
    "height": I32,
    "sha256": STR,
    "phash": STR,
    "source_url": STR,
    "final_url": STR,
    "author": STR,
    "licence": STR,
    "http_status": I32,
    "attempts": I32,
    **_END,
})  # fmt: skip
RESPONSES = pa.schema({
    "response_id": STR,
    "item_id": STR,
    "model": STR,
    "prompt": STR,
    "condition": STR,
    "sample": I32,
    "seed": I64,
    "text": STR,
    "thought": STR,
    "finish_reason": STR,
    "refusal_kind": STR,
    "truncated": STRS,
    "empty_context": STR,
    **_END,
})  # fmt: skip
RATINGS = pa.schema({
    "item_id": STR,
    "target": STR,
    "rubric": STR,
    "question": STR,
    "rater": STR,
    "condition": STR,
    "method": STR,
    "order": STR,
    "sample": I32,
    "value": STR,
    "score": F64,
    "expected": F64,
    "answers": STRS,
    "probabilities": pa.list_(F64),
    "outside_mass": F64,
    "truncated": STRS,
    "empty_context": STR,
    **_END,
    "raw": STR,
    "comment": STR,
    "seconds": F64,
})  # fmt: skip
SPANS = pa.schema({
    "item_id": STR,
    "rater": STR,
    "condition": STR,
    "method": STR,
    "text_id": STR,
    "kind": STR,
    "start": I32,
    "end": I32,
    "category": STR,
    "score": F64,
    "marked": pa.bool_(),
    "probability": F64,
    **_END,
    "raw": STR,
})  # fmt: skip


def embeddings(dim: int) -> pa.Schema:
    """Return the schema of the table `embeddings` with vectors of `dim` float16 numbers."""
    return pa.schema({"item_id": STR, "kind": STR, "embedding": pa.list_(pa.float16(), dim), **_END})


def to_table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as an Arrow table, null where they lack a column; texts that UTF-8 cannot encode become storable.

    All rows are written through this function, so that no text from outside can stop a run (`actors.untrusted`).
    """
    rows = list(rows)
    try:
        return pa.Table.from_pylist(rows, schema=schema)
    except UnicodeEncodeError:
        return pa.Table.from_pylist([storable(dict(row)) for row in rows], schema=schema)


# Batches that pass from reader to stage, or from stage to stage
PICTURE_PATHS = pa.schema({"image_id": STR, "source_url": STR, "path": STR})
PICTURE_ROWS = pa.schema([*PICTURE_PATHS, ("row_group", I32), ("row", I64)])
ENCODED_PICTURES = pa.schema({"image_id": STR, "bytes": pa.large_binary(), **_END})
DECODED_PICTURES = pa.schema({"item_id": STR, "kind": STR, "pixels": pa.large_binary(), **_END})
TEXTS = pa.schema({"text_id": STR, "text": STR})
IMAGE_PROMPTS = pa.schema({"image_id": STR, "prompt": STR, "seed": I64, "status": STR})
OWN_QUESTIONS = pa.list_(pa.struct({"set_id": STR, "question_id": STR, "text": STR}))
ITEMS = pa.schema({"item_id": STR, "pictures": pa.list_(pa.large_binary()), "status": STR})
DESCRIBED_ITEMS = pa.schema([*ITEMS, ("texts", pa.map_(STR, STRS)), ("text_ids", pa.map_(STR, STRS))])
PREPARED_QUESTIONS = pa.schema({
    "item_id": STR,
    "targets": STRS,
    "questions": OWN_QUESTIONS,
    "inputs": pa.large_binary(),
    "shared": I32,
    "suffixes": pa.list_(pa.list_(I32)),
    "truncated": STRS,
    "empty_context": STR,
    **_END,
})  # fmt: skip
PREPARED_PROMPTS = pa.schema({
    "item_id": STR,
    "targets": STRS,
    "inputs": pa.large_binary(),
    "truncated": STRS,
    "empty_context": STR,
    **_END,
})  # fmt: skip
WRITTEN_ANSWERS = pa.schema({
    "item_id": STR,
    "model": STR,
    "prompt": STR,
    "condition": STR,
    "sample": I32,
    "text": STR,
    "truncated": STRS,
    "empty_context": STR,
    **_END,
})  # fmt: skip
RATED_ITEMS = pa.schema({"item_id": STR, **_END})
