"""Readers of CSV and Parquet files with one row per answer (long) or one column per question (wide)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.status import Status
from jobs.annotation import model
from jobs.annotation.answers import fold
from jobs.annotation.columns import JOINED, MARKED, NEEDED, ColumnMapping, Reading, layout
from jobs.annotation.model import ROWS_AT_A_TIME, UNKNOWN_REPORTS
from jobs.annotation.spans import SpanLabels
from jobs.corpora import delimited
from jobs.corpora.cell_texts import column_texts
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.writer import RAW_KEPT, Reject, Rejects

_SEPARATOR = "\x1f"  # between a kind of spans and a category


def read_csv(uri: str, reading: Reading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the answers, spans or raters of a delimited text file in batches; bad rows go to `reject` with their line.

    Raises:
        InputError: see `jobs.annotation.columns.layout` and `jobs.corpora.delimited`.
    """
    dialect = delimited.read_dialect(uri, encoding=reading.encoding, delimiter=reading.delimiter)
    mapping = layout(dialect.header, reading, uri=uri)
    indices = {name: dialect.header.index(name) for name in mapping.read}
    lines = islice(delimited.rows(uri, dialect, reject=reject, private=reading.private), reading.limit)
    batches = Batches(uri, mapping, reading, reject)
    while held := list(islice(lines, ROWS_AT_A_TIME)):
        cells = list(zip(*(row for _, row in held), strict=True))
        columns = {name: pa.array(cells[i], pa.string()) for name, i in indices.items()}
        yield _marked(batches.convert(columns, pa.array([line for line, _ in held], pa.int64())), mapping)


