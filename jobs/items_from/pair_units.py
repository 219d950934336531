"""The pairs of a run, numbered from 0, and the units into which they are cut.

A pair is looked up by its number, so that neither the units nor the list of them in `_run/` has the ids of the items: a
purge of an item leaves no trace of it there.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, combinations, islice

import numpy as np

from actors.ids import content_id
from jobs.store.files.compact_list import CompactList
from jobs.store.files.objects import Object
from jobs.store.pieces import FROM, TO
from jobs.store.units import OWN_ROWS, Unit

BOTH, ONE = "both", "one"


class NumberedPairs:
    """All pairs of two items of one group, group by group.

    Args:
        groups: ids of the items of each group, in order.
        orders: `both`: each pair is shown in both orders; `one`: in the one that a hash of its items selects.
        limit: number of pairs, counted from the first; None: all.
    """

    def __init__(self, groups: Sequence[Sequence[str]], *, orders: str, limit: int | None = None) -> None:
        self._groups, self._orders = groups, orders
        self._ends = np.array(list(accumulate(pair_count(len(ids)) for ids in groups)), np.int64)
        self.without_limit = int(self._ends[-1]) if groups else 0
        self.count = self.without_limit if limit is None else min(limit, self.without_limit)
        self.rows_per_pair = 2 if orders == BOTH else 1

    def ordered(self, first: int, last: int) -> Iterator[tuple[str, str]]:
        """Yield the pairs from number `first` to before `last`, each in its orders."""
        group = int(np.searchsorted(self._ends, first, side="right"))
        skipped = first - (int(self._ends[group - 1]) if group else 0)
        for one, other in islice(self._following(group, skipped), last - first):
            yield from _ordered(one, other, self._orders)

    def _following(self, group: int, skipped: int) -> Iterator[tuple[str, str]]:
        """Yield the pairs of a group after the first `skipped`, and of the groups after it."""
        if group == len(self._groups):
            return
        ids = self._groups[group]
        row = bisect_right(range(len(ids)), skipped, key=lambda row: _before(row, len(ids))) - 1
        column = row + 1 + skipped - _before(row, len(ids))
        yield from ((ids[row], other) for other in ids[column:])
        yield from combinations(ids[row + 1 :], 2)
        for others in self._groups[group + 1 :]:
            yield from combinations(others, 2)


def _before(row: int, items: int) -> int:
    """Return the number of pairs of so many items whose first item comes before the item at `row`."""
    return row * (2 * items - row - 1) // 2


def pair_count(items: int) -> int:
    """Return the number of pairs of so many items."""
    return items * (items - 1) // 2


def pair_units(
    pairs: NumberedPairs,
    inputs: tuple[Object, ...],
    *,
    unit_rows: int,
    begun: Sequence[Unit] = (),
    rows_of: Mapping[str, int] | None = None,
) -> CompactList[Unit]:
    """Return the units of the pairs, of at most `unit_rows` rows except for the second order of the last pair.

    Units of a table that has begun keep their names. If it is complete and has as many rows as there are pairs, which
    may be fewer than at first if it was purged, they also keep their pairs. Else the pairs are cut anew: names that are
    no longer needed have no pairs, and units of another number of pairs are written again.

    Args:
        inputs: the inputs of every unit.
        begun: the units of the table that is continued, in their order.
        rows_of: name -> number of rows, of the units that are written.
    """
    return CompactList(_units(pairs, inputs, unit_rows, begun, rows_of or {}))


def _units(
    pairs: NumberedPairs,
    inputs: tuple[Object, ...],
    unit_rows: int,
    begun: Sequence[Unit],
    rows_of: Mapping[str, int],
) -> Iterator[Unit]:
    def unit(name: str, piece: str, first: int, last: int) -> Unit:
        return Unit(name, inputs, piece, (last - first) * pairs.rows_per_pair, {FROM: first, TO: last})

    counts = [rows_of[earlier.name] // pairs.rows_per_pair for earlier in begun if earlier.name in rows_of]
    if begun and len(counts) == len(begun) and sum(counts) == pairs.count:
        for earlier, last, count in zip(begun, accumulate(counts), counts, strict=True):
            yield unit(earlier.name, earlier.piece, last - count, last)
        return
    step = -(-unit_rows // pairs.rows_per_pair)
    piece = f"{OWN_ROWS} of {pairs.without_limit} pairs"
    for number in range(max(-(-pairs.count // step), len(begun))):
        first, last = min(number * step, pairs.count), min((number + 1) * step, pairs.count)
        name = begun[number].name if number < len(begun) else _name(pairs, first)
        yield unit(name, piece, first, last)


def _name(pairs: NumberedPairs, number: int) -> str:
    return content_id("pairs", *next(pairs.ordered(number, number + 1)))


def _ordered(first: str, second: str, orders: str) -> list[tuple[str, str]]:
    """Return the pair in both orders, or in the one that a hash of its items selects."""
    if orders == BOTH:
        return [(first, second), (second, first)]
    low, high = sorted((first, second))
    return [(low, high) if int(content_id("order", low, high), 16) & 1 else (high, low)]
