"""All rules, one after another, on the tables of one run."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from jobs.curation import near, rules
from jobs.curation.pictures import Looks, read_looks
from jobs.curation.rows import Rows, batches_at, columns_at, ranks, read_rows
from jobs.curation.rules import Decision
from jobs.curation.sampling import drawn, drawn_by_group, lots
from jobs.curation.starter import StarterConfig, question_counts, rated_above, read_ratings, regions
from jobs.errors import InputError
from jobs.runtime.exclusions import Barred
from jobs.store.reading import TableSource

KNOWLEDGE_GRAPH, LANGUAGE_MODEL, MANUAL = "knowledge_graph", "language_model", "manual"
NEAR_MODES = ("keep", "report", "drop")
NO_REGION = -1


class Wishes(Protocol):
    """The keys of `curate` that choosing rests on."""

    thumbnails: str
    precedence: list[str]
    near_duplicates: str
    near_distance: int
    size: int | None
    downsample: str
    select: str
    starter: StarterConfig
    seed: int


@dataclass(frozen=True)
class CurationTables:
    """The tables that are read."""

    records: TableSource
    images: TableSource | None = None
    ratings: Sequence[TableSource] = ()


@dataclass
class Chosen:
    """What was decided, and what to tell about it.

    `near`: the list of near-duplicates as JSON lines. `region` int16 [rows]: place in `regions` of the rows that the
    starter set was chosen from, NO_REGION elsewhere. `notes`: sentences for the person at the terminal.
    """

    rows: Rows
    decision: Decision
    near: bytes | None = None
    region: np.ndarray | None = None
    regions: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def fingerprint(self, first: int, last: int) -> str:
        """A hash of what was decided about the rows [first, last)."""
        digest = hashlib.sha256()
        here = slice(first, last)
        rows, decision = self.rows, self.decision
        by_name = sorted(range(len(rows.methods)), key=lambda m: rows.methods[m])
        parts = [decision.rule[here], *(decision.reached[m, here] for m in by_name)]
        parts += [np.where(decision.credit[here] == m, 1, 0).astype(np.uint8) for m in by_name]
        parts += [self.region[here]] if self.region is not None else []
        for part in parts:
            digest.update(part.tobytes())
        return digest.hexdigest()[:32]


def choose(wishes: Wishes, sources: CurationTables, barred: Barred) -> Chosen:
    """Apply every rule that is asked for, in the order of `rules.RULES`.

    Raises:
        InputError: see `read_looks`, `down_sample` and `jobs.curation.starter`.
    """
    records = sources.records
    rows = read_rows(records, thumbnails=wishes.thumbnails, barred=barred)
    looks = None
    if sources.images is not None:
        looks = read_looks(sources.images, rows.pictures, hashes=wishes.near_duplicates != "keep")
    decision = rules.each_method(rows, gone=looks.gone if looks else None, thumbnails=wishes.thumbnails != "any")
    rules.resolve(rows, decision, precedence=wishes.precedence, ranks=partial(ranks, records))
    chosen = Chosen(rows, decision)
    if looks:
        told = ", ".join(f"{n:,} {what.replace('_', ' ')}" for what, n in looks.counts.items())
        chosen.notes.append(f"pictures by the table of images: {told}")
    if barred:
        decision.apply("excluded")
        hit = np.zeros(len(rows.pictures), bool)
        hit[rows.image[rows.excluded]] = True
        left = decision.left()
        decision.drop(left[hit[rows.image[left]]], "excluded")
    if looks and wishes.near_duplicates != "keep":
        near_duplicates(chosen, looks, records, wishes)
    if wishes.size is not None:
        down_sample(chosen, records, wishes)
    if wishes.select == "starter":
        starter_set(chosen, sources, wishes)
    return chosen


def near_duplicates(chosen: Chosen, looks: Looks, records: TableSource, wishes: Wishes) -> None:
    """Find groups of pictures that look alike; with `drop` all but the one that stays fall to `near_duplicate`.

    Of two near pictures the one stays that would stay of two records of one image: first method in precedence,
    then smallest (page_title, page_url, record_id); see `near.choose_keepers`.

    Raises:
        InputError: so many pairs that the distance cannot be meant.
    """
    rows, decision = chosen.rows, chosen.decision
    left = decision.left()
    compared = left[looks.hashed[rows.image[left]]]
    values, code, count = np.unique(looks.phash[rows.image[compared]], return_inverse=True, return_counts=True)
    try:
        pairs = near.near_pairs(values, wishes.near_distance)
    except near.TooManyPairsError as error:
        raise InputError(f"near_distance={wishes.near_distance}: {error}; a smaller one tells them apart") from error
    involved = count > 1
    involved[pairs.left] = involved[pairs.right] = True
    mine = np.flatnonzero(involved[code])
    places, code = compared[mine], code[mine]

    method = np.argsort(rules.in_precedence(rows.methods, wishes.precedence))[decision.credit[places]]
    rank = np.empty(len(places), np.int64)
    rank[np.lexsort((ranks(records, places), method))] = np.arange(len(places))
    best = np.full(len(values), len(places), np.int64)  # rank of a hash: that of its best picture
    np.minimum.at(best, code, rank)
    by_rank = places[np.argsort(rank)]
    keepers = near.choose_keepers(pairs, best)

    stays = by_rank[best[keepers.keeper[code]]]
    goes = stays != places
    chosen.near = _near_lines(records, places[goes], stays[goes], keepers.distance[code[goes]])
    spread = ", ".join(f"{n:,} at {d}" for d, n in sorted(Counter(keepers.distance[code[goes]].tolist()).items()))
    done = "dropped" if wishes.near_duplicates == "drop" else "kept, near_duplicates=drop drops them"
    groups, going = len(np.unique(stays[goes])), int(goes.sum())
    told = f"{going:,} picture{'s' * (going != 1)} like one of {groups:,} that stay" if going else "none"
    chosen.notes.append(
        f"near-duplicates within {wishes.near_distance} bits: {told}"
        + (f" (bits apart: {spread}; {done})" if spread else "")
        + f"; {len(compared):,} of {len(left):,} pictures have a perceptual hash"
    )
    if wishes.near_duplicates == "drop":
        decision.apply("near_duplicate")
        decision.drop(places[goes], "near_duplicate")


def _near_lines(records: TableSource, goes: np.ndarray, stays: np.ndarray, bits: np.ndarray) -> bytes:
    """One JSON line a group, in order of the ids: {"stays": image_id, "near": {image_id: bits}}."""
    positions = np.unique(np.concatenate([goes, stays]))
    ids = columns_at(records, positions, ["image_id"])["image_id"].to_pylist()
    groups: dict[str, dict[str, int]] = {}
    for one, other, n in zip(*np.searchsorted(positions, [goes, stays]), bits.tolist(), strict=True):
        groups.setdefault(ids[other], {})[ids[one]] = n
    lines = [json.dumps({"stays": one, "near": dict(sorted(near.items()))}) for one, near in sorted(groups.items())]
    return "".join(f"{line}\n" for line in lines).encode()


def down_sample(chosen: Chosen, records: TableSource, wishes: Wishes) -> None:
    """Leave `size` records in all, by drawing lots among those of one method.

    The paper aims at 1,500 pictures as a number that is practical for evaluating systems, and takes what is too many
    from the knowledge graph's: its set is the large one, the others are there for coverage and completeness.

    Raises:
        InputError: the other methods alone have more.
    """
    decision, method = chosen.decision, wishes.downsample
    assert wishes.size is not None
    decision.apply("size")
    left = decision.left()
    if len(left) <= wishes.size:
        if len(left) < wishes.size:
            chosen.notes.append(f"size={wishes.size:,}: there are {len(left):,} only, all are kept")
        return
    methods = chosen.rows.methods
    number = methods.index(method) if method in methods else rules.NO_METHOD
    pool = left[decision.credit[left] == number]
    others = len(left) - len(pool)
    if others > wishes.size:
        found = Counter(methods[m] for m in decision.credit[left].tolist())
        there = ", ".join(f"{n:,} of {name}" for name, n in sorted(found.items()))
        raise InputError(
            f"size={wishes.size}: only records of downsample={method} are drawn from, and without them {others:,} are "
            f"left; there are {there} (downsample= names another method)"
        )
    lot = lots(_image_ids(records, pool), purpose="size", seed=wishes.seed)
    decision.drop(pool[~drawn(lot, wishes.size - others)], "size")
    chosen.notes.append(f"size={wishes.size:,}: {wishes.size - others:,} of {len(pool):,} {method} records drawn")


def starter_set(chosen: Chosen, sources: CurationTables, wishes: Wishes) -> None:
    """Leave pictures that are sensitive on average, and of each sub-region at most so many, by drawing lots.

    Raises:
        InputError: see `jobs.curation.starter.RatingReader.result`.
    """
    config, decision, rows = wishes.starter, chosen.decision, chosen.rows
    left = decision.left()
    pictures, place = np.unique(rows.image[left], return_inverse=True)
    ratings = read_ratings(sources.ratings, rows.pictures.subset(pictures), config)
    rated, above = rated_above(ratings, config)
    label, names = regions(ratings, config)
    for rule, fails in (
        ("starter_rated", ~rated[place]),
        ("starter_mean", (rated & ~above)[place]),
        ("starter_region", (rated & above & (label < 0))[place]),
    ):
        decision.apply(rule)
        decision.drop(left[fails], rule)
    decision.apply("starter_per_region")
    fit = decision.left()
    region = label[np.searchsorted(pictures, rows.image[fit])]
    lot = lots(_image_ids(sources.records, fit), purpose="starter", seed=wishes.seed)
    decision.drop(fit[~drawn_by_group(lot, region, config.per_region)], "starter_per_region")
    chosen.region = np.full(len(rows), NO_REGION, np.int16)
    chosen.region[fit] = region
    chosen.regions = names
    for question in (config.question, config.region_question):
        told = ", ".join(f"{n:,} {what}" for what, n in question_counts(ratings.tally, question))
        chosen.notes.append(f"ratings of {question}: {told}")


def _image_ids(records: TableSource, places: np.ndarray) -> Iterator[str]:
    for batch in batches_at(records, places, ["image_id"]):
        yield from batch["image_id"].to_pylist()
