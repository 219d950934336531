"""What a table of images says about the pictures of records: which are gone, and what they look like."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs.curation.rows import HashIndex
from jobs.errors import InputError
from jobs.store.reading import TableSource

PHASH_DIGITS = 16


@dataclass(frozen=True)
class Looks:
    """By picture: `gone` bool, `hashed` bool, `phash` uint64 (0 where not hashed). `counts`: pictures by what is known.

    The counts are `there`, `gone`, `unknown` (of the records' pictures), and `of_others` (rows about no record).
    """

    gone: np.ndarray
    hashed: np.ndarray
    phash: np.ndarray
    counts: dict[str, int]


def read_looks(source: TableSource, pictures: HashIndex, *, hashes: bool) -> Looks:
    """One pass over a table of images; 11 B a picture are held, 12 with `hashes`.

    A picture is gone if a rendition of it is `missing` (the source answered 404 or 410) and none is ok; any other
    status says nothing about whether it exists. Where a picture has several renditions, the perceptual hash is that
    of the first by name, the original before `w300`.

    Raises:
        InputError: no row is about a picture of the records; `hashes`, and there is none.
    """
    columns = ["image_id", "rendition", "status", *(["phash"] if hashes else [])]
    if absent := [c for c in columns if c not in source.footers[0].schema.names]:
        raise InputError(f"images={source.uri}: no column {absent[0]} in it")
    missing, fine = np.zeros(len(pictures), bool), np.zeros(len(pictures), bool)
    found = Hashes(len(pictures))
    others = 0
    for batch in source.batches(columns):
        place = pictures.find(batch["image_id"])
        mine = place >= 0
        others += int((~mine).sum())
        rows, place = batch.filter(pa.array(mine)), place[mine]
        missing[place[_is(rows, Status.MISSING)]] = True
        good = _is(rows, Status.OK)
        fine[place[good]] = True
        if hashes:
            found.add(rows.filter(pa.array(good)), place[good])
    if len(pictures) and source.rows and others == source.rows:
        raise InputError(f"images={source.uri}: none of its {source.rows:,} pictures belongs to the records")
    hashed = found.rendition >= 0
    if hashes and fine.any() and not hashed.any():
        raise InputError(f"images={source.uri}: no phash in it, near-duplicates cannot be found")
    gone = missing & ~fine
    counts = {"there": int(fine.sum()), "gone": int(gone.sum()), "unknown": int((~(missing | fine)).sum())}
    return Looks(gone, hashed, found.phash, {**counts, "of_others": others})


def _is(rows: pa.Table, status: Status) -> np.ndarray:
    return pc.fill_null(pc.equal(rows["status"], status.value), False).to_numpy().astype(bool)


class Hashes:
    """One perceptual hash a picture, of the rendition that comes first by name."""

    def __init__(self, pictures: int) -> None:
        self.phash = np.zeros(pictures, np.uint64)
        self.rendition = np.full(pictures, -1, np.int8)  # place in the names met; -1: no hash yet
        self._names: list[str] = []

    def add(self, rows: pa.Table, place: np.ndarray) -> None:
        """Take the hashes of `rows` (rendition, phash), which are about the pictures at `place`."""
        for row, at in zip(rows.select(["rendition", "phash"]).to_pylist(), place.tolist(), strict=True):
            if row["phash"] is None or len(row["phash"]) != PHASH_DIGITS:
                continue
            before = self.rendition[at]
            if before < 0 or row["rendition"] < self._names[before]:
                self.phash[at], self.rendition[at] = int(row["phash"], 16), self._number(row["rendition"])

    def _number(self, name: str) -> int:
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)
