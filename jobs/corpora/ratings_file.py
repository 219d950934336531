"""Rows of a CSV, TSV or Parquet file, as text, a batch at a time; columns found by name."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from actors.errors import first_line
from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.locations import Object

BATCH_ROWS = 1 << 17
BLOCK_BYTES = 1 << 24  # of a CSV; a row must fit in it


def one_file(key: str, uri: str) -> Object:
    """The file at `uri`. Raises InputError unless there is exactly one."""
    found = locations.find(uri)
    if len(found) != 1:
        raise InputError(f"{key}={uri}: {len(found)} files; name one CSV, TSV or Parquet file")
    return found[0]


def batches(uri: str, *, encoding: str | None = None) -> Iterator[pa.Table]:
    """All rows with all columns as strings; an empty cell is null.

    Raises:
        InputError: a file that is no CSV or Parquet, a CSV with rows of several widths, or two columns of one name.
    """
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri):
        try:
            if uri.lower().endswith(".parquet"):
                with fs.open_input_file(path) as stream, pq.ParquetFile(stream) as file:
                    _check_distinct(uri, file.schema_arrow.names)
                    for batch in file.iter_batches(BATCH_ROWS):
                        yield _texts(uri, pa.Table.from_batches([batch]))
                return
            dialect = delimited.look_at(uri, encoding=encoding)
            _check_distinct(uri, dialect.header)
            with fs.open_input_stream(path) as stream, _csv(stream, dialect) as reader:
                for batch in reader:
                    yield _texts(uri, pa.Table.from_batches([batch]))
        except pa.ArrowInvalid as error:
            raise InputError(f"{uri}: not a readable file ({first_line(error)})") from error


def _check_distinct(uri: str, names: Sequence[str]) -> None:
    if repeated := list(dict.fromkeys(name for name in names if names.count(name) > 1)):
        raise InputError(f"{uri}: more than one column {', '.join(map(repr, repeated))}; rename them")


def _csv(stream: pa.NativeFile, dialect: delimited.Dialect) -> pa_csv.CSVStreamingReader:
    """A reader whose columns are all texts, so that 007 and TRUE stay what they are."""
    return pa_csv.open_csv(
        stream,
        read_options=pa_csv.ReadOptions(
            block_size=BLOCK_BYTES,
            encoding=dialect.encoding.removesuffix("-sig"),  # Arrow leaves out UTF-8's mark by itself
            column_names=list(dialect.header),
            skip_rows=dialect.before,
            skip_rows_after_names=1,  # the header
        ),
        parse_options=pa_csv.ParseOptions(delimiter=dialect.delimiter, newlines_in_values=True),
        convert_options=pa_csv.ConvertOptions(
            column_types=dict.fromkeys(dialect.header, pa.string()), strings_can_be_null=True, null_values=[""]
        ),
    )


def _texts(uri: str, rows: pa.Table) -> pa.Table:
    made = {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            if pa.types.is_list(column.type):
                column = pc.binary_join(column.cast(pa.list_(pa.string())), ",")  # noqa: PLW2901
            text = pc.utf8_trim_whitespace(column.cast(pa.string()))
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise InputError(f"{uri}: column {name} is {column.type}, which is no text") from error
        made[name] = pc.if_else(pc.equal(text, ""), None, text)
    return pa.table(made)


def chosen(uri: str, rows: pa.Table, columns: Mapping[str, Sequence[str]], where: Mapping[str, str]) -> pa.Table:
    """The columns under other names, several joined by " · "; only rows where columns have certain texts.

    Raises:
        InputError: a column that the file does not have.
    """
    wanted = [name for names in columns.values() for name in names] + list(where)
    if missing := [name for name in wanted if name not in rows.column_names]:
        named = ", ".join(map(repr, dict.fromkeys(missing)))
        raise InputError(f"{uri}: no column {named}; there are {', '.join(rows.column_names)}")
    for name, value in where.items():
        rows = rows.filter(pc.equal(rows[name], value))
    made = {
        key: rows[names[0]] if len(names) == 1 else pc.binary_join_element_wise(*(rows[n] for n in names), " · ")
        for key, names in columns.items()
        if names
    }
    return pa.table(made)
