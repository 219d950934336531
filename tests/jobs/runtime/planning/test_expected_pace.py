"""The pace that a run is expected to have: of its own units on other resources, or of a committed measurement."""

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobs.embed import EmbedConfig
from jobs.errors import InputError
from jobs.runtime.cluster import dtypes
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.configuration.key_types import UNKNOWN, type_of
from jobs.runtime.configuration.resources import Demand, Resources, StageResources
from jobs.runtime.planning.expected_pace import (
    DRIVER_S,
    Expectation,
    Lanes,
    Passes,
    Work,
    cut_for,
    lanes_of,
    measured_pace,
)
from jobs.runtime.planning.prospects import own_cpus, prospect
from jobs.runtime.planning.rate_tables import MACHINES_DIFFER, Measurement, Wanted, find, read_gpus, read_measurements
from jobs.store.files.objects import Object
from jobs.store.json_types import FooterJson
from jobs.store.runs.run_units import Amounts
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit

ENTRY: dict[str, Any] = {
    "job": "embed",
    "pools": ["embed"],
    "keys": {"embedder.name": "a"},
    "device": "cpu",
    "hardware": "a machine",
    "date": "2026-11-25",
    "command": "python -m tests.benchmarks embed",
    "work": 100,
    "counted": "rows",
    "seconds": [10, 12, 8],
}
POOL = StageResources(actors=2, max_actors=8, num_cpus=1)


def measurement(**changes: Any) -> Measurement:
    entry = ENTRY | changes
    return Measurement(**entry | {"seconds": tuple(entry["seconds"]), "pools": tuple(entry["pools"])})


def amounts(units: int, *, rows: int = 100, done: int = 0, every: float = 10.0) -> Amounts:
    listed = [Unit(f"u{number:04}", (Object("s3://b/a", 5, "e"),), rows=rows) for number in range(units)]
    counted = Amounts(listed)
    for number, unit in enumerate(listed[:done]):
        record: Any = {"begun": 1e9 + number * every, "seconds": 0.0}
        written: FooterJson = record
        counted.add_done(unit, written)
    return counted


def expectation(pool: StageResources = POOL, **changes: Any) -> Expectation:
    config = {"embedder": {"name": "a"}}
    return replace(
        Expectation("embed", ["embed"], config, Resources(embed=pool), [measurement(start_s=3.0)]), **changes
    )


def test_a_measured_rate_is_scaled_to_the_actors_that_work() -> None:
    # 0.1 s of a core for each row, eight actors with a core each; the last of 20 units keep four of eight busy.
    pace, unknown = expectation().pace(amounts(20), files=[], last={})
    assert not unknown
    assert pace is not None
    assert (pace.units, pace.start_s) == (0, 3.0)
    assert pace.per_s.value == pytest.approx(10 * 20 / 3)
    assert pace.per_s.low == pytest.approx(pace.per_s.value * 10 / 12 / MACHINES_DIFFER)
    assert pace.per_s.high == pytest.approx(pace.per_s.value * 10 / 8 * MACHINES_DIFFER)
    assert "python -m tests.benchmarks embed" in pace.source
    assert "2026-11-25" in pace.source
    few, _ = expectation().pace(amounts(3), files=[], last={})
    assert few is not None
    assert few.per_s.value == pytest.approx(10 * 3)
    slow_round = expectation(measurements=[measurement(seconds=[40, 8, 10])]).pace(amounts(3), files=[], last={})[0]
    assert slow_round is not None
    assert slow_round.per_s.value == few.per_s.value  # that of the median, not of the mean
    fixed, _ = expectation(StageResources(actors=2)).pace(amounts(20), files=[], last={})
    assert fixed is not None
    assert fixed.per_s.value == pytest.approx(10 * 2)


