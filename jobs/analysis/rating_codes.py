"""Any number of ratings as compact codes, read one question at a time.

The codes of a question are in a file of a temporary folder or, if Ray's tasks read the ratings, in its object store.
Memory holds the names of raters, targets and answers, and later one question: 32 bytes per rating and 20 per
item, and about 80 per rating at the peak with all metrics. A question is sorted in chunks of its items.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from actors.status import Status
from jobs.analysis.rating_coder import ROW, RatingCoder, Recoding, Version
from jobs.analysis.reduced_question import STATUS_CODES, IndependentUnits, Key, QuestionTally, Reduced, pair_hashes
from jobs.metrics.answers import MAX_LEVELS
from jobs.metrics.distributions import MARKS, AnswersOfUnits
from jobs.runtime.tasks import Tasks, value_of
from jobs.store.files.spool import Spool
from jobs.store.hashing import Hashes
from jobs.tables import HUMAN

CHUNK = 1 << 21  # rows of a question that are sorted at a time
PART = 1 << 20  # rows of a part of a table, which is coded at a time
BUNDLE = 1 << 16  # rows of a bundle of small questions
MAX_OPEN = 256  # files; with more questions, files are closed and reopened


@dataclass(frozen=True)
class CodedPart:
    """What is known of the codes of a part of a table, which are in bundles: arrays `ROW` of whole questions.

    Attributes:
        coder: the names in the part.
        questions: of each bundle, its questions in their order with their numbers of rows.
    """

    coder: RatingCoder
    questions: Sequence[Sequence[tuple[Key, int]]]

    @classmethod
    def of(
        cls, coder: RatingCoder, rows_of: Mapping[Key, Sequence[NDArray[Any]]]
    ) -> tuple["CodedPart", list[NDArray[Any]]]:
        """Return the part and its bundles, from the rows of its questions.

        Small questions share a bundle: Ray needs as long for an object of a few rows as for one of thousands.
        """
        questions: list[list[tuple[Key, int]]] = []
        bundles: list[list[NDArray[Any]]] = []
        held = BUNDLE
        for key, rows in rows_of.items():
            if held >= BUNDLE:
                questions.append([])
                bundles.append([])
                held = 0
            n = sum(map(len, rows))
            questions[-1].append((key, n))
            bundles[-1] += rows
            held += n
        return cls(coder, questions), [np.concatenate(rows) for rows in bundles]


@dataclass(frozen=True)
class _CodedRows:
    """The rows of one question in a part: those from `first` to before `last` of a bundle."""

    key: Key
    bundle: Any
    first: int
    last: int
    recoding: Recoding

    def recoded(self, bundle: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of the rows with the codes of all parts."""
        return self.recoding(self.key, bundle[self.first : self.last])


