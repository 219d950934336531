"""Refusal rates of models by kind, with intervals and the items that were refused.

Rows are read in chunks; only counts per group and the first `MAX_ITEMS` refused items are kept. A model tends to refuse
several samples of one item together, so they carry less information than samples of different items: the intervals have
the design effect of the items (`intervals.ShareSums`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from actors.quantities import quantity
from actors.status import Status
from actors.vlm.refusals import KINDS
from jobs.metrics.intervals import Interval, ShareSums, no_interval
from jobs.metrics.metric import Metric, MetricKind, Quantity, Topic, estimated, undefined

COLUMNS = ("model", "prompt", "condition", "item_id", "refusal_kind", "text")
MAX_ITEMS = 1000  # of each group and kind; all are in table responses
_RATE = MetricKind("refusal_rate", Quantity.SHARE, (Topic.REFUSALS,), label="rate").defined_as(
    "Refusals of this kind / texts that the model wrote, by the rules of conf/refusals (Century, appendices S and V); "
    "any: refusals of all kinds; n counts texts that were written"
)
ANY = "any"


@dataclass(frozen=True)
class RefusalRate:
    """One kind of refusal of one model under one prompt and condition.

    Attributes:
        count, n: refusals, and texts that were written; `asked`: texts that were requested.
        interval: 95 % interval of the share.
        items: number of items with such a refusal; `item_ids`: the first `MAX_ITEMS` of them.
    """

    model: str
    prompt: str
    condition: str
    kind: str
    count: int
    n: int
    asked: int
    interval: Interval
    items: int
    item_ids: tuple[str, ...]

    @property
    def share(self) -> float | None:
        """Refusals / texts, in [0, 1]; None without a text."""
        return self.count / self.n if self.n else None


@dataclass
class _Tally:
    count: int = 0
    items: int = 0
    # sums over items of refused², refused x texts: terms of the variance between items
    squares: int = 0
    products: int = 0
    item_ids: list[str] = field(default_factory=list)


@dataclass
class _Group:
    asked: int = 0
    n: int = 0
    items: int = 0
    squares: int = 0  # sum of the squared numbers of texts per item
    kinds: dict[str, _Tally] = field(default_factory=lambda: {kind: _Tally() for kind in (*KINDS, ANY)})


class RefusalRates:
    """Counts refusals. All rows of an item with the same model and prompt must be in one chunk, as they are in a
    unit."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str, str], _Group] = {}

    def add(self, rows: pa.Table) -> None:
        """Count a chunk of table `responses` (columns `COLUMNS`); a row with neither text nor kind counts only as
        asked.

        Raises:
            ValueError: `refusal_kind` has an unknown kind.
        """
        counts_of: dict[tuple[str, str, str, str], Counter[str]] = {}
        for row in rows.select(list(COLUMNS)).to_pylist():
            kind = row["refusal_kind"]
            if kind is not None and kind not in KINDS:
                raise ValueError(f"refusal_kind={kind!r}: must be one of {', '.join(KINDS)}")
            group_key = (row["model"], row["prompt"], row["condition"] or "")
            self._groups.setdefault(group_key, _Group()).asked += 1
            if row["text"] is None and kind is None:
                continue
            counts = counts_of.setdefault((*group_key, row["item_id"]), Counter())
            counts["n"] += 1
            if kind is not None:
                counts[kind] += 1
                counts[ANY] += 1
        for (*key, item), counts in counts_of.items():
            group = self._groups[key[0], key[1], key[2]]
            group.n += counts["n"]
            group.items += 1
            group.squares += counts["n"] ** 2
            for kind, tally in group.kinds.items():
                if counts[kind]:
                    tally.count += counts[kind]
                    tally.items += 1
                    tally.squares += counts[kind] ** 2
                    tally.products += counts[kind] * counts["n"]
                    if len(tally.item_ids) < MAX_ITEMS:
                        tally.item_ids.append(item)

    def rates(self) -> list[RefusalRate]:
        """Return the rates of each kind for each model, prompt and condition, sorted by these, `any` last."""
        rates = []
        for key, group in sorted(self._groups.items()):
            for kind, tally in group.kinds.items():
                interval = _interval(tally, group) if group.n else no_interval("no text")
                ids = tuple(tally.item_ids)
                rate = RefusalRate(*key, kind, tally.count, group.n, group.asked, interval, tally.items, ids)
                rates.append(rate)
        return rates


def _interval(tally: _Tally, group: _Group) -> Interval:
    """Return the interval of the share of the group's texts that are refusals of the tally's kind."""
    sums = ShareSums(group.items, tally.count, group.n, tally.squares, tally.products, group.squares)
    return sums.interval("items")


def refusal_metrics(rates: Iterable[RefusalRate]) -> Iterator[Metric]:
    """Yield `refusal_rate` by model, prompt and kind, and by condition if there are several; undefined without a text.

    Use it next to the scores of models: a model that often declines is scored only on the other items.
    """
    rates = list(rates)
    several = len({rate.condition for rate in rates}) > 1
    for rate in rates:
        dims = {"model": rate.model, "prompt": rate.prompt, "kind": rate.kind}
        dims |= {"condition": rate.condition} if several else {}
        coverage = rate.n / rate.asked
        if rate.share is None:
            reason = f"none of the {rate.asked:,} requested texts was written"
            status = Status.MISSING_INPUT
            yield undefined(_RATE, reason, coverage=coverage, status=status, dims=dims)
        else:
            yield estimated(_RATE, rate.share, rate.n, coverage=coverage, interval=rate.interval, dims=dims)


def lines(rates: Sequence[RefusalRate], *, shown: int = 3) -> list[str]:
    """Return one line per kind that occurs, with the first refused items."""
    texts = []
    for rate in rates:
        if rate.kind == ANY or not rate.count:
            continue
        names = ", ".join(rate.item_ids[:shown])
        more = f" and {rate.items - shown:,} more" if rate.items > shown else ""
        low, high, share = rate.interval.low, rate.interval.high, f"{100 * rate.count / rate.n:.1f} %"
        if low is not None and high is not None:
            share += f" ({100 * low:.1f} to {100 * high:.1f})"
        texts.append(
            f"{rate.kind}: {rate.count:,} of {rate.n:,} texts, {share}; {quantity(rate.items, 'item')}: {names}{more}"
        )
    return texts