@pytest.mark.parametrize(
    ("pool", "cores", "threads", "expected"),
    [
        (StageResources(actors=1), 4, None, (1, 4)),  # one actor with all cores
        (StageResources(actors=3), 4, None, (1, 4)),  # which three would share
        (StageResources(actors=3), 4, 1, (3, 1)),  # its stage has one thread
        (StageResources(actors=3), 2, 1, (2, 1)),
        (StageResources(actors=1, threads=2), 4, None, (1, 2)),
        (StageResources(actors=2, threads=3), 4, None, (4 / 3, 3)),  # which share the cores
        (StageResources(actors=4, max_actors=32, num_cpus=4.0, threads=4), None, None, (32, 4)),
        (StageResources(actors=4, num_cpus=0.3), None, None, (4, 1)),
        (StageResources(actors=1, max_actors=8, num_gpus=0.5), None, None, (8, 0.5)),
    ],
)
def test_how_many_actors_work_with_how_many_cores(
    pool: StageResources, cores: int | None, threads: int | None, expected: tuple[float, float]
) -> None:
    assert lanes_of(pool, cores=cores, threads=threads) == Lanes(*expected)


def test_few_pieces_keep_few_actors_busy() -> None:
    busy = [Lanes(8, 0.5).limited(pieces) for pieces in (0, 1, 8, 9, 12, 16)]
    assert [lanes.actors for lanes in busy] == [8, 1, 8, 4.5, 6, 8]
    assert [lanes.total for lanes in busy[:3]] == [4, 0.5, 4]


def test_a_driver_that_works_itself_hands_out_nothing() -> None:
    pace = measured_pace(measurement(pools=[], seconds=[1e-6]), amounts(1000), lanes=Lanes(1, 1), work=None)
    assert pace.per_s.value == pytest.approx(1e8)


def test_a_driver_hands_out_units_no_faster_than_it_can() -> None:
    pace = measured_pace(measurement(seconds=[1e-6]), amounts(1000), lanes=Lanes(64, 1), work=None)
    assert pace.per_s.value == pytest.approx(100 / DRIVER_S)


def test_a_driver_hands_out_only_the_units_that_are_left() -> None:
    pace = measured_pace(measurement(seconds=[1e-6]), amounts(1000, done=900), lanes=Lanes(64, 1), work=None)
    assert pace.per_s.value == pytest.approx(100 / DRIVER_S)


def test_rows_of_other_work_and_a_whole_that_is_cut_otherwise() -> None:
    work = Work("multiplications", per_row=50.0, pieces=4)
    of_search = measurement(counted="multiplications")
    pace, _ = expectation(measurements=[of_search], work=work).pace(amounts(1), files=[], last={})
    assert pace is not None
    assert pace.per_s.value == pytest.approx(10 * 4 / 50)


def test_units_that_fewer_gpus_did_give_the_pace_of_more() -> None:
    judge = StageResources(actors=1, max_actors=8, num_gpus=1)
    ended = time.time()
    took = {"devices": 2.0, "ended": ended}
    done = amounts(100, done=20)
    pace, _ = expectation(judge).pace(done, files=[], last=took)
    unscaled, _ = expectation(judge).pace(done, files=[], last={})
    assert pace is not None
    assert unscaled is not None
    assert unscaled.per_s.value == pytest.approx(10)
    assert pace.per_s.value == pytest.approx(40)
    assert "times 4" in pace.source
    half, _ = expectation(judge).pace(done, files=[], last={"devices": 0.5, "ended": ended})
    assert half is not None
    assert half.per_s.value == pytest.approx(160)
    as_many, _ = expectation(judge).pace(done, files=[], last={"devices": 8.0, "ended": ended})
    same, _ = expectation(replace(judge, max_actors=2)).pace(done, files=[], last=took)
    assert as_many == same == unscaled  # nothing to scale
    # A later run did some of the units and was killed: how many GPUs it had is not known.
    for stale in ({"devices": 2.0, "ended": 1e9}, {"devices": "2", "ended": ended}, {"devices": 0.0, "ended": ended}):
        assert expectation(judge).pace(done, files=[], last=stale)[0] == unscaled


