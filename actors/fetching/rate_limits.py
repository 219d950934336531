"""How much may be asked of a host at once: connections, bytes a second, and the pauses it asks for.

`LeaseTable` is the bookkeeping, with a clock that is given to it. A job keeps one for its whole cluster
(jobs.sources.cluster_limiter);
`LocalLimiter` is one for this process alone.
"""

import asyncio
import random
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

LEASE_S = 15.0  # a lease that is not renewed for so long was a dead worker's
RENEW_S = 5.0
POLL_S = 0.2  # how often a free connection is asked for
BURST_S = 0.25  # of a rate: what may come at once after a silence
LONGEST_BACKOFF_S = 120.0


@dataclass(frozen=True)
class Limit:
    """What a host, or a family of hosts under one `key`, may be asked for."""

    key: str
    connections: int
    bytes_per_s: float | None = None
    backoff_s: float = 1.0  # the first pause after a 429 or 503 that names none; each further one is twice as long


class Limiter(Protocol):
    """Shared by all workers; every method may be called from any of them."""

    async def acquire(self, limit: Limit) -> int | None:
        """A lease of one connection; None if all are taken."""

    async def renew(self, leases: Collection[int]) -> list[int]:
        """Keep leases alive; those that are lost already."""

    async def release(self, lease: int) -> None:
        """Give a lease back once its connection is closed."""

    async def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        """Account for bytes and for an answer (`busy`: 429 or 503); seconds to wait before asking for more."""


@dataclass
class _Host:
    leases: dict[int, float] = field(default_factory=dict)  # lease -> until when
    paid_at: float = 0.0  # when what was received so far will have been paid for
    paused_until: float = 0.0
    strikes: int = 0


class LeaseTable:
    """The state of all hosts; not safe for threads."""

    def __init__(self, now: Callable[[], float] = time.monotonic, *, closed_until: float = 0.0) -> None:
        """`closed_until`: grant nothing before, because leases of a former book may still be in use."""
        self._now, self._closed_until = now, closed_until
        self._hosts: dict[str, _Host] = {}
        self._of: dict[int, str] = {}
        self._last = random.getrandbits(40)  # a book that follows a dead one must not know its leases

    def acquire(self, limit: Limit) -> int | None:
        now = self._now()
        host = self._hosts.setdefault(limit.key, _Host())
        for lease in [lease for lease, until in host.leases.items() if until <= now]:
            self.release(lease)
        if now < self._closed_until or len(host.leases) >= limit.connections:
            return None
        self._last += 1
        host.leases[self._last] = now + LEASE_S
        self._of[self._last] = limit.key
        return self._last

    def renew(self, leases: Collection[int]) -> list[int]:
        now = self._now()
        lost = [lease for lease in leases if lease not in self._of or self._host(lease).leases[lease] <= now]
        for lease in leases:
            if lease not in lost:
                self._host(lease).leases[lease] = now + LEASE_S
        return lost

    def release(self, lease: int) -> None:
        if (key := self._of.pop(lease, None)) is not None:
            self._hosts[key].leases.pop(lease, None)

    def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        now = self._now()
        host = self._hosts.setdefault(limit.key, _Host())
        if limit.bytes_per_s and received:
            host.paid_at = max(host.paid_at, now - BURST_S) + received / limit.bytes_per_s
        if busy:
            if now >= host.paused_until:  # answers that were under way when a pause began are no further strikes
                host.strikes += 1
            pause = min(LONGEST_BACKOFF_S, limit.backoff_s * 2 ** min(20, max(0, host.strikes - 1)))
            pause *= random.uniform(1.0, 1.25)  # workers must not come back all at once
            host.paused_until = max(host.paused_until, now + (pause if retry_after is None else retry_after))
        elif busy is False:
            host.strikes = 0
        return max(0.0, host.paid_at - now, host.paused_until - now)

    def needed_until(self) -> float:
        """When the last lease and the last pause will have run out."""
        ends = (max([host.paused_until, *host.leases.values()]) for host in self._hosts.values())
        return max(ends, default=0.0)

    def _host(self, lease: int) -> _Host:
        return self._hosts[self._of[lease]]


class LocalLimiter:
    """A `Limiter` for one process."""

    def __init__(self) -> None:
        self._book = LeaseTable()

    async def acquire(self, limit: Limit) -> int | None:
        return self._book.acquire(limit)

    async def renew(self, leases: Collection[int]) -> list[int]:
        return self._book.renew(leases)

    async def release(self, lease: int) -> None:
        self._book.release(lease)

    async def settle(
        self, limit: Limit, *, received: int = 0, busy: bool | None = None, retry_after: float | None = None
    ) -> float:
        return self._book.settle(limit, received=received, busy=busy, retry_after=retry_after)


async def acquired(limiter: Limiter, limit: Limit) -> int:
    """A lease, waited for."""
    while (lease := await limiter.acquire(limit)) is None:
        await asyncio.sleep(POLL_S * random.uniform(0.5, 1.5))
    return lease
