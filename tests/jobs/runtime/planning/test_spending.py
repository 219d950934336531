"""The budget of a run, in money or time, and what is left of it for the next step of a pipeline."""

import time
from typing import Any

import pytest

from jobs.errors import InputError, RunError
from jobs.runtime.configuration.resources import Resources, StageResources
from jobs.runtime.planning.estimates import Cluster, cluster_of
from jobs.runtime.planning.rate_tables import read_prices
from jobs.runtime.planning.spending import Spending, check_budget, left_of

PRICES = read_prices("aws-us-east-1")
PRICED = Cluster(8.0, PRICES, per_hour=20.0)


@pytest.mark.parametrize(
    ("budget", "cluster", "hours"),
    [("200", PRICED, 10.0), ("30", PRICED, 1.5), ("12h", Cluster(0.0), 12.0), ("1.5 h", PRICED, 1.5),
     ("90min", PRICED, 1.5), (None, PRICED, None)],
)  # fmt: skip
def test_a_run_ends_at_its_budget_and_not_before(
    budget: str | None, cluster: Cluster, hours: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    spending = Spending(cluster, budget)
    now = 5000.0
    spending.begin()
    now += 3600 * (hours or 1e4) - 1
    spending.check()
    now += 2
    if hours is not None:
        with pytest.raises(RunError, match=f"^budget={budget}: reached after "):
            spending.check()


def test_the_text_has_the_money_of_all_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    spending, free = Spending(PRICED, "200"), Spending(Cluster(0.0), None)
    now = 1800.0
    assert spending.text() == "at most USD 10.00 of budget=200"
    assert spending.figures() == {"remine_spent": 10.0, "remine_budget_share": 0.05}
    assert free.figures() == {}
    assert (spending.is_shown, free.is_shown) == (True, False)
    assert spending.plan_lines()[0].startswith("budget 200: 10.00 hours of all machines")
    assert free.plan_lines() == []
    (start,) = Spending(PRICED, None, wait_s=1200).plan_lines()
    assert start.startswith("start  at most 20 min and USD 6.67 more, until machines have booted")


@pytest.mark.parametrize("budget", ["0", "0h", "-3", "x", "", "1e3", "3 days", "200 USD", "nan"])
def test_a_text_without_an_amount_is_refused(budget: str) -> None:
    with pytest.raises(InputError, match=r"must be an amount of money above 0, such as 200, or a time"):
        Spending(PRICED, budget)


def test_money_needs_prices() -> None:
    with pytest.raises(InputError, match=r"^budget=200: the machines of this run have no prices"):
        Spending(Cluster(0.0), "200")
    with pytest.raises(InputError, match=r"^budget=200: no machine with 16 GPUs; give a time"):
        Spending(Cluster(16.0, unpriced="no machine with 16 GPUs"), "200")


def test_the_next_step_of_a_pipeline_gets_what_is_left() -> None:
    step: dict[str, Any] = {"actual": {"money": 2.0, "seconds": 360.0}}  # 20 per hour
    assert left_of("200", step, 1800.0) == "190.0000"
    assert left_of("200", step, 0.0) == "200.0000"  # complete before
    assert left_of("200", {"nodes": step, "texts": {}}, 1800.0) == "190.0000"
    assert left_of("200", {"counts": {}}, 1800.0) == "200.0000"  # the driver alone
    assert left_of("1h", step, 1800.0) == "30.000min"
    check_budget(None, has_prices=False)
    check_budget("1h", has_prices=False)
    check_budget("200", has_prices=True)
    with pytest.raises(InputError, match=r"^budget=200: the machines of this run have no prices"):
        check_budget("200", has_prices=False)
    for budget in ("10", "30min", "10.00001", "30.01min"):
        with pytest.raises(RunError, match=f"^budget={budget}: reached; completed units are kept"):
            left_of(budget, step, 1800.0)


def test_the_machines_of_a_plan_have_a_capacity() -> None:
    """A run asks for no machine beyond these: eight with a GPU, and one more for the CPUs that they lack."""
    resources = Resources()
    pools = [StageResources(actors=4, max_actors=64, num_cpus=1), StageResources(max_actors=8, num_cpus=1, num_gpus=1)]
    priced = cluster_of(pools, resources, PRICES)
    assert dict(priced.machines) == {"m6i.xlarge": 1, "g6e.2xlarge": 8, "m6i.4xlarge": 1}
    assert priced.capacity == (8 * 8 + 16, 8)
    assert cluster_of(pools, resources, None).capacity == (64 + 8 + 0.5, 8)
    assert cluster_of(pools[:1], resources, PRICES).capacity == (80, 0)
