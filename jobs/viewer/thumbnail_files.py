"""Small copies of the pictures, read from their tables when a page shows them."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from jobs.html.thumbnails import Thumbnail, thumbnail
from jobs.store.files import locations
from jobs.store.object_rows import open_rows, reading_rows

HELD_BYTES = 256 << 20  # of row groups, each of at most about 64 MB
THUMBNAILS_HELD = 4096
LARGE = 1280  # pixels, on the page of one picture


class PicturePlace(NamedTuple):
    """The location of a picture's bytes: number of the data object, row group, and row in the group."""

    file: int
    row_group: int
    row: int


class PictureBytes:
    """Reads encoded pictures, and keeps the row groups read last, because most pictures of a page are in the same one.

    Args:
        files: the data objects of the tables of images.
        place_of: returns the place of an image_id; None without a picture that may be shown.
    """

    def __init__(self, files: Sequence[str], place_of: Callable[[str], PicturePlace | None]) -> None:
        self._files, self._place_of = files, place_of
        self._groups: OrderedDict[tuple[int, int], pa.ChunkedArray] = OrderedDict()
        self._lock = threading.Lock()
        self.thumbnail = lru_cache(THUMBNAILS_HELD)(self._thumbnail)

    def _thumbnail(self, image_id: str, side: int) -> Thumbnail | None:
        """Return a copy of at most `side` pixels without metadata; None if there is no picture, or it is damaged."""
        place = self._place_of(image_id)
        if place is None:
            return None
        data = self._group(place.file, place.row_group)[place.row].as_py()
        return thumbnail(data, side=side)[0] if data is not None else None

    def _group(self, file: int, row_group: int) -> pa.ChunkedArray:
        with self._lock:  # one thread reads a group, and the others reuse it
            key = file, row_group
            if key not in self._groups:
                self._groups[key] = self._read(*key)
                while len(self._groups) > 1 and sum(column.nbytes for column in self._groups.values()) > HELD_BYTES:
                    self._groups.popitem(last=False)
            self._groups.move_to_end(key)
            return self._groups[key]

    def _read(self, file: int, row_group: int) -> pa.ChunkedArray:
        uri = self._files[file]
        filesystem, path = locations.filesystem(uri)
        with reading_rows(uri), filesystem.open_input_file(path) as stream, open_rows(uri, stream) as parquet:
            return parquet.read_row_group(row_group, columns=["bytes"])["bytes"]
