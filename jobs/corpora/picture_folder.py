"""A folder or bucket of pictures: its files, and the names of which their image_ids are hashes."""

from jobs.store import locations
from jobs.store.locations import Object


def list_files(folder: str) -> list[Object]:
    """Return the files below `folder`, including unreadable ones, except those whose names begin with a dot."""
    return [o for o in locations.find(folder, strict=False) if not o.uri.rsplit("/", 1)[-1].startswith(".")]


def name_in(folder: str, uri: str) -> str:
    """Return the path of a file below `folder`, of which the image_id is a hash; its name if `folder` is the file."""
    return uri.removeprefix(folder).lstrip("/") or uri.rsplit("/", 1)[-1]
