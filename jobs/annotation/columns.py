"""The mapping of columns of CSV and Parquet files: the settings `columns=`, and the columns to read from a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from actors.rubrics.people import FreeText
from jobs.annotation.answers import Questionnaire
from jobs.annotation.spans import SpanLabels
from jobs.corpora import delimited
from jobs.errors import InputError

JOIN = "+"  # columns.item_id=model+prompt joins two columns …
JOINED = "/"  # … to ids such as mini-dalle/prompt_3
NEEDED = {
    "ratings": ("item_id", "rater"),
    "spans": ("item_id", "rater", "start", "end"),
    "remarks": ("item_id", "rater"),
    "raters": ("rater",),
}
MARKED = {"spans": ("text_id", "kind"), "ratings": (), "remarks": (), "raters": ()}
MAPPINGS = ("questions", "remarks")  # fields of RatingColumns that map names to columns


@dataclass
class RatingColumns:
    """The column of each role; null: the column of the same name, if there is one. a+b joins two columns with `/`."""

    item_id: str | None = None  # the picture or item: `items=` says whose ids these are
    rater: str | None = None  # who answered
    value: str | None = None  # long form: the answers
    question: str | None = None  # long form: names or texts of the questions
    questions: Any = None  # wide form, and tools: {question: its column or control}
    remarks: Any = None  # table=remarks: {field for free text: its column or control}
    target: str | None = None  # the target that the item was rated against
    condition: str | None = None  # experimental condition
    order: str | None = None  # rarely: place of the answer in the rater's task
    sample: str | None = None  # rarely: number of a repeated answer by the same rater
    comment: str | None = None  # rarely: free text next to an answer
    seconds: str | None = None  # rarely: time that the answer took
    time: str | None = None  # rarely: ISO 8601 or seconds since 1970; orders repeated answers
    skipped: str | None = None  # rarely: yes where the person skipped the item
    reported: str | None = None  # rarely: yes where the person reported the picture
    country: str | None = None  # rarely: table=raters: country of the rater
    pool: str | None = None  # rarely: table=raters: where the rater was recruited
    experience: str | None = None  # rarely: table=raters: experience of the rater
    text_id: str | None = None  # rarely: table=spans: the text in which the span is marked
    kind: str | None = None  # rarely: table=spans: kind of the span
    start: str | None = None  # rarely: table=spans: its first character
    end: str | None = None  # rarely: table=spans: the character after its last
    category: str | None = None  # rarely: table=spans: kind of mistake
    score: str | None = None  # rarely: table=spans: severity of the mistake
    # rarely: table=spans: probability that the span is a mistake or omission; below 0.5 it is not marked
    probability: str | None = None


@dataclass(frozen=True)
class ColumnMapping:
    """The mapping for one file: the columns of each role and, in the wide form, of each question or free text."""

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
    """Settings for reading a file: the table, the mapping of columns, the questions, encoding and delimiter."""

    table: str
    columns: RatingColumns
    questionnaire: Questionnaire | None
    question: str | None = None  # the question that all rows answer, if the file has no column for it
    rater: str | None = None  # the rater of all rows, if the file has no column for it
    free_texts: Sequence[FreeText] = ()  # the fields to read for table=remarks
    span_labels: SpanLabels | None = None  # the kinds and labels that table=spans may have; None: any
    encoding: str | None = None
    delimiter: str | None = None
    limit: int | None = None  # how many rows of a file are read, from the first one; None: all
    private: bool = False  # keep cells out of rejects


def layout(header: Sequence[str], reading: Reading, *, uri: str) -> ColumnMapping:
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
    _check(header, reading, roles, uri=uri)
    wide = _wide(header, reading, roles, uri=uri) if reading.table == "ratings" else {}
    if reading.table == "remarks":
        wide = _free_texts(header, reading, uri=uri)
    mapping = ColumnMapping(roles, wide)
    delimited.require_columns(uri, header, mapping.read)
    return mapping


def _check(header: Sequence[str], reading: Reading, roles: Mapping[str, Sequence[str]], *, uri: str) -> None:
    """Raise InputError if the file lacks a column that the table or a key needs, or has raters besides rater=."""
    keys = {role: f"columns.{role}={getattr(reading.columns, role) or ''}" for role in roles}
    if reading.rater and "rater" in roles:
        raise InputError(
            f"rater={reading.rater}: {uri} names the raters in its column {JOIN.join(roles['rater'])}; omit rater=, or "
            "rename the column if it is of something else"
        )
    missing = [f"{name} ({keys[role]})" for role, names in roles.items() for name in names if name not in header]
    for role in (*NEEDED[reading.table], *MARKED[reading.table]):
        if role not in roles and not (role == "rater" and reading.rater):
            missing.append(f"{role} (columns.{role}=)")
    if reading.table == "ratings":
        wide = (reading.columns.questions or {}).items()
        missing += [f"{name} (columns.questions.{question}=)" for question, name in wide if name not in header]
    if reading.table == "remarks":
        mapped = (reading.columns.remarks or {}).items()
        missing += [f"{name} (columns.remarks.{field}=)" for field, name in mapped if name not in header]
    if missing:
        raise InputError(f"no column {', '.join(missing)}; its columns are {', '.join(header)}", place=uri)


def _free_texts(header: Sequence[str], reading: Reading, *, uri: str) -> dict[str, str]:
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


def _wide(header: Sequence[str], reading: Reading, roles: Mapping[str, Any], *, uri: str) -> dict[str, str]:
    if reading.columns.questions:
        wide = dict(reading.columns.questions)
        for question in wide:
            if reading.questionnaire and reading.questionnaire.names and question not in reading.questionnaire.sets:
                allowed = ", ".join(reading.questionnaire.sets)
                raise InputError(
                    f"columns.questions.{question}: rubric {reading.questionnaire.name} has no such question; must be "
                    f"one of {allowed}"
                )
        return wide
    if "value" in roles:
        if "question" not in roles and reading.question is None:
            raise InputError(
                f"rows do not name a question; set its column with columns.question= "
                f"(the columns are {', '.join(header)}) or the question with question=",
                place=uri,
            )
        return {}
    questions = list(reading.questionnaire.sets) if reading.questionnaire else []
    if by_name := _by_name(uri, header, questions, key="questions"):
        return by_name
    raise InputError(
        f"no column of answers; its columns are {', '.join(header)} "
        "(choose one with columns.value= or columns.questions={question: column})",
        place=uri,
    )
