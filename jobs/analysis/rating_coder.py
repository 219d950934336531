"""Ratings as rows of codes: names are numbered in the order in which they first occur.

Each part of a table is coded by itself, with its own numbers, wherever it is read. `RatingCoder.join` adds the names of
a part to those of the parts before it: joined in the order of the table, parts have the numbers that one coder would
give to all rows, however the table was divided. Items are identified by a 64-bit hash of their id (with 50 million
items, the probability of any collision is 1 in 15,000).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.analysis.reduced_question import STATUS_CODES, Key
from jobs.metrics.answers import MAX_LEVELS, POWERS
from jobs.metrics.distributions import MARKS
from jobs.store.hashing import hash_texts

Version = tuple[str, str]  # a way of asking: method and order of ratings
VERSION = ("method", "order")
ROW = np.dtype(
    [
        ("item", "u8"),
        ("target", "i4"),
        ("rater", "i4"),
        ("value", "i4"),
        ("sample", "i4"),
        ("version", "i2"),
        ("status", "i1"),
        ("score", "f8"),
        ("outside", "f4"),  # outside_mass
        ("others", "f4", (len(POWERS),)),  # of the distribution, see `RatingTable`
        *((name, "?") for name in MARKS),
    ]
)
_OF_MODELS = ("outside_mass", "probabilities", *MARKS)  # columns that ratings by people may lack
Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Recoding:
    """The numbers that the names of a part get among those of all parts: int32[names of the part] each.

    Attributes:
        values: (rubric, question) -> int32[answers + 1]; the last one is for no answer.
    """

    rater: Codes
    target: Codes
    version: Codes
    values: Mapping[Key, Codes]

    def of(self, key: Key) -> "Recoding":
        """Return the numbers for one question alone."""
        return replace(self, values={key[:2]: self.values[key[:2]]})

    def __call__(self, key: Key, rows: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of a question's rows `ROW` [rows] with these numbers."""
        recoded = rows.copy()
        for name in ("rater", "target", "version"):
            recoded[name] = getattr(self, name)[rows[name]]
        recoded["value"] = self.values[key[:2]][rows["value"]]
        return recoded


