"""A pool of processes that decode pictures, each bounded in memory and time.

Processes rather than threads: a picture that makes a codec crash, or fills the memory, takes one of them along and
becomes an error of its own; and what Python does a picture does not run beside the event loop under one lock.
"""

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

import actors
from actors.fetching.decode_worker import ANSWER, LENGTH
from actors.pictures import DEFAULT_MAX_PIXELS, PictureError, PictureFacts, Rendered

MEMORY_BYTES = 4 * 2**30  # address space of a child; the largest picture allowed takes about a third
TIMEOUT_S = 60.0  # one picture; the largest take seconds
# A decoder may also end for reasons of the machine: it was short of memory, or the job is being ended and its
# processes go one after the other. Only a picture that takes a second one along has shown that it is at fault.
ATTEMPTS = 2
# For the children's C library: memory that a picture used is kept for the next, up to this, instead of being mapped
# anew for each (a tenth of a small picture's time).
KEPT_BYTES = 32 * 2**20
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(KEPT_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(KEPT_BYTES),
}


class Decoders:
    """`decode` hands a picture to one of `processes` children; they are started when first needed."""

    def __init__(
        self,
        *,
        width: int | None = None,
        max_pixels: int = DEFAULT_MAX_PIXELS,
        processes: int | None = None,
        memory_bytes: int = MEMORY_BYTES,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Args as of `actors.pictures.render`; `processes` None: one for each CPU that this process may use.

        Raises:
            ValueError: a bound that is not positive.
        """
        self.processes = len(os.sched_getaffinity(0)) if processes is None else processes
        bounds = {"width": width, "max_pixels": max_pixels, "processes": self.processes}
        for name, bound in bounds.items():
            if bound is not None and bound < 1:
                raise ValueError(f"{name} is {bound}; it must be at least 1")
        self._settings = json.dumps({"width": width, "max_pixels": max_pixels, "memory_bytes": memory_bytes})
        self._timeout_s = timeout_s
        self._free: asyncio.Queue[Process | None] = asyncio.Queue()
        for _ in range(self.processes):
            self._free.put_nowait(None)

    async def decode(self, data: bytes) -> Rendered:
        """As `actors.pictures.render`, elsewhere.

        Raises:
            PictureError: its kinds, and `decoder_died` (two children ended over it) and `decode_timeout`.
        """
        child = await self._free.get()
        try:
            for attempt in range(ATTEMPTS):
                child = child or await self._start()
                try:
                    async with asyncio.timeout(self._timeout_s):
                        return await self._ask(child, data)
                except (EOFError, ConnectionError) as error:
                    await self._end(child)
                    child = None
                    if attempt == ATTEMPTS - 1:
                        message = "two processes that decoded it ended, most likely in a codec"
                        raise PictureError("decoder_died", message) from error
            raise AssertionError("unreachable: ATTEMPTS is at least 1")
        except TimeoutError as error:
            await self._end(child)
            child = None
            message = f"decoding it took more than {self._timeout_s:g} s"
            raise PictureError("decode_timeout", message) from error
        except asyncio.CancelledError:
            await self._end(child)
            child = None
            raise
        finally:
            self._free.put_nowait(child)

    async def _start(self) -> Process:
        paths = [str(Path(actors.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "actors.fetching.decode_worker",
            self._settings,
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the job; a child ends when its input does
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), **_ENVIRONMENT},
        )

    async def _ask(self, child: Process, data: bytes) -> Rendered:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(LENGTH.pack(len(data)) + data)  # one system call for a small picture
        await child.stdin.drain()
        told, more = ANSWER.unpack(await child.stdout.readexactly(ANSWER.size))
        said = json.loads(await child.stdout.readexactly(told))
        made = await child.stdout.readexactly(more) if more else None
        if "error_kind" in said:
            raise PictureError(said["error_kind"], said["error_message"])
        unchanged = said.pop("unchanged")
        return Rendered(None if unchanged else made, PictureFacts(**said))

    async def _end(self, child: Process | None) -> None:
        if child is not None and child.returncode is None:
            child.kill()
            await child.wait()

    async def close(self) -> None:
        """End the children; those at work are waited for."""
        for _ in range(self.processes):
            await self._end(await self._free.get())
        for _ in range(self.processes):
            self._free.put_nowait(None)
