"""How often a model declines: rates by kind, with intervals, and the items concerned.

Rows come a chunk at a time; what is kept are counts a group, and of the items concerned the first `MAX_ITEMS`.
Samples of one item tend to be refused together, so that they count for less than as many items would: the intervals
are Wilson's, widened by the design effect of the items as clusters (Kish, Survey Sampling, 1965, chapter 5).
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from actors.status import Status
from actors.vlm.refusals import KINDS
from jobs.metrics.distributions import Z95, wilson
from jobs.tables import conform, table

COLUMNS = ("model", "prompt", "item_id", "refusal_kind", "text")
MAX_ITEMS = 1000  # of each group and kind; the responses themselves have all
INTERVAL = "Wilson score, 95 %, design effect of items"
DEFINITION = (
    "share of the texts a model wrote that are refusals of this kind, by the rules of conf/refusals "
    "(Century, appendices S and V); any: of whatever kind"
)
ANY = "any"


@dataclass(frozen=True)
class RefusalRate:
    """One kind of refusal of one model under one prompt.

    Attributes:
        count, n: refusals among the texts that were written.
        low, high: 95 % interval of the share, None without a text.
        items: how many items are concerned; `item_ids` are the first of them.
    """

    model: str
    prompt: str
    kind: str
    count: int
    n: int
    low: float | None
    high: float | None
    items: int
    item_ids: tuple[str, ...]

    @property
    def share(self) -> float | None:
        return self.count / self.n if self.n else None


@dataclass
class _Tally:
    count: int = 0
    items: int = 0
    # sums over items of refused², refused x texts: what the variance between items is made of
    squares: int = 0
    products: int = 0
    item_ids: list[str] = field(default_factory=list)


@dataclass
class _Group:
    n: int = 0
    items: int = 0
    squares: int = 0  # of texts an item
    kinds: dict[str, _Tally] = field(default_factory=lambda: {kind: _Tally() for kind in (*KINDS, ANY)})


class RefusalRates:
    """Counts refusals; an item's rows of one model and prompt come in one chunk, as a unit's rows do."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}

    def add(self, rows: pa.Table) -> None:
        """Count a chunk of table `responses` (`COLUMNS` of it); rows without a text are left out.

        Raises:
            ValueError: an unknown kind.
        """
        of_item: dict[tuple[str, str, str], Counter[str]] = {}
        for row in rows.select(list(COLUMNS)).to_pylist():
            kind = row["refusal_kind"]
            if kind is not None and kind not in KINDS:
                raise ValueError(f"unknown kind of refusal {kind!r}; there are {', '.join(KINDS)}")
            if row["text"] is None and kind is None:
                continue
            counts = of_item.setdefault((row["model"], row["prompt"], row["item_id"]), Counter())
            counts["n"] += 1
            if kind is not None:
                counts[kind] += 1
                counts[ANY] += 1
        for (model, prompt, item), counts in of_item.items():
            group = self._groups.setdefault((model, prompt), _Group())
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
        """Every kind of every model and prompt, `any` last; models and prompts by name."""
        made = []
        for (model, prompt), group in sorted(self._groups.items()):
            for kind, tally in group.kinds.items():
                low, high = _interval(tally, group)
                ids = tuple(tally.item_ids)
                made.append(RefusalRate(model, prompt, kind, tally.count, group.n, low, high, tally.items, ids))
        return made


def _interval(tally: _Tally, group: _Group) -> tuple[float, float]:
    return wilson(tally.count, group.n, z=Z95 * math.sqrt(design_effect(tally, group)))


def design_effect(tally: _Tally, group: _Group) -> float:
    """Variance of the share with items as clusters over that of independent texts.

    At least 1, and at most the mean number of texts an item: the texts of an item say no less than one would. At a
    share of 0 or 1, and with a single item, there is nothing to estimate it from and that bound is taken.
    """
    most = group.n / group.items
    share = tally.count / group.n
    if group.items < 2 or share in (0.0, 1.0):
        return most
    # sum over items of (refused - share x texts)², by the sums that were kept
    spread = tally.squares - 2 * share * tally.products + share**2 * group.squares
    between = spread * group.items / (group.items - 1) / group.n**2
    return min(max(1.0, between / (share * (1 - share) / group.n)), max(1.0, most))


def metrics_table(rates: Iterable[RefusalRate]) -> pa.Table:
    """The rates as rows of table `metrics`: `refusal_rate` by model, prompt and kind."""
    rows: list[dict[str, Any]] = []
    for rate in rates:
        dims = {"model": rate.model, "prompt": rate.prompt, "kind": rate.kind}
        rows.append(
            {
                "metric": "refusal_rate",
                "dims": json.dumps(dims, sort_keys=True, ensure_ascii=False, separators=(",", ":")),
                "definition": DEFINITION,
                "value": rate.share,
                "low": rate.low,
                "high": rate.high,
                "interval_method": INTERVAL,
                "n": rate.n,
                "coverage": 1.0,
                "status": Status.OK.value,
                "reason": None,
            }
        )
    return conform(pa.Table.from_pylist(rows, schema=table("metrics").schema()), table("metrics"))


def lines(rates: Sequence[RefusalRate], *, shown: int = 3) -> list[str]:
    """The kinds that occur, one a line for a person, with the first items concerned."""
    made = []
    for rate in rates:
        if rate.kind == ANY or not rate.count or rate.low is None or rate.high is None:
            continue
        names = ", ".join(rate.item_ids[:shown])
        more = f" and {rate.items - shown:,} more" if rate.items > shown else ""
        share = f"{100 * rate.count / rate.n:.1f} % ({100 * rate.low:.1f} to {100 * rate.high:.1f})"
        made.append(f"{rate.kind}: {rate.count:,} of {rate.n:,} texts, {share}; {rate.items:,} items: {names}{more}")
    return made
