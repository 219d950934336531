"""Read pictures from a folder or bucket."""

import asyncio
import re
from collections.abc import Callable

import pyarrow as pa
import pyarrow.fs

from actors import schemas
from actors.errors import first_line
from actors.fetching import image_rows
from actors.fetching.decoders import Decoders, close_when_dropped
from actors.fetching.image_rows import DEFAULT_MAX_BYTES
from actors.full_reads import read_whole
from actors.pictures import DEFAULT_MAX_PIXELS, PictureError
from actors.rows import ImageRow
from actors.status import Status

_NOT_UTF8 = re.compile(r"\\udc[89a-f][0-9a-f]")  # how Arrow writes a byte that is not UTF-8 in a path


class FolderFetcher:
    """Actor that turns paths into rows of the table `images`.

    Use it for pictures that are separate files; `actors.parquet_pictures` reads those inside Parquet files.
    """

    INPUTS = schemas.PICTURE_PATHS
    OUTPUTS = schemas.IMAGES

    def __init__(
        self,
        *,
        open_filesystem: Callable[[], pyarrow.fs.FileSystem],
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_pixels: int = DEFAULT_MAX_PIXELS,
        width: int | None = None,
        processes: int | None = None,
    ) -> None:
        """Open the file system.

        Args:
            open_filesystem: called once, in the worker's process, so that no connection is pickled.
            max_bytes: size limit of a file; a larger one is not read and becomes an error row.
            max_pixels: largest allowed width x height.
            width: pixels, as in `actors.pictures.render`; None: the files' bytes are kept.
            processes: number of decoding processes; None: one per CPU.

        Raises:
            ValueError: a limit that is not positive.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes={max_bytes}: must be at least 1")
        self._files = open_filesystem()
        self._max_bytes = max_bytes
        self._rendition = image_rows.rendition_name(width)
        self._decoders = Decoders(width=width, max_pixels=max_pixels, processes=processes)
        self._loop = asyncio.Runner()
        close_when_dropped(self, self._loop, self._decoders)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Read one batch.

        Args:
            batch: the columns of `INPUTS`. `path` is relative to the file system, and null where the folder has no
                such picture. Rows with `reported` in an optional column `status` are not read.

        Returns:
            The columns of the table `images` (jobs/tables.py), one row per input row, in the same order. Status `ok`
            with bytes and facts; `missing` (error_kind `not_in_folder`: no path; `vanished`: a path without a file);
            `reported`; `error` with error_kind `too_many_bytes`, `bad_name` (not UTF-8),
            `unreadable` (the storage raised an error) or a kind of `actors.fetching.decoders.Decoders.decode`.
            `attempts` is 0 if `path` is null, else 1.
        """
        return schemas.to_table(self._loop.run(self._rows(batch)), self.OUTPUTS)

    async def _rows(self, batch: pa.Table) -> list[ImageRow]:
        reading = asyncio.Semaphore(2 * self._decoders.processes)  # bounds the undecoded files in memory
        rows = [
            self._row(image_id, source_url, path, status, reading)
            for image_id, source_url, path, status in zip(
                batch["image_id"].to_pylist(),
                batch["source_url"].to_pylist(),
                batch["path"].to_pylist(),
                batch["status"].to_pylist() if "status" in batch.column_names else [None] * batch.num_rows,
                strict=True,
            )
        ]
        return await asyncio.gather(*rows)

    async def _row(
        self, image_id: str, source_url: str, path: str | None, status: str | None, reading: asyncio.Semaphore
    ) -> ImageRow:
        row: ImageRow = {
            "image_id": image_id,
            "rendition": self._rendition,
            "source_url": source_url,
            "final_url": source_url,
            "attempts": 0 if path is None else 1,
        }
        if withheld := image_rows.withheld(status):
            return row | withheld
        if path is None:
            return row | image_rows.failed(Status.MISSING, "not_in_folder", "the folder has no such picture")
        try:
            async with reading:
                data = await asyncio.to_thread(_read, self._files, path, self._max_bytes)
                rendered = await self._decoders.decode(data)
        except PictureError as error:
            return row | image_rows.undecodable(error)
        except FileNotFoundError:
            return row | _vanished(path)
        except (OSError, ValueError) as error:  # pyarrow raises one or the other
            reason = first_line(error)[:300]
            return row | image_rows.failed(Status.ERROR, "unreadable", f"the file cannot be read ({reason})")
        return row | image_rows.stored_picture(data if rendered.data is None else rendered.data, rendered.facts)


def _read(files: pyarrow.fs.FileSystem, path: str, max_bytes: int) -> bytes:
    with files.open_input_file(path) as file:  # a stream would decompress files named .gz
        size = file.size()
        if size > max_bytes:
            raise image_rows.too_many_bytes(size, max_bytes)
        return read_whole(file)


def _vanished(path: str) -> ImageRow:
    if _NOT_UTF8.search(path):
        return image_rows.failed(Status.ERROR, "bad_name", "the file's name is not UTF-8")
    return image_rows.failed(Status.MISSING, "vanished", "the file was listed and no longer exists")
