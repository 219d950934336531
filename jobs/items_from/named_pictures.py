"""Conversion of the pictures in a user's file, given by path in a folder, URL or image_id, to image_ids."""

import posixpath
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol
from urllib.parse import unquote, urlsplit

import numpy as np

from actors.ids import content_id
from jobs.corpora import user_tables
from jobs.errors import InputError, about
from jobs.items_from.input_rows import UnusableRowError, UserFile, entries
from jobs.items_from.items_config import ItemsConfig
from jobs.store.files import locations
from jobs.store.hashing import hash_texts
from jobs.store.reading import TableSource, open_table

OTHER_SEPARATORS = ";,|\t"


@dataclass(frozen=True)
class NamedPicture:
    """A picture: its image_id, and the URL or path from which the id is computed (or the id itself)."""

    image_id: str
    name: str


class Pictures(Protocol):
    """Interface that turns the names in a file into pictures."""

    by_url: bool  # whether the pictures become records
    folder: str  # that names are relative to; empty: none

    def find(self, name: str) -> NamedPicture:
        """Return the picture. Raises UnusableRowError if there is none."""


def open_pictures(cfg: ItemsConfig, file: UserFile, columns: Iterable[str]) -> Pictures:
    """Return the finder of pictures: by path with pictures.path=, by image_id with images=, otherwise by URL.

    Args:
        columns: the file's columns of pictures.

    Raises:
        InputError: both keys are set, or the folder or the table cannot be read.
    """
    if cfg.pictures.path and cfg.images:
        raise InputError("pictures.path= is for pictures given by path, images= for image_ids; give one of them")
    if cfg.pictures.path:
        return Paths(cfg.pictures.path)
    if not cfg.images:
        return Urls()
    rows = (row for _, row in file.rows(lambda _: None))
    names = (name for row in rows for name in entries([row.get(c) for c in columns], cfg.separators.pictures))
    return Ids(open_table(cfg.images, "images", key="images"), names)


class Paths:
    """Finder of pictures by path in a folder; the image_id is the same as with `remine fetch source=folder`.

    Holds the names of all files in the folder in memory.
    """

    by_url = False

    def __init__(self, path: str) -> None:
        self.folder = locations.absolute(path)
        with about("pictures.path"):
            files = user_tables.list_files(self.folder)
        self._names = {user_tables.name_in(self.folder, file.uri) for file in files}
        self._by_composed = _by_composed(self._names)

    def find(self, name: str) -> NamedPicture:
        """Return the picture at `name`, relative to the folder or absolute. Raises UnusableRowError without one."""
        path = posixpath.normpath(locations.without_disk(name, [self.folder]))
        path = path if path in self._names else self._by_composed.get(unicodedata.normalize("NFC", path), path)
        if path not in self._names:
            shown = f"…/{_last_part(path)}" if locations.is_on_disk(name) else name  # rejects are kept and passed on
            among = f"the {len(self._names):,} files of the folder {posixpath.basename(self.folder)}"
            raise UnusableRowError("no_such_picture", f"no picture {shown!r} among {among}{self._hint(name, path)}")
        return NamedPicture(content_id(path), locations.join(self.folder, path))

    def _hint(self, name: str, path: str) -> str:
        if mark := next((mark for mark in OTHER_SEPARATORS if mark in name), None):
            parts = [posixpath.normpath(part.strip()) for part in name.split(mark)]
            if any(part in self._names for part in parts):
                return f"; it is a list, set separators.pictures={mark!r}"
        last = _folded(path)
        near = [name for name in self._names if _folded(name) == last or name.rsplit(".", 1)[0] == path]
        return f"; there is {min(near, key=lambda name: (len(name), name))!r}" if near else ""


def _last_part(path: str) -> str:
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def _folded(path: str) -> str:
    """Return the last part of a path without case, composed (NFC) and percent-decoded, as misspelt paths may be."""
    return unicodedata.normalize("NFC", unquote(_last_part(path))).casefold()


def _by_composed(names: Iterable[str]) -> dict[str, str]:
    """Return names that are not ASCII by their composed form (NFC), unless two names have the same one.

    macOS writes an umlaut in a file's name as two characters, and a spreadsheet writes it as one.
    """
    names_by_form: dict[str, list[str]] = {}
    for name in names:
        if not name.isascii():
            names_by_form.setdefault(unicodedata.normalize("NFC", name), []).append(name)
    return {composed: same[0] for composed, same in names_by_form.items() if len(same) == 1}


class Urls:
    """Finder of pictures by URL; the image_id is the URL's hash, as in `records`."""

    by_url, folder = True, ""

    def find(self, name: str) -> NamedPicture:
        """Return the picture; raises UnusableRowError if `name` is not a URL."""
        try:
            parts = urlsplit(name)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme.lower() not in ("http", "https") or not parts.hostname or " " in name:
            raise UnusableRowError(
                "not_a_url", f"{name!r} is not a URL; for files set pictures.path=FOLDER, for image_ids images=TABLE"
            )
        return NamedPicture(content_id(name), name)


class Ids:
    """Finder of pictures by image_id in a table of images; holds 8 bytes per distinct id.

    Args:
        images: the table.
        names: the ids that will be looked up.
    """

    by_url, folder = False, ""

    def __init__(self, images: TableSource, names: Iterable[str]) -> None:
        self._uri = images.uri
        wanted = np.unique(np.concatenate([np.zeros(0, np.uint64), *map(hash_texts, _chunks(names))]))
        exists = np.zeros(len(wanted), bool)
        for batch in images.batches(["image_id"]) if len(wanted) else ():
            hashes = hash_texts(batch["image_id"])
            place = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
            exists[place[wanted[place] == hashes]] = True
        self._absent = frozenset(wanted[~exists].tolist())

    def find(self, name: str) -> NamedPicture:
        """Return the picture; raises UnusableRowError if the table does not have it."""
        if self._absent and int(hash_texts([name])[0]) in self._absent:
            raise UnusableRowError("no_such_picture", f"no image_id {name!r} in images={self._uri}")
        return NamedPicture(name, name)


def _chunks(names: Iterable[str]) -> Iterator[list[str]]:
    names = iter(names)
    while chunk := list(islice(names, 4096)):
        yield chunk
