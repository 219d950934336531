"""One limiter for a whole Ray cluster: a named actor that the workers of all `fetch` jobs call.

It outlives the job that started it, so that the next run respects a pause that a host has requested, and exits when it
has not been called for a while. The workers open the connections themselves: pictures do not pass through another
process, and any worker may send requests to any host.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any

from actors.fetching.politeness import LEASE_S, LeaseTable, Limit

NAME, NAMESPACE = "remine-limiter-1", "remine"  # the number is the version of its protocol
IDLE_S = 300.0
ATTEMPTS = 8  # if the limiter's node is lost, it is restarted elsewhere within seconds


class SharedLeaseTable:
    """A `LeaseTable` as a Ray actor."""

    def __init__(self) -> None:
        import ray

        restarted = ray.get_runtime_context().was_current_actor_reconstructed
        # Leases of the actor that died are still in use: grant none until they have expired.
        self._table = LeaseTable(closed_until=time.monotonic() + LEASE_S if restarted else 0.0)
        self._called = time.monotonic()

    async def call(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Call a method of the table and return its result."""
        self._called = time.monotonic()
        operations: dict[str, Callable[..., Any]] = {
            "acquire": self._table.acquire,
            "renew": self._table.renew,
            "release": self._table.release,
            "settle": self._table.settle,
        }
        return operations[method](*arguments, **named)

    async def run(self) -> None:
        """End the process once it has not been called for a while and no lease or pause is left."""
        import ray

        while time.monotonic() < max(self._called + IDLE_S, self._table.needed_until()):
            await asyncio.sleep(30)
        ray.actor.exit_actor()


def start() -> None:
    """Start the cluster's limiter unless it is running."""
    import ray

    actor: Any = ray.remote(SharedLeaseTable)
    options = {"num_cpus": 0, "max_restarts": 10, "max_concurrency": 1000, "lifetime": "detached"}
    actor.options(name=NAME, namespace=NAMESPACE, get_if_exists=True, **options).remote().run.remote()


class ClusterLimiter:
    """An `actors.fetching.politeness.Limiter` that calls the cluster's actor; create it in the worker that uses it."""

    def __init__(self) -> None:
        self._actor: Any = None

    async def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        import ray

        for attempt in range(ATTEMPTS):
            try:
                self._actor = self._actor or ray.get_actor(NAME, namespace=NAMESPACE)
                return await self._actor.call.remote(method, arguments, named)
            except (ray.exceptions.RayActorError, ValueError):  # it is being restarted, or has exited
                self._actor = None
                if attempt == ATTEMPTS - 1:
                    raise
                await asyncio.sleep(0.2 * 2**attempt)
                start()

    async def acquire(self, limit: Limit) -> int | None:
        lease: int | None = await self._call("acquire", limit)
        return lease

    async def renew(self, leases: Collection[int]) -> list[int]:
        lost: list[int] = await self._call("renew", list(leases))
        return lost

    async def release(self, lease: int) -> None:
        await self._call("release", lease)

    async def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        wait: float = await self._call("settle", limit, received=received, busy=busy, retry_after=retry_after)
        return wait
