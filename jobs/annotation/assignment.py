"""The assignment plan of a study with people: which rater sees which items, in which order.

Each item goes to `per_item` different raters, or in each group to as many raters as its quota says. Shared items go to
every rater, so that any two raters of a group have them in common. Loads are as equal as the raters' limits allow,
pairs of raters are random, and each rater has a random order. (Rome's study showed all raters the same sequence; hardly
any picture was rated twice, and agreement could not be computed.) All functions are pure functions of names and a seed.
"""

import hashlib
import heapq
import math
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any, NamedTuple

from actors.untrusted import cell_text
from jobs.corpora import user_tables
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.reading import open_table

CANDIDATES = 64  # raters with equal loads whose overlaps are compared; 100,000 tasks take 17 s


@dataclass(frozen=True)
class Rater:
    """A participant, with a group (country, pool, …) and a maximum number of tasks; None: no limit."""

    name: str
    group: str = ""
    limit: int | None = None


class Assignment(NamedTuple):
    """An item shown to a rater; `place` is its position in that rater's order, from 1."""

    rater: str
    group: str
    place: int
    item: str
    shared: bool  # whether every rater of the group sees it
    audit: bool  # whether it was drawn for the auditor, who repeats it
    together: str  # its set of items, which the same raters see consecutively


@dataclass(frozen=True)
class Summary:
    """The size of a plan: tasks, raters, loads, and how many items the pairs of raters of a group share."""

    tasks: int
    raters: int
    items: int
    least: int
    most: int
    overlap_least: int | None  # None: no group has two raters
    overlap_median: float | None
    overlap_most: int | None
    audits: int


def assign(
    items: Sequence[str],
    raters: Sequence[Rater],
    *,
    seed: int,
    per_item: int | None = None,
    quotas: Mapping[str, int] | None = None,
    shared: int = 0,
    audit: float = 0.0,
    together: Mapping[str, str] | None = None,
) -> list[Assignment]:
    """Return a plan, which does not depend on the order of items and raters.

    Args:
        items: distinct ids.
        raters: raters with distinct names.
        per_item: different raters per item, from all groups together.
        quotas: instead of `per_item`, different raters per item, by group; other groups take no part.
        shared: items that every rater sees (in each group, if there are quotas), drawn at random.
        audit: share of each rater's tasks drawn for an audit, in [0, 1]; if above 0, at least one task per rater.
        together: set of each item. A set's items go to the same raters, who see them consecutively in a random order,
            and `shared` and `audit` draw sets. None: each item is a set.

    Returns:
        Tasks by rater, in each rater's order.

    Raises:
        InputError: duplicate names, a number out of range, or more tasks than the raters can take.
    """
    _check(items, raters, per_item=per_item, quotas=quotas, shared=shared, audit=audit)
    sets: dict[str, list[str]] = defaultdict(list)
    for item in sorted(items):
        sets[together[item] if together else item].append(item)
    if shared > len(sets):
        raise InputError(f"must be from 0 to the number of sets, {len(sets)}", key="shared", value=shared)
    common = set(_rng(seed, "shared").sample(sorted(sets), shared))
    rest = {name: len(members) for name, members in sorted(sets.items()) if name not in common}
    in_common = sum(len(sets[name]) for name in common)
    groups = {name: [r for r in raters if r.group == name] for name in quotas} if quotas else {"": list(raters)}
    seen: dict[str, list[str]] = defaultdict(list)
    for name, members in sorted(groups.items()):
        wanted = quotas[name] if quotas else (per_item or 0)
        _check_group(name, members, items=sum(rest.values()), wanted=wanted, shared=in_common)
        for rater, assigned in _spread(rest, members, wanted, shared=in_common, rng=_rng(seed, "group", name)).items():
            seen[rater] += [*common, *assigned]
    by_name = {rater.name: rater for rater in raters}
    plan: list[Assignment] = []
    for name in sorted(seen):
        order = in_random_order({label: sets[label] for label in seen[name]}, seed=seed, name=name)
        labels = list(dict.fromkeys(label for label, _ in order))
        audits = min(len(labels), max(1, round(audit * len(labels)))) if audit else 0
        audited = set(_rng(seed, "audit", name).sample(labels, audits)) if audits else set()
        plan += [
            Assignment(name, by_name[name].group, place, item, label in common, label in audited, label)
            for place, (label, item) in enumerate(order, start=1)
        ]
    return plan