def test_the_actors_that_did_the_units_decide_when_there_is_a_pace() -> None:
    eight = expectation(StageResources(actors=1, max_actors=8, num_gpus=1), measurements=[])
    took = {"devices": 2.0, "ended": time.time()}
    for done, last, is_expected in ((11, {}, False), (12, {}, True), (5, took, False), (6, took, True)):
        pace, unknown = eight.pace(amounts(100, done=done), files=[], last=last)
        assert (pace is not None, not unknown) == (is_expected, is_expected)


@pytest.mark.parametrize(
    "changes",
    [
        {"job": "judge"},
        {"keys": {"embedder.name": "b"}},
        {"keys": {"embedder.name.x": "a"}},
        {"pools": ["decode", "embed"]},
        {"device": "H100"},
        {"counted": "bytes"},
        {"suffix": ".gz"},
    ],
)
def test_a_measurement_of_other_work_is_not_used(changes: dict[str, Any]) -> None:
    pace, unknown = expectation(measurements=[measurement(**changes)]).pace(amounts(9), files=["a.tsv"], last={})
    assert pace is None
    assert "embed on CPUs" in unknown
    assert "plan=calibrate" in unknown
    assert "calibrate" not in expectation(measurements=[], calibrates=False).pace(amounts(9), files=[], last={})[1]
    assert expectation().pace(amounts(9, done=9), files=[], last={}) == (None, "")


def test_all_files_of_the_input_have_the_measured_suffix() -> None:
    wanted = Wanted("embed", ["embed"], {"embedder": {"name": "a"}}, ["a.gz", "b.tsv"], "rows", on_gpu=False)
    assert find([measurement(suffix=".gz")], wanted) is None
    assert find([measurement(suffix=".gz")], replace(wanted, files=["a.gz", "b.gz"])) is not None


def test_the_last_measurement_of_a_file_counts_and_gpus_have_their_own() -> None:
    wanted = Wanted("embed", ["embed"], {"embedder": {"name": "a"}}, [], "rows", on_gpu=True)
    entries = [measurement(device="A100", work=1), measurement(device="H200", work=2), measurement()]
    assert find(entries, wanted) == entries[1]
    assert find(entries, replace(wanted, on_gpu=False)) == entries[2]


def test_a_run_on_this_machine_has_all_its_cores() -> None:
    small = [Demand("embed", 1, 0.3, 0)]
    cpus = own_cpus(small, Resources(), joins=False)
    assert cpus is not None
    assert own_cpus(small, Resources(), joins=True) is None
    assert own_cpus(small, Resources(autoscaling=True), joins=False) is None
    assert own_cpus([Demand("embed", cpus, 1, 0)], Resources(), joins=False) == cpus
    assert own_cpus([Demand("embed", cpus + 1, 1, 0)], Resources(), joins=False) is None


def on_gpus(**changes: Any) -> Expectation:
    """Eight GPUs at a rate that was measured on an H200: 10 s for 100 rows."""
    entry = measurement(device="H200", seconds=[10], **changes)
    pools = list(entry.pools)
    resources = Resources(
        embed=StageResources(actors=8, num_cpus=1, num_gpus=1), decode=StageResources(actors=6, num_cpus=1)
    )
    return expectation(pools=pools, resources=resources, measurements=[entry])


