"""Who is shown what, in which order: the assignment plan of a study with people. Pure functions of names and a seed.

Each thing to be judged goes to `per_item` different raters, or to as many of each group as its quota says; some
things, the shared ones, go to every rater, so that any two of a group have them in common. Loads are as equal as
raters' limits allow, who meets whom is random, and every rater has an order of their own. (Rome's study showed all
its raters the same sequence; hardly any picture was seen twice, and no agreement could be computed.)
"""

import hashlib
import heapq
import random
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import Any, NamedTuple

CANDIDATES = 64  # of equal raters, how many are compared by whom they have met; 100,000 tasks take 17 s


class PlanError(ValueError):
    """A plan that cannot be; the sentence has the numbers."""


@dataclass(frozen=True)
class Rater:
    """A person who takes part: group (country, pool, …) and the most tasks they take, None for no limit."""

    name: str
    group: str = ""
    limit: int | None = None


class Assignment(NamedTuple):
    """One thing shown to one rater. `place` is its place in the rater's own order, from 1."""

    rater: str
    group: str
    place: int
    thing: str
    shared: bool  # every rater of the group sees it
    audit: bool  # drawn to be looked at again by the auditor


@dataclass(frozen=True)
class Summary:
    """What a plan amounts to: tasks and raters, the loads, and how many things pairs of one group share."""

    tasks: int
    raters: int
    things: int
    least: int
    most: int
    overlap_least: int | None  # None: no group has two raters
    overlap_median: float | None
    overlap_most: int | None
    audits: int


def assign(
    things: Sequence[str],
    raters: Sequence[Rater],
    *,
    seed: int,
    per_item: int | None = None,
    quotas: Mapping[str, int] | None = None,
    shared: int = 0,
    audit: float = 0.0,
) -> list[Assignment]:
    """Make the plan; the same arguments give the same plan, in any order of things and raters.

    Args:
        things: ids, each once.
        raters: names, each once.
        per_item: different raters a thing, from all groups together.
        quotas: instead of `per_item`, different raters a thing of each group; other groups take no part.
        shared: things that every rater sees (in each group, where there are quotas), drawn at random.
        audit: share of each rater's tasks that is drawn for an audit, in [0, 1]; at least one each if above 0.

    Returns:
        Tasks by rater, in each rater's order.

    Raises:
        PlanError: names that occur twice, shares that are none, or more tasks than there are raters for.
    """
    _check(things, raters, per_item=per_item, quotas=quotas, shared=shared, audit=audit)
    ordered = sorted(things)
    of_all = sorted(_rng(seed, "shared").sample(ordered, shared))
    rest = [thing for thing in ordered if thing not in set(of_all)]
    groups = {name: [r for r in raters if r.group == name] for name in quotas} if quotas else {"": list(raters)}
    seen: dict[str, list[str]] = defaultdict(list)
    for name, members in sorted(groups.items()):
        wanted = quotas[name] if quotas else (per_item or 0)
        _check_group(name, members, things=len(rest), wanted=wanted, shared=shared)
        for rater, found in _spread(rest, members, wanted, shared=shared, rng=_rng(seed, "group", name)).items():
            seen[rater] += [*of_all, *found]
    by_name = {rater.name: rater for rater in raters}
    plan: list[Assignment] = []
    for name in sorted(seen):
        own = shuffled(sorted(seen[name]), seed=seed, name=name)
        drawn = _rng(seed, "audit", name).sample(own, min(len(own), max(1, round(audit * len(own))))) if audit else []
        again, common = set(drawn), set(of_all)
        plan += [
            Assignment(name, by_name[name].group, place, thing, thing in common, thing in again)
            for place, thing in enumerate(own, start=1)
        ]
    return plan


def _spread(
    things: Sequence[str], raters: Sequence[Rater], wanted: int, *, shared: int, rng: random.Random
) -> dict[str, list[str]]:
    """`wanted` different raters for each thing, loads as equal as the limits allow.

    Each rater has a number of tasks to fill (`_loads`); each thing, in random order, goes to the raters with most
    left to fill, which always works out if it can at all (Gale and Ryser, 1957). Of equals those go first who have
    met least so far, so that all pairs of raters come to share about as many things.
    """
    left = _loads(raters, len(things), wanted, shared=shared, rng=rng)
    found: dict[str, list[str]] = {rater.name: [] for rater in raters}
    met: Counter[tuple[str, str]] = Counter()
    order = list(things)
    rng.shuffle(order)
    for thing in order:
        lowest = heapq.nlargest(wanted, left.values())[-1]
        chosen = [name for name, tasks in left.items() if tasks > lowest]
        ties = [name for name, tasks in left.items() if tasks == lowest]
        for candidates in (rng.sample(ties, min(len(ties), CANDIDATES)) for _ in range(wanted - len(chosen))):
            free = [name for name in candidates if name not in chosen] or [n for n in ties if n not in chosen]
            chosen.append(min(free, key=lambda name: sum(met[name, other] for other in chosen)))
        for name in chosen:
            found[name].append(thing)
            left[name] -= 1
        met.update((a, b) for a in chosen for b in chosen if a != b)
    return found


