"""Import of annotations: spool them all to disk, decide which of repeated ones to keep, and write one unit.

Keys of rows are compared by hash, with 40 bytes of memory per row. With `items=TABLE`, the names of items in people's
files become item_ids.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from actors import schemas
from actors.ids import content_id
from actors.rubrics.people import FreeText
from jobs.annotation import imported_rows, tabular
from jobs.annotation.batch_schemas import ROWS_AT_A_TIME, UNKNOWN_REPORTS
from jobs.annotation.century_annotations import METHODS
from jobs.annotation.questionnaire import NO_ANSWER, Questionnaire
from jobs.errors import InputError, NotAnsweredError
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.hashing import hash_texts_128, joined_columns
from jobs.store.reading import TableSource, open_table
from jobs.store.writer import REJECTS, REJECTS_HELD, Reject, Rejects, UnitWriter
from jobs.tables import TABLES


class ItemNames:
    """Finder of items by their id or by their picture: its image_id, path or URL. Holds all these ids in memory.

    Args:
        source: the table of items.
        private: whether rejects leave out the file's content.
    """

    def __init__(self, source: TableSource, *, private: bool) -> None:
        self.uri, self.identity, self._private = source.uri, source.identity, private
        self._items: set[str] = set()
        self._of_picture: dict[str, str] = {}  # item of each image_id, or `SEVERAL`
        for batch in source.batches(["item_id", "image_ids"]):
            for row in batch.to_pylist():
                self._items.add(row["item_id"])
                for image_id in row["image_ids"] or ():
                    other = self._of_picture.setdefault(image_id, row["item_id"])
                    if other != row["item_id"]:
                        self._of_picture[image_id] = SEVERAL

    def resolve(self, rows: pa.Table, *, file: str, reject: Rejects) -> pa.Table:
        """Return the rows with the ids of their items; rows without an item, or with several, are rejected."""
        names = rows["item_id"].combine_chunks().dictionary_encode()
        of_name = pa.array([self._item(name) for name in names.dictionary.to_pylist()], pa.string())
        items = of_name.take(names.indices)
        is_one = pc.fill_null(pc.not_equal(items, SEVERAL), False)
        for row, item in zip(
            rows.select(["item_id", "position"]).filter(pc.invert(is_one)).to_pylist(),
            items.filter(pc.invert(is_one)).to_pylist(),
            strict=True,
        ):
            kind, problem = ("unknown_item", "no") if item is None else ("several_items", "more than one")
            name = "the row's name" if self._private else repr(row["item_id"])
            message = f"{problem} item of items={self.uri} has {name} as its id, or the path or URL of its picture"
            reject(Reject(file, row["position"], kind, message, "" if self._private else str(row["item_id"])))
        rows = rows.set_column(rows.column_names.index("item_id"), "item_id", items)
        return rows.filter(is_one)

    def _item(self, name: str) -> str | None:
        """Return the item of a name; of an absolute path, that of its longest end that an item or picture has."""
        parts = [name]
        if name not in self._items and locations.is_on_disk(name):
            folders = name.replace("\\", "/").split("/")
            parts += ["/".join(folders[first:]) for first in range(1, len(folders))]
        for part in parts:
            if part in self._items:
                return part
            pictured = self._of_picture.get(part, self._of_picture.get(content_id(part)))
            if pictured is not None:
                return pictured
        return None


def _without_disk(rows: pa.Table, *, file: str, reject: Rejects) -> pa.Table:
    """Return the rows whose item is not an absolute path; the others are rejected."""
    on_disk = tabular.mapped(rows["item_id"], locations.is_on_disk, pa.bool_()).fill_null(False)
    for position in rows["position"].filter(on_disk).to_pylist():
        message = "the item is given by an absolute path, which tables and pages would show; set items= to find it"
        reject(Reject(file, position, "absolute_path", message, ""))
    return rows.filter(pc.invert(on_disk))


Read = Callable[[str, Rejects], Iterator[pa.Table]]
ROWS_SPOOL, REJECTS_SPOOL = "rows.parquet", "rejects.parquet"
MARKED_TOGETHER = ("spans", "remarks")  # tables in which all rows of an annotation are kept or dropped together
NOT_BEGUN = "not_begun"  # in the run's counts: rows of files in which nobody has answered anything yet
SHOWN = 3  # rejects that the command prints


@dataclass(frozen=True, kw_only=True)
class ImportSettings:
    """Settings of the rows that annotations are converted into."""

    table: str  # ratings, spans, remarks or raters
    rubric: str = ""  # column `rubric` of remarks
    questionnaire: Questionnaire | None = None  # required for ratings
    free_texts: Sequence[FreeText] = ()  # required for remarks
    method: str = "human"  # column `method` of ratings
    condition: str = ""  # condition of ratings if the file has none
    rater_kind: str = "human"  # column `kind` of raters
    urls: bool = False  # item_ids are URLs of pictures and become image_ids
    items: ItemNames | None = None  # finds items by the file's ids or pictures; None: item_ids are kept
    duplicates: str = "last"  # one of `RULES`


class Importer:
    """Importer that reads all files into spools of rows and rejects, then writes the rows to keep.

    It holds only 40 bytes per row in memory (80 for `spans` and `remarks`), with which it detects repeated rows.

    Args:
        read: yields a file's annotations in batches, and passes anything else to a callback.
        exclusion_filter: the exclusions; rows of excluded pictures are dropped.
        pseudonym: returns the pseudonym of a rater's name; None keeps the names.
    """

    def __init__(
        self,
        settings: ImportSettings,
        files: Sequence[Object],
        read: Read,
        *,
        exclusion_filter: ExclusionFilter,
        pseudonym: Callable[[str], str] | None,
    ) -> None:
        self.table, self.files, self.questionnaire = settings.table, files, settings.questionnaire
        self._read, self._urls, self.items = read, settings.urls, settings.items
        self._rubric, self._free_texts = settings.rubric, settings.free_texts
        self._method, self._condition = settings.method, settings.condition
        self._duplicates, rater_kind, table = settings.duplicates, settings.rater_kind, settings.table
        self._exclusion_filter, self._pseudonym = exclusion_filter, pseudonym
        self._welfare, self._people = imported_rows.Welfare(), imported_rows.RaterRows(rater_kind)
        self.first_rejects: list[Reject] = []
        self.first_repeat = ""
        self.knows_reports = True  # whether the annotations say who reported a picture
        self._rejected = self._excluded_rows = 0
        self._shifts: Counter[str] = Counter()  # of spans
        self._annotation_key = [name for name in TABLES[table].key if name not in ("start", "end", "number")]
        self._row_repeats = Repeats(TABLES[table].key)
        # For spans and remarks: one person's spans in one text, or entries in one field.
        self._annotation_repeats = Repeats(self._annotation_key)
        self._annotations: list[np.ndarray] = []
        self._begun: set[int] = set()  # the numbers of files in which somebody gave an answer or left a mark

    def peek(self) -> None:
        """Read the beginning of the first file, to report a wrong mapping at once.

        Raises:
            InputError: the format's reader cannot read the file with this mapping.
        """
        first = next(self._read(self.files[0].uri, lambda _: None), None)
        metadata = (first.schema.metadata if first is not None else None) or {}
        self.knows_reports = {key.encode(): value.encode() for key, value in UNKNOWN_REPORTS.items()} != metadata

    def read(self, folder: Path, *, named: str) -> None:
        """Read every file into temporary files of rows and rejects in `folder`.

        Args:
            named: the input's name in messages.

        Raises:
            InputError: a reader cannot read a file, there is nothing to import, or rows are repeated and
                duplicates=refuse.
            NotAnsweredError: nobody has answered anything.
        """
        writer: pq.ParquetWriter | None = None
        with _RejectSpool(folder / REJECTS_SPOOL) as rejects:
            for number, file in enumerate(self.files):
                for raw in self._read(file.uri, rejects):
                    batch = self._rows(raw, number, rejects)
                    if batch is not None:
                        writer = writer or pq.ParquetWriter(folder / ROWS_SPOOL, batch.schema)
                        writer.write_table(batch)
        self._rejected, self.first_rejects = rejects.count, rejects.first
        if writer is not None:
            writer.close()
            if not self._begun:
                raise NotAnsweredError(
                    "has no answer yet; run the same command again when people have filled it in", place=named
                )
            self._note_repeats(folder / ROWS_SPOOL)
        elif not self._people.seen and not self._excluded_rows:
            why = f" ({rejects.count:,} rejects, the first: {rejects.first[0].message})" if rejects.count else ""
            raise InputError(f"nothing to import for table {self.table}{why or ' (no rows)'}", place=named)

    def _rows(self, raw: pa.Table, number: int, reject: Rejects) -> pa.Table | None:
        """Return a batch as rows of the table, with the additional columns `_file`, `_position` and `_images`."""
        # Check URLs before they become ids, which do not show that another URL is the same picture.
        out = (
            imported_rows.is_excluded(raw, self._exclusion_filter)
            if self._exclusion_filter and "item_id" in raw.column_names
            else None
        )
        if out is not None and self.items:  # a path or URL of a picture, of which the list has the image_id
            out |= self._exclusion_filter.mask(tabular.mapped(raw["item_id"], content_id, pa.string()))
        raw = imported_rows.with_names(raw, pseudonym=self._pseudonym, urls=self._urls)
        if self.table == "raters":
            self._people.add(raw)
            return None
        if out is not None:
            if self._urls:
                out |= self._exclusion_filter.mask(raw["item_id"])
            self._excluded_rows += int(out.sum())
            raw = raw.filter(pa.array(~out))
        if self.items:
            raw = self.items.resolve(raw, file=self.files[number].uri, reject=reject)
        else:
            raw = _without_disk(raw, file=self.files[number].uri, reject=reject)
        if not raw.num_rows:
            return None
        if self.table == "spans":
            marked = pc.greater(raw["end"], raw["start"])
            self._shifts.update(shifted=pc.sum(raw["shifted"]).as_py() or 0, of_spans=pc.sum(marked).as_py() or 0)
            batch = imported_rows.span_rows(raw, method=self._method, condition=self._condition)
        elif self.table == "remarks":
            entries = imported_rows.remark_rows(raw, self._free_texts, rubric=self._rubric, condition=self._condition)
            batch, raw = (
                entries.drop_columns(list(imported_rows.REMARK_COLUMNS)),
                entries.select(list(imported_rows.REMARK_COLUMNS)),
            )
        else:
            assert self.questionnaire is not None
            batch = imported_rows.rating_rows(raw, self.questionnaire, method=self._method, condition=self._condition)
        if self.table in MARKED_TOGETHER:
            self._annotation_repeats.add(batch, raw["time"])
            numbers = pc.fill_null(raw["annotation"], -1).to_numpy().astype(np.int64)
            # -1: the file does not number annotations, so all its rows with one key belong together.
            self._annotations.append(np.where(numbers < 0, -1 - number, numbers + (number << 40)))
        self._row_repeats.add(batch, raw["time"])
        if self.table != "ratings" or pc.any(pc.fill_null(pc.not_equal(batch["error_kind"], NO_ANSWER), True)).as_py():
            self._begun.add(number)
        batch = batch.append_column("_file", pa.array([number] * raw.num_rows, pa.int32()))
        return batch.append_column("_position", raw["position"]).append_column("_images", raw["images"])

    def _note_repeats(self, spool: Path) -> None:
        repeat = self._row_repeats.first_repeat()
        if repeat is None and self.table in MARKED_TOGETHER:
            dropped = np.flatnonzero(~self._annotation_repeats.keeps_with("first", np.concatenate(self._annotations)))
            repeat = int(dropped[0]) if len(dropped) else None
        if repeat is None:
            return
        origin = pq.read_table(spool, columns=["_file", "_position"]).slice(repeat, 1).to_pylist()[0]
        self.first_repeat = f"{self.files[origin['_file']].uri}, position {origin['_position']:,}"
        if self._duplicates == "refuse":
            key = ", ".join(self._annotation_key)
            why = f"{self.first_repeat} has the same {key} as an earlier row"
            raise InputError(why, key="duplicates", value="refuse", remedy="use last, first or sample")

    def write(self, folder: Path, writer: UnitWriter) -> None:
        """Write the rejects and the rows to keep from the spools that `read` wrote to `folder`."""
        counts = writer.counts
        for reject in _spooled(folder / REJECTS_SPOOL):
            writer.reject(reject)
        counts.rows_in = self._rejected
        if self.table == "raters":
            raters = self._people.table()
            counts.rows_in += self._people.rows
            counts.filtered = Counter({"seen_before": self._people.rows - raters.num_rows})
            counts.tallies["conflicts"] = dict(self._people.conflicts)
            writer.write(raters)
            return
        counts.rows_in += self._excluded_rows
        exclusions.count(counts, self._exclusion_filter.take_matched())
        counts.filtered = Counter({"excluded": self._excluded_rows} if self._excluded_rows else {})
        if (folder / ROWS_SPOOL).exists():
            self._write_rows(folder / ROWS_SPOOL, writer)
        if self._shifts["shifted"]:
            counts.tallies["spans"] = dict(self._shifts)
        if self.table == "ratings":
            counts.tallies |= self._welfare.tallies()

    def _write_rows(self, spool: Path, writer: UnitWriter) -> None:
        keeps, ranks = self._decide()
        done = 0
        with pq.ParquetFile(spool) as file:
            for part in file.iter_batches(ROWS_AT_A_TIME):
                batch, here = pa.Table.from_batches([part]), slice(done, done + part.num_rows)
                if ranks is not None:
                    numbers = pa.array(ranks[here], pa.int32())
                    batch = batch.set_column(batch.column_names.index("sample"), "sample", numbers)
                done = here.stop
                writer.counts.rows_in += batch.num_rows
                if dropped := int((~keeps[here]).sum()):
                    writer.counts.filtered["repeated"] += dropped
                begun = np.isin(batch["_file"].to_numpy(), list(self._begun))
                if blank := int((keeps[here] & ~begun).sum()):
                    writer.counts.filtered[NOT_BEGUN] += blank
                stays = batch.filter(pa.array(keeps[here] & begun))
                output = stays.drop_columns(["_file", "_position", "_images"])
                if self.table == "remarks":
                    written = pc.is_valid(output["text"])
                    if blank := output.num_rows - pc.sum(written, min_count=0).as_py():
                        writer.counts.filtered[imported_rows.EMPTY_REMARK] += blank
                    output = output.filter(written)
                if self.table == "ratings":
                    by_people = pc.invert(pc.is_in(output["method"], pa.array(METHODS)))  # a release has models, too
                    self._welfare.add(output.filter(by_people), stays["_images"].filter(by_people))
                writer.write(output)

    def _decide(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return bool [rows], whether each row is kept, and int64 [rows], the sample of each row.

        The samples are None unless duplicates=sample.
        """
        if self._duplicates == "sample":
            return self._row_repeats.keeps("sample"), self._row_repeats.ranks()
        rule = "last" if self._duplicates == "refuse" else self._duplicates
        kept = self._row_repeats.keeps(rule)
        if self.table in MARKED_TOGETHER:
            kept &= self._annotation_repeats.keeps_with(rule, np.concatenate(self._annotations))
        return kept, None

    def reported(self) -> dict[str, int]:
        """Return how many people reported each picture, in the rows that `write` has written."""
        return {picture: len(people) for picture, people in sorted(self._welfare.reporters.items())}


