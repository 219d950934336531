"""Files of people and other programs: rows of CSV, TSV and Parquet as texts, choice of columns, folders of pictures."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.errors import first_line
from jobs.corpora import delimited
from jobs.corpora.cell_texts import column_texts, is_list, list_texts
from jobs.corpora.delimited import require_columns, text_batches
from jobs.errors import InputError
from jobs.store.files import faults, locations
from jobs.store.files.objects import Object
from jobs.store.run_files import one_file

BATCH_ROWS = 1 << 17  # rows of Parquet read at a time
BLOCK_BYTES = 1 << 20  # of a file whose lines are counted
# Files with other endings, or none, may be pictures; their first bytes tell.
_NOT_PICTURES = tuple(".csv .gz .html .json .jsonl .md .parquet .pdf .tar .tsv .txt .xlsx .yaml .yml .zip".split())


@contextmanager
def opened_parquet(uri: str, **settings: Any) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file; `settings` are those of `pq.ParquetFile`.

    Raises:
        InputError: it cannot be read, when it is opened or in the block.
    """
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri):
        try:
            with fs.open_input_file(path) as stream, pq.ParquetFile(stream, **settings) as file:
                yield file
        except (pa.ArrowException, UnicodeDecodeError, OSError) as error:
            if not faults.is_damage(error):
                raise
            why = f"not a readable Parquet file ({first_line(error)})"
            raise InputError(why, place=uri, remedy="replace it with a complete copy") from error


def find_file(key: str, uri: str) -> Object:
    """Return the file at `uri`. Raises InputError unless there is exactly one."""
    return one_file(key, uri, "CSV, TSV or Parquet file")


def column_names(uri: str, *, encoding: str | None = None, encoding_key: str = "encoding") -> list[str]:
    """Return the columns of a CSV, TSV or Parquet file. Raises InputError: the file cannot be read."""
    if not uri.lower().endswith(".parquet"):
        return list(delimited.read_dialect(uri, encoding=encoding, encoding_key=encoding_key).header)
    with opened_parquet(uri) as file:
        return list(file.schema_arrow.names)


def batches(uri: str, columns: Sequence[str], *, encoding: str | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a CSV, TSV or Parquet file: some columns as trimmed strings; empty fields are null.

    Other columns are not read, whatever they contain. Lists become their entries between commas.

    Raises:
        InputError: the file cannot be read, lacks a column or has it twice, a row has another width, or a column
            contains neither text nor numbers.
    """
    names = list(dict.fromkeys(columns))
    if not uri.lower().endswith(".parquet"):
        dialect = delimited.read_dialect(uri, encoding=encoding)
        yield from (_texts(uri, rows) for rows in text_batches(uri, dialect, names))
        return
    with opened_parquet(uri) as file:
        require_columns(uri, file.schema_arrow.names, names)
        for batch in file.iter_batches(BATCH_ROWS, columns=names):
            yield _texts(uri, pa.Table.from_batches([batch]).select(names))


@dataclass(frozen=True)
class FilePart:
    """Consecutive rows of a file, with some columns.

    Attributes:
        first: how many rows of the file are before it.
        columns: the columns to read.
        groups: the row groups of a Parquet file; None: `rows` has the rows.
    """

    uri: str
    first: int
    columns: tuple[str, ...]
    groups: tuple[int, ...] | None = None
    rows: pa.Table | None = None

    def batches(self) -> Iterator[pa.Table]:
        """Yield the rows, as the function `batches` does."""
        if self.rows is not None:
            yield self.rows
            return
        with opened_parquet(self.uri) as file:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=list(self.groups or ()), columns=self.columns):
                yield _texts(self.uri, pa.Table.from_batches([batch]).select(list(self.columns)))


def file_parts(uri: str, columns: Sequence[str], rows: int, *, encoding: str | None = None) -> Iterator[FilePart]:
    """Yield a file in parts of about `rows` rows, in order: row groups of Parquet, or the rows themselves of others.

    Raises:
        InputError: as `batches`.
    """
    names, first = tuple(dict.fromkeys(columns)), 0
    if not uri.lower().endswith(".parquet"):
        held: list[pa.Table] = []
        for batch in batches(uri, names, encoding=encoding):
            held.append(batch)
            if (n := sum(map(len, held))) >= rows:
                yield FilePart(uri, first, names, rows=pa.concat_tables(held))
                held, first = [], first + n
        if held:
            yield FilePart(uri, first, names, rows=pa.concat_tables(held))
        return
    with opened_parquet(uri) as file:
        require_columns(uri, file.schema_arrow.names, names)
        lengths = [file.metadata.row_group(number).num_rows for number in range(file.num_row_groups)]
    groups: list[int] = []
    n = 0
    for number, length in enumerate(lengths):
        if groups and n + length > rows:
            yield FilePart(uri, first, names, groups=tuple(groups))
            groups, first, n = [], first + n, 0
        groups.append(number)
        n += length
    if groups:
        yield FilePart(uri, first, names, groups=tuple(groups))


def count_rows(uri: str) -> int:
    """Return the number of rows of a Parquet file, or of lines of another. Raises InputError: it cannot be read."""
    if uri.lower().endswith(".parquet"):
        with opened_parquet(uri) as file:
            return int(file.metadata.num_rows)
    with locations.named_errors(uri), locations.opened(uri) as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(BLOCK_BYTES), b""))


def _texts(uri: str, rows: pa.Table) -> pa.Table:
    columns = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            columns[name] = list_texts(column) if is_list(column.type) else column_texts(column)
        except pa.ArrowException as error:
            raise InputError(f"column {name} is {column.type}; text or numbers are needed", place=uri) from error
    return pa.table(columns)


def select_columns(
    uri: str, rows: pa.Table, columns: Mapping[str, Sequence[str]], where: Mapping[str, str]
) -> pa.Table:
    """Return renamed columns, several joined by " · ", of the rows in which some columns have certain texts.

    Raises:
        InputError: the file lacks a column, or has it twice.
    """
    require_columns(uri, rows.column_names, [*(name for names in columns.values() for name in names), *where])
    for name, value in where.items():
        rows = rows.filter(pc.equal(rows[name], value))
    selected = {
        key: rows[names[0]] if len(names) == 1 else pc.binary_join_element_wise(*(rows[n] for n in names), " · ")
        for key, names in columns.items()
        if names
    }
    return pa.table(selected)


def list_files(folder: str) -> list[Object]:
    """Return the files below `folder`, including unreadable files but not those whose names begin with a dot.

    Raises:
        InputError: nothing is there, or by their endings none of the files can be a picture.
    """
    files = [file for file in locations.find(folder, strict=False) if not locations.is_hidden(file.uri)]
    if all(file.uri.lower().endswith(_NOT_PICTURES) for file in files):
        example = f" (it has {files[0].uri.rsplit('/', 1)[-1]})" if files else ""
        raise InputError(f"no pictures there{example}", place=folder, remedy="name the folder that has the pictures")
    return files


def name_in(folder: str, uri: str) -> str:
    """Return a file's path below `folder`, from which its image_id is made; if `folder` is the file, its name."""
    return uri.removeprefix(folder).lstrip("/") or uri.rsplit("/", 1)[-1]
