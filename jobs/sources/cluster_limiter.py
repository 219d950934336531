"""One limiter for a whole Ray cluster: a named actor that all workers of all `fetch` jobs ask.

It outlives the job that started it, so that a pause a server asked for holds for the next run too, and ends itself
when nobody has asked it for a while.
"""

import asyncio
import time
from collections.abc import Callable, Collection
from typing import Any

from actors.fetching.rate_limits import LEASE_S, LeaseTable, Limit

NAME, NAMESPACE = "remine-limiter-1", "remine"  # the number is that of its methods' meaning
IDLE_S = 300.0
ATTEMPTS = 8  # a limiter whose machine went away is started again elsewhere in seconds


class SharedBook:
    """The actor: a LeaseBook with Ray around it."""

    def __init__(self) -> None:
        import ray

        again = ray.get_runtime_context().was_current_actor_reconstructed
        # Leases given by the one that died are still in use; until they have run out, none is given.
        self._book = LeaseTable(closed_until=time.monotonic() + LEASE_S if again else 0.0)
        self._asked = time.monotonic()

    async def call(self, method: str, arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """One method of the book."""
        self._asked = time.monotonic()
        operations: dict[str, Callable[..., Any]] = {
            "acquire": self._book.acquire,
            "renew": self._book.renew,
            "release": self._book.release,
            "settle": self._book.settle,
        }
        return operations[method](*arguments, **named)

    async def run(self) -> None:
        """End the process once nobody has asked for a while and no pause is left to be kept."""
        import ray

        while time.monotonic() < max(self._asked + IDLE_S, self._book.needed_until()):
            await asyncio.sleep(30)
        ray.actor.exit_actor()


def start() -> None:
    """Start the cluster's limiter unless it is there."""
    import ray

    actor: Any = ray.remote(SharedBook)
    options = {"num_cpus": 0, "max_restarts": 10, "max_concurrency": 1000, "lifetime": "detached"}
    actor.options(name=NAME, namespace=NAMESPACE, get_if_exists=True, **options).remote().run.remote()


class ClusterLimiter:
    """`actors.fetching.rate_limits.Limiter` through the cluster's actor; made where it is used."""

    def __init__(self) -> None:
        self._actor: Any = None

    async def _call(self, method: str, *arguments: Any, **named: Any) -> Any:
        import ray

        for attempt in range(ATTEMPTS):
            try:
                self._actor = self._actor or ray.get_actor(NAME, namespace=NAMESPACE)
                return await self._actor.call.remote(method, arguments, named)
            except (ray.exceptions.RayActorError, ValueError):  # it is being restarted, or had ended itself
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
