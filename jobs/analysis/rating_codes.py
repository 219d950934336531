"""Any number of ratings as compact codes: one file per question in a temporary folder, read one question at a time.

Memory holds a batch, the names of raters, targets and answers, and later one question: 20 bytes per rating and 20 per
item, and about 55 per rating at the peak with all metrics. A question is sorted in chunks of its items. Items are
identified by a 64-bit hash of their id (with 50 million items, the probability of any collision is 1 in 15,000).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.status import Status
from jobs.analysis.reduced_question import STATUS_CODES, IndependentUnits, Key, QuestionTally, Reduced, pair_hashes
from jobs.metrics.answers import MAX_LEVELS
from jobs.metrics.distributions import MARKS, AnswersOfUnits
from jobs.store.files.spool import Spool
from jobs.store.hashing import Hashes, hash_texts
from jobs.tables import HUMAN

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
        ("top", "f4"),  # the highest probability of an answer
        *((name, "?") for name in MARKS),
    ]
)
CHUNK = 1 << 21  # rows of a question that are sorted at a time
MAX_OPEN = 256  # files; with more questions, files are closed and reopened
_OF_MODELS = ("outside_mass", "probabilities", *MARKS)  # columns that ratings by people may lack


class Reduction:
    """Collects batches of `ratings` as codes. It is a context manager, which removes its folder at exit.

    Args:
        by: additional columns that separate questions, from condition, method and order.
        keep_ids: whether to keep the ids of items, with memory that grows with their number.

    Attributes:
        units: the independent units of the items; set it before questions are read.
    """

    def __init__(self, *, by: Sequence[str] = (), keep_ids: bool = False) -> None:
        self._by = ("rubric", "question", *by)
        self._folder = Spool("ratings")
        self._files: dict[Key, IO[bytes]] = {}
        self._versions_of: dict[Key, dict[str, set[Version]]] = {}  # question -> rater -> the versions of its ratings
        self._values: dict[Key, dict[str, int]] = {}  # (rubric, question) -> answer -> code
        self._raters: dict[str, int] = {}
        self._targets: dict[str, int] = {}
        self._versions: dict[Version, int] = {}
        self.ids: dict[int, str] | None = {} if keep_ids else None
        self.units = IndependentUnits()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._folder.add_place(error)
        with self._folder:
            for file in self._files.values():
                file.close()

    @property
    def folder(self) -> Path:
        """The folder of the codes, which exists until the context ends."""
        return self._folder.path

    @property
    def by(self) -> tuple[str, ...]:
        """The columns that separate questions, in addition to rubric and question."""
        return self._by[2:]

    @property
    def columns(self) -> list[str]:
        """The columns of `ratings` that `add` needs."""
        always = ["item_id", "target", "rater", "method", "order", "sample", "value", "score", "status", *_OF_MODELS]
        return list(dict.fromkeys([*always, *self._by]))

    @property
    def keys(self) -> list[Key]:
        """The questions that occur, sorted."""
        return sorted(self._versions_of)

    def versions_of(self, key: Key) -> Mapping[str, set[Version]]:
        """Return the versions in which each rater was asked a question: methods and orders of its ratings."""
        return self._versions_of[key]

    def methods_of(self, key: Key) -> Mapping[str, set[str]]:
        """Return the methods of ratings by rater, for the raters who were asked a question."""
        return {rater: {method for method, _ in versions} for rater, versions in self._versions_of[key].items()}

    @property
    def methods(self) -> dict[str, set[str]]:
        """The methods of ratings by rater."""
        methods: dict[str, set[str]] = {}
        for key in self._versions_of:
            for rater, used in self.methods_of(key).items():
                methods.setdefault(rater, set()).update(used)
        return methods

    @property
    def raters(self) -> tuple[str, ...]:
        """All raters, in the order of their codes."""
        return tuple(self._raters)

    def add(self, batch: pa.Table) -> None:
        """Append a batch as codes. The caller must have validated it, for example with `Distributions.add`."""
        if not batch.num_rows:
            return
        rows = np.empty(batch.num_rows, ROW)
        ids, position = _encoded(batch["item_id"])
        hashes = hash_texts(ids)
        rows["item"] = hashes[position]
        if self.ids is not None:
            self.ids.update(zip(hashes.tolist(), ids, strict=True))
        rows["target"] = _coded(batch["target"], self._targets)
        rows["rater"] = _coded(batch["rater"], self._raters)
        rows["status"] = _coded(batch["status"], dict(STATUS_CODES))
        rows["sample"] = batch["sample"].to_numpy()
        rows["score"] = batch["score"].cast(pa.float64()).to_numpy(zero_copy_only=False)
        rows["outside"] = np.nan
        if "outside_mass" in batch.column_names:
            rows["outside"] = batch["outside_mass"].cast(pa.float32()).to_numpy(zero_copy_only=False)
        rows["top"] = _highest(batch["probabilities"]) if "probabilities" in batch.column_names else np.nan
        for name in MARKS:
            has_mark = name in batch.column_names
            rows[name] = pc.is_valid(batch[name]).to_numpy(zero_copy_only=False) if has_mark else False
        for *key_of, rater, method, order in _distinct_rows(batch, [*self._by, "rater", *VERSION]):
            self._versions_of.setdefault(tuple(key_of), {}).setdefault(rater, set()).add((method, order))
        rows["version"] = self._version_codes(batch)
        answers, codes = _encoded(batch["value"])
        for key, row_numbers in self._split(batch):
            part = rows[row_numbers]
            part["value"] = self._value_codes(key[:2], answers, codes[row_numbers])
            self._file(key).write(part.tobytes())

    def _version_codes(self, batch: pa.Table) -> NDArray[np.int64]:
        methods, method = _encoded(batch["method"])
        orders, order = _encoded(batch["order"])
        pairs, position = _compact(method * len(orders) + order)
        versions = [(methods[pair // len(orders)], orders[pair % len(orders)]) for pair in pairs.tolist()]
        return np.array([self._versions.setdefault(v, len(self._versions)) for v in versions], np.int64)[position]

    def _split(self, batch: pa.Table) -> Iterable[tuple[Key, NDArray[np.int64]]]:
        """Yield each question of the batch with its row numbers."""
        names, code = [], np.zeros(batch.num_rows, np.int64)
        for column in self._by:
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
        code_of = self._values.setdefault(question, {})
        code = np.full(len(answers), -1, np.int64)
        for position in np.unique(positions):
            answer = answers[position]
            # one value more than a closed set may have, so that larger sets are detected
            if answer is not None and (answer in code_of or len(code_of) <= MAX_LEVELS):
                code[position] = code_of.setdefault(answer, len(code_of))
        return code[positions]

    def _file(self, key: Key) -> IO[bytes]:
        if key not in self._files:
            if len(self._files) >= MAX_OPEN:
                oldest = next(iter(self._files))
                self._files.pop(oldest).close()
            self._files[key] = self._path(key).open("ab")
        return self._files[key]

    def _path(self, key: Key) -> Path:
        return self.folder / f"{list(self._versions_of).index(key)}.codes"

    def question(
        self,
        key: Key,
        *,
        order: Sequence[str] = (),
        countries: Mapping[str, str] | None = None,
        shared: Mapping[Key, Collection[str]] | None = None,
        versions_of: str | None = None,
        people: Collection[str] = (),
    ) -> Reduced:
        """Return one question's ratings, with several ratings of an item by one rater (samples, layouts) merged.

        The merged score is the mean of the scores; the merged value is that of the lowest sample.

        Args:
            versions_of: a rater; only this rater's ratings are returned, with its versions in the place of raters.
            order: the answers in the rubric's order; other answers follow by name.
            countries: rater -> target of the rater's ratings without a target, if other ratings of the question have
                one.
            shared: key -> raters whose ratings under that key are added, such as people's without a condition.
            people: raters who are people.
        """
        names = self.raters if versions_of is None else tuple(version_name(version) for version in self._versions)
        raters, n = self._present(key, shared, versions_of)
        values, recode = self._ordered(key, order)
        tally = QuestionTally(n, raters, is_person=np.isin(names, list(people))[raters], recode=recode)
        for rows in self._parts(key, n, countries or {}, shared, versions_of):
            tally.add(rows)
        return tally.result(key, names=names, values=values, targets=tuple(self._targets), units=self.units)

    def by_units(self, key: Key) -> Iterator[AnswersOfUnits]:
        """Yield one question's ratings, not merged, in parts that each have all rows of their units."""
        n = sum(len(rows) for rows in self._read(key, None))
        human = np.array([method == HUMAN for method, _ in self._versions] or [False])
        answers = tuple(self._values[key[:2]])
        for rows in self._divided(self._read(key, None), n, lambda rows: self.units.of(rows["item"])):
            yield AnswersOfUnits(
                unit=self.units.of(rows["item"]),
                rater=rows["rater"],
                value=rows["value"],
                score=rows["score"],
                outside=rows["outside"],
                marks={name: rows[name] for name in MARKS},
                ok=rows["status"] == STATUS_CODES[Status.OK],
                by_people=human[rows["version"]],
                raters=self.raters,
                answers=answers,
                unit_name=self.units.name_of(rows["item"]),
            )

    def _present(
        self, key: Key, shared: Mapping[Key, Collection[str]] | None, versions_of: str | None
    ) -> tuple[NDArray[np.int32], int]:
        """Return the sorted codes of the raters of a question's rows, and the number of rows."""
        raters, n = np.zeros(0, np.int32), 0
        for rows in self._read(key, shared, versions_of):
            raters, n = np.union1d(raters, rows["rater"]), n + len(rows)
        return raters, n

    def _read(
        self, key: Key, shared: Mapping[Key, Collection[str]] | None, versions_of: str | None = None
    ) -> Iterator[NDArray[Any]]:
        """Yield the rows of a question, then the shared raters' rows of others, at most `CHUNK` at a time.

        With `versions_of`, yield the rows of that rater, with codes of versions in the place of raters' codes.
        """
        for other, raters in ((key, None), *(shared or {}).items()):
            if other in self._files:
                self._files[other].flush()
            codes = None if raters is None else np.array([self._raters[name] for name in raters], np.int64)
            with self._path(other).open("rb") as file:
                while len(rows := np.fromfile(file, ROW, CHUNK)):
                    if versions_of is not None:
                        rows = rows[rows["rater"] == self._raters[versions_of]]
                        rows["rater"] = rows["version"]
                    yield rows if codes is None else rows[np.isin(rows["rater"], codes)]

    def _parts(
        self,
        key: Key,
        n: int,
        countries: Mapping[str, str],
        shared: Mapping[Key, Collection[str]] | None,
        versions_of: str | None,
    ) -> Iterator[NDArray[Any]]:
        """Yield the rows of a question, `ROW` [rows], in chunks of about `CHUNK` rows.

        All rows of an item and target are in one chunk. A question with more than `CHUNK` rows is divided by hash into
        temporary files.

        Args:
            n: the number of the question's rows.
        """
        with_targets = self._target_filler(key, countries, shared)
        yield from self._divided(map(with_targets, self._read(key, shared, versions_of)), n, _pairs)

    def _divided(
        self, chunks: Iterable[NDArray[Any]], n: int, hashes: Callable[[NDArray[Any]], Hashes]
    ) -> Iterator[NDArray[Any]]:
        """Yield n rows in parts of about `CHUNK`, each with all rows of its hashes."""
        bits = (n // CHUNK).bit_length()
        if not bits:
            yield np.concatenate([np.zeros(0, ROW), *chunks])
            return
        paths = [self.folder / f"part-{number}" for number in range(1 << bits)]
        for rows in chunks:
            part = hashes(rows) >> np.uint64(64 - bits)
            order = np.argsort(part, kind="stable")
            ends = np.searchsorted(part[order], np.arange(len(paths), dtype=np.uint64), side="right")
            for path, row_numbers in zip(paths, np.split(order, ends[:-1]), strict=True):
                with path.open("ab") as file:
                    rows[row_numbers].tofile(file)
        for path in paths:
            rows = np.fromfile(path, ROW)
            path.unlink()
            if len(rows):
                yield rows

    def _target_filler(
        self, key: Key, countries: Mapping[str, str], shared: Mapping[Key, Collection[str]] | None
    ) -> Callable[[NDArray[Any]], NDArray[Any]]:
        """Return a function that sets missing targets to the rater's country, if the question is rated against
        targets."""
        none = self._targets.get("")
        targeted = any((rows["target"] != none).any() for rows in self._read(key, shared)) if countries else False
        if none is None or not targeted:
            return lambda rows: rows
        country_of = np.full(len(self._raters), none, np.int64)
        for rater, country in countries.items():
            if rater in self._raters:
                country_of[self._raters[rater]] = self._targets.setdefault(country, len(self._targets))

        def with_targets(rows: NDArray[Any]) -> NDArray[Any]:
            without_target = rows["target"] == none
            rows["target"][without_target] = country_of[rows["rater"][without_target]]
            return rows

        return with_targets

    def _ordered(self, key: Key, order: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """Return the answers in order, and int32[codes + 1] positions; -1 stays -1, and all are -1 for open sets."""
        code_of = self._values[key[:2]]
        recode = np.full(len(code_of) + 1, -1, np.int32)  # -1 indexes the last element
        if len(code_of) > MAX_LEVELS:
            return (), recode
        values = tuple(dict.fromkeys([*order, *sorted(code_of)]))
        for answer, code in code_of.items():
            recode[code] = values.index(answer)
        return values, recode


def version_name(version: Version) -> str:
    """Return the name of a version in metrics: method and order."""
    return " ".join(filter(None, version))


def _encoded(column: pa.ChunkedArray) -> tuple[list[Any], NDArray[np.int64]]:
    """Return a column's distinct values, including null, and int64[rows], the position of each row's value."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(whole, pa.ChunkedArray):  # combine_chunks may leave several large chunks
        whole = pa.concat_arrays(whole.chunks)
    if pa.types.is_dictionary(whole.type):
        whole = whole.cast(whole.type.value_type)
    coded = pc.dictionary_encode(whole, null_encoding="encode")
    return coded.dictionary.to_pylist(), coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _pairs(rows: NDArray[Any]) -> Hashes:
    return pair_hashes(rows["item"], rows["target"])


def _highest(lists: pa.ChunkedArray) -> NDArray[np.float32]:
    """Return float32[rows], the highest number of each list, NaN for a null or empty one."""
    highest = np.full(len(lists), np.nan, np.float32)
    length = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    if length.any():
        numbers = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(length)
        highest[rows] = np.maximum.reduceat(numbers, np.cumsum(length)[rows] - length[rows])
    return highest


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
