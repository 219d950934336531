"""Read pictures from a folder or bucket instead of the network."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.fs

from actors import schemas
from actors.errors import first_line
from actors.fetching.decoders import Decoders
from actors.pictures import DEFAULT_MAX_PIXELS, PictureError
from actors.status import Status

DEFAULT_MAX_BYTES = 64 * 2**20
_NOT_UTF8 = re.compile(r"\\udc[89a-f][0-9a-f]")  # how a byte of such a name is written in a path


class FolderFetcher:
    """Turn paths into rows of the table `images`."""

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
            open_filesystem: called once, where the work is done, so that no connection has to travel.
            max_bytes: a larger file is refused before it is read.
            max_pixels: width x height allowed.
            width: as of `actors.pictures.render`; None: the files' bytes stay untouched.
            processes: that decode; None: one a CPU.

        Raises:
            ValueError: a bound that is not positive.
        """
        if max_bytes < 1:
            raise ValueError(f"max_bytes is {max_bytes}; it must be at least 1")
        self._files = open_filesystem()
        self._max_bytes = max_bytes
        self._rendition = "original" if width is None else f"w{width}"
        self._decoders = Decoders(width=width, max_pixels=max_pixels, processes=processes)
        self._loop = asyncio.Runner()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Read one batch.

        Args:
            batch: columns `image_id`, `source_url`, `path` (string); `path` lies inside the file system and is null
                where the folder has no such picture. A row whose column `status`, if there is one, is `reported`
                is not read.

        Returns:
            The columns of the table `images` (jobs/tables.py), one row for each row that came in, in order. Status
            `ok` with bytes and facts; `missing` (error_kind `not_in_folder`: no path; `vanished`: a path without a
            file); `reported`; `error` with error_kind `too_many_bytes`, `unreadable` (the storage's own error) or a
            kind of `actors.fetching.decoders.Decoders.decode`. `attempts` is 0 where there was no path to read, else 1.
        """
        return pa.Table.from_pylist(self._loop.run(self._rows(batch)), schema=self.OUTPUTS)

    async def _rows(self, batch: pa.Table) -> list[dict[str, Any]]:
        reading = asyncio.Semaphore(2 * self._decoders.processes)  # so many files are in memory undecoded
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
    ) -> dict[str, Any]:
        row = {
            "image_id": image_id,
            "rendition": self._rendition,
            "source_url": source_url,
            "final_url": source_url,
            "attempts": 0 if path is None else 1,
        }
        if status == Status.REPORTED:
            return row | _failed(Status.REPORTED, "excluded", "the picture is on the list of exclusions")
        if path is None:
            return row | _failed(Status.MISSING, "not_in_folder", "the folder has no such picture")
        try:
            async with reading:
                data = await asyncio.to_thread(self._read, path)
                rendered = await self._decoders.decode(data)
        except PictureError as error:
            return row | _failed(Status.ERROR, error.kind, str(error))
        except FileNotFoundError:
            return row | _vanished(path)
        except (OSError, ValueError) as error:  # pyarrow's errors are one or the other
            said = first_line(error)[:300]
            return row | _failed(Status.ERROR, "unreadable", f"the file cannot be read ({said})")
        stored = data if rendered.data is None else rendered.data
        return row | {"bytes": stored, **rendered.facts._asdict(), "status": Status.OK.value}

    def _read(self, path: str) -> bytes:
        with self._files.open_input_file(path) as file:  # a plain stream would unpack what is called .gz
            size = file.size()
            if size > self._max_bytes:
                raise PictureError("too_many_bytes", f"{size} bytes, and {self._max_bytes} are allowed")
            return file.read(size)


def _vanished(path: str) -> dict[str, str]:
    if _NOT_UTF8.search(path):
        return _failed(Status.ERROR, "unreadable", "the file's name is not UTF-8")
    return _failed(Status.MISSING, "vanished", "the file was listed and is no longer there")


def _failed(status: Status, kind: str, message: str) -> dict[str, str]:
    return {"status": status.value, "error_kind": kind, "error_message": message}
