"""Readers of CSV and Parquet by a mapping of columns: one row per answer (long) or one column per question (wide)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors.status import Status
from jobs.annotation import model
from jobs.annotation.answers import Questionnaire
from jobs.annotation.model import ROWS_AT_A_TIME
from jobs.corpora import delimited
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.writer import RAW_KEPT, Reject, Rejects

JOIN = "+"  # columns.item_id=model+prompt joins two columns …
JOINED = "/"  # … to ids such as mini-dalle/prompt_3
NEEDED = {
    "ratings": ("item_id", "rater"),
    "spans": ("item_id", "rater", "start", "end"),
    "raters": ("rater",),
}
MARKED = {"spans": ("text_id", "kind"), "ratings": (), "raters": ()}


@dataclass
class RatingColumns:
    """The column of each role; null: the column of the same name, if the file has one. a+b joins two columns by `/`."""

    item_id: str | None = None
    rater: str | None = None
    value: str | None = None  # long form: the answers
    question: str | None = None  # long form: names or texts of the questions
    questions: Any = None  # wide form, and tools: {question: its column or control}
    target: str | None = None
    condition: str | None = None
    order: str | None = None
    sample: str | None = None
    comment: str | None = None
    seconds: str | None = None
    time: str | None = None  # ISO 8601 or seconds since 1970; orders repeated answers
    skipped: str | None = None  # yes where the person skipped the item
    reported: str | None = None  # yes where the person reported the picture
    country: str | None = None
    pool: str | None = None
    experience: str | None = None
    text_id: str | None = None
    kind: str | None = None
    start: str | None = None
    end: str | None = None
    category: str | None = None
    score: str | None = None


@dataclass(frozen=True)
class ColumnMapping:
    """The mapping for one file: the columns of each role, and in the wide form the column of each question."""

    roles: dict[str, tuple[str, ...]]
    wide: dict[str, str]

    @property
    def read(self) -> list[str]:
        """The columns to read."""
        return list(
            dict.fromkeys([*(column for columns in self.roles.values() for column in columns), *self.wide.values()])
        )


@dataclass(frozen=True)
class Reading:
    """How to read a file: the table, the mapping of columns, the questions, encoding and delimiter."""

    table: str
    columns: RatingColumns
    questionnaire: Questionnaire | None
    question: str | None = None  # the one question that all rows answer
    rater: str | None = None  # the one rater of all rows
    encoding: str | None = None
    delimiter: str | None = None
    private: bool = False  # keep cells out of rejects


def layout(header: Sequence[str], reading: Reading, *, uri: str) -> ColumnMapping:
    """Return the columns to read from a file with this header.

    Raises:
        InputError: missing columns (the message lists all), a duplicate name among the columns to read, or no column
            from which the question follows.
    """
    roles = {}
    for role in (f.name for f in fields(RatingColumns) if f.name != "questions"):
        name = getattr(reading.columns, role)
        if name is not None or role in header:
            roles[role] = (name or role,) if (name or role) in header else tuple((name or role).split(JOIN))
    _check(header, reading, roles, uri=uri)
    wide = _wide(header, reading, roles, uri=uri) if reading.table == "ratings" else {}
    mapping = ColumnMapping(roles, wide)
    delimited.require_columns(uri, header, mapping.read)
    return mapping


def _check(header: Sequence[str], reading: Reading, roles: Mapping[str, Sequence[str]], *, uri: str) -> None:
    """Raise InputError if the file lacks a column that the table needs or that a key names."""
    keys = {role: f"columns.{role}={getattr(reading.columns, role) or ''}" for role in roles}
    missing = [f"{name} ({keys[role]})" for role, names in roles.items() for name in names if name not in header]
    for role in (*NEEDED[reading.table], *MARKED[reading.table]):
        if role not in roles and not (role == "rater" and reading.rater):
            missing.append(f"{role} (columns.{role}=)")
    if reading.table == "ratings":
        wide = (reading.columns.questions or {}).items()
        missing += [f"{name} (columns.questions.{question}=)" for question, name in wide if name not in header]
    if missing:
        raise InputError(f"{uri}: no column {', '.join(missing)}; its columns are {', '.join(header)}")


def _wide(header: Sequence[str], reading: Reading, roles: Mapping[str, Any], *, uri: str) -> dict[str, str]:
    if reading.columns.questions:
        wide = dict(reading.columns.questions)
        for question in wide:
            if reading.questionnaire and reading.questionnaire.names and question not in reading.questionnaire.sets:
                allowed = ", ".join(reading.questionnaire.sets)
                raise InputError(f"columns.questions.{question}: rubric {reading.questionnaire.name} has {allowed}")
        return wide
    if "value" in roles:
        if "question" not in roles and reading.question is None:
            raise InputError(
                f"{uri}: rows do not name a question; give its column with columns.question= "
                f"(the columns are {', '.join(header)}) or the question with question="
            )
        return {}
    by_fold = {name.casefold(): name for name in header}
    questions = list(reading.questionnaire.sets) if reading.questionnaire else []
    if by_name := {question: by_fold[question.casefold()] for question in questions if question.casefold() in by_fold}:
        return by_name
    raise InputError(
        f"{uri}: no column of answers; its columns are {', '.join(header)} "
        "(choose one with columns.value= or columns.questions={question: column})"
    )


def read_csv(uri: str, reading: Reading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the answers, spans or raters of a delimited text file, in batches; bad rows go to `reject` with their line.

    Raises:
        InputError: see `layout` and `jobs.corpora.delimited`.
    """
    dialect = delimited.read_dialect(uri, encoding=reading.encoding, delimiter=reading.delimiter)
    mapping = layout(dialect.header, reading, uri=uri)
    indices = {name: dialect.header.index(name) for name in mapping.read}
    lines = delimited.rows(uri, dialect, reject=reject, private=reading.private)
    batches = _Batches(uri, mapping, reading, reject)
    while held := list(islice(lines, ROWS_AT_A_TIME)):
        cells = list(zip(*(row for _, row in held), strict=True))
        columns = {name: pa.array(cells[i], pa.string()) for name, i in indices.items()}
        yield batches.convert(columns, pa.array([line for line, _ in held], pa.int64()))


