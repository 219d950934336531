"""Plans: every quota is met, loads are equal, orders are random and reproducible, infeasible plans are refused."""

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.annotation.assignment import CANDIDATES, Assignment, Rater, assign, read_raters, summary
from jobs.errors import InputError
from tests.factories import write_file, write_table, write_units

ITEMS = [f"picture{number:03}" for number in range(60)]
TEN = [Rater(f"rater{number}") for number in range(10)]


def raters_of(plan: list[Assignment]) -> dict[str, set[str]]:
    raters = defaultdict(set)
    for task in plan:
        raters[task.item].add(task.rater)
    return raters


def order_of(plan: list[Assignment], rater: str) -> list[str]:
    return [task.item for task in sorted(plan, key=lambda t: t.place) if task.rater == rater]


def test_each_item_has_as_many_different_raters_and_loads_are_equal() -> None:
    plan = assign(ITEMS, TEN, seed=1, per_item=3)
    assert all(len(raters) == 3 for raters in raters_of(plan).values())
    assert len(plan) == len({(task.rater, task.item) for task in plan}) == 180
    assert set(Counter(task.rater for task in plan).values()) == {18}  # 60 x 3 / 10


def test_each_rater_has_a_random_order_with_places_from_1() -> None:
    # Rome, section 4.1.2: shown in sequence, hardly any picture was rated twice.
    plan = assign(ITEMS, TEN, seed=1, per_item=10)
    orders = [order_of(plan, rater.name) for rater in TEN]
    assert all(sorted(order) == ITEMS for order in orders)
    assert len(set(map(tuple, orders))) == 10
    assert ITEMS not in orders
    for rater in TEN:
        assert sorted(task.place for task in plan if task.rater == rater.name) == list(range(1, 61))


def test_the_plan_depends_on_the_seed_but_not_on_the_order_of_names() -> None:
    plan = assign(ITEMS, TEN, seed=1, per_item=3, shared=5, audit=0.1)
    assert plan == assign(ITEMS[::-1], TEN[::-1], seed=1, per_item=3, shared=5, audit=0.1)
    assert plan != assign(ITEMS, TEN, seed=2, per_item=3, shared=5, audit=0.1)


def test_shared_items_are_common_to_any_two_raters() -> None:
    plan = assign(ITEMS, TEN, seed=1, per_item=1, shared=7)
    shared = {task.item for task in plan if task.shared}
    assert len(shared) == 7
    assert all(len(raters) == (10 if item in shared else 1) for item, raters in raters_of(plan).items())
    overlaps = summary(plan, by_group=False)
    assert (overlaps.overlap_least, overlaps.overlap_most) == (7, 7)
    assert (overlaps.tasks, overlaps.raters, overlaps.items, overlaps.audits) == (7 * 10 + 53, 10, 60, 0)
    raters = [Rater("a", "x"), Rater("b", "y")]
    apart = assign(["i", "j"], raters, seed=1, quotas={"x": 1, "y": 1}, audit=0.5)
    pairs = [summary(apart, by_group=by_group) for by_group in (True, False)]
    assert [(p.overlap_least, p.overlap_median, p.overlap_most) for p in pairs] == [(None, None, None), (2, 2, 2)]
    assert [(p.tasks, p.items, p.least, p.most, p.audits) for p in pairs] == [(4, 2, 2, 2, 2)] * 2


def test_partners_change_so_that_pairs_overlap() -> None:
    # 3 of 10 raters per item: a pair shares 60 x (3/10 x 2/9) = 4 on average; a fixed rotation would leave pairs at 0.
    # 2 of 6 raters share 60 x (2/6 x 1/5) = 4 as well.
    for raters, per_item in ((TEN, 3), (TEN[:6], 2)):
        for seed in range(3):
            overlaps = summary(assign(ITEMS, raters, seed=seed, per_item=per_item), by_group=False)
            least, most = overlaps.overlap_least or 0, overlaps.overlap_most or 0
            assert (overlaps.overlap_median, least >= 3, most <= 5) == (4, True, True), (per_item, seed)