def read_parquet(uri: str, reading: Reading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the batches of a Parquet file as `read_csv` does; a row's position is its number, from 1."""
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_file(path) as stream:
        try:
            file = pq.ParquetFile(stream)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError("not a readable Parquet file; replace it with a complete copy", place=uri) from error
        mapping = layout(file.schema_arrow.names, reading, uri=uri)
        if not file.metadata.num_rows:
            raise InputError("no rows; at least one is required", place=uri)
        batches, seen = Batches(uri, mapping, reading, reject), 0
        for part in file.iter_batches(ROWS_AT_A_TIME, columns=mapping.read):
            batch = part if reading.limit is None else part.slice(0, max(reading.limit - seen, 0))
            if not batch.num_rows:
                break
            columns = {name: _text(uri, name, batch.column(name)) for name in mapping.read}
            positions = pa.array(range(seen + 1, seen + 1 + batch.num_rows), pa.int64())
            seen += batch.num_rows
            yield _marked(batches.convert(columns, positions), mapping)


def _marked(rows: pa.Table, mapping: ColumnMapping) -> pa.Table:
    """Return the rows with the schema's mark if the file has no column of reports."""
    return rows if "reported" in mapping.roles else rows.replace_schema_metadata(UNKNOWN_REPORTS)


def _text(uri: str, name: str, column: pa.Array) -> pa.Array:
    try:
        return column_texts(column)
    except pa.ArrowException as error:
        raise InputError(f"column {name} holds {column.type}, not text or numbers", place=uri) from error


class Batches:
    """Converter of a file's columns into rows of the table, batch by batch."""

    def __init__(self, uri: str, mapping: ColumnMapping, reading: Reading, reject: Rejects) -> None:
        self._uri, self._mapping, self._reading, self._reject = uri, mapping, reading, reject

    def convert(self, columns: Mapping[str, pa.Array], positions: pa.Array) -> pa.Table:
        """Return a batch with the table's schema in `model`."""
        reading = self._reading
        cells = {role: _joined([columns[name] for name in names]) for role, names in self._mapping.roles.items()}
        if reading.rater:
            cells["rater"] = pa.array([reading.rater] * len(positions), pa.string())
        rows = pa.table({**cells, "position": positions})
        for role in (*NEEDED[reading.table], *MARKED[reading.table]):
            rows = self._drop(rows, pc.is_null(rows[role]), f"no_{role}", f"column {role} is empty")
        if reading.table == "raters":
            return _with_schema(rows, model.PEOPLE)
        if reading.table == "spans":
            return self._spans(rows)
        rows = self._flags(rows)
        if not self._mapping.wide:
            return self._answers(rows, question=None, cells=rows["value"])
        index_of = {position: index for index, position in enumerate(positions.to_pylist())}
        kept = pa.array([index_of[p] for p in rows["position"].to_pylist()], pa.int64())
        cells_of = {name: _joined([columns[column]]).take(kept) for name, column in self._mapping.wide.items()}
        if reading.table == "remarks":
            return pa.concat_tables(self._remarks(rows, field=name, cells=texts) for name, texts in cells_of.items())
        return pa.concat_tables(self._answers(rows, question=name, cells=texts) for name, texts in cells_of.items())

    def _drop(self, rows: pa.Table, where: Any, reason: str, message: str) -> pa.Table:
        """Return `rows` without those at `where`, which are rejected."""
        if not pc.any(where).as_py():
            return rows
        for row in rows.filter(where).to_pylist():
            shown = "" if self._reading.private else " ".join(f"{k}={v}" for k, v in row.items() if v is not None)
            self._reject(Reject(self._uri, row["position"], reason, message, shown[:RAW_KEPT]))
        return rows.filter(pc.invert(where))

    def _flags(self, rows: pa.Table) -> pa.Table:
        """Add `status` (reported, skipped or null) from the columns with these names; a report takes precedence."""
        rows = rows.append_column("status", pa.nulls(rows.num_rows, pa.string()))
        for role, word in (("skipped", Status.SKIPPED), ("reported", Status.REPORTED)):
            if role not in rows.column_names:
                continue
            flags = mapped(rows[role], model.flag, pa.bool_(), absent=False)
            status = pc.if_else(flags, pa.scalar(word.value), rows["status"])
            rows = _with(rows, "status", status)
            rows = self._drop(rows, pc.is_null(flags), "unreadable_flag", f"column {role} says neither yes nor no")
        return rows

    def _answers(self, rows: pa.Table, *, question: str | None, cells: Any) -> pa.Table:
        reading = self._reading
        rows = rows.append_column("answer", cells)
        if question is None and "question" in rows.column_names:
            to_name = reading.questionnaire.question if reading.questionnaire else str
            rows = _with(rows, "question", mapped(rows["question"], to_name, pa.string()))
            rows = self._drop(rows, pc.is_null(rows["question"]), "unknown_question", "not a question of the rubric")
        else:
            rows = _with(rows, "question", pa.array([question or reading.question] * rows.num_rows, pa.string()))
        if "kind" in rows.column_names:  # of a span; in answers it would be the kind of an error
            rows = rows.drop_columns(["kind"])
        rows = self._times(rows, ("seconds",))
        if "sample" in rows.column_names:
            rows = self._integers(rows, ("sample",))
        return _with_schema(rows, model.ANSWERS)

    def _remarks(self, rows: pa.Table, *, field: str, cells: Any) -> pa.Table:
        rows = _with(_with(rows, "text", cells), "field", pa.array([field] * rows.num_rows, pa.string()))
        rows = self._times(_with(rows, "annotation", rows["position"]), ())
        if "sample" in rows.column_names:
            rows = self._integers(rows, ("sample",))
        return _with_schema(rows, model.REMARKS)

    def _spans(self, rows: pa.Table) -> pa.Table:
        rows = self._integers(rows, ("start", "end"))
        backwards = pc.less(rows["end"], rows["start"])
        rows = self._drop(rows, backwards, "bad_end", "the span ends before it begins")
        if self._reading.span_labels:
            rows = self._labelled(rows, self._reading.span_labels)
        for role in ("score", "probability"):
            if role in rows.column_names:
                rows = _with(rows, role, mapped(rows[role], _number, pa.float64()))
        if "probability" in rows.column_names:
            outside = pc.fill_null(pc.or_(pc.less(rows["probability"], 0), pc.greater(rows["probability"], 1)), False)
            rows = self._drop(rows, outside, "bad_probability", "the probability is not from 0 to 1")
        return _with_schema(self._times(rows, ()), model.SPANS)

    def _labelled(self, rows: pa.Table, span_labels: SpanLabels) -> pa.Table:
        """Return `rows` with the span labels' kinds and categories, which a file may give by value or label."""
        kinds = {fold(word): kind for kind in span_labels.kinds for word in (kind.kind, kind.name)}
        by_kind = {kind.kind: kind for kind in span_labels.kinds}
        named = mapped(rows["kind"], lambda word: kinds[fold(word)].kind if fold(word) in kinds else None, pa.string())
        rows = _with(rows, "kind", named)
        allowed = f"must be one of {', '.join(by_kind)}"
        rows = self._drop(rows, pc.is_null(rows["kind"]), "unknown_kind", f"kind: {allowed}")
        if "category" not in rows.column_names:
            return rows

        def category(word: str) -> str | None:
            kind, _, labels = word.partition(_SEPARATOR)
            values = [by_kind[kind].category(label) for label in labels.split("+")] if labels else [""]
            return None if None in values else "+".join(filter(None, values))

        words = pc.binary_join_element_wise(rows["kind"], pc.fill_null(rows["category"], ""), _SEPARATOR)
        rows = _with(rows, "category", mapped(words, category, pa.string()))
        message = "category: must be one of " + "; ".join(
            f"{name}: {', '.join(label.value for label in kind.labels)}" for name, kind in by_kind.items()
        )
        rows = self._drop(rows, pc.is_null(rows["category"]), "unknown_label", message)
        unlabelled = pc.equal(rows["category"], "")
        return _with(rows, "category", pc.if_else(unlabelled, pa.scalar(None, pa.string()), rows["category"]))

    def _times(self, rows: pa.Table, durations: Sequence[str]) -> pa.Table:
        for role in durations:
            if role in rows.column_names:
                rows = _with(rows, role, mapped(rows[role], model.duration, pa.float64()))
        if "time" in rows.column_names:
            rows = _with(rows, "time", mapped(rows["time"], self._moment, pa.float64()))
        return rows

    def _moment(self, text: str) -> float | None:
        try:
            return model.seconds_since_1970(text)
        except ValueError as error:
            message = f"columns.time holds {text!r}, neither ISO 8601 nor seconds since 1970"
            raise InputError(message, place=self._uri) from error

    def _integers(self, rows: pa.Table, roles: Sequence[str]) -> pa.Table:
        """Convert the cells of `roles`, of which empty ones stay null, and reject rows with another text."""
        for role in roles:
            numbers = mapped(rows[role], _integer, pa.int32())
            unreadable = pc.and_(pc.is_valid(rows[role]), pc.is_null(numbers))
            rows = _with(rows, role, numbers)
            rows = self._drop(rows, unreadable, f"bad_{role}", f"{role} is not a whole number, at least 0")
        return rows


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the columns joined into one, without outer white space; null where a cell is empty."""
    trimmed = [pc.utf8_trim_whitespace(column) for column in columns]
    filled = [pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column) for column in trimmed]
    return pc.binary_join_element_wise(*filled, JOINED) if len(filled) > 1 else filled[0]


def _integer(text: str) -> int | None:
    number = _number(text)
    return int(number) if number is not None and number == int(number) and 0 <= number < 2**31 else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if abs(number) < float("inf") else None


def _with(rows: pa.Table, name: str, column: Any) -> pa.Table:
    if name in rows.column_names:
        return rows.set_column(rows.column_names.index(name), name, column)
    return rows.append_column(name, column)


def mapped(column: Any, convert: Callable[[str], Any], kind: pa.DataType, *, absent: Any = None) -> pa.Array:
    """Return `convert` of each text, called once per distinct text; `absent` for nulls."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    coded = array.dictionary_encode()
    values = pa.array([*map(convert, coded.dictionary.to_pylist()), absent], kind)
    return values.take(pc.fill_null(coded.indices, len(values) - 1))


def _with_schema(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return `rows` with the columns of `schema`; missing ones are null."""
    columns = [
        rows[name].cast(kind) if name in rows.column_names else pa.nulls(rows.num_rows, kind)
        for name, kind in zip(schema.names, schema.types, strict=True)
    ]
    return pa.table(columns, schema=schema)
