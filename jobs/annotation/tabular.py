"""Readers of CSV and Parquet files with one row per answer (long) or one column per question (wide).

Which columns are read follows from the settings `columns=` and the file's header (`map_columns`).
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs.annotation import batch_schemas
from jobs.annotation.batch_schemas import ROWS_AT_A_TIME, UNKNOWN_REPORTS
from jobs.annotation.questionnaire import fold
from jobs.annotation.reading import MAPPINGS, RatingColumns, Reading
from jobs.annotation.span_labels import SpanLabels
from jobs.corpora import delimited
from jobs.corpora.cell_texts import column_texts
from jobs.corpora.user_tables import opened_parquet
from jobs.errors import InputError
from jobs.store.writer import RAW_KEPT, Reject, Rejects


@dataclass(frozen=True)
class ColumnMapping:
    """The mapping for one file: the columns of each role and, in the wide form, of each question or free text.

    Attributes:
        by_target: the column of each question and target.
    """

    roles: dict[str, tuple[str, ...]]
    wide: dict[str, str]
    by_target: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def read(self) -> list[str]:
        """The columns to read."""
        of_roles = (column for columns in self.roles.values() for column in columns)
        return list(dict.fromkeys([*of_roles, *self.wide.values(), *self.by_target.values()]))


_SEPARATOR = "\x1f"  # between a kind of spans and a category


def read_csv(uri: str, reading: Reading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the answers, spans or raters of a delimited text file in batches; bad rows go to `reject` with their line.

    Raises:
        InputError: see `map_columns` and `jobs.corpora.delimited`.
    """
    dialect = delimited.read_dialect(uri, encoding=reading.encoding, delimiter=reading.delimiter)
    mapping = map_columns(dialect.header, reading, uri=uri)
    batches = Batches(uri, mapping, reading, reject)
    for lines, texts in csv_texts(uri, dialect, reading, reject):
        columns = {name: pa.array(texts[name], pa.string()) for name in mapping.read}
        yield _marked(batches.convert(columns, pa.array(lines, pa.int64())), mapping)


def csv_texts(
    uri: str, dialect: delimited.Dialect, reading: Reading, reject: Rejects
) -> Iterator[tuple[list[int], dict[str, Sequence[str]]]]:
    """Yield the lines of a file's rows and the texts of its columns, in batches; bad rows go to `reject`."""
    rows = islice(delimited.rows(uri, dialect, reject=reject, private=reading.private), reading.limit)
    while held := list(islice(rows, ROWS_AT_A_TIME)):
        lines, cells = zip(*held, strict=True)
        yield list(lines), dict(zip(dialect.header, zip(*cells, strict=True), strict=True))