def read_parquet(uri: str, reading: Reading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the batches of a Parquet file as `read_csv` does; a row's position is its number, from 1."""
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_file(path) as stream:
        try:
            file = pq.ParquetFile(stream)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{uri}: not a readable Parquet file") from error
        mapping = layout(file.schema_arrow.names, reading, uri=uri)
        if not file.metadata.num_rows:
            raise InputError(f"{uri}: no rows")
        batches, seen = _Batches(uri, mapping, reading, reject), 0
        for batch in file.iter_batches(ROWS_AT_A_TIME, columns=mapping.read):
            columns = {name: _text(uri, name, batch.column(name)) for name in mapping.read}
            positions = pa.array(range(seen + 1, seen + 1 + batch.num_rows), pa.int64())
            seen += batch.num_rows
            yield batches.convert(columns, positions)


def _text(uri: str, name: str, column: pa.Array) -> pa.Array:
    try:
        return column.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise InputError(f"{uri}: column {name} holds {column.type}, not text or numbers") from error


class _Batches:
    """Converts the columns of one file into rows of the table, batch by batch."""

    def __init__(self, uri: str, mapping: ColumnMapping, reading: Reading, reject: Rejects) -> None:
        self._uri, self._mapping, self._reading, self._reject = uri, mapping, reading, reject

    def convert(self, columns: Mapping[str, pa.Array], positions: pa.Array) -> pa.Table:
        """Return a batch with the schema in `model` of the table to read."""
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
        batches = [
            self._answers(rows, question=question, cells=_joined([columns[column]]).take(kept))
            for question, column in self._mapping.wide.items()
        ]
        return pa.concat_tables(batches)

    def _drop(self, rows: pa.Table, where: Any, reason: str, message: str) -> pa.Table:
        """Return `rows` without those at `where`, which it rejects."""
        if not pc.any(where).as_py():
            return rows
        for row in rows.filter(where).to_pylist():
            shown = "" if self._reading.private else " ".join(f"{k}={v}" for k, v in row.items() if v is not None)
            self._reject(Reject(self._uri, row["position"], reason, message, shown[:RAW_KEPT]))
        return rows.filter(pc.invert(where))

    def _flags(self, rows: pa.Table) -> pa.Table:
        """Add `status` (reported, skipped or null) from the columns of these names; a report takes precedence."""
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
        rows = self._times(rows, ("seconds",))
        if "sample" in rows.column_names:
            rows = self._integers(rows, ("sample",))
        return _with_schema(rows, model.ANSWERS)

    def _spans(self, rows: pa.Table) -> pa.Table:
        rows = self._integers(rows, ("start", "end"))
        backwards = pc.less(rows["end"], rows["start"])
        rows = self._drop(rows, backwards, "bad_end", "the span ends before it begins")
        if "score" in rows.column_names:
            rows = _with(rows, "score", mapped(rows["score"], _number, pa.float64()))
        return _with_schema(self._times(rows, ()), model.SPANS)

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
            raise InputError(f"{self._uri}: {message}") from error

    def _integers(self, rows: pa.Table, roles: Sequence[str]) -> pa.Table:
        for role in roles:
            rows = _with(rows, role, mapped(rows[role], _integer, pa.int32()))
            rows = self._drop(rows, pc.is_null(rows[role]), f"bad_{role}", f"{role} is not a whole number, at least 0")
        return rows


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the columns joined into one, without surrounding white space; null where a cell is empty."""
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
