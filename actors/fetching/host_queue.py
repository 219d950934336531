"""Queue of requests to one host or family of hosts, served by as many connections as its limit allows."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from actors.fetching.http_connection import CLOSING_S, Connection, HttpError, HttpRequest, Reply
from actors.fetching.politeness import RENEW_S, Limit, Limiter, retry_after, wait_for_lease

BUSY = (429, 503)
IDLE_S = 1.0  # time after which an idle connection is closed
FRESH_S = 0.1  # after a reply without a pause, time until the limiter is queried about pauses again
NAP_S = 2.0  # interval at which a pause is checked again: another worker may have extended it
LOOK_AHEAD = 64  # queued jobs that an open connection searches for one of its host


@dataclass(eq=False)
class _Job:
    request: HttpRequest
    reply: "asyncio.Future[Reply]"


@dataclass(eq=False)
class _LeasedConnection:
    connection: Connection
    lease: int
    lost: bool = False
    unpaused_until: float = 0.0  # time of the event loop


@dataclass
class Shared:
    """State shared by a fetcher's queues."""

    limiter: Limiter
    new_connection: Callable[[], Connection]
    max_wait_s: float
    bodies: asyncio.Semaphore  # bounds the undecoded bodies in memory; the receiver of a body releases it
    max_timeouts: int = 10  # consecutive timeouts after which a queue refuses all other requests
    opened: dict[int, _LeasedConnection] = field(default_factory=dict)  # by lease


class HostQueue:
    """Queue that sends requests in turn, opening connections on demand, each under a lease of the limiter."""

    def __init__(self, limit: Limit, shared: Shared) -> None:
        self._limit, self._shared = limit, shared
        self._jobs: deque[_Job] = deque()
        self._more = asyncio.Event()
        self._lanes: set[asyncio.Task[None]] = set()
        self._timeouts = 0  # consecutive timeouts

    async def ask(self, request: HttpRequest) -> Reply:
        """Return the reply to `request`, whatever its status. A reply with a body acquires `Shared.bodies`.

        Raises:
            HttpError, BlockedError: as for `Connection.ask`; also HttpError `busy` if the host demands a pause longer
                than `Shared.max_wait_s`, and `host_timeouts` after `Shared.max_timeouts` consecutive timeouts.
        """
        job = _Job(request, asyncio.get_running_loop().create_future())
        self._jobs.append(job)
        self._more.set()
        if len(self._lanes) < min(self._limit.connections, len(self._jobs) + self._working()):
            self._open_lane()
        return await job.reply

    def _working(self) -> int:
        return sum(1 for lane in self._lanes if not lane.done())

    def _open_lane(self) -> None:
        lane = asyncio.create_task(self._lane())
        self._lanes.add(lane)
        lane.add_done_callback(self._lane_ended)

    def _lane_ended(self, lane: "asyncio.Task[None]") -> None:
        self._lanes.discard(lane)
        if not lane.cancelled() and (error := lane.exception()):
            while self._jobs:
                self._refuse(self._jobs.popleft(), error)
        elif self._jobs and not lane.cancelled() and not self._lanes:
            self._open_lane()

    async def _lane(self) -> None:
        lease = await wait_for_lease(self._shared.limiter, self._limit)
        leased = _LeasedConnection(self._shared.new_connection(), lease)
        self._shared.opened[lease] = leased
        try:
            while not leased.lost and (job := await self._next(leased.connection.origin)):
                await self._serve(job, leased)
        finally:
            await leased.connection.close()
            self._shared.opened.pop(lease, None)
            await self._shared.limiter.release(lease)

    async def _next(self, origin: tuple[str, str] | None) -> _Job | None:
        while not self._jobs:
            self._more.clear()
            try:
                async with asyncio.timeout(IDLE_S):
                    await self._more.wait()
            except TimeoutError:
                return None
        for place in range(min(LOOK_AHEAD, len(self._jobs))):
            if self._jobs[place].request.origin == origin:
                job = self._jobs[place]
                del self._jobs[place]
                return job
        return self._jobs.popleft()

    async def _serve(self, job: _Job, leased: _LeasedConnection) -> None:
        limiter, clock = self._shared.limiter, asyncio.get_running_loop().time

        async def received(count: int) -> None:
            if wait := await limiter.settle(self._limit, received=count):
                await asyncio.sleep(min(wait, NAP_S))

        try:
            if self._timeouts >= self._shared.max_timeouts:
                message = f"{self._timeouts} requests in a row to {self._limit.key} timed out"
                raise HttpError("host_timeouts", message, retry=False)
            if clock() > leased.unpaused_until:
                await self._pause()
            reply = await leased.connection.ask(job.request, received if self._limit.bytes_per_s else _uncounted)
            self._timeouts = 0
            busy = reply.status in BUSY
            wait = await limiter.settle(self._limit, busy=busy, retry_after=retry_after(reply.retry_after))
            leased.unpaused_until = clock() + (0 if wait else FRESH_S)
            if reply.body is not None:
                await self._shared.bodies.acquire()
            if not job.reply.done():
                job.reply.set_result(reply)
            elif reply.body is not None:  # cancelled: there is no receiver
                self._shared.bodies.release()
        except asyncio.CancelledError:
            job.reply.cancel()
            raise
        except Exception as error:
            self._refuse(job, error)
            if isinstance(error, HttpError):
                self._timeouts += error.kind == "timeout"
                await asyncio.sleep(CLOSING_S)

    async def _pause(self) -> None:
        while (wait := await self._shared.limiter.settle(self._limit)) > 0:
            if wait > self._shared.max_wait_s:
                raise HttpError("busy", f"{self._limit.key} demands a pause of {wait:,.0f} s", retry=False)
            await asyncio.sleep(min(wait, NAP_S) * random.uniform(0.9, 1.0) if wait > NAP_S else wait)

    @staticmethod
    def _refuse(job: _Job, error: BaseException) -> None:
        if not job.reply.done():
            job.reply.set_exception(error)

    async def close(self) -> None:
        """Close the connections and release their leases."""
        for lane in list(self._lanes):
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)


async def keep_leases(shared: Shared) -> None:
    """Renew the leases until cancelled; close connections whose lease was lost."""
    while True:
        await asyncio.sleep(RENEW_S)
        for lease in await shared.limiter.renew(list(shared.opened)) if shared.opened else ():
            if leased := shared.opened.get(lease):
                leased.lost = True
                await leased.connection.close()


async def _uncounted(count: int) -> None:
    """Ignore received bytes: without a rate limit they are not counted."""
