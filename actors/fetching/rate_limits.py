"""Limits per host: concurrent connections, bytes per second, and pauses that the host demands.

`LeaseTable` holds the state. A Ray cluster shares one (jobs.workers.cluster_limiter); `LocalLimiter` has one for a
single process.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

LEASE_S = 15.0  # a lease expires unless it is renewed: its worker may have died
RENEW_S = 5.0
POLL_S = 0.2  # interval at which workers try to acquire a lease
BURST_S = 0.25  # seconds of the allowed rate that may arrive at once after an idle time
LONGEST_BACKOFF_S = 120.0


@dataclass(frozen=True)
class Limit:
    """Limits of a host, or of a family of hosts under one `key`."""

    key: str
    connections: int
    bytes_per_s: float | None = None
    backoff_s: float = 1.0  # first pause after a 429 or 503 without Retry-After; doubles each time


class Limiter(Protocol):
    """Interface that grants connections and pauses; shared by all workers."""

    async def acquire(self, limit: Limit) -> int | None:
        """Return a lease of one connection; None if all are in use."""

    async def renew(self, leases: Collection[int]) -> list[int]:
        """Extend `leases`; return those that were already lost."""

    async def release(self, lease: int) -> None:
        """End a lease after its connection was closed."""

    async def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        """Count what happened; return the seconds to wait before the next transfer.

        Args:
            limit: the host's limits.
            received: bytes of a reply.
            busy: whether a reply had status 429 or 503; None: there was no reply.
            retry_after: seconds that this reply demands.
        """


@dataclass
class _Host:
    leases: dict[int, float] = field(default_factory=dict)  # time at which each lease expires
    transferred_at: float = 0.0  # time at which the allowed rate would have transferred all bytes received so far
    paused_until: float = 0.0
    strikes: int = 0  # consecutive pauses


class LeaseTable:
    """The state of all hosts; not thread-safe."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, closed_until: float = 0.0) -> None:
        """Create an empty table.

        Args:
            now: a clock in seconds.
            closed_until: no lease is granted before this time, since a predecessor's leases may still be in use.
        """
        self._now, self._closed_until = now, closed_until
        self._hosts: dict[str, _Host] = {}
        self._keys: dict[int, str] = {}  # key of each lease's limit
        self._last = random.getrandbits(40)  # random, to differ from a predecessor's leases

    def acquire(self, limit: Limit) -> int | None:
        now = self._now()
        host = self._hosts.setdefault(limit.key, _Host())
        for lease in [lease for lease, until in host.leases.items() if until <= now]:
            self.release(lease)
        if now < self._closed_until or len(host.leases) >= limit.connections:
            return None
        self._last += 1
        host.leases[self._last] = now + LEASE_S
        self._keys[self._last] = limit.key
        return self._last

    def renew(self, leases: Collection[int]) -> list[int]:
        now = self._now()
        lost = [lease for lease in leases if lease not in self._keys or self._host(lease).leases[lease] <= now]
        for lease in leases:
            if lease not in lost:
                self._host(lease).leases[lease] = now + LEASE_S
        return lost

    def release(self, lease: int) -> None:
        if (key := self._keys.pop(lease, None)) is not None:
            self._hosts[key].leases.pop(lease, None)

    def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        now = self._now()
        host = self._hosts.setdefault(limit.key, _Host())
        if limit.bytes_per_s and received:
            host.transferred_at = max(host.transferred_at, now - BURST_S) + received / limit.bytes_per_s
        if busy:
            if now >= host.paused_until:  # replies to requests sent before the pause do not prolong it
                host.strikes += 1
            pause = min(LONGEST_BACKOFF_S, limit.backoff_s * 2 ** min(20, max(0, host.strikes - 1)))
            pause *= random.uniform(1.0, 1.25)  # workers must not return all at once
            host.paused_until = max(host.paused_until, now + (pause if retry_after is None else retry_after))
        elif busy is False:
            host.strikes = 0
        return max(0.0, host.transferred_at - now, host.paused_until - now)

    def needed_until(self) -> float:
        """Return the time at which the last lease and the last pause end."""
        ends = (max([host.paused_until, *host.leases.values()]) for host in self._hosts.values())
        return max(ends, default=0.0)

    def _host(self, lease: int) -> _Host:
        return self._hosts[self._keys[lease]]


class LocalLimiter:
    """A `Limiter` for one process."""

    def __init__(self) -> None:
        self._table = LeaseTable()

    async def acquire(self, limit: Limit) -> int | None:
        return self._table.acquire(limit)

    async def renew(self, leases: Collection[int]) -> list[int]:
        return self._table.renew(leases)

    async def release(self, lease: int) -> None:
        self._table.release(lease)

    async def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        return self._table.settle(limit, received=received, busy=busy, retry_after=retry_after)


async def wait_for_lease(limiter: Limiter, limit: Limit) -> int:
    """Return a lease as soon as one is free."""
    while (lease := await limiter.acquire(limit)) is None:
        await asyncio.sleep(POLL_S * random.uniform(0.5, 1.5))
    return lease
