"""Near-duplicates: pictures whose 64-bit perceptual hashes differ in at most `distance` bits; the search is exact.

All pairs of a million hashes would be 5e11 comparisons. Instead the hash is split into m bands: by the pigeonhole
principle, two hashes within distance t = m*r + a (0 <= a < m) differ in at most r bits in one of the first a + 1
bands, or in at most r - 1 bits in one of the others (multi-index hashing: Norouzi, Punjani, Fleet, CVPR 2012). Each
band is therefore a table that is looked up under every change of so few bits, and only these candidates are compared.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import comb

import numpy as np

BITS = 64
DISTANCE = 4  # bits within which two pictures are near-duplicates, by default
MAX_DISTANCE = 10  # a million hashes: 9 s of CPU at 6 bits, 25 s at 8; beyond 10 the bands save little
MAX_PAIRS = 20_000_000  # 9 B each in memory; with more pairs, the distance does not discriminate
MAX_BAND = 22  # bits: a table of 2**22 starts is 32 MB
PAIRS_AT_A_TIME = 1 << 20
LOOKUP = 3.0  # cost of a look-up in comparisons, measured on one core


class TooManyPairsError(ValueError):
    """There are more than MAX_PAIRS near pairs."""


@dataclass(frozen=True)
class Pairs:
    """Pairs of indices `left` != `right`, each pair once, and the number of bits that differ."""

    left: np.ndarray  # int32 [pairs]
    right: np.ndarray  # int32 [pairs]
    distance: np.ndarray  # uint8 [pairs]


@dataclass(frozen=True)
class Keepers:
    """For each picture, the near-duplicate that is kept instead of it, or itself if it is kept, and their distance."""

    keeper: np.ndarray  # int64 [pictures]
    distance: np.ndarray  # uint8 [pictures], bits


def parse_hashes(digits: Sequence[str]) -> np.ndarray:
    """Return uint64 [hashes], from hexadecimal digits."""
    return np.array([int(text, 16) for text in digits], np.uint64)


def has_near(hashes: np.ndarray, others: np.ndarray, distance: int) -> np.ndarray:
    """Return bool [hashes]: whether one of `others` (uint64) is within `distance` bits of each of `hashes` (uint64).

    Compares every hash with every other: for few hashes, such as those of a unit.
    """
    near = np.zeros(len(hashes), bool)
    step = max(1, PAIRS_AT_A_TIME // max(1, len(hashes)))
    for first in range(0, len(others), step):
        near |= (_bits_apart(hashes, others[first : first + step]) <= distance).any(axis=1)
    return near


def near_pairs(hashes: np.ndarray, distance: int, *, bands: int | None = None) -> Pairs:
    """Return all pairs of `hashes` (uint64 [n], distinct) within `distance` bits.

    Args:
        bands: number of tables; None: the cheapest number for n hashes, 0: compare all pairs.

    Raises:
        TooManyPairsError: there are more than MAX_PAIRS pairs.
    """
    bands = cheapest(len(hashes), distance) if bands is None else bands
    chunks = _each_with_each(hashes, distance) if bands == 0 else _by_bands(hashes, distance, bands)
    parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    total = 0
    for part in chunks:
        total += len(part[0])
        if total > MAX_PAIRS:
            raise TooManyPairsError(f"more than {MAX_PAIRS:,} pairs of pictures within {distance} bits")
        parts.append(part)
    left, right, bits = (np.concatenate(column) for column in zip(*parts, strict=True)) if parts else ([], [], [])
    return Pairs(np.asarray(left, np.int32), np.asarray(right, np.int32), np.asarray(bits, np.uint8))


def cheapest(n: int, distance: int) -> int:
    """Return the number of bands that is cheapest for `n` evenly spread hashes; 0: compare all pairs."""
    fewest = -(-BITS // MAX_BAND)
    costs = {0: n * n / 2}
    for bands in range(fewest, max(fewest, distance + 1) + 1):
        costs[bands] = sum(
            2**width + n * (LOOKUP + n / 2**width) * sum(comb(width, k) for k in range(radius + 1)) / 2
            for _, width, radius in _plan(distance, bands)
        )
    return min(costs, key=lambda bands: costs[bands])


def _plan(distance: int, bands: int) -> list[tuple[int, int, int]]:
    """Return (shift, width, radius) of each band that must be looked up."""
    radius, rest = divmod(distance, bands)
    plan, shift = [], 0
    for band in range(bands):
        width = BITS // bands + (band < BITS % bands)
        if (reach := radius if band <= rest else radius - 1) >= 0:
            plan.append((shift, width, reach))
        shift += width
    return plan


def _bits_apart(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return uint8 [left, right]: the number of bits in which two hashes differ."""
    bits: np.ndarray = np.bitwise_count(left[:, None] ^ right[None, :])
    return bits


