"""Remaining time, GPU-hours and money of a run, estimated from its completed units."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.configuration.resources import Demand, Resources, StageResources, TaskResources
from jobs.runtime.planning import estimates, summary
from jobs.runtime.planning.estimates import (
    GETS_PER_INPUT,
    Cluster,
    Forecast,
    Pace,
    PlanSums,
    Requests,
    Spread,
    cluster_of,
    comparison,
    comparison_lines,
    estimate,
    lines,
    pace_of,
)
from jobs.runtime.planning.rate_tables import Machine, Prices, UnpricedError, machines_for, read_prices
from jobs.runtime.planning.summary import PlannedTable
from jobs.store.files.objects import Object
from jobs.store.runs.run_units import Amounts
from jobs.store.units import Unit
from tests.jobs.store.small_runs import begin, plan, write

JUDGE = StageResources(actors=1, max_actors=8, num_cpus=1, num_gpus=1)
PRICES = Prices(
    "2025",
    "nowhere",
    "USD",
    (Machine("head", 0.5, head=True), Machine("gpu", 2.0, 8, 1), Machine("cpu", 1.0, 16)),
    put_per_1000=5.0,
    get_per_1000=0.4,
)


def ended(count: int, *, every: float, begin: float = 1e9, rows: int = 256) -> list[tuple[float, int]]:
    return [(begin + every * number, rows) for number in range(count)]


def test_the_pace_is_that_of_the_last_stretch_of_work() -> None:
    assert pace_of([]) is None
    assert pace_of(ended(4, every=10)) is None
    pace = pace_of(ended(21, every=10))
    assert pace is not None
    assert (pace.per_s.value, pace.units) == (pytest.approx(25.6), 21)
    assert pace.per_s.low == pace.per_s.high == pytest.approx(25.6)
    # The run was interrupted for a day, and went on with more machines.
    faster = pace_of([*ended(21, every=10), *ended(11, every=5, begin=1e9 + 86_400)])
    assert faster is not None
    assert (faster.per_s.value, faster.units) == (pytest.approx(51.2), 11)
    assert pace_of([*ended(21, every=10), *ended(3, every=5, begin=1e9 + 86_400)]) is None


def test_a_unit_counts_with_the_time_that_it_took() -> None:
    """The time of the first unit is unknown; the last one has few rows and took as long as the others."""
    (first, _), *others = ended(9, every=10)
    pace = pace_of([(first, 100_000), *others, (1e9 + 90, 16)])
    assert pace is not None
    assert pace.per_s.value == pytest.approx((8 * 256 + 16) / 90)


def test_units_of_different_speed_give_an_interval_around_the_pace() -> None:
    times, at = list[tuple[float, int]](), 1e9
    for number in range(60):
        at += 5 + 10 * (number % 3)
        times.append((at, 256))
    pace = pace_of(times)
    assert pace is not None
    assert 13 < pace.per_s.low < pace.per_s.value < pace.per_s.high < 23
    assert pace == pace_of(list(reversed(times)))


def test_a_pace_of_many_units_is_that_of_the_last_thousand() -> None:
    pace = pace_of([*ended(5000, every=1), *ended(1000, every=2, begin=1e9 + 5000)])
    assert pace is not None
    assert (pace.units, pace.per_s.value) == (1000, pytest.approx(128))


def test_actors_that_end_together_have_the_pace_of_their_rounds() -> None:
    """Eight actors with units of ten minutes each, as after plan=calibrate; between two rounds nothing ends."""
    calibrated = [(1e9 + 600 * unit + actor, 256) for unit in (1, 2, 3) for actor in range(8)]
    pace = pace_of(calibrated, together=8)
    assert pace is not None
    assert (pace.units, pace.per_s.low, pace.per_s.high) == (
        24,
        pytest.approx(256 * 8 / 600),
        pytest.approx(pace.per_s.low),
    )
    assert pace_of(calibrated[:9], together=8) is None  # one round says nothing
    continued = [(at + 86_400, rows) for at, rows in calibrated]
    assert pace_of([*calibrated, *continued], together=8) == pace
    uneven = [(1e9 + (60 + actor) * unit, 256) for unit in (1, 2, 3, 4, 5) for actor in range(8)]
    pace = pace_of(uneven, together=8)
    assert pace is not None
    assert 256 * 8 / 67 < pace.per_s.low < pace.per_s.value < pace.per_s.high < 256 * 8 / 60


def left(stages: Sequence[StageResources], *, done: int = 21, rows: int = 921_600) -> Forecast:
    resources = Resources(read=TaskResources(0.5), write=TaskResources(0.5))
    cluster = cluster_of(stages, resources, PRICES)
    return Forecast(rows, "rows", pace_of(ended(done, every=10)), Requests(put=1000, get=50_000), cluster)


def test_what_is_left_in_hours_gpu_hours_requests_and_money() -> None:
    decode = StageResources(actors=4, max_actors=64, num_cpus=1)
    estimated = left([decode, JUDGE])
    text = lines(estimated)
    # 36,000 s on 8 GPUs; 73 CPUs, of which 64 are next to the GPUs: 8 x 2 + 1 x 1 + 0.5 per hour; requests 5 + 20
    assert text[0].startswith("pace   25.6 rows/s ")
    assert estimated.pace is not None
    fast = replace(estimated.pace, per_s=Spread(111_234_567.0, 1234.0, 0.25))
    assert lines(replace(estimated, pace=fast))[0].startswith("pace   111,000,000 rows/s over the last 21 units (90 %")
    assert "interval 1,230 to 0.25" in lines(replace(estimated, pace=fast))[0]
    assert text[1].startswith("time   10:00 h (10:00 h to 10:00 h) for 921,600 rows")
    assert text[2].startswith("CPUs   730.0 (730.0 to 730.0) CPU-hours on 73")
    assert text[3].startswith("GPUs   80.0 (80.0 to 80.0) GPU-hours on 8")
    assert "1,000 PUT and 50,000 GET" in text[4]
    assert text[5].startswith("money  USD 200.00 (200.00 to 200.00) at 17.50 per hour for 1 x head, 8 x gpu, 1 x cpu")
    assert "nowhere, prices of 2025" in text[5]
    fixed = StageResources(actors=2, max_actors=None, num_cpus=1, num_gpus=1)
    assert lines(left([fixed]))[3].startswith("GPUs   20.0 (20.0 to 20.0) GPU-hours on 2")
    assert lines(left([JUDGE], rows=0)) == []
    unknown = left([JUDGE], done=0)
    assert (unknown.seconds, unknown.money) == (None, None)
    assert [line.split()[:2] for line in lines(unknown)] == [["time", "unknown"], ["S3", "about"], ["money", "USD"]]


def test_a_run_on_a_known_machine_occupies_all_its_cores() -> None:
    pools, resources = (
        [StageResources(actors=2, num_cpus=1)],
        Resources(read=TaskResources(0.5), write=TaskResources(1)),
    )
    assert cluster_of(pools, resources, None).cpus == 3.5
    assert cluster_of(pools, resources, None, cores=16).cpus == 16
    assert cluster_of([], resources, None, cores=16).cpus == 1  # the driver's


def test_requests_are_those_of_what_is_left(tmp_path: Path) -> None:
    units = [Unit(f"u{number}", (Object("s3://b/in", 1000, "e"),), rows=5) for number in range(10)]
    amounts = Amounts(units)

    def requests(out: str = "s3://b/out", get_bytes: int | None = None) -> Requests:
        return estimate(amounts, out=out, cluster=Cluster(0), pace=None, get_bytes=get_bytes).requests

    record: Any = {"begun": 1e9, "seconds": 1.0}
    for unit in units[:4]:
        amounts.add_done(unit, record)
    # The footers of the four are read when the run is opened, and those of all ten when it ends.
    assert requests() == Requests(put=6, get=4 + 10 + 6 * GETS_PER_INPUT)
    assert requests(get_bytes=700) == Requests(put=6, get=4 + 10 + 6 * GETS_PER_INPUT + 9)  # 6,000 bytes
    assert requests(str(tmp_path)) == Requests(get=6 * GETS_PER_INPUT)
    for unit in units[4:]:
        amounts.add_done(unit, record)
    assert requests() == Requests()


def test_an_estimate_next_to_what_a_run_took() -> None:
    expected = {"seconds": Spread(100, 90, 120).to_json(), "gpu_hours": Spread(0, 0, 0).to_json(), "money": None}
    took = {"seconds": 110.0, "gpu_hours": 0.0, "money": None, "currency": None}
    assert comparison(expected, took) == "110.0 s, estimated 100.0 (90.0 to 120.0)"
    assert comparison({}, took | {"money": 2.5, "currency": "USD"}) == "110.0 s; 2.50 USD"
    assert comparison({}, {}) == ""
    assert Requests(put=1_000_000, get=5_000_000).price(PRICES) == 5000 + 2000
    assert comparison({}, {"seconds": 5.0, "cpu_hours": 0.004}) == "5.0 s"  # which would be 0.00 hours
    assert comparison({}, {"seconds": 43_200.0, "cpu_hours": 1234.5}) == "43,200.0 s; 1,234.50 CPU-hours"


def test_an_upper_estimate_is_marked_and_compared() -> None:
    pace = Pace(Spread(2.0, 2.0, math.inf), 0, "upper estimate, not measured: …")
    upper = Forecast(7200, "rows", pace, Requests(), Cluster(8, PRICES, (("m", 1), ("g", 8)), per_hour=19.0, cpus=64))
    assert upper.seconds == Spread(3600.0, 0.0, 3600.0)
    printed = lines(upper)
    assert printed[0] == "pace   2 rows/s or more: upper estimate, not measured: …"
    assert [line.split(" for ")[0] for line in printed if "at most" in line] == [
        "time   at most 1:00 h",
        "CPUs   at most 64.0 CPU-hours on 64",
        "GPUs   at most 8.0 GPU-hours on 8",
        "money  USD at most 19.00 at 19.00 per hour",
    ]
    took = {"seconds": 900.0, "gpu_hours": 2.0, "machine_hours": 2.25, "money": 4.75, "currency": "USD", "done": 7200}
    assert comparison_lines(upper.to_json(), {**took, "counted": "rows"}) == [
        "               estimated        took",
        "rows           7,200            7,200",
        "s              at most 3,600.0  900.0",
        "GPU-hours      at most 8.00     2.00",
        "machine-hours  at most 9.00     2.25",
        "USD            at most 19.00    4.75",
        "estimate: upper estimate, not measured: …",
    ]
    assert Forecast(5, "rows", None, Requests(), Cluster(8)).to_json()["seconds"] is None


def test_prices_of_the_repository_and_of_a_file(tmp_path: Path) -> None:
    for file in (CONF / "prices").glob("*.yaml"):
        prices = read_prices(file.stem)
        assert prices.date
        assert prices.region
        assert [machine.name for machine, _ in machines_for(prices, cpus=1, gpus=0)]
    (tmp_path / "own.yaml").write_text("date: 2030\nregion: rack\ncurrency: EUR\nmachines: [{name: a, per_hour: 1}]\n")
    assert read_prices(str(tmp_path / "own.yaml")).currency == "EUR"
    assert read_prices("aws-us-east-1").put_per_1000 > read_prices("aws-us-east-1").get_per_1000 > 0
    (tmp_path / "bad.yaml").write_text("machines: [{name: a, per_hour: free}]\n")
    head = "date: 2030\nregion: rack\ncurrency: EUR\nmachines: []\n"
    (tmp_path / "worse.yaml").write_text(f"{head}requests_per_1000: [1]\n")
    (tmp_path / "least.yaml").write_text(f"{head}requests_per_1000: {{put: -1}}\n")
    of_machines = head.partition("machines")[0]
    (tmp_path / "some.yaml").write_text(
        f"{of_machines}machines: [{{name: a, per_hour: 1}}, {{name: b, per_hour: -1}}]\n"
    )
    (tmp_path / "free.yaml").write_text(f"{of_machines}machines: [{{name: a, per_hour: 0}}]\n")
    free = read_prices(str(tmp_path / "free.yaml"))
    assert (free.machines, free.source) == ((Machine("a", 0),), str(tmp_path / "free.yaml"))
    for number, figures in enumerate(("num_cpus: four", "num_gpus: -1", "num_cpus: .inf", "num_gpus: null")):
        machine = f"{{name: a, per_hour: 1, {figures}}}"
        (tmp_path / f"odd{number}.yaml").write_text(f"{of_machines}machines: [{machine}]\n")
    wrong = ("bad", "worse", "least", "some", *(f"odd{number}" for number in range(4)))
    for name in ("aws-mars", *(str(tmp_path / f"{file}.yaml") for file in wrong)):
        with pytest.raises(InputError, match=r"aws-mars|not a table of prices .*must be one of aws-us-east-1"):
            read_prices(name)


def test_machines_without_a_price_are_not_free() -> None:
    """A run on GPUs had the price of its CPUs if the file had no machine with GPUs."""
    head, cpu, one, eight = (
        *PRICES.machines[:1],
        Machine("cpu", 1.0, 16),
        Machine("one", 2.0, 8, 1),
        Machine("eight", 20.0, 96, 8),
    )

    def machines(*kinds: Machine, cpus: float, gpus: float, gpus_of_one: float) -> str:
        prices = Prices("2025", "rack", "EUR", kinds, source="rack.yaml")
        chosen = machines_for(prices, cpus=cpus, gpus=gpus, gpus_of_one=gpus_of_one)
        return ", ".join(f"{count} {machine.name}" for machine, count in chosen)

    assert machines(head, one, eight, cpu, cpus=80, gpus=8, gpus_of_one=1) == "1 head, 8 one, 1 cpu"
    assert machines(head, one, eight, cpu, cpus=80, gpus=8, gpus_of_one=2) == "1 head, 1 eight"
    assert machines(one, cpus=24, gpus=1, gpus_of_one=1) == "3 one"
    bulk = Machine("bulk", 12.0, 96, 8)  # its GPUs are cheaper than those of `one`
    assert machines(one, eight, bulk, cpus=8, gpus=9, gpus_of_one=1) == "2 bulk"
    many_cpus = Machine("many", 2.0, 64, 1)  # with cheaper CPUs than `cpu`, and a GPU that would be idle
    assert machines(cpu, many_cpus, cpus=32, gpus=0, gpus_of_one=0) == "2 cpu"
    assert machines(cpu, cpus=0.5, gpus=0, gpus_of_one=0) == "1 cpu"
    assert machines(cpu, Machine("small", 0.5, 2), cpus=4, gpus=0, gpus_of_one=0) == "1 cpu"  # 0.06 a core, not 0.25
    assert machines(cpu, one, cpus=8, gpus=1, gpus_of_one=1) == "1 one"  # whose cores are enough
    bare = Machine("bare", 1.0, 0, 1)  # the number of its cores is not given
    assert machines(bare, cpu, cpus=8, gpus=1, gpus_of_one=1) == "1 bare, 1 cpu"
    desk = Machine("desk", 0.1, 96, 8, head=True)  # cheap, but it does no work
    assert machines(desk, one, cpu, cpus=16, gpus=1, gpus_of_one=1) == "1 desk, 1 one, 1 cpu"
    assert machines(replace(desk, num_gpus=0), cpu, cpus=16, gpus=0, gpus_of_one=0) == "1 desk, 1 cpu"
    assert machines(bare, one, cpus=8, gpus=0, gpus_of_one=0) == "1 one"
    assert machines(cpu, one, cpus=8, gpus=1, gpus_of_one=0) == "1 one"
    cases = {
        "num_gpus of at least 1": ([cpu], 1, 0.5),
        "num_gpus of at least 2": ([cpu, one], 4, 2),
        "num_cpus": ([head], 0, 0),
    }
    for text, (kinds, gpus, gpus_of_one) in cases.items():
        with pytest.raises(UnpricedError, match=f"resources.prices=rack.yaml has no machine with {text}"):
            machines(*kinds, cpus=4, gpus=gpus, gpus_of_one=gpus_of_one)
    two = replace(JUDGE, num_gpus=2)
    printed = lines(left([two]))
    assert printed[-1].startswith(
        "money  unknown: resources.prices= has no machine with num_gpus of at least 2, and the run uses 16"
    )
    assert [line.split()[0] for line in printed] == ["pace", "time", "CPUs", "GPUs", "S3", "money"]
    assert printed[2].endswith(" CPU-hours on 9")  # all but the money is known
    assert left([two]).to_json()["money"] is None
    sums = PlanSums()
    for stages in ([JUDGE], [two]):
        assert sums.add(PlannedTable("out", Amounts([]), left(stages)))
    assert list(sums.lines())[-1].endswith("), without 1 whose machines have no price")


def test_a_plan_says_what_is_left(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    run = begin(plan(out))
    write(run, run.todo[0])
    uses = [Demand("judge", 1, 1, 1)]

    def estimator(amounts: Amounts) -> Forecast:
        return estimate(amounts, out=out, cluster=Cluster(8), pace=None, unknown="nothing was measured")

    planned = summary.plan_of("judge", plan(out), uses, estimator=estimator).lines
    assert "  done   1 of 3 units" in planned
    assert "  time   unknown for 20 bytes: nothing was measured" in planned


def test_minutes_are_rounded_up_and_large_numbers_have_no_exponent() -> None:
    assert estimates.hours(Spread(61, 60, 3541)) == "0:02 h (0:01 h to 1:00 h)"
    assert estimates.hours(Spread(0, 0, 36_001)) == "0:00 h (0:00 h to 10:01 h)"
    numbers = [estimates._rounded(number) for number in (0.12345, 999.4, 1000, 1e6, 1234567)]
    assert numbers == ["0.123", "999", "1,000", "1,000,000", "1,230,000"]
    assert estimates.amount(Spread(1234.56, 0, 2), 1) == "1,234.6 (0.0 to 2.0)"
    assert estimates.requests_text(Requests()) == ""
    assert estimates.requests_text(Requests(get=1200)) == "about 1,200 GET requests"


def test_a_gap_is_a_pause_if_it_is_long_in_itself_and_among_the_rounds() -> None:
    """Of at least two minutes, and of twenty rounds; the round is the median."""
    for every, gap, units in ((1, 120, 10), (1, 121, 5), (10, 200, 10), (10, 201, 5)):
        first = ended(5, every=every)
        pace = pace_of([*first, *ended(5, every=every, begin=first[-1][0] + gap)])
        assert pace is not None
        assert pace.units == units, (every, gap)
    uneven = [0, 1, 2, 12, 22, 32, 42, 52, 252, 262, 272]
    pace = pace_of([(1e9 + second, 1) for second in uneven])
    assert pace is not None
    assert pace.units == 11


def test_a_pace_needs_five_units_that_took_time() -> None:
    assert pace_of(ended(4, every=1)) is None
    assert pace_of(ended(5, every=1)) is not None
    assert pace_of(ended(9, every=0)) is None
    assert pace_of(ended(9, every=1, rows=0)) is None
    assert pace_of(ended(8, every=1), together=4) is not None
    assert pace_of(ended(7, every=1), together=4) is None


def test_an_estimate_from_a_measurement_has_no_coverage_and_machines_have_a_price_per_hour() -> None:
    of_units = Forecast(10, "rows", pace_of(ended(9, every=1)), Requests(), Cluster(0)).to_json()
    measured = estimates.Pace(Spread(1, 1, 1), 0, source="measured")
    assert (of_units["coverage"], of_units["units"]) == (estimates.COVERAGE, 9)
    of_measurement = Forecast(10, "rows", measured, Requests(1, 2), Cluster(0)).to_json()
    assert (of_measurement["coverage"], of_measurement["source"]) == (None, "measured")
    assert of_measurement["requests"] == {"put": 1, "get": 2}
    before = time.time()
    took = estimates.actual(Cluster(2, PRICES, per_hour=3.0, cpus=4), 1800.5, 7, "rows", 2)
    assert before <= took["ended"] <= time.time()
    assert {name: took[name] for name in ("done", "counted", "devices", "seconds", "cpu_hours", "gpu_hours")} == {
        "done": 7, "counted": "rows", "devices": 2.0, "seconds": 1800.5, "cpu_hours": 2.0006, "gpu_hours": 1.0003
    }  # fmt: skip
    assert (took["money"], took["currency"]) == (1.5004, "USD")
    assert estimates.actual(Cluster(2), 1, 7, "rows", 2)["money"] is None
    assert comparison({"source": "measured"}, {}) == ""
    assert comparison({"source": "measured"}, {"seconds": 2.0}) == "2.0 s; estimate: measured"


ON_GPUS = Cluster(gpus=2, prices=Prices("2026-01-01", "r", "EUR", ()), per_hour=3.0, cpus=8)
WITHOUT_PRICE = Cluster(gpus=1, cpus=4, unpriced="no such machine")
ONE_PER_SECOND = Pace(Spread(1.0, 0.5, 2.0), 10)


def planned_table(estimated: Forecast | None, **amounts: int) -> PlannedTable:
    counted: Any = SimpleNamespace(**dict.fromkeys(("units", "done", "rows", "bytes"), 0) | amounts)
    return PlannedTable("out", counted, estimated)


def test_each_line_has_the_sum_of_its_kind_over_the_tables() -> None:
    sums = PlanSums()
    assert sums.add(
        planned_table(
            Forecast(3600, "rows", ONE_PER_SECOND, Requests(1, 10), ON_GPUS), units=3, done=1, rows=3600, bytes=5
        )
    )
    assert sums.add(
        planned_table(
            Forecast(1800, "rows", ONE_PER_SECOND, Requests(2, 20), WITHOUT_PRICE), units=2, done=2, rows=7, bytes=6
        )
    )
    assert sums.add(planned_table(None, units=1, rows=1))
    assert sums.add(planned_table(Forecast(7200, "rows", ONE_PER_SECOND, Requests(), ON_GPUS)))
    assert not sums.add(planned_table(Forecast(9, "rows", None, Requests(4, 40), ON_GPUS), units=10))
    assert (sums.units, sums.done, sums.rows, sums.bytes) == (16, 3, 3608, 11)
    assert list(sums.lines()) == [
        "time   3:30 h (1:45 h to 7:00 h)",
        "CPUs   26.0 (13.0 to 52.0) CPU-hours",
        "GPUs   6.5 (3.2 to 13.0) GPU-hours",
        "S3     about 7 PUT and 70 GET requests",
        "money  EUR 9.00 (4.50 to 18.00), without 1 whose machines have no price",
    ]


def test_tables_without_gpus_requests_and_prices_have_two_lines() -> None:
    sums = PlanSums()
    sums.add(planned_table(Forecast(3600, "rows", ONE_PER_SECOND, Requests(), Cluster(gpus=0, cpus=1))))
    assert [line.split()[0] for line in sums.lines()] == ["time", "CPUs"]
