"""Sizes of pools and calls, groups of stages and the expected progress, without Ray."""

from typing import Any

from jobs.runtime import stages
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.runtime.stage_contract import Stage
from jobs.store.files.objects import Object
from jobs.store.units import Unit
from jobs.store.writer import UnitTask
from tests.cases import check_cases


def stage(pool: str, **keys: Any) -> Stage:
    return Stage(pool, object, {}, **keys)


def tasks(*rows: int | None, retry: tuple[str, ...] = ()) -> list[UnitTask]:
    return [UnitTask(Unit(f"u{n}", (), rows=count), 0, (), retry) for n, count in enumerate(rows)]


def test_a_call_has_a_batch_or_less_if_actors_would_have_nothing_to_do() -> None:
    def check(pool: dict[str, int], batches: int, rows: list[int | None], expected: int) -> None:
        assert stages.rows_per_call(StageResources(**pool), batches, rows) == expected

    check_cases(check, [
        ({"batch_size": 64}, 1, [8] * 9, 64), ({"batch_size": 64}, 3, [8] * 9, 192),
        ({"batch_size": 64, "actors": 2}, 1, [100] * 9, 64), ({"batch_size": 64, "actors": 2}, 1, [10] * 8, 10),
        ({"batch_size": 64, "actors": 2}, 1, [10, None], 64), ({"batch_size": 64, "actors": 2}, 1, [30, 1, 1], 30),
        ({"batch_size": 64, "max_actors": 4}, 1, [2] * 80, 10), ({"batch_size": 64, "actors": 2}, 1, [0, 0], 1),
    ])  # fmt: skip


def test_a_pool_grows_from_its_actors_and_gpus_are_asked_for_at_once() -> None:
    def check(pool: dict[str, float], expected: dict[str, int]) -> None:
        assert stages.pool_sizes(StageResources(**pool)) == expected  # type: ignore[arg-type]

    check_cases(check, [
        ({"actors": 3}, {"size": 3}), ({"actors": 3, "max_actors": 3}, {"size": 3}),
        ({"actors": 3, "max_actors": 2}, {"size": 3}),
        ({"actors": 2, "max_actors": 5}, {"min_size": 2, "max_size": 5, "initial_size": 2}),
        ({"actors": 2, "max_actors": 5, "num_gpus": 0.5}, {"min_size": 1, "max_size": 5, "initial_size": 5}),
    ])  # fmt: skip


def test_there_are_no_more_actors_than_units() -> None:
    pools = [
        stages._limit_actors(StageResources(actors=4, max_actors=most), units) for most in (8, None) for units in (2, 6)
    ]
    assert [(pool.actors, pool.max_actors) for pool in pools] == [(2, 2), (4, 6), (2, None), (4, None)]


def test_the_largest_units_are_first_and_equal_ones_in_order() -> None:
    sizes = {"a": (1,), "b": (5, 1), "c": (6,), "d": (9,)}
    units = [Unit(name, tuple(Object("", size, "") for size in of_unit)) for name, of_unit in sizes.items()]
    assert [task.unit.name for task in stages._largest_first([UnitTask(unit) for unit in units])] == list("dbca")


def test_the_rows_of_a_stage_are_unknown_after_one_that_varies_or_for_a_retry() -> None:
    chain = [stage("decode"), stage("judge", rows_out=3), stage("embed", rows_out=None), stage("link")]
    expected = stages.expected_progress(tasks(4, None, 6), chain)
    assert [(of_stage.name, of_stage.total) for of_stage in expected] == [
        ("decode", 10), ("judge", 30), ("embed", None), ("link", None)
    ]  # fmt: skip
    assert [of_stage.total for of_stage in stages.expected_progress(tasks(4, retry=("error",)), chain)] == [None] * 4


def test_single_actors_without_gpus_are_grouped() -> None:
    gpu = StageResources(num_gpus=1)
    resources = Resources(decode=StageResources(num_cpus=1), embed=StageResources(num_cpus=2, batch_size=5), judge=gpu)

    def groups(*pools: str) -> list[tuple[list[str], float, int]]:
        chain = [stage(pool) for pool in pools]
        return [
            ([one.pool for one in group], pool.num_cpus, pool.batch_size)
            for group, pool in stages.groups_of(chain, resources)
        ]

    assert groups("decode", "embed") == [(["decode", "embed"], 3, 5)]
    assert groups("decode", "judge", "embed") == [(["decode"], 1, 64), (["judge"], 0.3, 64), (["embed"], 2, 5)]
    assert groups("judge", "decode", "embed") == [(["judge"], 0.3, 64), (["decode", "embed"], 3, 5)]
    assert groups() == []