def test_pairs_that_share_a_large_set_share_fewer_small_ones() -> None:
    # 10 sets of 8 items and 50 of one: a pair shares 130 x (3/10 x 2/9) = 8.7 items on average.
    together = {f"{name}/{n}": name for number, name in enumerate(ITEMS) for n in range(1 if number % 6 else 8)}
    for seed in range(3):
        overlaps = summary(assign(list(together), TEN, seed=seed, per_item=3, together=together), by_group=False)
        assert overlaps.overlap_least is not None
        assert overlaps.overlap_least >= 5


def test_more_raters_than_are_compared_see_every_item() -> None:
    raters = [Rater(f"rater{number}") for number in range(CANDIDATES + 36)]
    assert len(assign(ITEMS[:5], raters, seed=1, per_item=len(raters))) == 5 * len(raters)


def test_quotas_by_group_as_in_caire() -> None:
    countries = ["China", "India", "Brazil"]
    raters = [Rater(f"{country}{number}", country) for country in countries for number in range(20)]
    plan = assign(ITEMS[:40], raters, seed=3, quotas=dict.fromkeys(countries, 20))
    assert len(plan) == 40 * 60
    for country in countries:
        assert all(n == 20 for n in Counter(t.item for t in plan if t.group == country).values())
    assert {t.group for t in assign(ITEMS, raters, seed=3, quotas={"India": 2})} == {"India"}


def test_the_audit_is_a_share_of_each_rater() -> None:
    plan = assign(ITEMS, TEN, seed=1, per_item=3, audit=0.1)
    assert Counter(task.rater for task in plan if task.audit) == {rater.name: 2 for rater in TEN}  # 0.1 x 18
    assert not any(task.audit for task in assign(ITEMS, TEN, seed=1, per_item=3))
    plan = assign(ITEMS, TEN, seed=1, per_item=3, audit=0.01)  # 0.18 of a task, and at least one
    assert Counter(task.rater for task in plan if task.audit) == {rater.name: 1 for rater in TEN}
    plan = assign(ITEMS[:2], [Rater("none", limit=0), *TEN[:1]], seed=1, per_item=1, audit=0.1)
    assert Counter(task.rater for task in plan if task.audit) == {"rater0": 1}


def test_limits_are_kept_and_the_others_take_more() -> None:
    raters = [Rater("busy", limit=4), *TEN]
    plan = assign(ITEMS, raters, seed=1, per_item=2)
    loads = Counter(task.rater for task in plan)
    assert loads.pop("busy") == 4
    assert max(loads.values()) - min(loads.values()) <= 1
    # Items in random order: those that come last, when a limited rater takes part, have no names in common.
    plans = [assign(ITEMS, raters, seed=seed, per_item=2) for seed in range(10)]
    firsts = {task.item for plan in plans for task in plan if task.rater == "busy"} & set(ITEMS[:30])
    assert len(firsts) > 5


def test_sets_stay_with_their_raters_one_item_after_another() -> None:
    # Sets of 1 to 4 items, as DOCENT's descriptions of a picture: 150 items in 60 sets.
    together = {f"{picture}/{n}": picture for number, picture in enumerate(ITEMS) for n in range(number % 4 + 1)}
    plan = assign(list(together), TEN, seed=1, per_item=3, shared=2, audit=0.1, together=together)
    raters = raters_of(plan)
    shared = {together[task.item] for task in plan if task.shared}
    audited = {(task.rater, together[task.item]) for task in plan if task.audit}
    assert len(shared) == 2
    for item, label in together.items():
        assert raters[item] == raters[f"{label}/0"]
        assert len(raters[item]) == (10 if label in shared else 3)
    for rater in TEN:
        order = [together[item] for item in order_of(plan, rater.name)]
        runs = [label for place, label in enumerate(order) if place == 0 or label != order[place - 1]]
        assert len(runs) == len(set(runs))
        assert sum(name == rater.name for name, _ in audited) == max(1, round(0.1 * len(runs)))
    assert all(task.audit == ((task.rater, together[task.item]) in audited) for task in plan)
    loads = Counter(task.rater for task in plan)
    assert max(loads.values()) - min(loads.values()) <= 4  # the largest set
    assert len({order_of(plan, task.rater).index(task.item) for task in plan if task.item == f"{min(shared)}/0"}) > 1