def _spread(
    sets: Mapping[str, int], raters: Sequence[Rater], wanted: int, *, shared: int, rng: random.Random
) -> dict[str, list[str]]:
    """Return each rater's sets, such that each set has `wanted` different raters and loads are as equal as possible.

    Each rater has a number of tasks to take (`_loads`). Each set, largest first and in random order among equals, goes
    to the raters with the most tasks left and room for all of it. For sets of one item this succeeds whenever any
    assignment does (Gale and Ryser, 1957); in general, without limits, loads differ by at most the largest set (Graham,
    1969). Among equals, raters with the fewest shared items so far come first, so that all pairs of raters end up with
    about the same number of shared items.

    Args:
        sets: number of items of each set.
    """
    left = _loads(raters, sum(sets.values()), wanted, shared=shared, rng=rng)
    remaining = {r.name: math.inf if r.limit is None else r.limit - shared for r in raters}
    assigned: dict[str, list[str]] = {rater.name: [] for rater in raters}
    met: Counter[tuple[str, str]] = Counter()
    order = list(sets)
    rng.shuffle(order)
    for item in sorted(order, key=lambda name: -sets[name]):
        able = {name: tasks for name, tasks in left.items() if remaining[name] >= sets[item]}
        if len(able) < wanted:
            raise InputError(
                f"per_rater: a set of {sets[item]} items needs {wanted} different raters; {len(able)} have room for "
                "all of it within their limits; raise per_rater=, or name more raters"
            )
        lowest = heapq.nlargest(wanted, able.values())[-1]
        chosen = [name for name, tasks in able.items() if tasks > lowest]
        ties = [name for name, tasks in able.items() if tasks == lowest]
        for candidates in (rng.sample(ties, min(len(ties), CANDIDATES)) for _ in range(wanted - len(chosen))):
            free = [name for name in candidates if name not in chosen] or [n for n in ties if n not in chosen]
            chosen.append(min(free, key=lambda name: sum(met[name, other] for other in chosen)))
        for name in chosen:
            assigned[name].append(item)
            left[name] -= sets[item]
            remaining[name] -= sets[item]
        for pair in ((a, b) for a in chosen for b in chosen if a != b):
            met[pair] += sets[item]
    return assigned


def _loads(raters: Sequence[Rater], items: int, wanted: int, *, shared: int, rng: random.Random) -> dict[str, int]:
    """Return how many of the `items` x `wanted` tasks each rater takes: an equal share, or the limit if it is lower."""
    capacity = {r.name: min(items, items if r.limit is None else r.limit - shared) for r in raters}
    loads = dict.fromkeys(sorted(capacity), 0)
    left, open_ = items * wanted, [name for name in loads if capacity[name] > 0]
    while left:
        share, remainder = divmod(left, len(open_))
        if share == 0:
            for name in rng.sample(open_, remainder):
                loads[name] += 1
            break
        step = min(share, *(capacity[name] - loads[name] for name in open_)) if open_ else 0
        for name in open_:
            loads[name] += step
        left -= step * len(open_)
        open_ = [name for name in open_ if loads[name] < capacity[name]]
    return loads


def _check(
    items: Sequence[str],
    raters: Sequence[Rater],
    *,
    per_item: int | None,
    quotas: Mapping[str, int] | None,
    shared: int,
    audit: float,
) -> None:
    for kind, names in (("item", list(items)), ("rater", [rater.name for rater in raters])):
        if not names:
            raise InputError(f"{kind}s: a plan needs at least one {kind}")
        if len(set(names)) < len(names):
            duplicate = next(name for name, n in Counter(names).items() if n > 1)
            raise InputError(f"{kind}s: duplicate {kind} {duplicate!r}; name each once")
    if (per_item is None) == (not quotas):
        raise InputError("set either per_item, or quotas by group")
    numbers = {"per_item": per_item, **{f"quotas.{g}": n for g, n in (quotas or {}).items()}}
    if wrong := next((f"{name}={n}" for name, n in numbers.items() if n is not None and n < 1), None):
        raise InputError(f"{wrong}: must be at least 1")
    if not 0 <= shared <= len(items):
        raise InputError(f"must be from 0 to the number of items, {len(items)}", key="shared", value=shared)
    if not 0 <= audit <= 1:
        raise InputError("must be from 0 to 1", key="audit", value=audit)


def _check_group(name: str, raters: Sequence[Rater], *, items: int, wanted: int, shared: int) -> None:
    of_group, key = (f" of group {name}", f"quotas.{name}={wanted}") if name else ("", f"per_item={wanted}")
    if wanted > len(raters):
        raise InputError(
            f"{key}: each item needs {wanted} different raters{of_group}; there are {len(raters)}; name more, or lower "
            "the number"
        )
    small = [rater for rater in raters if rater.limit is not None and rater.limit < shared]
    if small:
        why = f"rater {small[0].name!r}{of_group} takes at most {small[0].limit} tasks"
        raise InputError(why, key="shared", value=shared, remedy="lower shared=, or raise the rater's limit")
    # Gale and Ryser: if all items need equally many raters, a plan exists exactly if the raters can take all tasks and
    # none takes more tasks than there are items.
    capacity = sum(min(items, items if r.limit is None else r.limit - shared) for r in raters)
    if capacity < items * wanted:
        more = f" in addition to {shared} shared ones" if shared else ""
        raise InputError(
            f"{key}: {items:,} items x {wanted} raters{of_group} = {items * wanted:,} tasks{more}, but "
            f"{len(raters)} raters can take only {capacity:,}; name more raters, or raise their limits"
        )


