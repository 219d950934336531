"""Columns of the table `images` that fetchers fill in (`actors.schemas.IMAGES`)."""

from actors import schemas
from actors.pictures import PictureError, PictureFacts
from actors.schemas import ImageRow
from actors.status import Status, failed_reason

DEFAULT_MAX_BYTES = 64 * 2**20


def rendition_name(width: int | None) -> str:
    """Return the column `rendition` of pictures resized to `width` pixels (None: not resized)."""
    return "original" if width is None else f"w{width}"


def stored_picture(data: bytes, facts: PictureFacts) -> ImageRow:
    """Return the columns of a picture that was read and decoded, with status `ok`."""
    return {
        "bytes": data,
        "format": facts.format,
        "width": facts.width,
        "height": facts.height,
        "sha256": facts.sha256,
        "phash": facts.phash,
        "status": Status.OK.value,
    }


def failed(status: Status, kind: str, message: str) -> ImageRow:
    """Return the columns that say why there is no picture."""
    return schemas.failed(ImageRow, status, (kind, message))


def undecodable(error: PictureError) -> ImageRow:
    """Return the columns of a picture that could not be decoded: status `error` with the error's kind."""
    return failed(Status.ERROR, error.kind, str(error))


def withheld(status: str | None) -> ImageRow | None:
    """Return the columns of a picture whose status forbids reading it; None if it may be read."""
    if status == Status.REPORTED:
        return excluded()
    reason = failed_reason(status)
    return failed(Status.ERROR, *reason) if reason else None


def excluded() -> ImageRow:
    """Return the columns of a picture on the list of exclusions, which is not read: status `reported`."""
    return failed(Status.REPORTED, "excluded", "the picture is on the list of exclusions")


def too_many_bytes(size: int, allowed: int) -> PictureError:
    """Return the error for a picture whose encoded bytes exceed `max_bytes`."""
    return PictureError("too_many_bytes", f"{size} bytes, and {allowed} are allowed")
