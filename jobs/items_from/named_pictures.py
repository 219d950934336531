"""Conversion of the pictures in a user's file, given by path in a folder, URL or image_id, to image_ids."""

import posixpath
import unicodedata
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

import numpy as np

from actors.ids import content_id
from jobs.corpora import picture_folder
from jobs.errors import InputError
from jobs.items_from.input_rows import UserFile
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


class NoPictureError(ValueError):
    """A cell without a picture; the row becomes a reject. The message is one sentence."""


class Pictures(Protocol):
    """Interface that turns the names in a file into pictures."""

    by_url: bool  # whether the pictures become records

    def find(self, name: str, line: int) -> NamedPicture:
        """Return the picture. Raises NoPictureError, or InputError if it does not exist."""

    def finish(self) -> None:
        """Make the checks that need all names; raises InputError."""


def open_pictures(cfg: ItemsConfig, file: UserFile) -> Pictures:
    """Return the finder of pictures: by path with pictures.path=, by image_id with images=, otherwise by URL.

    Raises:
        InputError: both keys are set, or the folder or the table cannot be read.
    """
    if cfg.pictures.path and cfg.images:
        raise InputError("pictures.path= is for pictures given by path, images= for image_ids; give one of them")
    if cfg.pictures.path:
        return Paths(cfg.pictures.path, file)
    return Ids(open_table(cfg.images, "images", key="images"), file) if cfg.images else Urls()


class Paths:
    """Finder of pictures by path in a folder; the image_id is the same as with `remine fetch source=folder`.

    Holds the names of all files in the folder in memory.
    """

    by_url = False

    def __init__(self, path: str, file: UserFile) -> None:
        self._key, self._folder, self._file = f"pictures.path={path}", locations.absolute(path), file
        self._names = {picture_folder.name_in(self._folder, o.uri) for o in picture_folder.list_files(self._folder)}
        self._by_composed = _by_composed(self._names)

    def find(self, name: str, line: int) -> NamedPicture:
        """Return the picture at `name`, relative to the folder or absolute; raises InputError if there is none."""
        path = name.removeprefix(self._folder + "/")
        path = posixpath.normpath(path)
        path = path if path in self._names else self._by_composed.get(unicodedata.normalize("NFC", path), path)
        if path not in self._names:
            raise InputError(
                f"no picture {name!r} among the {len(self._names):,} files of {self._key}{self._hint(name, path)}",
                place=self._file.at(line),
            )
        return NamedPicture(content_id(path), locations.join(self._folder, path))

    def _hint(self, name: str, path: str) -> str:
        if mark := next((mark for mark in OTHER_SEPARATORS if mark in name), None):
            parts = [posixpath.normpath(part.strip()) for part in name.split(mark)]
            if any(part in self._names for part in parts):
                return f"; it is a list, set separators.pictures={mark!r}"
        last = _last_part(path.replace("\\", "/"))
        near = [name for name in self._names if _last_part(name) == last or name.rsplit(".", 1)[0] == path]
        return f"; there is {min(near, key=lambda name: (len(name), name))!r}" if near else ""

    def finish(self) -> None:
        """Do nothing: there is nothing left to check."""


def _last_part(path: str) -> str:
    """Return the last part of a path without case, composed (NFC) and percent-decoded, as misspelt paths may be."""
    return unicodedata.normalize("NFC", unquote(path.rsplit("/", 1)[-1])).casefold()


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

    by_url = True

    def find(self, name: str, line: int) -> NamedPicture:
        """Return the picture; raises NoPictureError if `name` is not a URL."""
        try:
            parts = urlsplit(name)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme.lower() not in ("http", "https") or not parts.hostname or " " in name:
            raise NoPictureError(
                f"{name!r} is not a URL; for files set pictures.path=FOLDER, for image_ids images=TABLE"
            )
        return NamedPicture(content_id(name), name)

    def finish(self) -> None:
        """Do nothing: there is nothing left to check."""


class Ids:
    """Finder of pictures by image_id in a table of images; holds 16 bytes per name and checks them all at the end."""

    by_url = False

    def __init__(self, images: TableSource, file: UserFile) -> None:
        self._images, self._file = images, file
        self._lines, self._hashes, self._held = array("q"), array("Q"), list[str]()

    def find(self, name: str, line: int) -> NamedPicture:
        """Return the picture; `finish` checks that the table has it."""
        self._lines.append(line)
        self._held.append(name)
        if len(self._held) >= 4096:
            self._hash()
        return NamedPicture(name, name)

    def _hash(self) -> None:
        self._hashes.frombytes(hash_texts(self._held).tobytes())
        self._held.clear()

    def finish(self) -> None:
        """Raise InputError unless the table of images has every id."""
        if self._held:
            self._hash()
        ids, first = np.unique(np.frombuffer(self._hashes, np.uint64), return_index=True)
        exists = np.zeros(len(ids), bool)
        for batch in self._images.batches(["image_id"]) if len(ids) else ():
            hashes = hash_texts(batch["image_id"])
            place = np.minimum(np.searchsorted(ids, hashes), len(ids) - 1)
            exists[place[ids[place] == hashes]] = True
        if not exists.all():
            line = self._lines[int(first[~exists].min())]
            raise InputError(
                f"an image_id that images={self._images.uri} does not have "
                f"({int((~exists).sum()):,} such ids); fetch these pictures, or name the table that has them",
                place=self._file.at(line),
            )
