"""Requests to one host, or family of hosts, through as many connections as its limit allows."""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from actors.fetching.http_connection import CLOSING_S, Connection, HttpError, HttpRequest, Reply
from actors.fetching.politeness import retry_after
from actors.fetching.rate_limits import RENEW_S, Limit, Limiter, acquired

BUSY = (429, 503)
IDLE_S = 1.0  # how long a connection waits for a next request before it is given back
FRESH_S = 0.1  # how long it is believed that a host has not called for a pause
NAP_S = 2.0  # a pause is looked at again so often: it may have been made longer
NEAR = 64  # jobs looked at for one that an open connection serves


@dataclass(eq=False)
class _Job:
    request: HttpRequest
    reply: "asyncio.Future[Reply]"


@dataclass(eq=False)
class _Open:
    line: Connection
    lease: int
    lost: bool = False
    free_at: float = 0.0  # until then, no pause was called for


@dataclass
class Shared:
    """What the queues of a fetcher have in common."""

    limiter: Limiter
    new_line: Callable[[], Connection]
    longest_wait_s: float
    held: asyncio.Semaphore  # bodies that wait to be decoded; whoever takes a reply with a body releases it
    opened: dict[int, _Open] = field(default_factory=dict)


class HostQueue:
    """`ask` waits for its turn; connections are opened as they are needed, each under a lease of the limiter."""

    def __init__(self, limit: Limit, shared: Shared) -> None:
        self._limit, self._shared = limit, shared
        self._jobs: deque[_Job] = deque()
        self._more = asyncio.Event()
        self._lanes: set[asyncio.Task[None]] = set()

    async def ask(self, request: HttpRequest) -> Reply:
        """The reply to `request`, whatever its status. A reply with a body takes one of `Shared.held`.

        Raises:
            HttpError, BlockedError: as `Connection.ask`; HttpError `busy` when the host asks for more patience than
            there is.
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
        lease = await acquired(self._shared.limiter, self._limit)
        mine = _Open(self._shared.new_line(), lease)
        self._shared.opened[lease] = mine
        try:
            while not mine.lost and (job := await self._next(mine.line.origin)):
                await self._serve(job, mine)
        finally:
            await mine.line.close()
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
        for place in range(min(NEAR, len(self._jobs))):
            if self._jobs[place].request.origin == origin:
                job = self._jobs[place]
                del self._jobs[place]
                return job
        return self._jobs.popleft()

    async def _serve(self, job: _Job, mine: _Open) -> None:
        limiter, clock = self._shared.limiter, asyncio.get_running_loop().time

        async def received(count: int) -> None:
            if wait := await limiter.settle(self._limit, received=count):
                await asyncio.sleep(min(wait, NAP_S))

        try:
            if clock() > mine.free_at:
                await self._pause()
            reply = await mine.line.ask(job.request, received if self._limit.bytes_per_s else _nothing)
            busy = reply.status in BUSY
            wait = await limiter.settle(self._limit, busy=busy, retry_after=retry_after(reply.retry_after))
            mine.free_at = clock() + (0 if wait else FRESH_S)
            if reply.body is not None:
                await self._shared.held.acquire()
            if job.reply.done():  # nobody waits for it any more
                self._shared.held.release()
            else:
                job.reply.set_result(reply)
        except asyncio.CancelledError:
            job.reply.cancel()
            raise
        except Exception as error:
            self._refuse(job, error)
            if isinstance(error, HttpError):
                await asyncio.sleep(CLOSING_S)

    async def _pause(self) -> None:
        while (wait := await self._shared.limiter.settle(self._limit)) > 0:
            if wait > self._shared.longest_wait_s:
                raise HttpError("busy", f"{self._limit.key} asks to wait {wait:,.0f} s", retry=False)
            await asyncio.sleep(min(wait, NAP_S) * random.uniform(0.9, 1.0) if wait > NAP_S else wait)

    @staticmethod
    def _refuse(job: _Job, error: BaseException) -> None:
        if not job.reply.done():
            job.reply.set_exception(error)

    async def close(self) -> None:
        """Close the connections and give the leases back."""
        for lane in list(self._lanes):
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)


async def keep_leases(shared: Shared) -> None:
    """Renew the leases until cancelled; the connection of a lost one is closed."""
    while True:
        await asyncio.sleep(RENEW_S)
        for lease in await shared.limiter.renew(list(shared.opened)) if shared.opened else ():
            if mine := shared.opened.get(lease):
                mine.lost = True
                await mine.line.close()


async def _nothing(count: int) -> None:
    """Bytes are not counted where they are not limited."""