class Reduction:
    """Collects batches of `ratings` as codes. It is a context manager, which removes its folder at exit.

    Args:
        by: additional columns that separate questions, from condition, method and order.
        keep_ids: whether to keep the ids of items, with memory that grows with their number.

        tasks: where the parts of tables are read, and questions are evaluated.

    Attributes:
        coder: the names of raters, targets and answers.
        units: the independent units of the items; set it before questions are read.
    """

    def __init__(self, *, by: Sequence[str] = (), keep_ids: bool = False, tasks: Tasks | None = None) -> None:
        self.tasks = tasks or Tasks()
        self.coder = RatingCoder(by=by, keep_ids=keep_ids)
        self._folder: Spool | None = None
        self._files: dict[Key, IO[bytes]] = {}
        self._numbers: dict[Key, int] = {}  # question -> number of its file
        self._pieces: dict[Key, list[_CodedRows]] = {}  # of parts that Ray's tasks have read
        self.units = IndependentUnits()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._folder is None:
            return
        self._folder.add_place(error)
        with self._folder:
            for file in self._files.values():
                file.close()

    @property
    def folder(self) -> Path:
        """The folder of the codes, which exists until the context ends."""
        if self._folder is None:
            self._folder = Spool("ratings")
        return self._folder.path

    @property
    def by(self) -> tuple[str, ...]:
        """The columns that separate questions, in addition to rubric and question."""
        return self.coder.by[2:]

    @property
    def keys(self) -> list[Key]:
        """The questions that occur, sorted."""
        return sorted(self.coder.versions_of)

    def versions_of(self, key: Key) -> Mapping[str, set[Version]]:
        """Return the versions in which each rater was asked a question: methods and orders of its ratings."""
        return self.coder.versions_of[key]

    def methods_of(self, key: Key) -> Mapping[str, set[str]]:
        """Return the methods of ratings by rater, for the raters who were asked a question."""
        return {rater: {method for method, _ in versions} for rater, versions in self.versions_of(key).items()}

    @property
    def methods(self) -> dict[str, set[str]]:
        """The methods of ratings by rater."""
        methods: dict[str, set[str]] = {}
        for key in self.coder.versions_of:
            for rater, used in self.methods_of(key).items():
                methods.setdefault(rater, set()).update(used)
        return methods

    @property
    def raters(self) -> tuple[str, ...]:
        """All raters, in the order of their codes."""
        return tuple(self.coder.raters)

    def add(self, batch: pa.Table) -> None:
        """Append a batch as codes. The caller must have validated it, for example with `Distributions.add`."""
        for key, rows in self.coder.rows(batch):
            self._write(key, rows)

    def join(self, part: CodedPart, bundles: Iterable[Any]) -> None:
        """Append the codes of the next part of a table.

        Args:
            bundles: those of `CodedPart.bundles`, or their references in Ray's object store.
        """
        recoding = self.coder.join(part.coder)
        for questions, bundle in zip(part.questions, bundles, strict=True):
            first = 0
            for key, n in questions:
                piece = _CodedRows(key, bundle, first, first + n, recoding.of(key))
                first += n
                if self.tasks.on_ray:
                    self._pieces.setdefault(key, []).append(piece)
                else:
                    self._write(key, piece.recoded(bundle))

    def of(self, keys: Iterable[Key]) -> "Reduction":
        """Return a reduction that can read only these questions, to be sent to a task, without `units` and ids."""
        if not self.tasks.on_ray:
            return self
        questions = Reduction(by=self.by)
        questions.coder = self.coder.of(keys)
        questions._pieces = {key: self._pieces[key] for key in keys}
        return questions

    def rows_of(self, key: Key) -> int:
        """Return the number of a question's rows that Ray's tasks have read."""
        return sum(piece.last - piece.first for piece in self._pieces[key]) if self.tasks.on_ray else 0

    def name_targets(self, countries: Mapping[str, str]) -> None:
        """Number the countries of raters as targets, before questions are read (`question`)."""
        for rater, country in countries.items():
            if rater in self.coder.raters and "" in self.coder.targets:
                self.coder.targets.setdefault(country, len(self.coder.targets))

    def _write(self, key: Key, rows: NDArray[Any]) -> None:
        if key not in self._files:
            if len(self._files) >= MAX_OPEN:
                oldest = next(iter(self._files))
                self._files.pop(oldest).close()
            self._files[key] = self._path(key).open("ab")
        self._files[key].write(rows.tobytes())

    def _path(self, key: Key) -> Path:
        return self.folder / f"{self._numbers.setdefault(key, len(self._numbers))}.codes"

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
        names = self.raters if versions_of is None else tuple(version_name(version) for version in self.coder.versions)
        raters, n = self._present(key, shared, versions_of)
        values, recode = self._ordered(key, order)
        tally = QuestionTally(n, raters, is_person=np.isin(names, list(people))[raters], recode=recode)
        for rows in self._parts(key, n, countries or {}, shared, versions_of):
            tally.add(rows)
        return tally.result(key, names=names, values=values, targets=tuple(self.coder.targets), units=self.units)

    def by_units(self, key: Key) -> Iterator[AnswersOfUnits]:
        """Yield one question's ratings, not merged, in parts that each have all rows of their units."""
        n = sum(len(rows) for rows in self._read(key, None))
        human = np.array([method == HUMAN for method, _ in self.coder.versions] or [False])
        answers = tuple(self.coder.values[key[:2]])
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
            codes = None if raters is None else np.array([self.coder.raters[name] for name in raters], np.int64)
            for chunk in self._chunks(other):
                rows = chunk
                if versions_of is not None:
                    rows = chunk[chunk["rater"] == self.coder.raters[versions_of]]
                    rows["rater"] = rows["version"]
                yield rows if codes is None else rows[np.isin(rows["rater"], codes)]

    def _chunks(self, key: Key) -> Iterator[NDArray[Any]]:
        """Yield all rows of a question, at most `CHUNK` at a time."""
        for piece in self._pieces.get(key, ()):
            yield piece.recoded(value_of(piece.bundle))
        if key in self._numbers:
            if key in self._files:
                self._files[key].flush()
            with self._path(key).open("rb") as file:
                while len(rows := np.fromfile(file, ROW, CHUNK)):
                    yield rows

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
        with Spool("parts") as spool:
            paths = [spool.path / str(number) for number in range(1 << bits)]
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
        none = self.coder.targets.get("")
        targeted = any((rows["target"] != none).any() for rows in self._read(key, shared)) if countries else False
        if none is None or not targeted:
            return lambda rows: rows
        self.name_targets(countries)
        country_of = np.full(len(self.coder.raters), none, np.int64)
        for rater, country in countries.items():
            if rater in self.coder.raters:
                country_of[self.coder.raters[rater]] = self.coder.targets[country]

        def with_targets(rows: NDArray[Any]) -> NDArray[Any]:
            without_target = rows["target"] == none
            rows["target"][without_target] = country_of[rows["rater"][without_target]]
            return rows

        return with_targets

    def _ordered(self, key: Key, order: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """Return the answers in order, and int32[codes + 1] positions; -1 stays -1, and all are -1 for open sets."""
        code_of = self.coder.values[key[:2]]
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


def _pairs(rows: NDArray[Any]) -> Hashes:
    return pair_hashes(rows["item"], rows["target"])