def test_a_set_goes_only_to_raters_with_room_for_all_of_it() -> None:
    together = {f"{picture}/{n}": picture for picture in ITEMS[:6] for n in range(4)}
    raters = [Rater("small", limit=5), Rater("none", limit=3), Rater("large")]
    loads = Counter(task.rater for task in assign(list(together), raters, seed=1, per_item=1, together=together))
    assert loads == {"small": 4, "large": 20}
    with pytest.raises(InputError, match="a set of 4 items needs 2 different raters; 1 "):
        assign(
            list(together),
            [Rater("a", limit=23), Rater("large"), Rater("none", limit=3)],
            seed=1,
            per_item=2,
            together=together,
        )


def test_the_tasks_of_sets_are_counted_by_item() -> None:
    sizes = {"a": 3, "b": 1, "c": 2}
    together = {f"{name}/{n}": name for name, size in sizes.items() for n in range(size)}
    for seed in range(10):
        plan = assign(list(together), TEN[:4], seed=seed, per_item=2, together=together)
        assert list(Counter(task.rater for task in plan).values()) == [3] * 4, seed


INFEASIBLE: list[tuple[dict[str, Any], str]] = [
    ({"per_item": 11}, "per_item=11: each item needs 11 different raters; there are 10"),
    ({"quotas": {"China": 2}}, "quotas.China=2: each item needs 2 different raters of group China; there are 0"),
    ({"per_item": 3, "shared": 61}, "shared=61: .* 60"),
    ({"per_item": 3, "shared": -1}, "shared=-1: .* 60"),
    ({"per_item": 3, "shared": 3, "together": {item: item[:-2] for item in ITEMS}}, "shared=3: .* sets, 1$"),
    ({"per_item": 0}, "per_item=0: "),
    ({"quotas": {"China": 2, "India": 0}}, r"quotas\.India=0: "),
    ({"per_item": 3, "audit": 1.5}, "audit=1.5: "),
    ({"per_item": 3, "audit": -0.1}, "audit=-0.1: "),
    ({}, "set either per_item, or quotas by group"),
    ({"per_item": 3, "quotas": {"": 2}}, "set either per_item, or quotas by group"),
    ({"per_item": 1, "items": []}, "items: .* at least one item"),
    ({"per_item": 1, "raters": []}, "raters: .* at least one rater"),
    ({"per_item": 1, "items": ["b", "a", "a"]}, "items: duplicate item 'a'"),
]


def test_shared_items_count_for_the_limit() -> None:
    together = {f"i{number}": f"set{number // 2}" for number in range(8)}  # four sets of two items
    for seed in range(20):
        plan = assign(list(together), [Rater("a", limit=5), Rater("b")], seed=seed, per_item=1, shared=1,
                      together=together)  # fmt: skip
        loads = Counter(task.rater for task in plan)
        assert loads == {"a": 4, "b": 6}, seed
    for limits, items, shared, expected in (
        ((1, 4, 4), 5, 1, [1, 3, 3]), ((2, None, 2, None), 4, 2, [2, 3, 2, 3])
    ):  # fmt: skip
        raters = [Rater(f"r{number}", limit=limit) for number, limit in enumerate(limits)]
        for seed in range(10):
            plan = assign(ITEMS[:items], raters, seed=seed, per_item=1, shared=shared)
            assert [sum(task.rater == rater.name for task in plan) for rater in raters] == expected, seed


def test_an_infeasible_plan_is_refused_with_its_numbers() -> None:
    misses = []
    for kwargs, pattern in INFEASIBLE:
        try:
            assign(**{"items": ITEMS, "raters": TEN, "seed": 1, **kwargs})
        except InputError as error:
            if not re.search(pattern, str(error)):
                misses.append((pattern, str(error)))
        else:
            misses.append((pattern, "no error"))
    assert misses == []


def test_limits_that_are_too_low_are_refused_with_their_numbers() -> None:
    tight = [Rater(f"rater{number}", limit=17) for number in range(10)]
    with pytest.raises(InputError, match=r"60 items x 3 raters = 180 tasks, but .* take only 170"):
        assign(ITEMS, tight, seed=1, per_item=3)
    with pytest.raises(InputError, match=r"shared=18: .* at most 17 tasks"):
        assign(ITEMS, tight, seed=1, per_item=1, shared=18)
    with pytest.raises(InputError, match="duplicate rater 'a'"):
        assign(ITEMS, [Rater("a"), Rater("a")], seed=1, per_item=1)


