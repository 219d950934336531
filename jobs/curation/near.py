"""Near-duplicates: pictures whose 64-bit perceptual hashes differ in at most `distance` bits, found exactly.

All pairs of a million hashes would be 5e11 comparisons. Instead the hash is cut into m bands: by the pigeonhole
principle two hashes within distance t = m*r + a (0 <= a < m) differ in at most r bits in one of the first a + 1
bands or in at most r - 1 in one of the others (multi-index hashing: Norouzi, Punjani, Fleet, CVPR 2012). So each
band is a table, looked up under every change of so few bits, and only what is found there is compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb

import numpy as np

BITS = 64
MAX_DISTANCE = 10  # a million hashes: 9 s of CPU at 6 bits, 25 s at 8; beyond 10 the bands save little
MAX_PAIRS = 20_000_000  # held at 9 B each; more means a distance at which all looks alike
MAX_BAND = 22  # bits: a table of 2**22 starts is 32 MB
PAIRS_AT_A_TIME = 1 << 20
LOOKUP = 3.0  # cost of a look-up in comparisons, measured on one core


class TooManyPairsError(ValueError):
    """More near pairs than are worth holding."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of places `left` != `right`, each pair once, and how many bits they differ in."""

    left: np.ndarray  # int32 [pairs]
    right: np.ndarray  # int32 [pairs]
    distance: np.ndarray  # uint8 [pairs]


@dataclass(frozen=True)
class Settled:
    """For each picture which one it stays or goes in favour of (itself: it stays), and their distance in bits."""

    keeper: np.ndarray  # int64 [pictures]
    distance: np.ndarray  # uint8 [pictures]


def near_pairs(hashes: np.ndarray, distance: int, *, bands: int | None = None) -> Pairs:
    """All pairs of `hashes` (uint64 [n], distinct) within `distance` bits.

    Args:
        bands: how many tables; None: what is cheapest for so many hashes, 0: compare all with all.

    Raises:
        TooManyPairsError: more than MAX_PAIRS.
    """
    bands = cheapest(len(hashes), distance) if bands is None else bands
    found = _all_with_all(hashes, distance) if bands == 0 else _by_bands(hashes, distance, bands)
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    total = 0
    for part in found:
        total += len(part[0])
        if total > MAX_PAIRS:
            raise TooManyPairsError(f"more than {MAX_PAIRS:,} pairs of pictures within {distance} bits")
        parts.append(part)
    left, right, bits = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else ([], [], [])
    return Pairs(np.asarray(left, np.int32), np.asarray(right, np.int32), np.asarray(bits, np.uint8))


def cheapest(n: int, distance: int) -> int:
    """How many bands cost least for `n` hashes spread evenly; 0 where comparing all with all costs less."""
    fewest = -(-BITS // MAX_BAND)
    costs = {0: n * n / 2}
    for bands in range(fewest, max(fewest, distance + 1) + 1):
        costs[bands] = sum(
            2**width + n * (LOOKUP + n / 2**width) * sum(comb(width, k) for k in range(radius + 1)) / 2
            for _, width, radius in _plan(distance, bands)
        )
    return min(costs, key=lambda bands: costs[bands])


def _plan(distance: int, bands: int) -> list[tuple[int, int, int]]:
    """(shift, width, radius) of each band that has to be looked up."""
    radius, rest = divmod(distance, bands)
    plan, shift = [], 0
    for band in range(bands):
        width = BITS // bands + (band < BITS % bands)
        if (own := radius if band <= rest else radius - 1) >= 0:
            plan.append((shift, width, own))
        shift += width
    return plan


def _all_with_all(hashes: np.ndarray, distance: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    step = max(1, PAIRS_AT_A_TIME // max(1, len(hashes)))
    for first in range(0, len(hashes), step):
        rows = hashes[first : first + step]
        bits = np.bitwise_count(rows[:, None] ^ hashes[None, first:])
        bits[np.tril_indices(len(rows), 0, len(hashes) - first)] = BITS + 1  # each pair once, none with itself
        left, right = np.nonzero(bits <= distance)
        yield (left + first).astype(np.int32), (right + first).astype(np.int32), bits[left, right]


def _by_bands(hashes: np.ndarray, distance: int, bands: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    plan = _plan(distance, bands)
    for number, (shift, width, radius) in enumerate(plan):
        part = ((hashes >> np.uint64(shift)) & np.uint64((1 << width) - 1)).astype(np.int64)
        order = np.argsort(part, kind="stable").astype(np.int32)
        part, ordered = part[order], hashes[order]
        starts = np.concatenate([[0], np.cumsum(np.bincount(part, minlength=1 << width))])
        for left, right in _candidates(part, starts, width, radius):
            differing = ordered[left] ^ ordered[right]
            bits = np.bitwise_count(differing)
            near = bits <= distance
            for before, wide, reach in plan[:number]:  # found there already
                mask = np.uint64(((1 << wide) - 1) << before)
                near &= np.bitwise_count(differing & mask) > reach
            yield order[left[near]], order[right[near]], bits[near]


def _candidates(
    part: np.ndarray, starts: np.ndarray, width: int, radius: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of places in the sorted `part` whose values differ in at most `radius` bits, each pair once."""
    places = np.arange(len(part))
    yield from _expand(places, places + 1, starts[part + 1] - places - 1)
    for flips in range(1, radius + 1):
        for changed in combinations(range(width), flips):
            mask = sum(1 << bit for bit in changed)
            (query,) = np.nonzero((part >> changed[-1]) & 1 == 0)  # the smaller of the two asks
            other = part[query] ^ mask
            count = starts[other + 1] - starts[other]
            some = count > 0
            yield from _expand(query[some], starts[other[some]], count[some])


def _expand(query: np.ndarray, first: np.ndarray, count: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each query with its `count` partners from `first` on, so many at a time that memory stays small."""
    ends = np.cumsum(count)
    begin = 0
    while begin < len(query):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + PAIRS_AT_A_TIME, "right")))
        some = count[begin:end]
        total = int(some.sum())
        if total:
            inside = np.arange(total) - np.repeat(np.cumsum(some) - some, some)
            yield np.repeat(query[begin:end], some), np.repeat(first[begin:end], some) + inside
        begin = end


def settle(pairs: Pairs, rank: np.ndarray) -> Settled:
    """Who stays: going by `rank` (int64 [n], distinct), a picture stays unless one near it stays already.

    So no two that stay are near each other, and who goes is near one that stays: the nearest, of equals the one of
    the better rank. Chains of likeness do not take along what is near to none that stays.
    """
    n = len(rank)
    keeper, distance = np.arange(n, dtype=np.int64), np.zeros(n, np.uint8)
    earlier = rank[pairs.left] < rank[pairs.right]
    good = np.where(earlier, pairs.left, pairs.right)
    bad = np.where(earlier, pairs.right, pairs.left)
    order = np.lexsort((rank[good], pairs.distance, rank[bad]))
    good, bad, bits = good[order], bad[order], pairs.distance[order]
    bounds = np.flatnonzero(np.diff(bad, prepend=-1, append=-1)) if len(bad) else np.empty(0, np.int64)
    stays = np.ones(n, bool)
    for begin, end in pairwise(bounds.tolist()):
        kept = stays[good[begin:end]]
        best = int(kept.argmax())
        if kept[best]:
            one = bad[begin]
            stays[one] = False
            keeper[one], distance[one] = good[begin + best], bits[begin + best]
    return Settled(keeper, distance)
