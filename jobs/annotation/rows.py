"""Rows of the tables `ratings`, `spans` and `raters`, made from the readers' batches, and their counts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.ids import content_id
from actors.status import Status
from jobs.annotation.answers import ISSUE, Questionnaire
from jobs.annotation.model import ATTRIBUTES
from jobs.annotation.tabular import mapped
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import hash_texts, joined_columns
from jobs.tables import TABLES

_SEPARATOR = "\x1f"
_MESSAGES = {"reported": "the person reported the picture", "skipped": "the person skipped the task"}
HELD = 1 << 22  # hashes kept before duplicates are removed
MARKED_FROM = 0.5  # lowest probability of a marked span, for files with probabilities


def named(raw: pa.Table, *, pseudonym: Callable[[str], str] | None, urls: bool) -> pa.Table:
    """Return `raw` with pseudonyms for raters, and with image_ids for item_ids that are URLs."""
    for column, convert in (("rater", pseudonym), ("item_id", content_id if urls else None)):
        if convert and column in raw.column_names:
            raw = raw.set_column(raw.column_names.index(column), column, mapped(raw[column], convert, pa.string()))
    return raw


def ratings(raw: pa.Table, questionnaire: Questionnaire, *, method: str, condition: str) -> pa.Table:
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


def spans(raw: pa.Table, *, method: str, condition: str) -> pa.Table:
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
            pc.equal(narrow["status"], Status.SKIPPED.value), pc.not_equal(narrow["error_kind"], "no_answer")
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
