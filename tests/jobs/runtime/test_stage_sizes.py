"""Sizes of pools and calls, groups of stages and the expected progress, without Ray."""

from types import SimpleNamespace
from typing import Any

from ray.data import TaskPoolStrategy

from actors.devices import GPU_SHARE
from jobs.runtime import stages
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.runtime.stage_contract import Stage
from jobs.runtime.stage_workers import StageChain
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


def mapped(*, one_machine: bool, **pool: Any) -> dict[str, Any]:
    """Return what Ray Data gets for a pool: the name of the operator, and its options."""
    data: Any = SimpleNamespace(map_batches=lambda runner, **options: {"runner": runner, **options})
    arguments: dict[str, Any] = {"board": SimpleNamespace(run="r")}
    result: Any = stages._map(
        data, "judge", StageChain, arguments, StageResources(**pool), batch_size=5, one_machine=one_machine
    )
    assert (result["batch_format"], result["batch_size"]) == ("pyarrow", 5)
    return dict(result)


def test_actors_have_the_resources_of_their_pool_and_are_started_again() -> None:
    pool: dict[str, Any] = {"actors": 2, "num_cpus": 0.7, "num_gpus": 0.5, "memory_gb": 1.5, "max_in_flight": 3}
    shared = mapped(one_machine=True, max_actors=4, **pool)
    assert (shared["runner"].__name__, shared["runner"].__mro__[1]) == ("judge", StageChain)
    assert shared["fn_constructor_kwargs"] == {"board": SimpleNamespace(run="r")}
    assert (shared["num_cpus"], shared["num_gpus"], shared["memory"]) == (0.7, 0.5, 1.5 * 2**30)
    assert shared["runtime_env"] == {"env_vars": {GPU_SHARE: "0.5"}}
    assert (shared["max_restarts"], shared["max_task_retries"]) == (-1, -1)
    actors = shared["compute"]
    assert (actors.min_size, actors.max_size, actors.initial_size) == (1, 4, 4)
    assert actors.max_tasks_in_flight_per_actor == 3
    for gpus in (0, 1):
        whole = mapped(one_machine=True, actors=2, num_gpus=gpus)
        assert (whole["num_gpus"], whole["memory"], "runtime_env" in whole) == (gpus or None, None, False)


def test_a_single_actor_is_a_task_on_one_machine_only() -> None:
    task = mapped(one_machine=True, num_cpus=0.7, memory_gb=1.5)
    assert type(task["runner"]).__name__ == "judge"
    assert task["compute"] == TaskPoolStrategy(size=1)
    assert (task["num_cpus"], task["memory"], task["max_retries"]) == (0.7, 1.5 * 2**30, -1)
    assert task["runtime_env"]["env_vars"]
    assert mapped(one_machine=True)["memory"] is None
    for changes in ({"one_machine": False}, {"one_machine": True, "num_gpus": 1}, {"one_machine": True, "actors": 2}):
        assert "fn_constructor_kwargs" in mapped(**changes)


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
