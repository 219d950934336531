"""Resources that could never be available are refused before anything starts, with the sum in the message."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.embed import EmbedConfig
from jobs.errors import InputError
from jobs.mine import MineConfig
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration import config
from jobs.runtime.configuration.resources import (
    Demand,
    NodeType,
    RayConfig,
    Resources,
    StageResources,
    TaskResources,
    _fits,
    check,
    check_machines,
    demands,
    preflight,
    startable,
)
from jobs.runtime.stages import Stage, _limit_actors, expected_progress, groups_of, pool_sizes, rows_per_call
from jobs.store.units import Unit
from jobs.store.writer import UnitTask
from tests.cases import check_cases

ASKED = [Demand("read", 1, 0.5, 0), Demand("embed", 2, 1.0, 1.0), Demand("write", 1, 0.5, 0)]


def test_demands_are_the_pools_and_one_task_each_of_read_and_write() -> None:
    resources = Resources(embed=StageResources(actors=2, num_cpus=1.5, num_gpus=0.5))
    assert [(d.stage, d.count, d.num_cpus, d.num_gpus) for d in demands(resources, ["embed"], streamed=True)] == [
        ("read", 1, 0.25, 0),
        ("embed", 2, 1.5, 0.5),
        ("write", 1, 0.25, 0),
    ]
    assert [d.stage for d in demands(resources, ["mine"], streamed=False)] == ["mine"]
    tasks = Resources(read=TaskResources(0.75), write=TaskResources(0.5))
    assert [d.num_cpus for d in demands(tasks, [], streamed=True)] == [0.75, 0.5]


def test_what_fits_exactly_passes() -> None:
    preflight(ASKED, {"CPU": 3.0, "GPU": 2.0, "memory": 1.0}, autoscaling=False)
    thirds = [Demand("x", 1, 0.1, 0), Demand("y", 2, 0.1, 0)]  # 0.30000000000000004 in floats
    preflight(thirds, {"CPU": 0.3}, autoscaling=False)
    assert str(ASKED[1]) == "embed 2 x 1 CPU + 1 GPU"


def test_what_does_not_fit_is_refused_with_the_sum() -> None:
    cases = [
        (
            {"CPU": 2.0, "GPU": 2.0},
            r"^resources\.embed\.actors=2: this run needs 3 CPUs \(read 1 x 0.5 CPU, embed 2 x 1 CPU \+ 1 GPU, .*\) "
            "and the cluster has 2;",
        ),
        (
            {"CPU": 8.0, "GPU": 1.0},
            r"^resources\.embed\.actors=2: this run needs 2 GPUs \(embed 2 x 1 CPU \+ 1 GPU\) and the cluster has 1; "
            r"use resources=laptop, or lower resources\.embed\.actors or resources\.embed\.num_gpus$",
        ),
        (
            {"CPU": 2.0, "GPU": 1.0},
            r"the cluster has 2; .* resources\.STAGE\.actors or resources\.STAGE\.num_cpus of read, embed, write$",
        ),
        (
            {"CPU": 8.0},
            r"^resources\.embed\.num_gpus=1: this run needs 2 GPUs .* the cluster has 0; .* use resources=cluster",
        ),
        ({"CPU": 0.0}, "needs 3 CPUs .* the cluster has 0; .* use resources=cluster"),
    ]

    def check_case(available: dict[str, float], message: str) -> None:
        with pytest.raises(InputError, match=message):
            preflight(ASKED, available, autoscaling=False)
        with pytest.raises(InputError, match=r"this machine has .; use resources=laptop"):  # it does not grow
            preflight(ASKED, available, autoscaling=False, place="this machine")

    check_cases(check_case, cases)


def test_the_key_to_lower_is_actors_if_there_are_several() -> None:
    """Of a single actor that would fit alone it is its share; two stages are both named."""
    needs = [Demand("mine", 1, 1.5, 0), Demand("kb", 1, 1, 0)]
    for message in (
        r"^resources\.mine\.num_cpus=1\.5: this run needs 2\.5 CPUs ",
        r"resources\.STAGE\.num_cpus of mine, kb$",
    ):
        with pytest.raises(InputError, match=message):
            preflight(needs, {"CPU": 2.0}, autoscaling=False)


def test_every_value_of_every_pool_has_a_least() -> None:
    least = {"actors": 1, "max_actors": 1, "num_cpus": 0, "num_gpus": 0, "memory_gb": 0, "batch_size": 1,
             "max_in_flight": 1, "threads": 1, "row_timeout_s": 1}  # fmt: skip
    for key, value in least.items():
        pool: Any = {key: value}
        check(Resources(link=StageResources(**pool), mine=StageResources(**pool)))
        pool = {key: value - 0.5}
        with pytest.raises(InputError, match=rf"^resources\.link\.{key}={value - 0.5:g}: must be at least {value}$"):
            check(Resources(link=StageResources(**pool)))
    for name in ("read", "write"):
        tasks: Any = {name: TaskResources(-0.5)}
        with pytest.raises(InputError, match=rf"^resources\.{name}\.num_cpus=-0\.5: must be at least 0$"):
            check(Resources(**tasks))


def test_machines_of_a_kind_are_described_once() -> None:
    machines = [{"CPU": 8.0, "memory": 64.0 * 2**30}, {"CPU": 4.0}, {"CPU": 8.0, "memory": 64.0 * 2**30}, {}]
    with pytest.raises(InputError, match=r"\(available or startable: 4 CPU; 8 CPU \+ 64 GiB; nothing\)"):
        check_machines([Demand("embed", 1, 9, 0)], machines)


def test_a_pool_grows_to_the_larger_of_its_sizes() -> None:
    sizes = {(1, None): 1, (4, None): 4, (4, 2): 4, (2, 8): 8}
    pools = {key: StageResources(actors=key[0], max_actors=key[1]) for key in sizes}
    assert {key: pool.most_actors for key, pool in pools.items()} == sizes
    assert [key for key, pool in pools.items() if pool.is_single] == [(1, None)]
    assert not StageResources(num_gpus=0.5).is_single


def test_a_machine_without_a_cluster_does_not_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray_session, "_is_up", lambda: False)
    monkeypatch.setattr("jobs.runtime.cluster.ray_internals.machine_resources", lambda _: {"CPU": 2.0, "GPU": 0.0})
    with pytest.raises(InputError, match=r"resources=laptop, name a cluster with ray\.address= or \$RAY_ADDRESS"):
        ray_session.start(RayConfig(), Resources(autoscaling=True), ASKED)


def test_a_cluster_that_grows_is_waited_for() -> None:
    preflight(ASKED, {}, autoscaling=True)
    with pytest.raises(InputError, match=r"^resources\.embed\.actors=0: must be at least 1"):
        preflight([Demand("embed", 0, 1, 1)], {"CPU": 8}, autoscaling=True)


def test_every_job_fits_one_core_on_a_laptop_and_gpu_node_does_not() -> None:
    arguments = ["input=i", "out=o"]
    laptop = config.load("embed", EmbedConfig, arguments).resources
    for stages in (["fetch"], ["decode", "embed"], ["decode", "judge"]):
        preflight(demands(laptop, stages, streamed=True), {"CPU": 1.0}, autoscaling=laptop.autoscaling)
    for stage in ("mine", "search", "judge", "kb", "link"):
        preflight(demands(laptop, [stage], streamed=False), {"CPU": 1.0}, autoscaling=laptop.autoscaling)
    node = config.load("embed", EmbedConfig, [*arguments, "resources=gpu-node"]).resources
    with pytest.raises(InputError, match="needs 1 GPU "):
        preflight(demands(node, ["embed"], streamed=True), {"CPU": 64.0}, autoscaling=node.autoscaling)
    assert config.load(
        "mine", MineConfig, ["corpus.path=c", "terms.path=t", "out=o", "resources=cluster"]
    ).resources.autoscaling


def test_one_actor_must_fit_one_machine() -> None:
    small, large = {"CPU": 16.0}, {"CPU": 8.0, "GPU": 1.0, "memory": 64.0 * 2**30}
    check_machines(ASKED, [small, large])
    check_machines([Demand("judge", 1, 1, 2)], [])  # nothing is known of them
    gpus = r"^resources\.judge\.num_gpus=2: no machine .* 16 CPU; 8 CPU \+ 1 GPU"
    both = r"^resources\.search\.num_cpus=12 and resources\.search\.num_gpus=1: no machine"
    refused = {gpus: Demand("judge", 1, 1, 2), both: Demand("search", 1, 12, 1)}
    refused["memory_gb=80"] = Demand("embed", 1, 1, 1, 80)
    for message, demand in refused.items():
        with pytest.raises(InputError, match=message):
            check_machines([demand], [small, large])
    (need,) = demands(Resources(search=StageResources(memory_gb=20)), ["search"], streamed=False)
    assert need.bundle["memory"] == 20 * 2**30


def test_what_fits_a_machine_exactly_fits() -> None:
    """0.1 + 0.2 CPUs are more than 0.3 in floats; memory is checked where a machine has some."""
    machine = {"CPU": 0.3, "GPU": 1.0, "memory": 2.0 * 2**30}
    cases = {
        Demand("embed", 1, 0.1 + 0.2, 1, 2): True,
        Demand("embed", 1, 0.31, 0): False,
        Demand("embed", 1, 0.3, 1.01): False,
        Demand("embed", 1, 0.3, 0, 2.01): False,
        Demand("embed", 1, 0, 0): True,
    }
    assert {need: _fits(need.bundle, machine) for need in cases} == cases
    large = Demand("embed", 1, 0.3, 1, 64)
    assert _fits(large.bundle, {"CPU": 1.0, "GPU": 1.0})
    assert not _fits(large.bundle, {"CPU": 1.0, "GPU": 1.0, "memory": 0.0})
    assert not _fits(large.bundle, {"CPU": 1.0})


def test_gpu_pools_ask_for_all_their_actors_at_once_and_need_one() -> None:
    resources = config.load("embed", EmbedConfig, ["input=i", "out=o", "resources=cluster"]).resources
    for pool in (resources.embed, resources.judge):
        assert pool_sizes(pool) == {"min_size": 1, "max_size": 8, "initial_size": 8}
    assert pool_sizes(resources.decode) == {"min_size": 4, "max_size": 64, "initial_size": 4}
    assert pool_sizes(StageResources(actors=2, num_gpus=1)) == {"size": 2}


def test_a_call_has_no_units_that_other_actors_wait_for() -> None:
    gpus = StageResources(actors=8, num_gpus=1, batch_size=256)
    assert rows_per_call(gpus, 1, [256] * 100) == 256
    assert rows_per_call(gpus, 8, [256] * 1000) == 8 * 256
    assert rows_per_call(gpus, 8, [256] * 64) == 2 * 256  # four calls for each
    assert rows_per_call(gpus, 8, [16, 17] * 18) == 18  # in Ray, a call of 256 rows would be 15 units
    assert rows_per_call(gpus, 8, [300]) == 300
    assert rows_per_call(gpus, 8, [None, 3]) == 8 * 256
    assert rows_per_call(StageResources(batch_size=64), 2, [3] * 9) == 128


def test_a_pool_has_no_more_actors_than_units() -> None:
    cases = {
        (8, None, 3): (3, None),
        (2, None, 3): (2, None),
        (2, 8, 3): (2, 3),
        (4, 8, 3): (3, 3),
        (1, 2, 3): (1, 2),
    }  # (actors, max_actors, units) -> (actors, max_actors)
    for (actors, most, units), expected in cases.items():
        pool = StageResources(actors=actors, max_actors=most, num_gpus=1, batch_size=7)
        assert _limit_actors(pool, units) == replace(pool, actors=expected[0], max_actors=expected[1])


def test_machines_can_be_started_only_by_a_cluster_that_grows() -> None:
    kinds = [NodeType(num_cpus=8, num_gpus=1, memory_gb=2), NodeType(num_cpus=4)]
    assert startable(Resources(node_types=kinds)) == []
    assert startable(Resources(node_types=kinds, autoscaling=True)) == [
        {"CPU": 8, "GPU": 1, "memory": 2 * 2**30},
        {"CPU": 4, "GPU": 0},
    ]


def test_a_pool_that_also_runs_an_earlier_stage_has_the_sum_and_the_longest_time() -> None:
    """A stage without a time limit leaves both without one; its own batch size stays."""
    last = StageResources(num_cpus=0.5, memory_gb=2, batch_size=8, row_timeout_s=10)
    joined = last.joined_with(StageResources(num_cpus=0.25, memory_gb=1, batch_size=64, row_timeout_s=30))
    assert (joined.num_cpus, joined.memory_gb, joined.batch_size, joined.row_timeout_s) == (0.75, 3, 8, 30)
    assert last.joined_with(StageResources(row_timeout_s=None)).row_timeout_s is None
    assert last.joined_with(StageResources(memory_gb=None)).memory_gb == 2
    assert replace(last, memory_gb=None).joined_with(StageResources()).memory_gb is None


def test_stages_that_share_a_process_have_the_batches_of_the_last_one() -> None:
    resources = Resources(decode=StageResources(batch_size=64), judge=StageResources(batch_size=8))
    several = [Stage(pool, type(None), {}) for pool in ("decode", "judge")]
    ((group, pool),) = groups_of(several, resources)
    assert ([stage.pool for stage in group], pool.batch_size) == (["decode", "judge"], 8)


def test_the_number_of_rows_is_unknown_for_a_retry_and_after_a_stage_without_one() -> None:
    one, other = (UnitTask(Unit(name, (), rows=rows)) for name, rows in (("a", 3), ("b", 4)))
    several = [Stage("decode", type(None), {}), Stage("judge", type(None), {}, rows_out=None)]
    assert [expected.total for expected in expected_progress([one, other], several)] == [7, None]
    retried = replace(one, retry=("error",))
    assert [expected.total for expected in expected_progress([retried, other], several)] == [None, None]
