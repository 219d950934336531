"""Rows of the table `images`: their columns, and how each fetcher fills them."""

from typing import Any

import pyarrow as pa

from actors.pictures import PictureError, PictureFacts
from actors.status import Status

DEFAULT_MAX_BYTES = 64 * 2**20

# The columns of `images` in jobs/tables.py, which adds their descriptions; a test compares the two.
SCHEMA = pa.schema(
    {
        "image_id": pa.string(),
        "rendition": pa.string(),
        "bytes": pa.large_binary(),
        "format": pa.string(),
        "width": pa.int32(),
        "height": pa.int32(),
        "sha256": pa.string(),
        "phash": pa.string(),
        "source_url": pa.string(),
        "final_url": pa.string(),
        "author": pa.string(),
        "licence": pa.string(),
        "http_status": pa.int32(),
        "attempts": pa.int32(),
        "status": pa.string(),
        "error_kind": pa.string(),
        "error_message": pa.string(),
    }
)

ImageRow = dict[str, Any]  # some columns of SCHEMA; the others are null


def rendition_name(width: int | None) -> str:
    """The column `rendition` of pictures resized to `width` pixels (None: not resized)."""
    return "original" if width is None else f"w{width}"


def stored_picture(data: bytes, facts: PictureFacts) -> ImageRow:
    """The columns of a picture that was read and decoded, with status `ok`."""
    return {"bytes": data, **facts._asdict(), "status": Status.OK.value}


def failed(status: Status, kind: str, message: str) -> ImageRow:
    """The columns that say why there is no picture."""
    return {"status": status.value, "error_kind": kind, "error_message": message}


def undecodable(error: PictureError) -> ImageRow:
    """The columns of a picture that could not be decoded: status `error` with the error's kind."""
    return failed(Status.ERROR, error.kind, str(error))


def excluded() -> ImageRow:
    """The columns of a picture on the list of exclusions, which is not read: status `reported`."""
    return failed(Status.REPORTED, "excluded", "the picture is on the list of exclusions")


def too_many_bytes(size: int, allowed: int) -> PictureError:
    """The error of a picture whose encoded bytes exceed `max_bytes`."""
    return PictureError("too_many_bytes", f"{size} bytes, and {allowed} are allowed")
