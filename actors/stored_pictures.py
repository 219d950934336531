"""Read pictures from files of a folder or bucket: separate files, or rows of Parquet files."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from actors import schemas
from actors.errors import SettingError, first_line
from actors.fetching import image_rows
from actors.fetching.decoders import Decoders, PictureReader, close_when_dropped
from actors.fetching.image_rows import DEFAULT_MAX_BYTES
from actors.full_reads import read_whole
from actors.pictures import DEFAULT_MAX_PIXELS, PictureError
from actors.schemas import ImageRow
from actors.status import Status

_NOT_UTF8 = re.compile(r"\\udc[89a-f][0-9a-f]")  # how Arrow writes a byte that is not UTF-8 in a path


class FolderFetcher:
    """Actor that turns paths into rows of the table `images`.

    Use it for pictures that are separate files; `ParquetPictures` reads those inside Parquet files.
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
            raise SettingError("must be at least 1", "max_bytes", max_bytes)
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


BATCH_ROWS = 32  # pictures of a row group in memory at once
BUFFER = 4 << 20  # bytes of the column that Arrow reads ahead; unbounded, it reads a whole column chunk

Cell = tuple[str, int, int]  # path, row group, row: where a picture is


class ParquetPictures:
    """Actor that turns positions in Parquet files into rows of the table `images`; keeps the bytes, sends no requests.

    Args:
        open_filesystem: called once, in the worker's process, so that no connection is pickled.
        column: the column with the pictures: bytes, or a struct with a field `bytes`.
        rendition: value of the rows' column `rendition`.
        max_bytes: size limit of a picture; a larger one becomes an error row.
        max_pixels: largest allowed width x height.

    Raises:
        ValueError: a limit that is not positive.
    """

    INPUTS = schemas.PICTURE_ROWS
    OUTPUTS = schemas.IMAGES

    def __init__(
        self,
        *,
        open_filesystem: Callable[[], pyarrow.fs.FileSystem],
        column: str,
        rendition: str,
        max_bytes: int = DEFAULT_MAX_BYTES,
        max_pixels: int = DEFAULT_MAX_PIXELS,
    ) -> None:
        for name, bound in (("max_bytes", max_bytes), ("max_pixels", max_pixels)):
            if bound < 1:
                raise SettingError("must be at least 1", name, bound)
        self._files = open_filesystem()
        self._column, self._rendition = column, rendition
        self._max_bytes, self._reader = max_bytes, PictureReader(max_pixels=max_pixels)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Read one batch; a row group is read once for all its rows in the batch.

        Args:
            batch: the columns of `INPUTS`. `path` is relative to the file system, and null where no file has the
                picture. Rows with `reported` in an optional column `status` are not read.

        Returns:
            The columns of the table `images` (jobs/tables.py), one row per input row, in the same order. Status `ok`
            with bytes and facts; `missing` (error_kind `not_in_corpus`: no path; `no_bytes`: the row has no picture);
            `reported`; `error` with error_kind `too_many_bytes`, `unreadable` (the file cannot be read, or lacks the
            row) or a kind of `actors.pictures.PictureError`.
        """
        requests = batch.to_pylist()
        groups: dict[tuple[str, int], set[int]] = {}
        for request in requests:
            if request["path"] is not None and not image_rows.withheld(request.get("status")):
                groups.setdefault((request["path"], request["row_group"]), set()).add(request["row"])
        outcomes: dict[Cell, ImageRow] = {}
        for (path, group), rows in groups.items():
            try:
                for row, data in self._pictures(path, group, rows):
                    outcomes[path, group, row] = self._outcome(data)
                message = f"row group {group} of the file has no such row"
            except (pa.ArrowException, OSError) as error:
                message = f"row group {group} of the file cannot be read ({first_line(error)[:300]})"
            for row in rows:
                outcomes.setdefault((path, group, row), image_rows.failed(Status.ERROR, "unreadable", message))
        return schemas.to_table([self._row(request, outcomes) for request in requests], self.OUTPUTS)

    def _row(self, request: dict[str, Any], outcomes: Mapping[Cell, ImageRow]) -> ImageRow:
        row: ImageRow = {
            "image_id": request["image_id"],
            "rendition": self._rendition,
            "source_url": request["source_url"],
        }
        if withheld := image_rows.withheld(request.get("status")):
            return row | withheld
        if request["path"] is None:
            missing = image_rows.failed(Status.MISSING, "not_in_corpus", "no file of the corpus has it")
            return {**row, "attempts": 0, **missing}
        cell = request["path"], request["row_group"], request["row"]
        final = f"{cell[0]}#row_group={cell[1]}&row={cell[2]}"
        return {**row, "attempts": 1, "final_url": final, **outcomes[cell]}

    def _pictures(self, path: str, group: int, rows: set[int]) -> Iterator[tuple[int, bytes | None]]:
        """Yield the number and the bytes of each of `rows` in a row group."""
        with (
            self._files.open_input_file(path) as stream,
            pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False) as file,
        ):
            begin, last = 0, max(rows)
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[group], columns=[self._leaf(file)]):
                column = batch.column(0)
                if pa.types.is_struct(column.type):
                    column = column.field("bytes")
                for number in sorted(row for row in rows if begin <= row < begin + batch.num_rows):
                    yield number, column[number - begin].as_py()
                begin += batch.num_rows
                if begin > last:
                    return

    def _leaf(self, file: pq.ParquetFile) -> str:
        paths = [file.schema.column(number).path for number in range(len(file.schema))]
        for leaf in (f"{self._column}.bytes", self._column):
            if leaf in paths:
                return leaf
        raise pa.ArrowInvalid(f"no column {self._column} of pictures")

    def _outcome(self, data: bytes | None) -> ImageRow:
        if not data:
            return image_rows.failed(Status.MISSING, "no_bytes", "the row has no picture")
        try:
            if len(data) > self._max_bytes:
                raise image_rows.too_many_bytes(len(data), self._max_bytes)
            return image_rows.stored_picture(data, self._reader.inspect(data))
        except PictureError as error:
            return image_rows.undecodable(error)
