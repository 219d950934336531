"""Random draws without replacement by a hash of seed and id: the keys `draw.*` of jobs that can work on a part.

Rows that belong together (`draw.by`, such as all samples, prompts and models of a picture) form a group, and the
groups with the smallest hashes are drawn. A draw therefore depends neither on the order of the rows nor on how they are
cut into units; a larger draw contains a smaller one; and jobs that draw from the same pictures with the same seed draw
the same pictures. Memory: 8 B per group, 16 B per row with `draw.complete`.

Groups may also have different sizes: the smallest hashes divided by the size are drawn, each group with a probability
that is proportional to its size (sequential Poisson sampling: Ohlsson, Journal of Official Statistics 14, 1998).
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.items import JUDGED, RESPONSE_STATUS
from actors.status import Status
from jobs.errors import InputError, check_choice
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.tables import TABLES

PICTURE = "picture"  # value of `draw.by`: the rows of a picture, or of the same pictures
PURPOSE = "draw"
_SEPARATOR = "\x1f"  # between the pictures of an item, and between the values of a combination
_COMPACT_AT = 1 << 20  # least number of keys to collect before duplicates are removed

Keys = NDArray[np.uint64]
Floats = NDArray[np.float64]
RANDOM, UNCERTAIN = "random", "uncertain"  # values of `draw.method`


@dataclass
class DrawConfig:
    """A draw of groups of rows."""

    n: int | None = None  # size of the draw: number of groups; null: all
    seed: int = 0  # the same seed draws the same groups, whatever the order and the units of the input
    by: str = PICTURE  # rows that stay together: those of a picture, or with one value of this column or attribute

    def check(self) -> None:
        """Raise InputError for a value that is not allowed; no table is read."""
        if self.n is not None and self.n < 1:
            raise InputError("must be at least 1, or null for all", key="draw.n", value=self.n)
        if not self.by:
            raise InputError(f"must be {PICTURE}, or the name of a column or an attribute", key="draw.by")

    @property
    def is_set(self) -> bool:
        """Whether some rows may not be drawn."""
        return self.n is not None

    @property
    def identity(self) -> dict[str, Any]:
        """The part of a run's identity that describes the draw; empty without a draw."""
        return {"draw": dict(vars(self))} if self.is_set else {}


@dataclass
class CompleteDrawConfig(DrawConfig):
    """A draw of groups of rows, possibly only of groups with a complete set of rows."""

    # rarely: columns or attributes, [model,prompt,sample]; only groups with each of their combinations are drawn
    complete: list[str] = field(default_factory=list)

    @property
    def is_set(self) -> bool:
        """Whether some rows may not be drawn."""
        return self.n is not None or bool(self.complete)


@dataclass
class WeightedDrawConfig(CompleteDrawConfig):
    """A draw of groups of rows, possibly with different probabilities."""

    # random: each with the same probability; uncertain: one that grows with the uncertainty of the judges in ratings=
    method: str = RANDOM
    floor: float = 0.2  # rarely: for method=uncertain, the lowest probability divided by the mean probability

    def check(self) -> None:
        """Raise InputError for a value that is not allowed; no table is read."""
        super().check()
        check_choice("draw.method", self.method, (RANDOM, UNCERTAIN))
        if not 0 < self.floor <= 1:
            raise InputError("must be above 0 and at most 1", key="draw.floor", value=self.floor)
        if self.method == UNCERTAIN and self.n is None:
            raise InputError("needs draw.n=, the number of pictures to draw", key="draw.method", value="uncertain")


@dataclass(frozen=True)
class Drawn:
    """The drawn groups.

    Attributes:
        keys: uint64[drawn], the hashes of the drawn groups, ascending.
        candidates: uint64[candidates], the hashes of the groups that could be drawn, ascending; `probability`:
            float64[candidates], with which each was drawn.
        groups: the number of groups with a usable row.
        complete: the number of groups with a complete set; None if complete sets were not requested.
        n: the requested number of groups; None for all.
        by: the configuration's `by`.
    """

    keys: Keys
    candidates: Keys
    probability: Floats
    groups: int
    complete: int | None
    n: int | None
    by: str

    def probabilities(self, keys: Keys) -> Floats:
        """Return float64[keys], the probability with which each row's group was drawn; NaN if it could not be drawn."""
        place = np.minimum(np.searchsorted(self.candidates, keys), len(self.candidates) - 1)
        return np.where(self.candidates[place] == keys, self.probability[place], np.nan)

    def mask(self, keys: Keys) -> NDArray[np.bool_]:
        """Return bool[keys]: which rows' groups are drawn."""
        return np.isin(keys, self.keys)

    def __str__(self) -> str:
        """Return what was drawn: `drew 500 of 1,500 pictures`."""
        noun = "pictures" if self.by == PICTURE else f"values of {self.by}"
        sets = f" ({self.complete:,} with complete sets)" if self.complete is not None else ""
        fewer = f"; there are fewer than draw.n={self.n}" if len(self.keys) < (self.n or 0) else ""
        return f"drew {len(self.keys):,} of {self.groups:,} {noun}{sets}{fewer}"


