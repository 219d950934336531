"""Library of the job `pairs`, which combines items with one picture each into pairs, in both orders.

Input rows are copied to the temporary folder and looked up there by key; memory holds the items' ids. Pairs are
numbered from 0 and looked up by their number, so that neither the units nor the list of them in `_run/` has the ids of
the items: a purge of an item leaves no trace of it there.

Attributes describe a pair: `pair` is the same in both orders, `pair_set` in all pairs of one prompt, and `first` and
`second` are the items' ids in the order in which their pictures are shown. An attribute with the same value in both
items is kept; one that differs becomes `first_NAME` and `second_NAME`.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, combinations, islice
from typing import Any, NamedTuple

import numpy as np

from actors.ids import content_id
from actors.items import FIRST, PAIR, PAIR_SET, SECOND
from actors.quantities import quantity
from jobs.errors import InputError
from jobs.items_from.items_output import ITEMS, ItemsPlan, UnitRows, rows_of
from jobs.items_from.kept_rows import KeptRows, column_keys
from jobs.judging.model_config import CONDITION
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions
from jobs.store.files.objects import CompactList, Object
from jobs.store.files.spool import Spool
from jobs.store.pieces import FROM, TO
from jobs.store.reading import TableSource, open_table
from jobs.store.table_plan import RowLimit
from jobs.store.units import OWN_ROWS, Unit

ORDERS = BOTH, ONE = "both", "one"
_ITEM_COLUMNS = ("item_id", "kind", "image_ids", "text_ids", "attributes")
_TEXT_COLUMNS = ("text_id", "role", "language", "text")


class PairSources(NamedTuple):
    """The opened tables; `texts` is None if it is not set."""

    items: TableSource
    texts: TableSource | None


@dataclass
class Groups:
    """Items grouped by the value that they share.

    Attributes:
        members: ids of the items with each value.
        left_out: number of items in no pair, by reason.
        matched: exclusions that an item matches.
    """

    members: dict[str, list[str]]
    left_out: Counter[str]
    matched: dict[str, int]


def open_sources(items: str, texts: str | None) -> PairSources:
    """Open the tables.

    Raises:
        InputError: a table does not exist, is incomplete, or is of another kind.
    """
    return PairSources(
        open_table(items, "items", key="input"), open_table(texts, "texts", key="texts") if texts else None
    )


@contextmanager
def pair_plan(
    sources: PairSources,
    *,
    by: str,
    orders: str,
    unit_rows: int,
    excluded: Exclusions,
    begun: Sequence[Unit] = (),
    rows_of: Mapping[str, int] | None = None,
    limit: int | None = None,
) -> Iterator[ItemsPlan]:
    """Yield the plan of the pairs while the copies of the input rows exist.

    Args:
        by: an attribute, or the role of texts.
        orders: `both` or `one`.
        unit_rows: largest number of pairs per unit.
        begun: the units of the table that is continued; rows_of: name -> rows of those that are written (`pair_units`).
        limit: number of pairs, each in its orders, counted from the first; None: all.

    Raises:
        InputError: no two items have the same value of `by`.
    """
    with Spool("pairs") as folder:
        items = KeptRows(folder.path / "items", sources.items, _ITEM_COLUMNS, keys_of=[column_keys("item_id")])
        texts = (
            KeptRows(folder.path / "texts", sources.texts, _TEXT_COLUMNS, keys_of=[column_keys("text_id")])
            if sources.texts
            else None
        )
        reader = PairReader(items, texts, by)
        groups = reader.groups(ExclusionFilter(excluded.marks))
        paired = {value: ids for value, ids in groups.members.items() if len(ids) > 1}
        if not paired:
            raise InputError(_nothing_to_pair(sources, by, groups))
        inputs = (sources.items.whole(), *([sources.texts.whole()] if sources.texts else ()))
        pairs = NumberedPairs(list(paired.values()), orders=orders, limit=limit)
        taken = RowLimit(limit or 0, pairs.count, pairs.without_limit, per_input=False, noun="pairs")
        sizes = Counter(map(len, paired.values()))
        yield ItemsPlan(
            units=pair_units(pairs, inputs, unit_rows=unit_rows, begun=begun, rows_of=rows_of),
            identity={
                "items": sources.items.identity,
                **({"texts": sources.texts.identity} if sources.texts else {}),
                "by": by,
                "orders": orders,
                "unit_rows": unit_rows,
                **({"limit": limit} if limit is not None else {}),
            },
            read=lambda unit: reader.read(list(pairs.ordered(unit.extra[FROM], unit.extra[TO]))),
            derived=True,
            condition=sources.items.metadata.get(CONDITION, ""),
            lines=list(_lines(sizes, by, orders, groups.left_out)),
            matched=groups.matched,
            limit=None if limit is None else taken,
        )


def _nothing_to_pair(sources: PairSources, by: str, groups: Groups) -> str:
    if groups.members:
        return (
            f"by={by}: {sources.items.uri} has one item of each of the {len(groups.members):,} values, and a pair "
            "needs two items with the same value; name an attribute, or with texts= a role, that several items share"
        )
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(groups.left_out.items())) or "no rows"
    return (
        f"by={by}: no item of {sources.items.uri} can be paired ({reasons}); name an attribute of items with one "
        "picture, or the role of their texts with texts="
    )


def _lines(sizes: Counter[int], by: str, orders: str, left_out: Counter[str]) -> Iterator[str]:
    """Yield lines that describe which items were paired."""
    orders_text = "each in both orders" if orders == BOTH else "each in one order"
    numbers = ", ".join(f"{count:,} with {quantity(size, 'item')}" for size, count in sorted(sizes.items()))
    count = sum(pair_count(size) * groups for size, groups in sizes.items())
    yield f"{quantity(count, 'pair')}, {orders_text}; values of {by}: {numbers}"
    if left_out:
        yield "not paired: " + ", ".join(
            f"{quantity(count, 'item')} ({reason})" for reason, count in sorted(left_out.items())
        )


@dataclass
class PairReader:
    """Finder of items and their texts in the copies of the input rows.

    Attributes:
        by: the attribute, or the role of texts, that the items of a pair share.
    """

    items: KeptRows
    texts: KeptRows | None
    by: str

    def groups(self, exclusion_filter: ExclusionFilter) -> Groups:
        """Return the items that can be paired, by their value of `by`."""
        members: dict[str, list[str]] = {}
        left_out = Counter[str]()
        for batch in self.items.batches():
            rows = batch.to_pylist()
            texts = self._texts(rows)
            for item in rows:
                value = self._value(item, texts)
                if exclusion_filter.hit(item["item_id"], *(item["image_ids"] or ())):
                    left_out["excluded"] += 1
                elif len(item["image_ids"] or ()) != 1:
                    left_out["not exactly one picture"] += 1
                elif not value:
                    left_out[f"without {self.by}"] += 1
                else:
                    members.setdefault(value, []).append(item["item_id"])
        if alone := sum(len(ids) == 1 for ids in members.values()):
            left_out[f"the only one of their {self.by}"] += alone
        return Groups(members, left_out, exclusion_filter.take_matched())

    def read(self, pairs: Sequence[tuple[str, str]]) -> UnitRows:
        """Return the rows of ordered pairs of item ids."""
        items = dict(self.items.rows({name for pair in pairs for name in pair}))
        texts = self._texts(list(items.values()))
        rows, text_rows = [], []
        for first, second in pairs:
            row, of_row = pair_item(items[first], items[second], texts, self._value(items[first], texts))
            rows.append(row)
            text_rows += of_row
        return UnitRows(
            {ITEMS: rows_of(ITEMS, rows), "texts": rows_of("texts", text_rows)},
            rows_in=len(rows),
        )

    def _texts(self, items: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return the items' texts, by id."""
        if self.texts is None:
            return {}
        return dict(self.texts.rows({name for item in items for name in item["text_ids"] or ()}))

    def _value(self, item: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]]) -> str:
        """Return the item's attribute `by`, else its texts with that role, as for context fields."""
        if value := dict(item["attributes"] or ()).get(self.by):
            return str(value)
        chosen = [texts[name] for name in item["text_ids"] or () if name in texts]
        return "\n\n".join(text["text"] or "" for text in chosen if text["role"] == self.by)