def _each_with_each(hashes: np.ndarray, distance: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    step = max(1, PAIRS_AT_A_TIME // max(1, len(hashes)))
    for first in range(0, len(hashes), step):
        rows = hashes[first : first + step]
        bits = _bits_apart(rows, hashes[first:])
        bits[np.tril_indices(len(rows), 0, len(hashes) - first)] = BITS + 1  # each pair once, no hash with itself
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
            for before, wide, reach in plan[:number]:  # already in an earlier band
                mask = np.uint64(((1 << wide) - 1) << before)
                near &= np.bitwise_count(differing & mask) > reach
            yield order[left[near]], order[right[near]], bits[near]


def _candidates(
    part: np.ndarray, starts: np.ndarray, width: int, radius: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield pairs of indices of the sorted `part` whose values differ in at most `radius` bits, each pair once."""
    indices = np.arange(len(part))
    yield from _expand(indices, indices + 1, starts[part + 1] - indices - 1)
    for flips in range(1, radius + 1):
        for changed in combinations(range(width), flips):
            mask = sum(1 << bit for bit in changed)
            (query,) = np.nonzero((part >> changed[-1]) & 1 == 0)  # look up from the smaller of the two
            other = part[query] ^ mask
            count = starts[other + 1] - starts[other]
            has_partner = count > 0
            yield from _expand(query[has_partner], starts[other[has_partner]], count[has_partner])


def _expand(query: np.ndarray, first: np.ndarray, count: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield each query with its `count` partners from `first` on, in chunks that bound the memory."""
    ends = np.cumsum(count)
    begin = 0
    while begin < len(query):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + PAIRS_AT_A_TIME, "right")))
        counts = count[begin:end]
        total = int(counts.sum())
        if total:
            inside = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
            yield np.repeat(query[begin:end], counts), np.repeat(first[begin:end], counts) + inside
        begin = end


def choose_keepers(pairs: Pairs, rank: np.ndarray) -> Keepers:
    """Choose the pictures to keep: in the order of `rank` (int64 [n], distinct), each one unless a near one is kept.

    Thus no two kept pictures are near each other, and each dropped picture is near a kept one: its keeper is the
    nearest of these, at a tie the one with the better rank. A chain of similarities does not remove a picture that is
    not near any kept picture.
    """
    n = len(rank)
    keeper, distance = np.arange(n, dtype=np.int64), np.zeros(n, np.uint8)
    earlier = rank[pairs.left] < rank[pairs.right]
    good = np.where(earlier, pairs.left, pairs.right)
    bad = np.where(earlier, pairs.right, pairs.left)
    order = np.lexsort((rank[good], pairs.distance, rank[bad]))
    good, bad, bits = good[order], bad[order], pairs.distance[order]
    bounds = np.flatnonzero(np.diff(bad, prepend=-1, append=-1)) if len(bad) else np.empty(0, np.int64)
    is_kept = np.ones(n, bool)
    for begin, end in pairwise(bounds.tolist()):
        kept = is_kept[good[begin:end]]
        best = int(kept.argmax())
        if kept[best]:
            dropped = bad[begin]
            is_kept[dropped] = False
            keeper[dropped], distance[dropped] = good[begin + best], bits[begin + best]
    return Keepers(keeper, distance)