def _loads(raters: Sequence[Rater], things: int, wanted: int, *, shared: int, rng: random.Random) -> dict[str, int]:
    """How many of `things` x `wanted` tasks each rater takes: all the same, or the limit if that is less."""
    room = {r.name: min(things, things if r.limit is None else r.limit - shared) for r in raters}
    loads = dict.fromkeys(sorted(room), 0)
    left, open_ = things * wanted, [name for name in loads if room[name] > 0]
    while left:
        each, over = divmod(left, len(open_))
        if each == 0:
            for name in rng.sample(open_, over):
                loads[name] += 1
            break
        step = min(each, *(room[name] - loads[name] for name in open_)) if open_ else 0
        for name in open_:
            loads[name] += step
        left -= step * len(open_)
        open_ = [name for name in open_ if loads[name] < room[name]]
    return loads


def _check(
    things: Sequence[str],
    raters: Sequence[Rater],
    *,
    per_item: int | None,
    quotas: Mapping[str, int] | None,
    shared: int,
    audit: float,
) -> None:
    for what, names in (("thing", list(things)), ("rater", [rater.name for rater in raters])):
        if not names:
            raise PlanError(f"there is no {what} to assign")
        if len(set(names)) < len(names):
            twice = next(name for name, n in Counter(names).items() if n > 1)
            raise PlanError(f"{what} {twice!r} is there twice")
    if (per_item is None) == (not quotas):
        raise PlanError("give either per_item or quotas by group")
    asked = {"per_item": per_item, **{f"quota of {g}": n for g, n in (quotas or {}).items()}}
    if wrong := next((f"{name} is {n}" for name, n in asked.items() if n is not None and n < 1), None):
        raise PlanError(f"{wrong}; at least 1 is needed")
    if not 0 <= shared <= len(things):
        raise PlanError(f"{shared} shared things are asked for, there are {len(things)} in all")
    if not 0 <= audit <= 1:
        raise PlanError(f"audit is {audit:g}; a share from 0 to 1 is needed")


def _check_group(name: str, raters: Sequence[Rater], *, things: int, wanted: int, shared: int) -> None:
    of = f" of group {name}" if name else ""
    if wanted > len(raters):
        raise PlanError(f"each thing needs {wanted} different raters{of}, there are {len(raters)}")
    small = [rater for rater in raters if rater.limit is not None and rater.limit < shared]
    if small:
        raise PlanError(f"rater {small[0].name!r} takes at most {small[0].limit} tasks, {shared} are shared by all{of}")
    # Gale and Ryser: with equally many raters a thing, it works out exactly if there is room for all tasks, where
    # nobody can take more tasks than there are things.
    room = sum(min(things, things if r.limit is None else r.limit - shared) for r in raters)
    if room < things * wanted:
        more = f" beside {shared} shared ones" if shared else ""
        raise PlanError(
            f"{things:,} things x {wanted} raters{of} are {things * wanted:,} tasks{more}; "
            f"{len(raters)} raters with their limits take {room:,}"
        )


def summary(plan: Sequence[Assignment], *, by_group: bool) -> Summary:
    """Loads and overlaps of a plan; with `by_group` only pairs of one group count as pairs."""
    loads = Counter(task.rater for task in plan)
    things: dict[tuple[str, str], set[str]] = defaultdict(set)
    for task in plan:
        things[task.group if by_group else "", task.rater].add(task.thing)
    pools: dict[str, list[set[str]]] = defaultdict(list)
    for (group, _), found in things.items():
        pools[group].append(found)
    overlaps = [len(a & b) for members in pools.values() for a, b in combinations(members, 2)]
    return Summary(
        tasks=len(plan),
        raters=len(loads),
        things=len({task.thing for task in plan}),
        least=min(loads.values()),
        most=max(loads.values()),
        overlap_least=min(overlaps, default=None),
        overlap_median=median(overlaps) if overlaps else None,
        overlap_most=max(overlaps, default=None),
        audits=sum(task.audit for task in plan),
    )


def shuffled(things: Sequence[Any], *, seed: int, name: str) -> list[Any]:
    """`things` in the order of `name`'s own."""
    own = list(things)
    _rng(seed, "order", name).shuffle(own)
    return own


def _rng(seed: int, *parts: str) -> random.Random:
    """A stream of its own for each purpose: a rater more or less does not change the others' order."""
    text = "\x1f".join([str(seed), *parts])
    return random.Random(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))
