"""Rows of `ratings`, `spans`, `remarks` and `raters`, made from the readers' batches, and what people reported.

Reported pictures can be added to a list of exclusions (`jobs.runtime.selection.exclusions`), which every job respects.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.ids import content_id
from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric
from actors.status import Status
from actors.untrusted import text_lines
from jobs.annotation.batch_schemas import ATTRIBUTES
from jobs.annotation.questionnaire import ISSUE, NO_ANSWER, Questionnaire
from jobs.annotation.tabular import mapped
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.hashing import hash_texts, joined_columns
from jobs.tables import TABLES

_SEPARATOR = "\x1f"
_MESSAGES = {"reported": "the person reported the picture", "skipped": "the person skipped the task"}
HELD = 1 << 22  # hashes kept before duplicates are removed
MARKED_FROM = 0.5  # lowest probability of a marked span, for files with probabilities


def with_names(raw: pa.Table, *, pseudonym: Callable[[str], str] | None, urls: bool) -> pa.Table:
    """Return `raw` with pseudonyms for raters, and with image_ids for item_ids that are URLs."""
    for column, convert in (("rater", pseudonym), ("item_id", content_id if urls else None)):
        if convert and column in raw.column_names:
            raw = raw.set_column(raw.column_names.index(column), column, mapped(raw[column], convert, pa.string()))
    return raw


def rating_rows(raw: pa.Table, questionnaire: Questionnaire, *, method: str, condition: str) -> pa.Table:
    """Return rows of `ratings`: cells become answers, except for tasks that the person skipped or reported.

    Args:
        condition: condition of the rows if the file has none.
    """
    empty = pa.scalar("")
    key = pc.binary_join_element_wise(
        raw["question"], raw["answer"], _SEPARATOR, null_handling="replace", null_replacement=""
    )
    coded = key.combine_chunks().dictionary_encode()
    pairs = [text.split(_SEPARATOR, 1) for text in coded.dictionary.to_pylist()]
    meanings = [questionnaire.answers(question).meaning(answer) for question, answer in pairs]
    sets = [questionnaire.answers(question) for question, _ in pairs]

    def spread(values: list[Any], kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(coded.indices)

    chosen = [(s, m.answer_index) for s, m in zip(sets, meanings, strict=True)]
    value = spread([None if i is None else s.values[i] for s, i in chosen], pa.string())
    score = spread([None if i is None else s.scores[i] for s, i in chosen], pa.float64())
    ended = pc.is_valid(raw["status"])
    status = pc.coalesce(raw["status"], spread([m.status for m in meanings], pa.string()))
    ended_kind = pc.coalesce(raw["kind"], raw["status"])
    message = mapped(raw["status"], lambda word: _MESSAGES.get(word, f"the answer ended as {word}"), pa.string())
    columns = {
        **{name: raw[name] for name in ("item_id", "question", "rater", "comment", "seconds")},
        **{name: pc.fill_null(raw[name], empty) for name in ("target", "order")},
        "condition": pc.fill_null(raw["condition"], pa.scalar(condition)),
        "sample": pc.fill_null(raw["sample"], pa.scalar(0, pa.int32())),
        "value": pc.if_else(ended, pa.scalar(None, pa.string()), value),
        "score": pc.if_else(ended, pa.scalar(None, pa.float64()), score),
        "answers": spread([list(s.values) for s in sets], pa.list_(pa.string())),
        "status": status,
        "error_kind": pc.if_else(ended, ended_kind, spread([m.kind for m in meanings], pa.string())),
        "error_message": pc.if_else(ended, message, spread([m.message for m in meanings], pa.string())),
        "raw": pc.if_else(pc.equal(status, Status.OK.value), pa.scalar(None, pa.string()), raw["answer"]),
        "rubric": pa.array([questionnaire.name] * raw.num_rows, pa.string()),
        "method": pc.fill_null(raw["method"], pa.scalar(method)),
    }
    return _complete(columns, "ratings", raw.num_rows)


def span_rows(raw: pa.Table, *, method: str, condition: str) -> pa.Table:
    """Return rows of `spans`; without a status a span is ok, and without a probability it is marked.

    Args:
        condition: condition of the rows if the file has none.
    """
    columns = {name: raw[name] for name in TABLES["spans"].columns if name in raw.column_names}
    columns["status"] = pc.fill_null(raw["status"], Status.OK.value)
    is_likely = pc.greater_equal(pc.fill_null(raw["probability"], 1.0), MARKED_FROM)
    columns["marked"] = pc.and_(pc.greater(raw["end"], raw["start"]), is_likely)
    columns["condition"] = pc.fill_null(raw["condition"], condition)
    columns["method"] = pa.array([method] * raw.num_rows, pa.string())
    return _complete(columns, "spans", raw.num_rows)


def _complete(columns: Mapping[str, Any], table: str, rows: int) -> pa.Table:
    schema = TABLES[table].schema()
    arrays = [columns[f.name].cast(f.type) if f.name in columns else pa.nulls(rows, f.type) for f in schema]
    return pa.table(arrays, schema=schema)


def is_excluded(raw: pa.Table, exclusion_filter: ExclusionFilter) -> np.ndarray:
    """Return bool [rows]: whether the row's item, or one of the row's pictures, is excluded."""
    hit = exclusion_filter.mask(raw["item_id"])
    if "images" in raw.column_names:
        hit |= np.fromiter(
            (exclusion_filter.hit(*(images or ())) for images in raw["images"].to_pylist()), bool, raw.num_rows
        )
    return hit


@dataclass
class RaterRows:
    """The raters seen so far, each once; if an attribute has two values, both are dropped and a conflict is counted."""

    kind: str
    seen: dict[str, dict[str, str | None]] = field(default_factory=dict)
    conflicts: dict[str, int] = field(default_factory=dict)
    rows: int = 0
    _conflicting: set[tuple[str, str]] = field(default_factory=set)

    def add(self, raw: pa.Table) -> None:
        """Add rows with a column `rater` and any attributes."""
        self.rows += raw.num_rows
        columns = ["rater", *(name for name in ATTRIBUTES if name in raw.column_names)]
        distinct = raw.select(columns).group_by(columns, use_threads=False).aggregate([])
        for row in distinct.to_pylist():
            attributes = self.seen.setdefault(row["rater"], dict.fromkeys(ATTRIBUTES))
            for name in columns[1:]:
                self._merge(row["rater"], attributes, name, row[name])

    def _merge(self, rater: str, attributes: dict[str, str | None], name: str, value: str | None) -> None:
        if value is None or attributes[name] == value or (rater, name) in self._conflicting:
            return
        if attributes[name] is None:
            attributes[name] = value
            return
        self._conflicting.add((rater, name))
        self.conflicts[name] = self.conflicts.get(name, 0) + 1
        attributes[name] = None

    def table(self) -> pa.Table:
        """Return rows of `raters`, sorted by name."""
        rows = [{"rater": rater, "kind": self.kind, **attributes} for rater, attributes in sorted(self.seen.items())]
        return schemas.to_table(rows, TABLES["raters"].schema())


class Distinct:
    """Counter of distinct keys by 64-bit hash, 8 bytes each; two of 10^7 keys collide once in 400,000 runs."""

    def __init__(self) -> None:
        self._held: list[np.ndarray] = []
        self._count = 0

    def add(self, rows: pa.Table, key: list[str]) -> None:
        """Add the keys of `rows`."""
        if rows.num_rows:
            self._held.append(np.unique(hash_texts(joined_columns(rows, key))))
            self._count += len(self._held[-1])
            if self._count > HELD:
                self._merge()

    def _merge(self) -> None:
        self._held = [np.unique(np.concatenate(self._held))]
        self._count = len(self._held[0])

    def __len__(self) -> int:
        if len(self._held) > 1:
            self._merge()
        return self._count


class Welfare:
    """Counter of how often people reported a picture, skipped a task or marked a response as faulty."""

    KEYS = {"tasks": ["item_id", "target", "rater"], "items": ["item_id"], "people": ["rater"]}

    def __init__(self) -> None:
        self._all = {name: Distinct() for name in self.KEYS}
        self._some = {word: {name: Distinct() for name in self.KEYS} for word in ("reports", "skips", "issues")}
        self.reporters: dict[str, set[str]] = {}  # who reported each picture

    def add(self, rows: pa.Table, images: pa.ChunkedArray) -> None:
        """Add rows of `ratings`, and the pictures of each row."""
        narrow = rows.select(["item_id", "target", "rater", "question", "status", "error_kind", "value"])
        reported = pc.equal(narrow["status"], Status.REPORTED.value)
        skipped = pc.and_(
            pc.equal(narrow["status"], Status.SKIPPED.value), pc.not_equal(narrow["error_kind"], NO_ANSWER)
        )
        issue = pc.and_(pc.equal(narrow["question"], ISSUE), pc.equal(narrow["value"], "yes"))
        for name, key in self.KEYS.items():
            self._all[name].add(narrow, key)
            for word, where in (("reports", reported), ("skips", skipped), ("issues", issue)):
                self._some[word][name].add(narrow.filter(pc.fill_null(where, False)), key)
        where = pc.fill_null(reported, False)
        named = zip(narrow.filter(where).to_pylist(), images.filter(where).to_pylist(), strict=True)
        for row, pictures in named:
            for picture in pictures or [row["item_id"]]:
                self.reporters.setdefault(picture, set()).add(row["rater"])

    def tallies(self) -> dict[str, dict[str, int]]:
        """Return the numbers of tasks, items and people for reports, skips and issues, and the totals (`of_…`)."""
        return {
            word: {
                **{name: len(distinct) for name, distinct in counters.items()},
                **{f"of_{name}": len(self._all[name]) for name in counters},
            }
            for word, counters in self._some.items()
        }


EMPTY_REMARK = "empty"  # in the run's counts: fields that a person left empty


def remark_fields(rubric: Rubric | None, columns: Mapping[str, str], question: str | None) -> tuple[FreeText, ...]:
    """Return the fields to read: the rubric's or, without a rubric, those in `columns`.

    Args:
        columns: column or control of each field; empty: those with the fields' names.
        question: without a rubric, the question that all fields explain.

    Raises:
        ValueError: the rubric has no free texts, or none with a name in `columns`.
    """
    if rubric is None:
        return tuple(FreeText(name, name, question=question or "") for name in columns)
    fields = rubric.people.free_texts if rubric.people else ()
    names = [field.name for field in fields]
    if not fields:
        why = (
            f"rubric {rubric.name} has no free_texts in its part people; name a rubric that has them, or "
            "columns of the file with columns.remarks="
        )
        raise InputError(why, key="table", value="remarks")
    if unknown := [name for name in columns if name not in names]:
        raise ValueError(
            f"columns.remarks.{unknown[0]}: must be one of {', '.join(names)}, the free texts of rubric {rubric.name}"
        )
    return tuple(field for field in fields if not columns or field.name in columns)


def remark_rows(raw: pa.Table, fields: Sequence[FreeText], *, rubric: str, condition: str) -> pa.Table:
    """Return rows of `remarks`, one per entry, with the columns of `raw` that the importer also needs.

    A field that a person left empty keeps one row, whose text is null, so that it replaces their earlier text.

    Args:
        raw: rows of `batch_schemas.REMARKS`.
        condition: condition of the rows if the file has none.
    """
    by_name = {field.name: field for field in fields}
    texts = zip(raw["field"].to_pylist(), raw["text"].to_pylist(), strict=True)
    entries = [
        (row, number, entry)
        for row, (name, text) in enumerate(texts)
        for number, entry in enumerate(_remark_entries(text, by_name[name].separator), start=1)
    ]
    rows = raw.take(pa.array([row for row, _, _ in entries], pa.int64()))
    columns: dict[str, Any] = {
        **{name: rows[name] for name in ("item_id", "field", "rater")},
        "target": pc.fill_null(rows["target"], ""),
        "condition": pc.fill_null(rows["condition"], condition),
        "sample": pc.fill_null(rows["sample"], pa.scalar(0, pa.int32())),
        "rubric": pa.array([rubric] * rows.num_rows, pa.string()),
        "number": pa.array([number for _, number, _ in entries], pa.int32()),
        "question": pa.array([by_name[name].question for name in rows["field"].to_pylist()], pa.string()),
        "text": pa.array([entry for _, _, entry in entries], pa.string()),
    }
    table = TABLES["remarks"]
    return pa.table({name: columns[name] for name in table.columns} | {name: rows[name] for name in REMARK_COLUMNS})


REMARK_COLUMNS = ("images", "time", "annotation", "position")  # of `batch_schemas.REMARKS`, for the importer


def _remark_entries(text: str | None, separator: str) -> Iterator[str | None]:
    """Yield the entries of a text, except empty ones; None for an empty text."""
    parts = [part.strip() for part in (text or "").split(separator)] if separator else [(text or "").strip()]
    entries = [part for part in parts if part]
    yield from entries or (None,)


REPORTED = "reported.json"  # in _run/ of imported ratings; how many people reported each picture


def add_reported(uri: str, reports: Mapping[str, int], *, least: int) -> tuple[int, int]:
    """Add reported pictures to the list at `uri`, keeping its other lines.

    Args:
        reports: how many people reported each picture.
        least: smallest number of people who must have reported a picture.

    Returns:
        How many pictures were new, and how many reported pictures the list has now.

    Raises:
        InputError: the list cannot be read or written.
    """
    reported = {picture: people for picture, people in sorted(reports.items()) if people >= least}
    target = locations.absolute(uri)
    with locations.named_errors(uri):
        try:
            text = locations.read_bytes(target).decode("utf-8-sig")
        except FileNotFoundError:
            text = ""
        except UnicodeDecodeError as error:
            why = f"not a list of exclusions (byte {error.start} is not UTF-8)"
            raise InputError(why, key="reports", value=uri) from error
        listed = {line.partition(" #")[0].strip() for line in text_lines(text)}
        new = {picture: n for picture, n in reported.items() if picture not in listed}
        if new:
            text += "" if not text or text.endswith("\n") else "\n"
            text += "".join(f"{picture} # reported by {n}\n" for picture, n in new.items())
            locations.replace(target, text.encode())
    return len(new), len(reported)
