"""A run waits for one actor of each pool, says which actors it waits for, and ends if a pool stays without any."""

import json
from typing import Any

import pytest

from jobs.errors import RunError
from jobs.runtime.cluster import actor_watch
from jobs.runtime.cluster.actor_watch import REPORT_EVERY_S, ActorWatch, PoolState, StartWatch
from jobs.runtime.process import console


def test_the_run_starts_with_the_first_actor_and_reports_the_others() -> None:
    watch = StartWatch(wait_s=600, now=0.0)
    pools = [PoolState("PictureDecoder", 4, 0), PoolState("Judge", 1, 7)]
    assert watch.look(pools, now=1.0) is None
    line = watch.look(pools, now=REPORT_EVERY_S)
    assert line == "waiting for actors, 60 s after the start: Judge 1 of 8 have started"
    assert watch.look(pools, now=REPORT_EVERY_S + 1) is None
    for hour in range(1, 10):  # seven machines that never come do not end the run
        assert watch.look(pools, now=3600.0 * hour)
    assert watch.look([PoolState("Judge", 8, 0)], now=1e6) is None


def test_a_pool_without_any_actor_ends_the_run_after_wait_s() -> None:
    watch = StartWatch(wait_s=600, now=0.0)
    without = [PoolState("PictureDecoder", 4, 0), PoolState("Judge", 0, 8)]
    watch.look(without, now=0.0)
    watch.look(without, now=599.0)
    watch.look([PoolState("Judge", 1, 7)], now=599.5)  # one came, and its machine is lost again later
    watch.look(without, now=700.0)
    watch.look(without, now=1299.0)
    with pytest.raises(RunError, match=r"no actor of Judge could start within resources\.wait_s=600 seconds"):
        watch.look(without, now=1300.0)


def test_waiting_is_not_an_error(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A log collector that watches for level=error must not call somebody because a machine boots."""
    executor: Any = type("Executor", (), {"_topology": None})()
    monkeypatch.setattr(actor_watch, "REPORT_EVERY_S", 0.0)
    monkeypatch.setattr(actor_watch, "_states", lambda _: [PoolState("Judge", 1, 7)])
    console.use_format("json")
    try:
        ActorWatch(wait_s=60).on_execution_step(executor)
    finally:
        console.use_text()
    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["message"].partition(",")[0]) == ("info", "waiting for actors")
