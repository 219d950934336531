"""People's free text: a study's fields, and rows of the table `remarks` made from the readers' batches."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric
from jobs.tables import TABLES

EMPTY = "empty"  # in the run's counts: fields that a person left empty


def fields_of(rubric: Rubric | None, columns: Mapping[str, str], question: str | None) -> tuple[FreeText, ...]:
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
        raise ValueError(
            f"table=remarks: rubric {rubric.name} has no free_texts in its part people; name a "
            "rubric that has them, or columns of the file with columns.remarks="
        )
    if unknown := [name for name in columns if name not in names]:
        raise ValueError(
            f"columns.remarks.{unknown[0]}: must be one of {', '.join(names)}, the free texts of rubric {rubric.name}"
        )
    return tuple(field for field in fields if not columns or field.name in columns)


def remarks(raw: pa.Table, fields: Sequence[FreeText], *, rubric: str, condition: str) -> pa.Table:
    """Return rows of `remarks`, one per entry, with the columns of `raw` that the importer also needs.

    A field that a person left empty keeps one row, whose text is null, so that it replaces their earlier text.

    Args:
        raw: rows of `model.REMARKS`.
        condition: condition of the rows if the file has none.
    """
    by_name = {field.name: field for field in fields}
    texts = zip(raw["field"].to_pylist(), raw["text"].to_pylist(), strict=True)
    entries = [
        (row, number, entry)
        for row, (name, text) in enumerate(texts)
        for number, entry in enumerate(_entries(text, by_name[name].separator), start=1)
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
    return pa.table({name: columns[name] for name in table.columns} | {name: rows[name] for name in ADDITIONAL})


ADDITIONAL = ("images", "time", "annotation", "position")  # columns of `model.REMARKS` that the importer needs


def _entries(text: str | None, separator: str) -> Iterator[str | None]:
    """Yield the entries of a text, except empty ones; None for an empty text."""
    parts = [part.strip() for part in (text or "").split(separator)] if separator else [(text or "").strip()]
    entries = [part for part in parts if part]
    yield from entries or (None,)