def draw_columns(table: str) -> tuple[str, ...]:
    """Return the columns of images or items that `usable` reads."""
    return ("image_id", "source_url", "status") if table == "images" else ("item_id", "image_ids", "attributes")


def usable(rows: pa.Table, table: str, exclusion_filter: ExclusionFilter) -> NDArray[np.bool_]:
    """Return bool[rows]: which images or items can be shown or asked about.

    Args:
        rows: with `draw_columns(table)`.
        exclusion_filter: the list of exclusions.
    """
    if table == "images":
        is_ok = pc.fill_null(pc.equal(rows["status"], Status.OK.value), False).to_numpy().astype(bool)
        excluded: NDArray[np.bool_] = exclusion_filter.mask(rows["image_id"]) | exclusion_filter.mask(
            rows["source_url"]
        )
        return is_ok & ~excluded
    usable_rows = []
    for row in rows.select(["item_id", "image_ids", "attributes"]).to_pylist():
        status = dict(row["attributes"] or ()).get(RESPONSE_STATUS, Status.OK)
        usable_rows.append(status in JUDGED and not exclusion_filter.hit(row["item_id"], *(row["image_ids"] or ())))
    return np.array(usable_rows, bool)


class Draw:
    """Collects the groups of a table's rows, batch by batch, and draws from them.

    Args:
        config: the keys `draw.*`.
        table: name of the table that the rows belong to.
        by: the key that defines the groups, for messages.

    Raises:
        InputError: `draw.by` or `draw.complete` is not a column, and the table has no attributes.
    """

    def __init__(self, config: DrawConfig, table: str, *, by: str = "draw.by") -> None:
        self._config = config
        self._keys_named = {"by": by, "complete": "draw.complete"}
        self._names: list[str] = getattr(config, "complete", [])
        self._table = table
        self.columns = list(dict.fromkeys([_key(table), *self._needed("by", config.by)]))
        for name in self._names:
            self.columns += [column for column in self._needed("complete", name) if column not in self.columns]
        self._keys: list[Keys] = []
        self._members: list[NDArray[np.int64]] = []
        self._member_codes: dict[str, int] = {}
        self._collected = 0
        self._seen: set[str] = set()

    def add(self, rows: pa.Table, usable: NDArray[np.bool_] | None = None) -> Keys:
        """Add a batch with `columns`; return uint64[rows], the key of each row's group.

        Args:
            usable: bool[rows]: which rows count; a group without any of them is not drawn. None: all.
        """
        keys = self.keys(rows)
        counts = np.ones(len(keys), bool) if usable is None else usable
        self._keys.append(keys[counts])
        if self._names:
            self._members.append(self._combinations(rows)[counts])
            return keys
        self._collected += len(keys)
        if self._collected > max(_COMPACT_AT, len(self._keys[0])):
            self._keys, self._collected = [np.unique(np.concatenate(self._keys))], 0
        return keys

    def keys(self, rows: pa.Table) -> Keys:
        """Return uint64[rows], the key of each row's group, of a batch with `columns`."""
        return draw_keys(self._groups(rows), purpose=PURPOSE, seed=self._config.seed)

    def drawn(self, *, kept: Keys | None = None, size: Callable[[Keys], Floats] | None = None) -> Drawn:
        """Return the groups with the smallest keys among those that can be drawn.

        Args:
            kept: uint64[groups]: at most `n` groups that are drawn in any case.
            size: function from the groups that can be drawn, uint64[groups] ascending, to float64[groups], to which
                their probabilities are proportional; None: all are equal.

        Raises:
            InputError: no row has the column or attribute, or no group can be drawn.
        """
        keys = np.concatenate([np.zeros(0, np.uint64), *self._keys])
        groups = np.unique(keys)
        for key, name in [("by", self._config.by), *(("complete", name) for name in self._names)]:
            if len(groups) and name != PICTURE and name not in self._seen:
                why = f"not a column or attribute of the input, a table of {self._table}"
                raise InputError(why, key=self._keys_named[key], value=name)
        complete = None
        chosen = groups
        if self._names:
            chosen = self._complete_groups(keys)
            complete = len(chosen)
            if not complete and len(groups):
                why = f"none of {len(groups):,} groups has all {len(self._member_codes):,} combinations with status ok"
                raise InputError(why, key="draw.complete", value=self._names, remedy="name fewer, or omit it")
        n, candidates = self._config.n, chosen
        share = 1.0 if n is None or n >= len(chosen) else n / len(chosen)
        probability = np.broadcast_to(np.float64(share), len(chosen))
        if kept is not None and n is not None:
            kept = np.unique(kept)
            chosen = np.concatenate([kept, np.setdiff1d(chosen, kept)])
        elif size is not None and n is not None and n < len(chosen):
            probability = draw_probabilities(size(chosen), n)
            # a group that is certain comes first, whatever its hash
            rank = np.where(probability < 1, (chosen / 2.0**64) / probability, -1.0)
            chosen = chosen[np.argsort(rank, kind="stable")]
        return Drawn(np.sort(chosen[:n]), candidates, probability, len(groups), complete, n, self._config.by)

    def _needed(self, key: str, name: str) -> list[str]:
        """Return the columns to read for `name`."""
        columns = TABLES[self._table].columns
        if name == PICTURE:
            return ["image_id"] if "image_id" in columns else ["image_ids"]
        if name in columns and columns[name][0] in (pa.string(), pa.int32(), pa.int64()):
            return [name]
        if "attributes" not in columns or name in columns:
            allowed = [column for column, (kind, _) in columns.items() if kind == pa.string()]
            raise InputError(f"must be {PICTURE} or one of {', '.join(allowed)}", key=self._keys_named[key], value=name)
        return ["attributes"]

    def _groups(self, rows: pa.Table) -> list[str]:
        """Return the group of each row; a row without a value is a separate group."""
        ids = rows[_key(self._table)].to_pylist()
        return [value or row_id for value, row_id in zip(self._values(rows, self._config.by), ids, strict=True)]

    def _combinations(self, rows: pa.Table) -> NDArray[np.int64]:
        """Return int64[rows], the number of each row's combination of `complete`, in order of first appearance."""
        columns = [self._values(rows, name) for name in self._names]
        texts = (_SEPARATOR.join(values) for values in zip(*columns, strict=True))
        codes = self._member_codes
        return np.fromiter((codes.setdefault(text, len(codes)) for text in texts), np.int64, rows.num_rows)

    def _values(self, rows: pa.Table, name: str) -> list[str]:
        column = self._needed("by", name)[0]
        if column == "image_ids":
            return [_SEPARATOR.join(ids or ()) for ids in rows["image_ids"].to_pylist()]
        if column == "attributes":
            values = [dict(pairs or ()).get(name) or "" for pairs in rows["attributes"].to_pylist()]
        else:
            values = pc.fill_null(rows[column].cast(pa.string()), "").to_pylist()
        if any(values):
            self._seen.add(name)
        return values

    def _complete_groups(self, keys: Keys) -> Keys:
        """Return the keys of the groups with every combination, ascending."""
        pairs = np.empty(len(keys), [("group", "u8"), ("member", "i8")])
        pairs["group"] = keys
        pairs["member"] = np.concatenate([np.zeros(0, np.int64), *self._members])
        groups, counts = np.unique(np.unique(pairs)["group"], return_counts=True)
        return groups[counts == len(self._member_codes)]


