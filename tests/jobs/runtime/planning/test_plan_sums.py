"""The sums over planned tables, by hand."""

from types import SimpleNamespace
from typing import Any

from jobs.runtime.planning.estimates import Cluster, Forecast, Pace, Requests, Spread
from jobs.runtime.planning.plan_sums import PlanSums
from jobs.runtime.planning.rate_tables import Prices
from jobs.runtime.planning.summary import PlannedTable

PRICED = Cluster(gpus=2, prices=Prices("2026-01-01", "r", "EUR", ()), per_hour=3.0, cpus=8)
UNPRICED = Cluster(gpus=1, cpus=4, unpriced="no such machine")
PACE = Pace(Spread(1.0, 0.5, 2.0), 10)


def table(estimated: Forecast | None, **amounts: int) -> PlannedTable:
    counted: Any = SimpleNamespace(**dict.fromkeys(("units", "done", "rows", "bytes"), 0) | amounts)
    return PlannedTable("out", counted, estimated)


def test_each_line_has_the_sum_of_its_kind_over_the_tables() -> None:
    sums = PlanSums()
    assert sums.add(table(Forecast(3600, "rows", PACE, Requests(1, 10), PRICED), units=3, done=1, rows=3600, bytes=5))
    assert sums.add(table(Forecast(1800, "rows", PACE, Requests(2, 20), UNPRICED), units=2, done=2, rows=7, bytes=6))
    assert sums.add(table(None, units=1, rows=1))
    assert sums.add(table(Forecast(7200, "rows", PACE, Requests(), PRICED)))
    assert not sums.add(table(Forecast(9, "rows", None, Requests(4, 40), PRICED), units=10))
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
    sums.add(table(Forecast(3600, "rows", PACE, Requests(), Cluster(gpus=0, cpus=1))))
    assert [line.split()[0] for line in sums.lines()] == ["time", "CPUs"]