class _RejectSpool:
    """Writer of rejects to a Parquet file that keeps the first few in memory."""

    def __init__(self, path: Path) -> None:
        self.first: list[Reject] = []
        self.count = 0
        self._path, self._held = path, list[Reject]()

    def __enter__(self) -> Self:
        self._writer = pq.ParquetWriter(self._path, REJECTS)
        return self

    def __call__(self, reject: Reject) -> None:
        self.count += 1
        self._held.append(reject)
        if len(self.first) < SHOWN:
            self.first.append(reject)
        if len(self._held) >= REJECTS_HELD:
            self._flush()

    def _flush(self) -> None:
        self._writer.write_table(schemas.to_table([asdict(r) for r in self._held], REJECTS))
        self._held.clear()

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()


def _spooled(path: Path) -> Iterator[Reject]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(REJECTS_HELD):
            yield from (Reject(**row) for row in batch.to_pylist())


RULES = ("last", "first", "sample", "refuse")


class Repeats:
    """Collector of the keys of rows, in order, which then decides which row of each key to keep.

    `last` keeps the row with the latest time (if times are equal or missing, the last in the input), `first` the
    earliest; `sample` keeps all and numbers them from 0 in that order.
    """

    def __init__(self, key: Sequence[str]) -> None:
        self.key = list(key)
        self._hashes: list[np.ndarray] = []
        self._times: list[np.ndarray] = []

    def add(self, rows: pa.Table, times: pa.ChunkedArray | None) -> None:
        """Add the next rows; `times` are seconds since 1970, null if unknown."""
        self._hashes.append(hash_texts_128(joined_columns(rows, self.key)))
        if times is None:
            self._times.append(np.full(rows.num_rows, -np.inf))
        else:
            self._times.append(pc.fill_null(times, -np.inf).to_numpy().astype(np.float64))

    def ranks(self) -> np.ndarray:
        """Return int64 [rows]: each row's number among those with its key, from 0, by time and then by input."""
        order, first = self._groups()
        numbers = np.arange(len(order)) - np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
        ranks = np.empty(len(order), np.int64)
        ranks[order] = numbers
        return ranks

    def keeps(self, rule: str) -> np.ndarray:
        """Return bool [rows]: whether `rule` keeps the row; `sample` keeps all."""
        order, first = self._groups()
        kept = np.ones(len(order), bool)
        if rule in ("first", "last") and len(order):
            stays = first if rule == "first" else np.append(first[1:], True)
            kept[order] = stays
        return kept

    def keeps_with(self, rule: str, annotations: np.ndarray) -> np.ndarray:
        """Return bool [rows]: whether the row belongs to the annotation that `rule` keeps.

        All rows with one key and one annotation stay together.

        Args:
            annotations: int64 [rows], a number for each annotation.
        """
        order, first = self._groups()
        kept = np.ones(len(order), bool)
        if len(order):
            group = np.cumsum(first) - 1
            edges = np.flatnonzero(first) if rule == "first" else np.append(np.flatnonzero(first)[1:], len(order)) - 1
            ordered = annotations[order]
            kept[order] = ordered == ordered[edges][group]
        return kept

    def first_repeat(self) -> int | None:
        """Return the index of the first row whose key occurred before; None if all keys differ."""
        order, first = self._groups()
        if first.all():
            return None
        earliest = np.minimum.reduceat(order, np.flatnonzero(first))[np.cumsum(first) - 1]
        return int(order[order != earliest].min())

    def _groups(self) -> tuple[np.ndarray, np.ndarray]:
        if not self._hashes:
            return np.empty(0, np.int64), np.empty(0, bool)
        both = np.concatenate(self._hashes)
        order = np.lexsort((np.arange(len(both)), np.concatenate(self._times), both[:, 1], both[:, 0]))
        ordered = both[order]
        return order, np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))


SEVERAL = ""  # replaces the item of a picture that several items have


def open_item_names(setting: str, *, private: bool) -> ItemNames | None:
    """Return the names of the items in the table `items=`; None for id and url, which are not tables.

    Raises:
        InputError: there is no such table of items.
    """
    if setting in ("id", "url"):
        return None
    try:
        source = open_table(setting, "items")
    except InputError as error:
        raise InputError(f"must be id, url or a table of items; {error}", key="items", value=setting) from error
    return ItemNames(source, private=private)