class RatingCoder:
    """Numbers the names in batches of `ratings`.

    Args:
        by: columns that separate questions, in addition to rubric and question.
        keep_ids: whether to keep the ids of items, with memory that grows with their number.

    Attributes:
        by: rubric, question and the columns that separate questions.
        versions_of: question -> rater -> the versions of its ratings.
        values: (rubric, question) -> answer -> code.
        raters, targets, versions: name -> code.
        ids: hash of an item -> its id; None: they are not kept.
    """

    def __init__(self, *, by: Sequence[str] = (), keep_ids: bool = False) -> None:
        self.by = ("rubric", "question", *by)
        self.versions_of: dict[Key, dict[str, set[Version]]] = {}
        self.values: dict[Key, dict[str, int]] = {}
        self.raters: dict[str, int] = {}
        self.targets: dict[str, int] = {}
        self.versions: dict[Version, int] = {}
        self.ids: dict[int, str] | None = {} if keep_ids else None

    @property
    def columns(self) -> list[str]:
        """The columns of `ratings` that `rows` needs."""
        always = ["item_id", "target", "rater", "method", "order", "sample", "value", "score", "status", *_OF_MODELS]
        return list(dict.fromkeys([*always, *self.by]))

    def rows(self, batch: pa.Table) -> Iterator[tuple[Key, NDArray[Any]]]:
        """Yield the rows `ROW` of each question of a batch.

        The caller must have validated the batch, for example with `Distributions.add`.
        """
        if not batch.num_rows:
            return
        rows = np.empty(batch.num_rows, ROW)
        ids, position = _encoded(batch["item_id"])
        hashes = hash_texts(ids)
        rows["item"] = hashes[position]
        if self.ids is not None:
            self.ids.update(zip(hashes.tolist(), ids, strict=True))
        rows["target"] = _coded(batch["target"], self.targets)
        rows["rater"] = _coded(batch["rater"], self.raters)
        rows["status"] = _coded(batch["status"], dict(STATUS_CODES))
        rows["sample"] = batch["sample"].to_numpy()
        rows["score"] = batch["score"].cast(pa.float64()).to_numpy(zero_copy_only=False)
        rows["outside"] = np.nan
        if "outside_mass" in batch.column_names:
            rows["outside"] = batch["outside_mass"].cast(pa.float32()).to_numpy(zero_copy_only=False)
        rows["others"] = others_of(batch["probabilities"]) if "probabilities" in batch.column_names else np.nan
        for name in MARKS:
            has_mark = name in batch.column_names
            rows[name] = pc.is_valid(batch[name]).to_numpy(zero_copy_only=False) if has_mark else False
        for *key_of, rater, method, order in _distinct_rows(batch, [*self.by, "rater", *VERSION]):
            self.versions_of.setdefault(tuple(key_of), {}).setdefault(rater, set()).add((method, order))
        rows["version"] = self._version_codes(batch)
        answers, codes = _encoded(batch["value"])
        for key, row_numbers in self._split(batch):
            part = rows[row_numbers]
            part["value"] = self._value_codes(key[:2], answers, codes[row_numbers])
            yield key, part

    def of(self, keys: Iterable[Key]) -> "RatingCoder":
        """Return the same numbers of names, with only the answers and versions of these questions, and without ids."""
        coder = RatingCoder(by=self.by[2:])
        coder.raters, coder.targets, coder.versions = self.raters, self.targets, self.versions
        coder.versions_of = {key: self.versions_of[key] for key in keys}
        coder.values = {key[:2]: self.values[key[:2]] for key in keys}
        return coder

    def join(self, part: "RatingCoder") -> Recoding:
        """Add the names of the next part, and return the numbers that they get."""
        for key, of_rater in part.versions_of.items():
            versions = self.versions_of.setdefault(key, {})
            for rater, used in of_rater.items():
                versions.setdefault(rater, set()).update(used)
        for question in part.values:  # also those that nobody answered
            self.values.setdefault(question, {})
        if self.ids is not None:
            self.ids.update(part.ids or {})
        return Recoding(
            rater=_numbers(part.raters, self.raters),
            target=_numbers(part.targets, self.targets),
            version=_numbers(part.versions, self.versions),
            values={
                question: np.array([*(self._value_code(question, answer) for answer in code_of), -1], np.int32)
                for question, code_of in part.values.items()
            },
        )

    def _version_codes(self, batch: pa.Table) -> NDArray[np.int64]:
        methods, method = _encoded(batch["method"])
        orders, order = _encoded(batch["order"])
        pairs, position = _compact(method * len(orders) + order)
        versions = [(methods[pair // len(orders)], orders[pair % len(orders)]) for pair in pairs.tolist()]
        return np.array([self.versions.setdefault(v, len(self.versions)) for v in versions], np.int64)[position]

    def _split(self, batch: pa.Table) -> Iterable[tuple[Key, NDArray[np.int64]]]:
        """Yield each question of the batch with its row numbers."""
        names, code = [], np.zeros(batch.num_rows, np.int64)
        for column in self.by:
            values, position = _encoded(batch[column])
            names.append(values)
            code = code * len(values) + position
        numbers, position = _compact(code)
        order = np.argsort(position, kind="stable")
        for number, row_numbers in zip(numbers, np.split(order, np.cumsum(np.bincount(position))[:-1]), strict=True):
            key: list[str] = []
            for values in reversed(names):
                number, at = divmod(int(number), len(values))  # noqa: PLW2901
                key.insert(0, values[at])
            yield tuple(key), row_numbers

    def _value_codes(self, question: Key, answers: list[Any], positions: NDArray[np.int64]) -> NDArray[np.int64]:
        self.values.setdefault(question, {})
        code = np.full(len(answers), -1, np.int64)
        for position in np.unique(positions):
            if (answer := answers[position]) is not None:
                code[position] = self._value_code(question, answer)
        return code[positions]

    def _value_code(self, question: Key, answer: str) -> int:
        """Return the code of an answer; -1 once there are too many for a closed set."""
        code_of = self.values[question]
        # one value more than a closed set may have, so that larger sets are detected
        if answer in code_of or len(code_of) <= MAX_LEVELS:
            return code_of.setdefault(answer, len(code_of))
        return -1


def _numbers(names: Mapping[Any, int], code_of: dict[Any, int]) -> Codes:
    """Return the code of each name, in their order, and add new ones."""
    return np.array([code_of.setdefault(name, len(code_of)) for name in names], np.int32)


def _encoded(column: pa.ChunkedArray) -> tuple[list[Any], NDArray[np.int64]]:
    """Return a column's distinct values, including null, and int64[rows], the position of each row's value."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # combine_chunks may leave several large chunks
        whole = pa.concat_arrays(whole.chunks)
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    coded = pc.dictionary_encode(whole, null_encoding="encode")
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def others_of(lists: pa.ChunkedArray) -> NDArray[np.float32]:
    """Return float32[rows, powers], `RatingTable.others` of each list of probabilities; NaN for a null or empty one."""
    others = np.full((len(lists), len(POWERS)), np.nan, np.float32)
    length = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    if length.any():
        numbers = pc.list_flatten(lists).to_numpy(zero_copy_only=False).astype(np.float64)
        rows = np.flatnonzero(length)
        starts, row = np.cumsum(length)[rows] - length[rows], np.repeat(np.arange(len(rows)), length[rows])
        highest = np.maximum.reduceat(numbers, starts)
        first = np.unique(row[numbers == highest[row]], return_index=True)[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = numbers / highest[row]
            shares[np.flatnonzero(numbers == highest[row])[first]] = 0
            for place, power in enumerate(POWERS):
                others[rows, place] = np.log(np.add.reduceat(shares**power, starts))
    return others


def _compact(code: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the distinct codes, ascending, and the position of each row's code among them.

    Positions are small integers if they fit, which NumPy sorts by radix.
    """
    if code.max(initial=0) > len(code):
        return np.unique(code, return_inverse=True)
    count = np.bincount(code)
    position = np.cumsum(count > 0) - 1
    numbers = np.flatnonzero(count).astype(np.int64)
    return numbers, position.astype(np.int16 if len(count) < 1 << 15 else np.int64)[code]


def _coded(column: pa.ChunkedArray, code_of: dict[str, int]) -> NDArray[np.int64]:
    """Return each row's code in `code_of`, and add new values to it."""
    values, position = _encoded(column)
    return np.array([code_of.setdefault(value, len(code_of)) for value in values], np.int64)[position]


def _distinct_rows(batch: pa.Table, columns: Sequence[str]) -> Iterable[tuple[str, ...]]:
    names = list(dict.fromkeys(columns))  # `by` may contain the method
    rows = batch.select(names).unify_dictionaries().group_by(names).aggregate([])
    return zip(*(rows[name].to_pylist() for name in columns), strict=True)