def pair_item(
    first: Mapping[str, Any], second: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]], value: str
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a pair's row of `items`, and its rows of `texts`: those with a role and text that both items have.

    Args:
        first, second: rows of `items`, in the order in which they are shown.
        texts: rows of `texts` by their id.
        value: the value that the two items share, such as the prompt.
    """
    item_id = content_id("pair", first["item_id"], second["item_id"])
    of_second = {_content(texts[name]) for name in second["text_ids"] or () if name in texts}
    rows = [
        # A text's id contains its item, because units must share no rows for joins to stay local to a unit.
        {
            "text_id": content_id("pair", item_id, text["role"], text["text"]),
            "role": text["role"],
            "language": text["language"],
            "source": item_id,
            "text": text["text"],
        }
        for name in first["text_ids"] or ()
        if name in texts and _content(text := texts[name]) in of_second
    ]
    item = {
        "item_id": item_id,
        "kind": PAIR,
        "image_ids": [*first["image_ids"], *second["image_ids"]],
        "text_ids": [row["text_id"] for row in rows],
        "attributes": list((_attributes(first, second) | {PAIR_SET: content_id("set", value)}).items()),
    }
    return item, rows


def _attributes(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, str]:
    ids = (first["item_id"], second["item_id"])
    one, other = (dict(item["attributes"] or ()) for item in (first, second))
    merged: dict[str, str] = {}
    for name in dict.fromkeys([*one, *other]):
        if one.get(name) == other.get(name):
            merged[name] = one[name]
            continue
        merged |= {
            f"{place}_{name}": value
            for place, attributes in ((FIRST, one), (SECOND, other))
            if (value := attributes.get(name))
        }
    return merged | {PAIR: content_id("pair of", *sorted(ids)), FIRST: ids[0], SECOND: ids[1]}


def _content(text: Mapping[str, Any]) -> tuple[str, str, str]:
    return text["role"], text["language"] or "", text["text"] or ""


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