def test_the_rate_of_one_gpu_is_scaled_to_another() -> None:
    kinds = read_gpus()
    same, _ = replace(on_gpus(), gpu=kinds["H200"]).pace(amounts(80), files=[], last={})
    unnamed, _ = on_gpus().pace(amounts(80), files=[], last={})
    other, _ = replace(on_gpus(), gpu=kinds["L40S"]).pace(amounts(80), files=[], last={})
    assert same is not None
    assert unnamed is not None
    assert other is not None
    assert unnamed.per_s == same.per_s
    assert same.per_s.value == pytest.approx(80)
    assert "resources.gpu= names another GPU than H200" in unnamed.source
    assert "resources.gpu" not in same.source
    products, memory = kinds["H200"].tflops / kinds["L40S"].tflops, kinds["H200"].tb_per_s / kinds["L40S"].tb_per_s
    assert 1 < products < memory
    assert other.per_s.value == pytest.approx(80 / products)
    assert other.per_s.high == pytest.approx(80 / products * MACHINES_DIFFER)
    assert other.per_s.low == pytest.approx(80 / memory / MACHINES_DIFFER)
    assert "2.7 times as long on L40S" in other.source
    balanced = replace(kinds["L40S"], tb_per_s=kinds["H200"].tb_per_s)  # the memory is as fast: better than expected
    other, _ = replace(on_gpus(), gpu=balanced).pace(amounts(80), files=[], last={})
    assert other is not None
    assert other.per_s.value == pytest.approx(80 / products)
    assert other.per_s.high == pytest.approx(80 * MACHINES_DIFFER)
    assert other.per_s.low == pytest.approx(80 / products / MACHINES_DIFFER)


def test_gpus_wait_for_the_cores_that_feed_them() -> None:
    fed = on_gpus(pools=["decode", "embed"], feeder="decode", feeder_s=50)  # 2 rows/s for each core
    pace, _ = fed.pace(amounts(80), files=[], last={})
    assert pace is not None
    assert pace.per_s.value == pytest.approx(12)
    assert (pace.per_s.low, pace.per_s.high) == (
        pytest.approx(12 / MACHINES_DIFFER),
        pytest.approx(12 * MACHINES_DIFFER),
    )
    assert "they wait for 6 cores of decode" in pace.source
    on_five = replace(fed, own_cpus=5)
    here, _ = on_five.pace(amounts(80), files=[], last={})
    assert here is not None
    assert (on_five.cores, expectation(own_cpus=5).cores) == (None, 5)  # not all of the first one's work is theirs
    assert here.per_s.value == pytest.approx(8)  # of five CPUs the other stage takes one
    on_one = replace(fed, own_cpus=1)
    grown = replace(fed.resources, decode=StageResources(actors=2, max_actors=6, num_cpus=1, threads=2))
    for changed, rate in ((on_one, 2), (replace(fed, resources=grown), 24)):  # at least a core; as many as threads
        pace, _ = changed.pace(amounts(80), files=[], last={})
        assert pace is not None
        assert pace.per_s.value == pytest.approx(rate)
    enough, _ = on_gpus(pools=["decode", "embed"], feeder="decode", feeder_s=5).pace(amounts(80), files=[], last={})
    assert enough is not None
    assert "wait" not in enough.source
    assert enough.per_s.value == pytest.approx(80)


# Parameters (10^9), tokens read and written, and seconds of an H200 for one item (tests/benchmarks/RECORDS.md).
MEASURED_ON_H200 = [
    (8.3, 2200, 0, 50 / 1027),  # 50 labels of 20 tokens behind 1,200
    (8.3, 2200, 0, 50 / 551),
    (3.75, 2200, 0, 50 / 373),
    (3.75, 3700, 0, 10 / 87),  # 10 labels of 250
    (8.3, 3700, 0, 10 / 138),
    (3.75, 1200, 256, 256 / 4378),  # four texts of 64 tokens
    (8.3, 1200, 256, 256 / 3085),
    (8.3, 1.2e6 / 1500, 0, 34.6 / 1500),  # a whole job
]


def passes(parameters: float, read: float, written: float = 0, *, parallel: bool = False) -> Passes:
    return Passes(parameters * 1e9, 2 * parameters, read, written, parallel, "a model")


def test_the_upper_estimate_is_above_what_was_measured_but_of_its_order() -> None:
    for parameters, read, written, took in MEASURED_ON_H200:
        factor = passes(parameters, read, written).seconds(read_gpus()["H200"]) / took
        assert 1 < factor < 15, (parameters, read, written)