def summary(plan: Sequence[Assignment], *, by_group: bool) -> Summary:
    """Return the loads and overlaps of a plan; with `by_group`, only raters of the same group count as pairs."""
    loads = Counter(task.rater for task in plan)
    items: dict[tuple[str, str], set[str]] = defaultdict(set)
    for task in plan:
        items[task.group if by_group else "", task.rater].add(task.item)
    pools: dict[str, list[set[str]]] = defaultdict(list)
    for (group, _), seen in items.items():
        pools[group].append(seen)
    overlaps = [len(a & b) for members in pools.values() for a, b in combinations(members, 2)]
    return Summary(
        tasks=len(plan),
        raters=len(loads),
        items=len({task.item for task in plan}),
        least=min(loads.values()),
        most=max(loads.values()),
        overlap_least=min(overlaps, default=None),
        overlap_median=median(overlaps) if overlaps else None,
        overlap_most=max(overlaps, default=None),
        audits=sum(task.audit for task in plan),
    )


def shuffled(items: Sequence[Any], *, seed: int, name: str) -> list[Any]:
    """Return `items` in a random order that depends on `name`."""
    order = list(items)
    _rng(seed, "order", name).shuffle(order)
    return order


def in_random_order(sets: Mapping[str, Sequence[Any]], *, seed: int, name: str) -> list[tuple[str, Any]]:
    """Return (set, member) of all sets in a random order that depends on `name`; members of a set stay together."""
    return [
        (label, member)
        for label in shuffled(sorted(sets), seed=seed, name=name)
        for member in shuffled(sets[label], seed=seed, name=f"{name}\x1f{label}")
    ]


def _rng(seed: int, *parts: str) -> random.Random:
    """Return the random generator of `seed` and `parts`; each rater has its own, so that others do not change it."""
    text = "\x1f".join([str(seed), *parts])
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))


RATER_COLUMN, LIMIT_COLUMN = "rater", "limit"
MOST_NUMBERED = 1000  # people without names; a larger number is probably a mistake


def read_raters(uri: str, *, group: str | None, limit: int | None, encoding: str | None = None) -> list[Rater]:
    """Return the raters, sorted by name.

    Args:
        uri: a file or table of raters, or a number of people.
        group: name of the column of groups.
        limit: maximum number of tasks for raters without their own limit.

    Raises:
        InputError: a column is missing, a name or group is empty, a limit is not a number, or a number of people has
            no groups or is too large.
    """
    if uri.isdigit():
        return _numbered(int(uri), group=group, limit=limit)
    files = [o.uri for o in locations.find(uri)]
    if len(files) == 1:
        header, rows = _rows_of_file(files[0], [RATER_COLUMN, *([group] if group else []), LIMIT_COLUMN], encoding)
    else:
        rows = [row for batch in open_table(uri, "raters").batches() for row in batch.to_pylist()]
        header = list(rows[0]) if rows else []
    for column in filter(None, [RATER_COLUMN, group]):
        if column not in header:
            why = f"no column {column}; its columns are {', '.join(header) or 'unknown, it has no rows'}"
            raise InputError(why, key="raters", value=uri)
    raters = []
    for row in rows:
        name = _text(row[RATER_COLUMN])
        if not name:
            raise InputError(f"column {RATER_COLUMN} is empty in a row; name every rater", key="raters", value=uri)
        group_name = _text(row[group]) if group else ""
        if group and not group_name:
            raise InputError(f"rater {name!r} has no {group}; every rater must have one", key="raters", value=uri)
        raters.append(Rater(name, group_name, _limit(uri, name, row.get(LIMIT_COLUMN), limit)))
    return sorted(raters, key=lambda rater: rater.name)


def _numbered(people: int, *, group: str | None, limit: int | None) -> list[Rater]:
    if not 1 <= people <= MOST_NUMBERED:
        raise InputError(f"a number of people is from 1 to {MOST_NUMBERED}", key="raters", value=people)
    if group:
        raise InputError(f"a number of people has no column {group}; name a file of raters", key="raters", value=people)
    return sorted((Rater(f"person_{n}", "", limit) for n in range(1, people + 1)), key=lambda rater: rater.name)


def _rows_of_file(
    uri: str, columns: Sequence[str], encoding: str | None
) -> tuple[Sequence[str], list[dict[str, str | None]]]:
    """Return the columns of a file, and those of `columns` that it has as texts; no columns if there are no rows."""
    header = user_tables.column_names(uri, encoding=encoding, encoding_key="raters_encoding")
    if not (present := [name for name in dict.fromkeys(columns) if name in header]):
        return header, []
    rows = [row for batch in user_tables.batches(uri, present, encoding=encoding) for row in batch.to_pylist()]
    return header if rows else [], rows


def _text(cell: object) -> str:
    return cell_text(cell) or ""


def _limit(uri: str, name: str, cell: object, default: int | None) -> int | None:
    if not _text(cell):
        return default
    try:
        number = int(_text(cell))
    except ValueError as error:
        raise InputError(f"limit {cell!r} of rater {name!r} is not a whole number", key="raters", value=uri) from error
    if number < 0:
        raise InputError(f"limit {number} of rater {name!r} must be at least 0", key="raters", value=uri)
    return number
