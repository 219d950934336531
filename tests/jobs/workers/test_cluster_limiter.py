"""The cluster's limiter without a cluster: what it passes on, and when it ends."""

import asyncio
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from actors.fetching.politeness import LEASE_S, LeaseTable, Limit
from jobs.workers import cluster_limiter
from jobs.workers.cluster_limiter import ATTEMPTS, IDLE_S, ClusterLimiter, SharedLeaseTable

LIMIT = Limit("host", 1)


class Clock:
    """A clock that sleeping advances."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


class ExitedError(Exception):
    """The actor's process ended."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the limiter; its process is this one."""
    one = Clock()
    monkeypatch.setattr(cluster_limiter.time, "monotonic", one.monotonic)
    monkeypatch.setattr(cluster_limiter, "LeaseTable", partial(LeaseTable, one.monotonic))
    monkeypatch.setattr(cluster_limiter.asyncio, "sleep", one.sleep)
    context = SimpleNamespace(was_current_actor_reconstructed=False)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)

    def leave() -> None:
        raise ExitedError

    monkeypatch.setattr(ray.actor, "exit_actor", leave)
    return one


def ended(table: SharedLeaseTable, clock: Clock) -> float:
    """Run the table until it ends; return how long that took."""
    begin = clock.now
    with pytest.raises(ExitedError):
        drive(table.run())
    return clock.now - begin


def drive(coroutine: Any) -> Any:
    """Return the result of a coroutine that waits for nothing but the clock."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("it waits for something else")


def test_it_ends_once_it_was_not_called_for_a_while(clock: Clock) -> None:
    assert ended(SharedLeaseTable(), clock) == IDLE_S
    table = SharedLeaseTable()
    clock.now += IDLE_S - 30
    lease = drive(table.call("acquire", (LIMIT,), {}))
    drive(table.call("release", (lease,), {}))
    assert ended(table, clock) == IDLE_S  # from the last call


def test_a_pause_that_a_host_demands_keeps_it_alive(clock: Clock) -> None:
    table = SharedLeaseTable()
    lease = drive(table.call("acquire", (LIMIT,), {}))
    drive(table.call("settle", (LIMIT,), {"busy": True, "retry_after": IDLE_S + 600}))
    drive(table.call("release", (lease,), {}))
    assert ended(table, clock) == IDLE_S + 600


def test_one_that_was_restarted_grants_nothing_while_earlier_leases_may_be_in_use(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    restarted = SimpleNamespace(was_current_actor_reconstructed=True)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: restarted)
    table = SharedLeaseTable()
    assert drive(table.call("acquire", (LIMIT,), {})) is None
    clock.now += LEASE_S
    lease = drive(table.call("acquire", (LIMIT,), {}))
    assert lease is not None
    assert drive(table.call("renew", ([lease, -1],), {})) == [-1]


def test_a_worker_calls_again_until_the_limiter_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, ...]] = []
    started: list[bool] = []
    looked_up: list[tuple[str, str]] = []
    waits: list[float] = []
    failures = ATTEMPTS - 1

    async def remote(*arguments: Any) -> str:
        calls.append(arguments)
        if len(calls) <= failures:
            raise ray.exceptions.RayActorError
        return "lease"

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    actor = SimpleNamespace(call=SimpleNamespace(remote=remote))

    def get_actor(name: str, *, namespace: str) -> Any:
        looked_up.append((name, namespace))
        if len(looked_up) == 1:
            raise ValueError("no actor has this name")
        return actor

    monkeypatch.setattr(ray, "get_actor", get_actor)
    monkeypatch.setattr(cluster_limiter, "start", lambda: started.append(True))
    monkeypatch.setattr(cluster_limiter.asyncio, "sleep", sleep)
    limiter = ClusterLimiter()
    failures -= 1  # and the limiter was not there at first
    assert asyncio.run(limiter.acquire(LIMIT)) == "lease"
    assert calls == [("acquire", (LIMIT,), {})] * (ATTEMPTS - 1)
    assert len(started) == ATTEMPTS - 1
    assert waits == [0.2 * 2**attempt for attempt in range(ATTEMPTS - 1)]
    assert looked_up == [(cluster_limiter.NAME, cluster_limiter.NAMESPACE)] * ATTEMPTS
    assert asyncio.run(limiter.acquire(LIMIT)) == "lease"
    assert len(looked_up) == ATTEMPTS, "it is looked up again only after it failed"
    calls.clear()
    failures = ATTEMPTS
    with pytest.raises(ray.exceptions.RayActorError):
        asyncio.run(ClusterLimiter().settle(LIMIT, received=5, busy=False))
    assert calls[-1] == ("settle", (LIMIT,), {"received": 5, "busy": False, "retry_after": None})
    calls.clear()
    failures = 0
    answers: list[Any] = [asyncio.run(limiter.renew({7})), asyncio.run(limiter.settle(LIMIT, retry_after=3))]
    asyncio.run(limiter.release(7))
    assert answers == ["lease"] * 2
    assert calls == [
        ("renew", ([7],), {}),
        ("settle", (LIMIT,), {"received": 0, "busy": None, "retry_after": 3}),
        ("release", (7,), {}),
    ]


def test_the_limiter_of_a_cluster_is_started_once_and_outlives_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []
    options: dict[str, Any] = {}

    class Actor:
        run = SimpleNamespace(remote=lambda: started.append("run"))

        def options(self, **keys: Any) -> "Actor":
            options.update(keys)
            return self

        def remote(self) -> "Actor":
            return self

    def remote(kind: type) -> Actor:
        started.append(kind)
        return Actor()

    monkeypatch.setattr(ray, "remote", remote)
    cluster_limiter.start()
    assert started == [SharedLeaseTable, "run"]
    assert (options["name"], options["namespace"]) == (cluster_limiter.NAME, cluster_limiter.NAMESPACE)
    assert (options["lifetime"], options["get_if_exists"], options["num_cpus"]) == ("detached", True, 0)
    assert options["max_restarts"] > 0