def draw_probabilities(size: Floats, n: int) -> Floats:
    """Return float64[groups], probabilities of at most 1 that are proportional to the sizes and sum to n.

    Args:
        size: float64[groups], above 0.
        n: number of groups that are drawn, below that of all.
    """
    certain = np.zeros(len(size), bool)
    while True:  # groups whose share would exceed 1 are certain, and the others share what is left
        scaled = size * ((n - certain.sum()) / size[~certain].sum())
        above = ~certain & (scaled >= 1)
        if not above.any():
            return np.where(certain, 1.0, scaled)
        certain |= above


def with_floor(uncertainty: Floats, floor: float) -> Floats:
    """Return float64[groups], sizes that grow with the uncertainty and are at least `floor` times their mean of 1.

    The probability of a picture is proportional to the judge's uncertainty about it, mixed with an equal share for all,
    so that a judge that is sure and wrong does not make intervals wide (Zrnic and Candès, Active statistical inference,
    2024, section 4).

    Args:
        uncertainty: float64[groups], at least 0, such as the standard deviation of a judge's distribution.
    """
    mean = float(uncertainty.mean())
    return floor + (1 - floor) * uncertainty / mean if mean > 0 else np.ones(len(uncertainty))


def draw_keys(names: Iterable[str], *, purpose: str, seed: int) -> Keys:
    """Return uint64[names]: the first 64 bits of BLAKE2b over purpose, seed and name; the smallest keys are drawn.

    Two draws of one run have different `purpose`s, so that they are independent.
    """
    salt = f"{purpose}\0{seed}\0".encode()
    texts = (salt + name.encode("utf-8", "surrogatepass") for name in names)
    digests = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(digests, ">u8").astype(np.uint64)


def _key(table: str) -> str:
    return TABLES[table].key[0]