@settings(max_examples=40, deadline=None)
@given(
    items=st.integers(1, 25),
    limits=st.lists(st.none() | st.integers(0, 30), min_size=1, max_size=8),
    per_item=st.integers(1, 5),
    shared=st.integers(0, 4),
    seed=st.integers(0, 1000),
)
def test_any_plan_is_complete_or_refused(
    items: int, limits: list[int | None], per_item: int, shared: int, seed: int
) -> None:
    raters = [Rater(f"r{number}", limit=limit) for number, limit in enumerate(limits)]
    names = [f"t{number}" for number in range(items)]
    try:
        plan = assign(names, raters, seed=seed, per_item=per_item, shared=shared)
    except InputError:
        return
    loads = Counter(task.rater for task in plan)
    assert all(rater.limit is None or loads[rater.name] <= rater.limit for rater in raters)
    raters_by_item = raters_of(plan)
    common = {task.item for task in plan if task.shared}
    assert len(common) == shared
    assert all(len(raters_by_item[name]) == (len(raters) if name in common else per_item) for name in names)
    # Equal loads: nobody has two more than somebody whose limit leaves room for another task.
    spare = [r.name for r in raters if (r.limit is None or loads[r.name] < r.limit) and loads[r.name] < items]
    assert not spare or max(loads.values(), default=0) - min(loads[name] for name in spare) <= 1


def test_a_plan_with_sets_does_not_depend_on_the_order_of_items() -> None:
    together = {item: f"set {number // 3}" for number, item in enumerate(ITEMS)}
    plans = [assign(items, TEN, seed=1, per_item=2, together=together) for items in (ITEMS, ITEMS[::-1])]
    assert plans[0] == plans[1]


def test_a_plan_is_frozen() -> None:
    """Frozen: a study that continues, or is planned again, must show each person the same items in the same order."""
    plan = assign(list("abcdef"), [Rater(name) for name in "xyz"], seed=7, per_item=1, shared=1, audit=0.5)
    words = [task.rater + task.item + "*" * task.shared + "!" * task.audit for task in plan]
    assert " ".join(words) == "xc! xb* yb* yf! yd! ze! zb*! za"


def test_all_items_may_be_shared_up_to_the_limits_of_the_raters() -> None:
    plan = assign(["a", "b"], [Rater("x", limit=2), Rater("y")], seed=1, per_item=1, shared=2)
    assert sorted((task.rater, task.item, task.shared) for task in plan) == [
        (rater, item, True) for rater in "xy" for item in "ab"
    ]
    with pytest.raises(InputError, match=r"^shared=2: rater 'x' takes at most 1 tasks"):
        assign(["a", "b"], [Rater("x", limit=1), Rater("y")], seed=1, per_item=1, shared=2)
    with pytest.raises(InputError, match=r"^shared=3: must be from 0 to the number of items, 2"):
        assign(["a", "b"], [Rater("x")], seed=1, per_item=1, shared=3)
    sets = {"a": "s", "b": "s"}
    with pytest.raises(InputError, match=r"^shared=2: must be from 0 to the number of sets, 1"):
        assign(["a", "b"], [Rater("x")], seed=1, per_item=1, shared=2, together=sets)


ROWS = [
    {"rater": " zoe ", "country": "Mali", "limit": "0"},
    {"rater": "ada", "country": "Peru", "limit": " "},
    {"rater": "bo", "country": "Peru", "limit": "12"},
]


