"""Application of the rules, one after another, to the tables of a run, and the facts about pictures that they need."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.quantities import quantity
from actors.status import Status
from jobs.curation import curation_rules, near_hashes
from jobs.curation.curation_rules import CurationRules, Decision
from jobs.curation.record_arrays import PART, UNKNOWN, HashIndex, Rows, batches_at, columns_at, ranks, read_rows
from jobs.curation.starter import question_counts, rated_above, read_ratings, region_labels
from jobs.errors import InputError
from jobs.runtime.selection.draws import Draw, draw_keys
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.runtime.tasks import Tasks
from jobs.store.reading import TableSource

NO_REGION = -1


PHASH_DIGITS = 16


@dataclass(frozen=True)
class CurationFacts:
    """Picture facts, as columns aligned by picture.

    Attributes:
        gone: bool [pictures].
        hashed: bool [pictures], whether there is a perceptual hash.
        phash: uint64 [pictures], 0 if not hashed.
        counts: pictures of the records that are `existing`, `gone` or `unknown`; rows `of_others`.
    """

    gone: np.ndarray
    hashed: np.ndarray
    phash: np.ndarray
    counts: dict[str, int]


@dataclass(frozen=True)
class CurationTables:
    """The input tables."""

    records: TableSource
    images: TableSource | None = None
    ratings: Sequence[TableSource] = ()


@dataclass
class Selection:
    """The decision about each row, and what to report about it.

    Attributes:
        near: the list of near-duplicates as JSON lines.
        region: int16 [rows], index in `regions` of the rows from which the starter set was drawn, else NO_REGION.
        notes: lines to print.
    """

    rows: Rows
    decision: Decision
    near: bytes | None = None
    region: np.ndarray | None = None
    regions: tuple[str, ...] = ()
    notes: list[str] = field(default_factory=list)

    def credits(self, first: int, last: int) -> pa.Array:
        """Return the credited methods of the selected ones of the rows [first, last), null if no method is known."""
        span = slice(first, last)
        credited = self.decision.credit[span][self.decision.rule[span] == 0]
        names = [None if name == UNKNOWN else name for name in self.rows.methods]
        return pa.array(names, pa.string()).take(pa.array(credited))

    def fingerprint(self, first: int, last: int) -> str:
        """Return a hash of the decisions about the rows [first, last)."""
        digest = hashlib.sha256()
        span = slice(first, last)
        rows, decision = self.rows, self.decision
        by_name = sorted(range(len(rows.methods)), key=lambda m: rows.methods[m])
        parts = [decision.rule[span], *(decision.reached[m, span] for m in by_name)]
        parts += [np.where(decision.credit[span] == m, 1, 0).astype(np.uint8) for m in by_name]
        parts += [self.region[span]] if self.region is not None else []
        for part in parts:
            digest.update(part.tobytes())
        return digest.hexdigest()[:32]


def select(
    settings: CurationRules, tables: CurationTables, exclusion_filter: ExclusionFilter, *, tasks: Tasks | None = None
) -> Selection:
    """Apply the rules enabled in `settings`, in the order of `rules.RULES`.

    Args:
        tasks: where the parts of the tables of records and images are read; None: in this process.

    Raises:
        InputError: see `read_facts`, `draw_records` and `jobs.curation.starter`.
    """
    records = tables.records
    page_rule = settings.page_rule
    rows = read_rows(
        records,
        thumbnails=settings.thumbnails,
        exclusion_filter=exclusion_filter,
        page=page_rule.by,
        tasks=tasks,
    )
    facts = None
    if tables.images is not None:
        facts = read_facts(tables.images, rows.pictures, hashes=settings.near_duplicates != "keep", tasks=tasks)
    gone = facts.gone if facts else None
    decision = curation_rules.filter_each_method(
        rows, gone=gone, thumbnails=settings.thumbnails != "any", one_image_methods=page_rule.methods
    )
    curation_rules.resolve_duplicates(rows, decision, precedence=settings.precedence, ranks=partial(ranks, records))
    selection = Selection(rows, decision)
    if absent := sorted(set(page_rule.methods or ()) - set(rows.methods)):
        methods = ", ".join(rows.methods)
        selection.notes.append(f"page_rule.methods: no records of {', '.join(absent)}; there are {methods}")
    if facts:
        counts = ", ".join(f"{n:,} {kind.replace('_', ' ')}" for kind, n in facts.counts.items())
        selection.notes.append(f"pictures by the table of images: {counts}")
    decision.apply(curation_rules.EXCLUDED)  # without a list too: it may grow while some units stay as they are
    if exclusion_filter:
        is_excluded = np.zeros(len(rows.pictures), bool)
        is_excluded[rows.image[rows.excluded]] = True
        remaining = decision.remaining()
        decision.drop(remaining[is_excluded[rows.image[remaining]]], curation_rules.EXCLUDED)
    if facts and settings.near_duplicates != "keep":
        near_duplicates(selection, facts, records, settings)
    if settings.draw.is_set:
        draw_records(selection, records, settings)
    if settings.select == "starter":
        starter_set(selection, tables, settings)
    return selection


def near_duplicates(selection: Selection, facts: CurationFacts, records: TableSource, settings: CurationRules) -> None:
    """Find groups of near-duplicates; with `drop`, drop all but one of each as `near_duplicate`.

    Of two near-duplicates, as of two records of one image, the one with the first method in `precedence` is kept and,
    at a tie, the one with the smallest (page_title, page_url, record_id); see `near.choose_keepers`.

    Raises:
        InputError: there are more than `near.MAX_PAIRS` pairs.
    """
    rows, decision = selection.rows, selection.decision
    remaining = decision.remaining()
    compared = remaining[facts.hashed[rows.image[remaining]]]
    values, code, count = np.unique(facts.phash[rows.image[compared]], return_inverse=True, return_counts=True)
    try:
        pairs = near_hashes.near_pairs(values, settings.near_distance)
    except near_hashes.TooManyPairsError as error:
        raise InputError(f"{error}; choose a smaller one", key="near_distance", value=settings.near_distance) from error
    involved = count > 1
    involved[pairs.left] = involved[pairs.right] = True
    candidates = np.flatnonzero(involved[code])
    at, code = compared[candidates], code[candidates]

    method = np.argsort(curation_rules.order_by_precedence(rows.methods, settings.precedence))[decision.credit[at]]
    rank = np.empty(len(at), np.int64)
    rank[np.lexsort((ranks(records, at), method))] = np.arange(len(at))
    best = np.full(len(values), len(at), np.int64)  # rank of each hash: the rank of its best picture
    np.minimum.at(best, code, rank)
    by_rank = at[np.argsort(rank)]
    keepers = near_hashes.choose_keepers(pairs, best)

    keeper = by_rank[best[keepers.keeper[code]]]
    is_near = keeper != at
    distances = keepers.distance[code[is_near]]
    selection.near = _near_lines(records, at[is_near], keeper[is_near], distances)
    spread = ", ".join(f"{n:,} at {d}" for d, n in sorted(Counter(distances.tolist()).items()))
    action = "dropped" if settings.near_duplicates == "drop" else "kept; near_duplicates=drop drops them"
    groups, n_near = len(np.unique(keeper[is_near])), int(is_near.sum())
    result = f"{quantity(n_near, 'picture')} near one of {groups:,} that are kept" if n_near else "none"
    selection.notes.append(
        f"near-duplicates within {settings.near_distance} bits: {result}"
        + (f" (bits apart: {spread}; {action})" if spread else "")
        + f"; {len(compared):,} of {len(remaining):,} pictures have a perceptual hash"
    )
    if settings.near_duplicates == "drop":
        decision.apply("near_duplicate")
        decision.drop(at[is_near], "near_duplicate")


def _near_lines(records: TableSource, near: np.ndarray, kept: np.ndarray, bits: np.ndarray) -> bytes:
    """Return one JSON line per group, sorted by id: {"stays": image_id, "near": {image_id: bits}}."""
    positions = np.unique(np.concatenate([near, kept]))
    ids = columns_at(records, positions, ["image_id"])["image_id"].to_pylist()
    groups: dict[str, dict[str, int]] = {}
    for one, other, n in zip(*np.searchsorted(positions, [near, kept]), bits.tolist(), strict=True):
        groups.setdefault(ids[other], {})[ids[one]] = n
    lines = [
        json.dumps({"stays": stays, "near": dict(sorted(group.items()))}) for stays, group in sorted(groups.items())
    ]
    return "".join(f"{line}\n" for line in lines).encode()


def draw_records(selection: Selection, records: TableSource, settings: CurationRules) -> None:
    """Reduce the selection to a random draw of `draw.n` pictures, or other groups of records (`draw.by`).

    With `downsample_from`, only records of that method are removed. The paper considers 1,500 pictures practical for
    evaluating systems, and removes the surplus from the knowledge graph's records, because that set is the largest and
    the others serve coverage and completeness.

    Raises:
        InputError: the other methods alone have more than `draw.n` groups, or `draw.by` is not a column.
    """
    decision, config, method = selection.decision, settings.draw, settings.downsample_from
    decision.apply("draw")
    remaining = decision.remaining()
    draw = Draw(config, "records")
    batches = batches_at(records, remaining, draw.columns)
    keys = np.concatenate([np.zeros(0, np.uint64), *(draw.add(rows) for rows in batches)])
    kept, methods = None, selection.rows.methods
    if method is not None:
        number = methods.index(method) if method in methods else curation_rules.NO_METHOD
        kept = np.unique(keys[decision.credit[remaining] != number])
        if config.n is not None and len(kept) > config.n:
            by_method = Counter(methods[m] for m in decision.credit[remaining].tolist())
            available = ", ".join(f"{n:,} of {name}" for name, n in sorted(by_method.items()))
            why = (
                f"only records of downsample_from={method} are removed, and the others form "
                f"{quantity(len(kept), 'group')} ({available}); choose a larger draw.n= or another "
                "downsample_from="
            )
            raise InputError(why, key="draw.n", value=config.n)
    drawn = draw.drawn(kept=kept)
    decision.drop(remaining[~drawn.mask(keys)], "draw")
    selection.notes.append(
        f"{drawn}{'' if kept is None else f', with all {len(kept):,} of other methods than {method}'}"
    )


def starter_set(selection: Selection, tables: CurationTables, settings: CurationRules) -> None:
    """Reduce the selection to pictures that are sensitive on average, and draw at most `per_region` of a sub-region.

    Raises:
        InputError: see `jobs.curation.starter.RatingReader.result`.
    """
    config, decision, rows = settings.starter, selection.decision, selection.rows
    remaining = decision.remaining()
    pictures, picture = np.unique(rows.image[remaining], return_inverse=True)
    ratings = read_ratings(tables.ratings, rows.pictures.subset(pictures), config)
    rated, above = rated_above(ratings, config)
    label, names = region_labels(ratings, config)
    for rule, fails in (
        ("starter_rated", ~rated[picture]),
        ("starter_mean", (rated & ~above)[picture]),
        ("starter_region", (rated & above & (label < 0))[picture]),
    ):
        decision.apply(rule)
        decision.drop(remaining[fails], rule)
    decision.apply("starter_per_region")
    eligible = decision.remaining()
    region = label[np.searchsorted(pictures, rows.image[eligible])]
    keys = draw_keys(_image_ids(tables.records, eligible), purpose="starter", seed=settings.draw.seed)
    decision.drop(eligible[~smallest_by_group(keys, region, config.per_region)], "starter_per_region")
    selection.region = np.full(len(rows), NO_REGION, np.int16)
    selection.region[eligible] = region
    selection.regions = names
    for question in (config.question, config.region_question):
        counts = ", ".join(f"{n:,} {kind}" for kind, n in question_counts(ratings.tally, question))
        selection.notes.append(f"ratings of {question}: {counts}")


def _image_ids(records: TableSource, positions: np.ndarray) -> Iterator[str]:
    for batch in batches_at(records, positions, ["image_id"]):
        yield from batch["image_id"].to_pylist()


def smallest_by_group(keys: np.ndarray, group: np.ndarray, size: int) -> np.ndarray:
    """Return bool [keys]: whether each key is among the `size` smallest of its group."""
    order = np.lexsort((keys, group))
    grouped = group[order]
    start = np.ones(len(order), bool)
    start[1:] = grouped[1:] != grouped[:-1]
    begins = np.maximum.accumulate(np.where(start, np.arange(len(order)), 0))
    is_drawn = np.zeros(len(keys), bool)
    is_drawn[order] = np.arange(len(order)) - begins < size
    return is_drawn


def read_facts(source: TableSource, pictures: HashIndex, *, hashes: bool, tasks: Tasks | None = None) -> CurationFacts:
    """Read a table of images in one pass; holds 11 B per picture, 12 B with `hashes`.

    A picture is gone if one of its renditions is `missing` (the source answered 404 or 410) and none is ok; other
    statuses leave open whether it exists. If a picture has several renditions, the perceptual hash is that of the first
    by name, which puts the original before `w300`.

    Raises:
        InputError: no row is about a picture of the records, or `hashes` is set and the table has no perceptual hash.
    """
    columns = ["image_id", "rendition", "status", *(["phash"] if hashes else [])]
    if absent := [c for c in columns if c not in source.footers[0].schema.names]:
        raise InputError(f"no column {absent[0]}; use a table that remine fetch wrote", key="images", value=source.uri)
    missing, fine = np.zeros(len(pictures), bool), np.zeros(len(pictures), bool)
    first = FirstHashes(len(pictures))
    n_others = 0
    parts = ((part,) for part in source.parts(PART))
    for part in (tasks or Tasks()).map(_read_images, parts, shared=(pictures, columns)):
        missing[part.missing] = True
        fine[part.fine] = True
        first.join(part.hashes, part.fine)
        n_others += part.n_others
    if len(pictures) and source.rows and n_others == source.rows:
        why = f"none of its {source.rows:,} pictures belongs to the records"
        raise InputError(why, key="images", value=source.uri, remedy="use the images that remine fetch wrote for them")
    hashed = first.rendition >= 0
    if hashes and fine.any() and not hashed.any():
        raise InputError("no phash in any row; near_duplicates= needs them", key="images", value=source.uri)
    gone = missing & ~fine
    counts = {"existing": int(fine.sum()), "gone": int(gone.sum()), "unknown": int((~(missing | fine)).sum())}
    return CurationFacts(gone, hashed, first.phash, {**counts, "of_others": n_others})


@dataclass(frozen=True)
class _ImagesPart:
    """A part of a table of images.

    Attributes:
        missing, fine: int64 indices of pictures, distinct and sorted.
        hashes: the perceptual hashes of `fine`.
        n_others: rows of other pictures.
    """

    missing: np.ndarray
    fine: np.ndarray
    hashes: "FirstHashes"
    n_others: int


def _read_images(pictures: HashIndex, columns: Sequence[str], source: TableSource) -> _ImagesPart:
    """Read a part of a table of images; see `read_facts`."""
    rows = pa.concat_tables(source.by_object(columns))
    picture = pictures.find(rows["image_id"])
    of_records = picture >= 0
    good = _is(rows, Status.OK) & of_records
    fine, at = np.unique(picture[good], return_inverse=True)
    hashes = FirstHashes(len(fine))
    if "phash" in columns:
        hashes.add(rows.filter(pa.array(good)), at)
    missing = np.unique(picture[_is(rows, Status.MISSING) & of_records])
    return _ImagesPart(missing, fine, hashes, int((~of_records).sum()))


def _is(rows: pa.Table, status: Status) -> np.ndarray:
    return pc.fill_null(pc.equal(rows["status"], status.value), False).to_numpy().astype(bool)


class FirstHashes:
    """The perceptual hash of each picture's first rendition by name."""

    def __init__(self, pictures: int) -> None:
        self.phash = np.zeros(pictures, np.uint64)
        self.rendition = np.full(pictures, -1, np.int8)  # index of the rendition's name in `_names`; -1: no hash yet
        self._names: list[str] = []

    def add(self, rows: pa.Table, picture: np.ndarray) -> None:
        """Add the hashes of `rows` (rendition, phash), which describe the pictures with these indices."""
        for row, at in zip(rows.select(["rendition", "phash"]).to_pylist(), picture.tolist(), strict=True):
            if row["phash"] is None or len(row["phash"]) != PHASH_DIGITS:
                continue
            before = self.rendition[at]
            if before < 0 or row["rendition"] < self._names[before]:
                self.phash[at], self.rendition[at] = int(row["phash"], 16), self._number(row["rendition"])

    def join(self, later: "FirstHashes", picture: np.ndarray) -> None:
        """Add the hashes of later rows, whose pictures have the distinct indices `picture` here."""
        codes = np.array([self._number(name) for name in later._names] or [0], np.int8)
        rank = np.argsort(np.argsort(self._names))
        before = self.rendition[picture]
        rendition = codes[later.rendition]
        is_first = (later.rendition >= 0) & ((before < 0) | (rank[rendition] < rank[before]) if self._names else False)
        at = picture[is_first]
        self.phash[at], self.rendition[at] = later.phash[is_first], rendition[is_first]

    def _number(self, name: str) -> int:
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)
