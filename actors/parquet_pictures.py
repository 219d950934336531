"""Take pictures out of a column of Parquet files, by row group and row."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from actors import schemas
from actors.errors import first_line
from actors.folder_fetcher import DEFAULT_MAX_BYTES
from actors.pictures import DEFAULT_MAX_PIXELS, PictureError, inspect
from actors.status import Status

ROWS_AT_A_TIME = 32  # pictures of a row group that are held at once
BUFFER = 4 << 20  # bytes of the column read ahead; without a bound a whole column chunk is


class ParquetPictures:
    """Turn places in Parquet files into rows of the table `images`, the bytes untouched; no network is asked.

    Args:
        open_filesystem: called once, where the work is done, so that no connection has to travel.
        column: holds the pictures: bytes, or a struct with a field `bytes`.
        rendition: what the pictures are, for the key of the rows.
        max_bytes: a larger picture becomes an error row.
        max_pixels: width x height allowed.
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
                raise ValueError(f"{name} is {bound}; it must be at least 1")
        self._files = open_filesystem()
        self._column, self._rendition = column, rendition
        self._max_bytes, self._max_pixels = max_bytes, max_pixels

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Read one batch; a row group is read once for all its rows in the batch.

        Args:
            batch: columns `image_id`, `source_url`, `path` (string, inside the file system, null where no file has the
                picture), `row_group`, `row`. A row whose column `status`, if there is one, is `reported` is not read.

        Returns:
            The columns of the table `images` (jobs/tables.py), one row for each row that came in, in order. Status `ok`
            with bytes and facts; `missing` (error_kind `not_in_corpus`: no path; `no_bytes`: the file has the row
            without its picture); `reported`; `error` with error_kind `too_many_bytes`, `unreadable` (the file's own
            error) or a kind of `actors.pictures.PictureError`.
        """
        asked = batch.to_pylist()
        groups: dict[tuple[str, int], set[int]] = {}
        for row in asked:
            if row["path"] is not None and row.get("status") != Status.REPORTED:
                groups.setdefault((row["path"], row["row_group"]), set()).add(row["row"])
        made: dict[tuple[str, int, int], dict[str, Any]] = {}
        for (path, group), rows in groups.items():
            try:
                for number, data in self._pictures(path, group, rows):
                    made[path, group, number] = self._facts(data)
            except (pa.ArrowException, OSError) as error:
                said = first_line(error)[:300]
                failed = _failed(Status.ERROR, "unreadable", f"row group {group} of the file cannot be read ({said})")
                for number in rows:
                    made.setdefault((path, group, number), failed)
        return pa.Table.from_pylist([self._row(row, made) for row in asked], schema=self.OUTPUTS)

    def _row(self, row: dict[str, Any], made: dict[tuple[str, int, int], dict[str, Any]]) -> dict[str, Any]:
        own = {"image_id": row["image_id"], "rendition": self._rendition, "source_url": row["source_url"]}
        if row.get("status") == Status.REPORTED:
            return own | _failed(Status.REPORTED, "excluded", "the picture is on the list of exclusions")
        if row["path"] is None:
            return own | {"attempts": 0} | _failed(Status.MISSING, "not_in_corpus", "no file of the corpus has it")
        place = row["path"], row["row_group"], row["row"]
        final = f"{place[0]}#row_group={place[1]}&row={place[2]}"
        return own | {"attempts": 1, "final_url": final} | made[place]

    def _pictures(self, path: str, group: int, rows: set[int]) -> Iterator[tuple[int, bytes | None]]:
        """The bytes at each of `rows` of a row group."""
        with (
            self._files.open_input_file(path) as stream,
            pq.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False) as file,
        ):
            begin, last = 0, max(rows)
            for batch in file.iter_batches(ROWS_AT_A_TIME, row_groups=[group], columns=[self._leaf(file)]):
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

    def _facts(self, data: bytes | None) -> dict[str, Any]:
        if not data:
            return _failed(Status.MISSING, "no_bytes", "the file has the row without its picture")
        try:
            if len(data) > self._max_bytes:
                raise PictureError("too_many_bytes", f"{len(data)} bytes, and {self._max_bytes} are allowed")
            facts = inspect(data, max_pixels=self._max_pixels)
        except PictureError as error:
            return _failed(Status.ERROR, error.kind, str(error))
        return {"bytes": data, **facts._asdict(), "status": Status.OK.value}


def _failed(status: Status, kind: str, message: str) -> dict[str, str]:
    return {"status": status.value, "error_kind": kind, "error_message": message}