def test_without_units_and_measurement_the_model_gives_an_upper_estimate() -> None:
    resources = Resources(judge=StageResources(actors=4, num_gpus=2))
    gpu = read_gpus()["L40S"]
    unmeasured = expectation(pools=["judge"], resources=resources, measurements=[])
    by_layers = replace(unmeasured, gpu=gpu, passes=lambda: passes(10, 1000)).pace(amounts(8), files=[], last={})[0]
    assert by_layers is not None
    per_item = 2 * 10e9 * 1000 / 362e12 / 0.1
    assert by_layers.per_s.low == by_layers.per_s.value == pytest.approx(4 / per_item)  # one of two GPUs works
    assert by_layers.per_s.high == float("inf")
    assert "upper estimate, not measured: a model, at 10% of the products and reads of 4 L40S" in by_layers.source
    both = replace(unmeasured, gpu=gpu, passes=lambda: passes(10, 1000, parallel=True))
    split = both.pace(amounts(8), files=[], last={})[0]
    assert split is not None
    assert split.per_s.value == pytest.approx(8 / per_item)
    few = both.pace(amounts(2), files=[], last={})[0]
    assert few is not None
    assert few.per_s.value == pytest.approx(4 / per_item)  # two units keep two actors busy

    for changes, reason in (
        ({"gpu": gpu, "passes": lambda: None}, "plan=calibrate does some units, which are kept, and measures the pace"),
        ({"passes": lambda: passes(10, 1000)}, "with the kind of GPU (resources.gpu=), there is an upper estimate"),
        ({"gpu": gpu}, "measures the pace"),
    ):
        pace, unknown = replace(unmeasured, **changes).pace(amounts(8), files=[], last={})
        assert pace is None
        assert unknown.endswith(reason)


def test_the_gpu_is_that_of_the_resources_or_of_the_machines_with_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for keys, kind in (
        (["resources=cluster"], "L40S"),
        (["resources=cluster", "resources.prices=gcp-us-central1"], "L4"),
        (["resources=cluster", "resources.gpu=A100"], "A100"),
        (["resources=gpu-node"], None),
        ([], None),
    ):
        cfg = config.load("embed", EmbedConfig, ["input=i", "out=o", *keys])
        plan = TablePlan("o", "embeddings", {}, [], {}, {}, derived=False)
        gpu = prospect("embed", cfg, plan, pools=["decode", "embed"]).expectation.gpu
        assert (gpu.name if gpu else None) == kind
    cfg = config.load("embed", EmbedConfig, ["input=i", "out=o", "resources.gpu=B300"])
    with pytest.raises(InputError, match=r"resources\.gpu=B300: must be one of .*H200"):
        prospect("embed", cfg, plan, pools=["decode", "embed"])


def test_a_piece_is_what_an_actor_does_in_a_minute_where_that_was_measured(tmp_path: Path) -> None:
    entry = ENTRY | {"pools": ["decode", "embed"], "keys": {}}
    on_gpu = entry | {"device": "L40S", "work": 6000 * MACHINES_DIFFER, "seconds": [1, 2]}
    file = tmp_path / "rates.yaml"
    file.write_text(yaml.safe_dump([entry, on_gpu]))
    cases = {
        ("resources.embed.num_cpus=1",): int(60 / 0.12 / MACHINES_DIFFER),
        ("resources.embed.num_cpus=2", "resources.embed.threads=2"): int(120 / 0.12 / MACHINES_DIFFER),
        ("resources=cluster",): 180_000,
        ("resources=cluster", "resources.embed.num_gpus=0.5"): 90_000,
        ("resources.measured=null",): None,
    }
    minutes: dict[tuple[str, ...], int | None] = {}
    for keys in cases:
        command = ["input=i", f"out={tmp_path}/o", f"resources.measured={file}", *keys]
        rule = cut_for("embed", config.load("embed", EmbedConfig, command), ("decode", "embed"))
        minutes[keys] = rule.minute
    assert minutes == cases
    cfg = config.load("embed", EmbedConfig, ["input=i", f"out={tmp_path}/o", f"resources.measured={file}"])
    assert cut_for("loglik", cfg, ("decode", "embed")).minute is None


