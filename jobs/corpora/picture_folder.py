"""A folder or bucket of pictures: its files, and the names from which their image_ids are made."""

from jobs.store.files import locations
from jobs.store.files.objects import Object


def list_files(folder: str) -> list[Object]:
    """Return the files below `folder`, including unreadable files but not those whose names begin with a dot."""
    return [file for file in locations.find(folder, strict=False) if not locations.is_hidden(file.uri)]


def name_in(folder: str, uri: str) -> str:
    """Return a file's path below `folder`, from which its image_id is made; if `folder` is the file, its name."""
    return uri.removeprefix(folder).lstrip("/") or uri.rsplit("/", 1)[-1]
