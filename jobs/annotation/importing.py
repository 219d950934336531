"""Importing: all annotations read into a spool on disk, repeated ones told apart, what stays written as one unit."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jobs.annotation import rows
from jobs.annotation.answers import Questionnaire
from jobs.annotation.model import ROWS_AT_A_TIME
from jobs.annotation.repeats import Repeats
from jobs.errors import InputError
from jobs.runtime import exclusions
from jobs.runtime.exclusions import Barred
from jobs.store import locations
from jobs.store.writer import REJECTS, REJECTS_HELD, Reject, Rejects, UnitWriter
from jobs.tables import TABLES

Read = Callable[[str, Rejects], Iterator[pa.Table]]
ROWS_SPOOL, REJECTS_SPOOL = "rows.parquet", "rejects.parquet"
SHOWN = 3  # rejects that are named at the end


@dataclass(frozen=True, kw_only=True)
class ImportSettings:
    """What annotations become."""

    table: str  # ratings, spans or raters
    asked: Questionnaire | None = None  # needed for ratings
    method: str = "human"  # column `method` of ratings
    rater_kind: str = "human"  # column `kind` of raters
    urls: bool = False  # item_ids are URLs of pictures and become image_ids
    duplicates: str = "last"  # one of `repeats.RULES`


class Importer:
    """Reads all files into spools of rows and rejects, then writes the rows that stay.

    Memory does not grow with the rows, except for 40 bytes each (80 of `spans`), which find repeated ones.

    Args:
        read: yields a file's annotations in batches, and passes what is not one to a callback.
        barred: the list of exclusions; rows of its pictures are dropped.
        pseudonym: returns the name that replaces a rater's; None leaves names as they are.
    """

    def __init__(
        self,
        settings: ImportSettings,
        files: Sequence[locations.Object],
        read: Read,
        *,
        barred: Barred,
        pseudonym: Callable[[str], str] | None,
    ) -> None:
        self.table, self.files, self.asked = settings.table, files, settings.asked
        self._read, self._method, self._urls = read, settings.method, settings.urls
        self._duplicates, rater_kind, table = settings.duplicates, settings.rater_kind, settings.table
        self._barred, self._pseudonym = barred, pseudonym
        self._welfare, self._people = rows.Welfare(), rows.RaterRows(rater_kind)
        self.first_rejects: list[Reject] = []
        self.first_repeat = ""
        self._rejected = self._excluded_rows = 0
        self._annotation_key = [name for name in TABLES[table].key if name not in ("start", "end")]
        self._exact = Repeats(TABLES[table].key)
        self._whole = Repeats(self._annotation_key)  # of spans: one person's spans in one text
        self._annotations: list[np.ndarray] = []

    def peek(self) -> None:
        """Read the beginning of the first file, so that a wrong mapping is told at once.

        Raises:
            InputError: as the reader.
        """
        next(self._read(self.files[0].uri, lambda _: None), None)

    def read(self, folder: Path, *, named: str) -> None:
        """Read every file; its rows and rejects go to spools in `folder`. `named` is how messages call the input.

        Raises:
            InputError: as the reader; nothing to read; or repeated rows under duplicates=refuse.
        """
        writer: pq.ParquetWriter | None = None
        with _RejectSpool(folder / REJECTS_SPOOL) as rejects:
            for number, file in enumerate(self.files):
                for raw in self._read(file.uri, rejects):
                    made = self._rows(raw, number)
                    if made is not None:
                        writer = writer or pq.ParquetWriter(folder / ROWS_SPOOL, made.schema)
                        writer.write_table(made)
        self._rejected, self.first_rejects = rejects.count, rejects.first
        if writer is not None:
            writer.close()
            self._note_repeats(folder / ROWS_SPOOL)
        elif not self._people.seen and not self._excluded_rows:
            why = f" ({rejects.count:,} rejects, the first: {rejects.first[0].message})" if rejects.count else ""
            raise InputError(f"{named}: nothing to import for table {self.table}{why}")

    def _rows(self, raw: pa.Table, number: int) -> pa.Table | None:
        """A batch as rows of the table, with `_time`, `_images`, `_file`, `_position` beside them."""
        # Before URLs become ids, which hides that another URL names the same picture.
        out = rows.is_excluded(raw, self._barred) if self._barred and "item_id" in raw.column_names else None
        raw = rows.named(raw, pseudonym=self._pseudonym, urls=self._urls)
        if self.table == "raters":
            self._people.add(raw)
            return None
        if out is not None:
            out |= self._barred.mask(raw["item_id"])
            self._excluded_rows += int(out.sum())
            raw = raw.filter(pa.array(~out))
        if not raw.num_rows:
            return None
        if self.table == "spans":
            made = rows.spans(raw)
            self._whole.add(made, raw["time"])
            known = pc.fill_null(raw["annotation"], -1).to_numpy().astype(np.int64)
            # -1, a file that does not tell annotations apart: all its rows of one key belong together.
            self._annotations.append(np.where(known < 0, -1 - number, known + (number << 40)))
        else:
            assert self.asked is not None
            made = rows.ratings(raw, self.asked, method=self._method)
        self._exact.add(made, raw["time"])
        made = made.append_column("_file", pa.array([number] * raw.num_rows, pa.int32()))
        images = raw["images"] if "images" in raw.column_names else pa.nulls(raw.num_rows, pa.list_(pa.string()))
        return made.append_column("_position", raw["position"]).append_column("_images", images)

    def _note_repeats(self, spool: Path) -> None:
        again = self._exact.first_repeat()
        if again is None and self.table == "spans":
            elsewhere = np.flatnonzero(~self._whole.keeps_with("first", np.concatenate(self._annotations)))
            again = int(elsewhere[0]) if len(elsewhere) else None
        if again is None:
            return
        places = pq.read_table(spool, columns=["_file", "_position"]).slice(again, 1).to_pylist()[0]
        self.first_repeat = f"{self.files[places['_file']].uri}, position {places['_position']:,}"
        if self._duplicates == "refuse":
            key = ", ".join(self._annotation_key)
            raise InputError(f"{self.first_repeat}: the same {key} as an earlier row, and duplicates=refuse")

    def write(self, folder: Path, writer: UnitWriter) -> None:
        """Write what `read` left in `folder`: rejects, and the rows that stay."""
        counts = writer.counts
        for reject in _spooled(folder / REJECTS_SPOOL):
            writer.reject(reject)
        counts.rows_in = self._rejected
        if self.table == "raters":
            made = self._people.table()
            counts.rows_in += self._people.rows
            counts.filtered = Counter({"seen_before": self._people.rows - made.num_rows})
            counts.tallies["conflicts"] = dict(self._people.conflicts)
            writer.write(made)
            return
        counts.rows_in += self._excluded_rows
        exclusions.count(counts, self._barred.take_matched())
        counts.filtered = Counter({"excluded": self._excluded_rows} if self._excluded_rows else {})
        if (folder / ROWS_SPOOL).exists():
            self._write_rows(folder / ROWS_SPOOL, writer)
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
                stays = batch.filter(pa.array(keeps[here]))
                made = stays.drop_columns(["_file", "_position", "_images"])
                if self.table == "ratings":
                    self._welfare.add(made, stays["_images"])
                writer.write(made)

    def _decide(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Which rows stay, and, if all of them do, their number among those of their key."""
        if self._duplicates == "sample":
            return self._exact.keeps("sample"), self._exact.ranks()
        rule = "last" if self._duplicates == "refuse" else self._duplicates
        kept = self._exact.keeps(rule)
        if self.table == "spans":
            kept &= self._whole.keeps_with(rule, np.concatenate(self._annotations))
        return kept, None

    def reported(self) -> dict[str, int]:
        """How many people reported each picture; known once the rows are written."""
        return {picture: len(by) for picture, by in sorted(self._welfare.reporters.items())}


class _RejectSpool:
    """Takes rejects into a Parquet file; the first few are kept to be shown."""

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
        self._writer.write_table(pa.Table.from_pylist([asdict(r) for r in self._held], schema=REJECTS))
        self._held.clear()

    def __exit__(self, *_: object) -> None:
        self._flush()
        self._writer.close()


def _spooled(path: Path) -> Iterator[Reject]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(REJECTS_HELD):
            yield from (Reject(**row) for row in batch.to_pylist())