def test_a_prospect_has_what_the_stages_need_and_the_cpus_that_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    cpus = len(os.sched_getaffinity(0))
    cfg = config.load("embed", EmbedConfig, ["input=i", "out=o", "resources.measured=null"])
    plan = TablePlan("o", "embeddings", {}, [], {"a": 1}, {}, derived=False)

    def needs(**changes: Any) -> list[str]:
        return [need.stage for need in prospect("embed", cfg, plan, **changes).needs]

    assert needs(pools=["decode", "embed"]) == ["read", "decode", "embed", "write"]
    assert needs(pools=["embed"], streamed=False) == ["embed"]
    assert needs(pools=[]) == []
    expected = prospect("embed", cfg, plan, pools=["embed"], calibrates=False, part="p", get_bytes=3)
    assert expected.get_bytes == 3
    assert expected.spending.cluster.cpus == cpus
    assert expected.expectation == Expectation(
        "embed", ["embed"], {"a": 1}, cfg.resources, own_cpus=cpus, calibrates=False, part="p"
    )
    assert prospect("embed", cfg, plan, pools=["embed"]).expectation.calibrates
    cfg.ray.address = "10.0.0.1:6379"
    assert prospect("embed", cfg, plan, pools=["embed"]).expectation.own_cpus is None


def test_committed_measurements_are_of_commands_that_exist() -> None:
    for entry in read_measurements("rates"):
        job = cli.job(entry.job)
        assert set(entry.pools) <= set(vars(Resources()))
        assert entry.command.startswith("python -m tests.")
        assert [key for key in entry.keys if type_of(job.schema, key) is UNKNOWN] == []
        assert entry.feeder in ("", *entry.pools[:-1])


def test_committed_measurements_are_of_configurations_that_a_run_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """`dtype=auto`, for one, is replaced before a plan looks for a measurement."""
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    for entry in read_measurements("rates"):
        schema = cli.job(entry.job).schema
        chosen = ["resources=cluster"] if entry.device != "cpu" else []
        for key, value in entry.keys.items():
            group, _, name = key.partition(".")
            if name in ("name", ""):
                chosen.append(f"{group}={'null' if value is None else value}")
        cfg = config.built(schema, config.compose(entry.job, schema, chosen))
        dtypes.resolve(cfg)
        values = asdict(cfg)
        wanted = Wanted(
            entry.job, entry.pools, values, [f"a{entry.suffix}"], entry.counted, entry.device != "cpu", entry.part
        )
        assert find([entry], wanted) == entry, entry


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds": []},
        {"seconds": [0]},
        {"seconds": ["fast"]},
        {"seconds": 3},
        {"work": -1},
        {"work": float("nan")},
        {"start_s": -1},
        {"threads": 0},
        {"device": "B300"},
        {"feeder": "decode"},
        {"feeder_s": 3},
        {"keys": ["a"]},
        {"keys": {3: "a"}},
        {"pools": "embed"},
        {"pools": ["read"]},
        {"feeder": "decoder", "feeder_s": 3},
        {"hardware": 3},
        {"rate": 3},
        {"pools": None},
    ],
)
def test_a_wrong_file_of_measurements_is_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(yaml.safe_dump([ENTRY]))
    assert read_measurements(str(tmp_path / "own.yaml")) == [measurement()]
    (tmp_path / "own.yaml").write_text(yaml.safe_dump([ENTRY | changes]))
    with pytest.raises(InputError, match=r"resources\.measured=.*not a table of measurements .*must be one of rates"):
        read_measurements(str(tmp_path / "own.yaml"))


@pytest.mark.parametrize("text", ["", "- 1", "a: 1", "- {job: mine}", "{", "[[1]]"])
def test_a_file_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(text)
    for name in (str(tmp_path / "own.yaml"), "mars", str(tmp_path / "absent.yaml")):
        with pytest.raises(InputError, match=r"resources\.measured="):
            read_measurements(name)