def test_raters_have_their_own_limits_or_that_of_all(tmp_path: Path) -> None:
    csv, parquet = tmp_path / "raters.csv", tmp_path / "raters.parquet"
    csv.write_text("country,limit,rater\n" + "".join(f"{r['country']},{r['limit']},{r['rater']}\n" for r in ROWS))
    pq.write_table(pa.Table.from_pylist(ROWS), parquet)
    expected = [Rater("ada", "Peru", 7), Rater("bo", "Peru", 12), Rater("zoe", "Mali", 0)]  # 0: takes no part
    for file in (csv, parquet):
        assert read_raters(str(file), group="country", limit=7) == expected
        assert [rater.limit for rater in read_raters(str(file), group=None, limit=None)] == [None, 12, 0]
        assert {rater.group for rater in read_raters(str(file), group=None, limit=None)} == {""}
    rows = [{"rater": name, "kind": "person", "country": "Peru"} for name in ("bo", "ada")]
    table = write_table(tmp_path / "people", "raters", rows)
    assert read_raters(table, group="country", limit=3) == [Rater("ada", "Peru", 3), Rater("bo", "Peru", 3)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("ada,Peru,-1", "limit -1 of rater 'ada' must be at least 0"),
        ("ada,Peru,1.5", "limit '1.5' of rater 'ada' is not a whole number"),
        ("ada, ,1", "rater 'ada' has no country"),
        (" ,Peru,1", "column rater is empty"),
    ],
)
def test_wrong_rows_are_refused(tmp_path: Path, row: str, message: str) -> None:
    (tmp_path / "raters.csv").write_text(f"rater,country,limit\n{row}\n")
    with pytest.raises(InputError, match=f"raters=.*{message}"):
        read_raters(str(tmp_path / "raters.csv"), group="country", limit=None)


def test_numbers_of_a_parquet_file_are_names_groups_and_limits(tmp_path: Path) -> None:
    """A column of whole numbers in which some are missing holds floats."""
    path = tmp_path / "raters.parquet"
    pq.write_table(pa.table({"rater": [0, 1, 2], "pool": [1, 0, 0], "limit": [12.0, None, 0.0]}), path)
    raters = [Rater("0", "1", 12), Rater("1", "0", 7), Rater("2", "0", 0)]
    assert read_raters(str(path), group="pool", limit=7) == raters
    pq.write_table(pa.table({"rater": [0], "limit": [1.5]}), path)
    with pytest.raises(InputError, match=r"limit '1\.5' of rater '0' is not a whole number"):
        read_raters(str(path), group=None, limit=None)


def test_files_without_names_or_groups_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"who": ["ada"], "country": ["Peru"]}), tmp_path / "unnamed.parquet")
    pq.write_table(pa.table({"rater": pa.array([], pa.string())}), tmp_path / "empty.parquet")
    pq.write_table(pa.table({"rater": ["ada"]}), tmp_path / "ungrouped.parquet")
    (tmp_path / "damaged.parquet").write_bytes((tmp_path / "ungrouped.parquet").read_bytes()[:-9])
    cases = [
        ("unnamed", r"raters=.*unnamed\.parquet: no column rater; its columns are who, country$"),
        ("empty", r"no column rater; its columns are unknown, it has no rows$"),
        ("ungrouped", r"no column country; its columns are rater$"),
        ("damaged", r"damaged\.parquet: not a readable Parquet file"),
    ]
    table = write_table(tmp_path / "nobody", "raters", [])
    with pytest.raises(InputError, match=r"raters=.*nobody: no column rater; its columns are unknown, it has no rows$"):
        read_raters(table, group=None, limit=None)
    for name, message in cases:
        with pytest.raises(InputError, match=message):
            read_raters(f"{tmp_path}/{name}.parquet", group="country", limit=None)
    (tmp_path / "latin.csv").write_bytes("rater\nZo\u00eb\n".encode("latin-1"))
    assert read_raters(f"{tmp_path}/latin.csv", group=None, limit=2, encoding="latin-1") == [Rater("Zo\u00eb", "", 2)]


def test_a_table_of_several_files_and_a_single_file_of_any_folder_are_read(tmp_path: Path) -> None:
    rows = [{"rater": name, "kind": "person"} for name in ("bo", "ada")]
    written = write_units(tmp_path / "people", "raters", [rows[:1], rows[1:]])
    for number, row in enumerate(rows):
        part = write_file(tmp_path / f"part{number}", "raters", [row])
        (tmp_path / "parts").mkdir(exist_ok=True)
        (Path(part) / "part.parquet").rename(tmp_path / "parts" / f"{number}.parquet")
    for table in (written, str(tmp_path / "parts")):
        assert [rater.name for rater in read_raters(table, group=None, limit=1)] == ["ada", "bo"]
    (tmp_path / "_run").mkdir()
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "_run" / "RATERS.PARQUET")
    for uri in (f"{tmp_path}/_run", f"{tmp_path}/_run/", f"{tmp_path}/_run/RATERS.PARQUET"):
        assert [rater.limit for rater in read_raters(uri, group=None, limit=1)] == [1, 12, 0]
