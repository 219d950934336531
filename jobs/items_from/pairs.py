"""Library of the job `pairs`, which combines items with one picture each into pairs, in both orders.

Input rows are copied to the temporary folder and looked up there by key; memory holds the items' ids.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from actors.quantities import quantity
from jobs.errors import InputError
from jobs.items_from.kept_rows import KeptRows, column_keys
from jobs.items_from.output import ITEMS, ItemsPlan, UnitRows, rows_of
from jobs.items_from.pair_rows import pair_item
from jobs.items_from.pair_units import BOTH, ONE, NumberedPairs, pair_count, pair_units
from jobs.judging.condition import METADATA
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions
from jobs.store.files.spool import Spool
from jobs.store.limits import Taken
from jobs.store.pieces import FROM, TO
from jobs.store.reading import TableSource, open_table
from jobs.store.units import Unit

ORDERS = (BOTH, ONE)
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
    return PairSources(open_table(items, "items"), open_table(texts, "texts") if texts else None)


@contextmanager
def read_plan(
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
        taken = Taken(limit or 0, pairs.count, pairs.without_limit, per_input=False, noun="pairs")
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
            condition=sources.items.metadata.get(METADATA, ""),
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