def read_parquet(uri: str, reading: Reading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the batches of a Parquet file as `read_csv` does; a row's position is its number, from 1."""
    with opened_parquet(uri) as file:
        mapping = map_columns(file.schema_arrow.names, reading, uri=uri)
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
        """Return a batch with the table's schema in `batch_schemas`."""
        reading = self._reading
        cells = {role: _joined([columns[name] for name in names]) for role, names in self._mapping.roles.items()}
        if reading.rater:
            cells["rater"] = pa.array([reading.rater] * len(positions), pa.string())
        rows = pa.table({**cells, "position": positions})
        for role in (*NEEDED[reading.table], *MARKED[reading.table]):
            rows = self._drop(rows, pc.is_null(rows[role]), f"no_{role}", f"column {role} is empty")
        if reading.table == "raters":
            return _with_schema(rows, batch_schemas.PEOPLE)
        if reading.table == "spans":
            return self._spans(rows)
        rows = self._flags(rows)
        if not (self._mapping.wide or self._mapping.by_target):
            return self._answers(rows, question=None, cells=rows["value"])
        index_of = {position: index for index, position in enumerate(positions.to_pylist())}
        kept = pa.array([index_of[p] for p in rows["position"].to_pylist()], pa.int64())
        cells_of = {name: _joined([columns[column]]).take(kept) for name, column in self._mapping.wide.items()}
        if reading.table == "remarks":
            return pa.concat_tables(self._remarks(rows, field=name, cells=texts) for name, texts in cells_of.items())
        answers = [self._answers(rows, question=name, cells=texts) for name, texts in cells_of.items()]
        for (name, target), column in self._mapping.by_target.items():
            about = _with(rows, "target", pa.array([target] * rows.num_rows, pa.string()))
            answers.append(self._answers(about, question=name, cells=_joined([columns[column]]).take(kept)))
        return pa.concat_tables(answers)

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
            flags = mapped(rows[role], batch_schemas.flag, pa.bool_(), absent=False)
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
        return _with_schema(rows, batch_schemas.ANSWERS)

    def _remarks(self, rows: pa.Table, *, field: str, cells: Any) -> pa.Table:
        rows = _with(_with(rows, "text", cells), "field", pa.array([field] * rows.num_rows, pa.string()))
        rows = self._times(_with(rows, "annotation", rows["position"]), ())
        if "sample" in rows.column_names:
            rows = self._integers(rows, ("sample",))
        return _with_schema(rows, batch_schemas.REMARKS)

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
        return _with_schema(self._times(rows, ()), batch_schemas.SPANS)

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
                rows = _with(rows, role, mapped(rows[role], batch_schemas.duration, pa.float64()))
        if "time" in rows.column_names:
            rows = _with(rows, "time", mapped(rows["time"], self._moment, pa.float64()))
        return rows

    def _moment(self, text: str) -> float | None:
        try:
            return batch_schemas.seconds_since_1970(text)
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


JOIN = "+"  # columns.item_id=model+prompt joins two columns …
JOINED = "/"  # … to ids such as mini-dalle/prompt_3
NEEDED = {
    "ratings": ("item_id", "rater"),
    "spans": ("item_id", "rater", "start", "end"),
    "remarks": ("item_id", "rater"),
    "raters": ("rater",),
}
MARKED = {"spans": ("text_id", "kind"), "ratings": (), "remarks": (), "raters": ()}


def map_columns(header: Sequence[str], reading: Reading, *, uri: str) -> ColumnMapping:
    """Return the columns to read from a file with this header.

    Raises:
        InputError: columns are missing (the message lists all), a name to be read occurs twice or in different case,
            no column determines the question, or the file has a column of raters besides `rater=`.
    """
    roles = {}
    for role in (f.name for f in fields(RatingColumns) if f.name not in MAPPINGS):
        name = getattr(reading.columns, role)
        if name is not None or role in header:
            roles[role] = (name or role,) if (name or role) in header else tuple((name or role).split(JOIN))
    _check_columns(header, reading, roles, uri=uri)
    mapping = ColumnMapping(roles, {})
    if reading.table == "ratings":
        mapping = ColumnMapping(roles, *_wide_columns(header, reading, roles, uri=uri))
    if reading.table == "remarks":
        mapping = ColumnMapping(roles, _free_text_columns(header, reading, uri=uri))
    delimited.require_columns(uri, header, mapping.read)
    return mapping


def _check_columns(header: Sequence[str], reading: Reading, roles: Mapping[str, Sequence[str]], *, uri: str) -> None:
    """Raise InputError if the file lacks a column that the table or a key needs, or has raters besides rater=."""
    keys = {role: f"columns.{role}={getattr(reading.columns, role) or ''}" for role in roles}
    if reading.rater and "rater" in roles:
        why = f"{uri} names the raters in its column {JOIN.join(roles['rater'])}"
        raise InputError(
            why, key="rater", value=reading.rater, remedy="omit rater=, or rename the column if it is of something else"
        )
    missing = [f"{name} ({keys[role]})" for role, names in roles.items() for name in names if name not in header]
    for role in (*NEEDED[reading.table], *MARKED[reading.table]):
        if role not in roles and not (role == "rater" and reading.rater):
            missing.append(f"{role} (columns.{role}=)")
    if reading.table == "ratings":
        wide = flattened(reading.columns.questions).items()
        missing += [f"{name} (columns.questions.{question}=)" for question, name in wide if name not in header]
    if reading.table == "remarks":
        mapped = (reading.columns.remarks or {}).items()
        missing += [f"{name} (columns.remarks.{field}=)" for field, name in mapped if name not in header]
    if missing:
        raise InputError(f"no column {', '.join(missing)}; its columns are {', '.join(header)}", place=uri)


def _free_text_columns(header: Sequence[str], reading: Reading, *, uri: str) -> dict[str, str]:
    """Return the column of each field: from `columns.remarks`, else the column with the field's name."""
    if reading.columns.remarks:
        return dict(reading.columns.remarks)
    names = [field.name for field in reading.free_texts]
    if by_name := _by_name(uri, header, names, key="remarks"):
        return by_name
    raise InputError(
        f"no column of free text ({', '.join(names)}); its columns are {', '.join(header)} "
        "(choose with columns.remarks={field: column})",
        place=uri,
    )


def _by_name(uri: str, header: Sequence[str], names: Sequence[str], *, key: str) -> dict[str, str]:
    """Return the column of each of `names` that the file has, in any case; `columns.` with `key` chooses others."""
    columns = {
        name: delimited.column_in_any_case(uri, header, name, key=f"columns.{key}={{{name}: column}}") for name in names
    }
    return {name: column for name, column in columns.items() if column is not None}


Wide = tuple[dict[str, str], dict[tuple[str, str], str]]  # columns by question, and by question and target


def flattened(questions: Mapping[str, str | Mapping[str, str]] | None) -> dict[str, str]:
    """Return the columns of `columns.questions`: by question, and by `question.target` where it has targets."""
    flat: dict[str, str] = {}
    for question, column in (questions or {}).items():
        flat |= (
            {f"{question}.{t}": name for t, name in column.items()}
            if isinstance(column, Mapping)
            else {question: column}
        )
    return flat


def _wide_columns(header: Sequence[str], reading: Reading, roles: Mapping[str, Any], *, uri: str) -> Wide:
    if reading.columns.questions:
        return _mapped_columns(reading)
    if "value" in roles:
        if "question" not in roles and reading.question is None:
            raise InputError(
                f"rows do not name a question; set its column with columns.question= "
                f"(the columns are {', '.join(header)}) or the question with question=",
                place=uri,
            )
        return {}, {}
    questions = list(reading.questionnaire.sets) if reading.questionnaire else []
    by_target = {} if "target" in roles else _target_columns(header, reading, uri=uri)
    about = {question for question, _ in by_target}
    by_name = _by_name(uri, header, [name for name in questions if name not in about], key="questions")
    if by_name or by_target:
        return by_name, by_target
    raise InputError(
        f"no column of answers; its columns are {', '.join(header)} (choose one with columns.value= or "
        "columns.questions={question: column}, about targets columns.questions={question: {target: column, …}})",
        place=uri,
    )


def _mapped_columns(reading: Reading) -> Wide:
    wide: dict[str, str] = {}
    by_target: dict[tuple[str, str], str] = {}
    questionnaire = reading.questionnaire
    for question, columns in reading.columns.questions.items():
        key = f"columns.questions.{question}"
        if questionnaire and questionnaire.names and question not in questionnaire.sets:
            allowed = ", ".join(questionnaire.sets)
            raise InputError(f"rubric {questionnaire.name} has no such question; must be one of {allowed}", key=key)
        if not isinstance(columns, Mapping):
            wide[question] = columns
            continue
        targets = questionnaire.targets.get(question, ()) if questionnaire else ()
        if unknown := next((target for target in columns if targets and target not in targets), None):
            raise InputError(f"no such target; must be one of {', '.join(targets)}", key=f"{key}.{unknown}")
        by_target |= {(question, target): column for target, column in columns.items()}
    return wide, by_target


def _target_columns(header: Sequence[str], reading: Reading, *, uri: str) -> dict[tuple[str, str], str]:
    """Return the columns named after a question (or its text) and a target, or after a target if only one question is
    about targets: `shown_joy`, `How strongly is it shown? [joy]`, `joy`.

    Raises:
        InputError: two columns have such a name, or there are columns for only some of a question's targets.
    """
    if reading.questionnaire is None:
        return {}
    targets_of = reading.questionnaire.targets
    if reading.question:
        targets_of = {name: targets for name, targets in targets_of.items() if name == reading.question}
    words = [_words(name) for name in header]
    column_of: dict[tuple[str, str], str] = {}
    for question, targets in targets_of.items():
        names = [question, *(text for text, name in reading.questionnaire.names.items() if name == question)]
        for target in targets:
            accepted = {_words(f"{first} {last}") for name in names for first, last in ((name, target), (target, name))}
            if len(targets_of) == 1:
                accepted.add(_words(target))
            columns = [column for column, of_column in zip(header, words, strict=True) if of_column in accepted]
            if len(columns) > 1:
                raise InputError(
                    f"columns {' and '.join(columns)} are both of question {question} and target {target}; choose with "
                    f"columns.questions={{{question}: {{{target}: COLUMN, …}}}}",
                    place=uri,
                )
            if columns:
                column_of[question, target] = columns[0]
        absent = [target for target in targets if (question, target) not in column_of]
        if 0 < len(absent) < len(targets):
            raise InputError(
                f"no column for target {', '.join(absent)} of question {question}; its columns are "
                f"{', '.join(header)}; choose all with columns.questions={{{question}: {{{absent[0]}: COLUMN, …}}}}",
                place=uri,
            )
    return column_of


def _words(text: str) -> str:
    """Return the letters and digits of a text, folded, as words with single spaces."""
    return fold(re.sub(r"[\W_]+", " ", text))
