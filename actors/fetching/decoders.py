"""Decoding of pictures in processes, each limited in memory and time: a pool, and a reader for models.

Processes are used instead of threads because a picture that crashes a codec or fills the memory then ends only one of
them and becomes an error row, and decoding does not compete with the event loop for the interpreter lock. A
`concurrent.futures` pool is unsuitable: one dead worker breaks it (`BrokenProcessPool`), and it cannot end a worker
that takes too long. A `pebble` pool can, but takes more CPU per small picture.

A picture in the table `images` need not come from `fetch`, and a codec may take gigabytes for a few hundred kilobytes.
That must fail the picture's row, not the process that holds the model: `PictureReader` decodes pictures that need
little memory in its own process, and all others in a bounded one.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
import weakref
from asyncio.subprocess import PIPE, Process
from threading import Thread
from typing import Any

from PIL import Image

from actors import ROOT
from actors.errors import SettingError
from actors.fetching.decode_worker import ANSWER, DECODE, LENGTH, RENDER
from actors.pictures import DEFAULT_MAX_PIXELS, PictureError, PictureFacts, Rendered, decode_rgb, inspect, needs_little

MEMORY_BYTES = 4 * 2**30  # address space of a process; the largest allowed picture takes about a third
TIMEOUT_S = 60.0  # per picture; the largest take seconds
# A process may also end because the machine ran out of memory or the job is stopping. The picture is to blame only if a
# second process ends too.
ATTEMPTS = 2
# Memory that the processes' C library keeps between pictures: mapping it again takes a tenth of the time of a small
# picture.
RETAINED_BYTES = 32 * 2**20
_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(RETAINED_BYTES),
    "MALLOC_TRIM_THRESHOLD_": str(RETAINED_BYTES),
}


class Decoders:
    """Pool of child processes that decode pictures; they start when they are first needed."""

    def __init__(
        self,
        *,
        width: int | None = None,
        max_pixels: int = DEFAULT_MAX_PIXELS,
        processes: int | None = None,
        memory_bytes: int = MEMORY_BYTES,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Keep the settings; start no process.

        Args:
            width, max_pixels: see `actors.pictures.render`.
            processes: number of processes; None: one per CPU that this process may use.
            memory_bytes: limit of each process's address space.
            timeout_s: seconds per picture.

        Raises:
            ValueError: a limit is not positive.
        """
        self.processes = len(os.sched_getaffinity(0)) if processes is None else processes
        bounds = {"width": width, "max_pixels": max_pixels, "processes": self.processes}
        for name, bound in bounds.items():
            if bound is not None and bound < 1:
                raise SettingError("must be at least 1", name, bound)
        self._settings = json.dumps({"width": width, "max_pixels": max_pixels, "memory_bytes": memory_bytes})
        self._timeout_s = timeout_s
        self._running: set[Process] = set()
        weakref.finalize(self, _kill, self._running)  # a worker that Ray keeps outlives the stage of one job
        self._free: asyncio.Queue[Process | None] = asyncio.Queue()
        for _ in range(self.processes):
            self._free.put_nowait(None)

    async def decode(self, data: bytes) -> Rendered:
        """Return the result of `actors.pictures.render`, computed in a child process.

        Raises:
            PictureError: see its kinds; also `decoder_died` (two processes ended while decoding it) and
                `decode_timeout`.
        """
        header, rendered = await self._answer(RENDER, data)
        unchanged = header.pop("unchanged")
        return Rendered(None if unchanged else rendered, PictureFacts(**header))

    async def decode_rgb(self, data: bytes) -> Image.Image:
        """Return the result of `actors.pictures.decode_rgb`, computed in a child process.

        Raises:
            PictureError: as for `decode`.
        """
        header, pixels = await self._answer(DECODE, data)
        return Image.frombytes("RGB", (header["width"], header["height"]), pixels)

    async def _answer(self, operation: bytes, data: bytes) -> tuple[dict[str, Any], bytes]:
        child = await self._free.get()
        try:
            for attempt in range(ATTEMPTS):
                child = child or await self._start()
                try:
                    async with asyncio.timeout(self._timeout_s):
                        return await self._ask(child, operation, data)
                except (EOFError, ConnectionError) as error:
                    await self._end(child)
                    child = None
                    if attempt == ATTEMPTS - 1:
                        message = "two processes ended while they decoded it, most likely in a codec"
                        raise PictureError("decoder_died", message) from error
            raise AssertionError("unreachable: ATTEMPTS is at least 1")
        except TimeoutError as error:
            await self._end(child)
            child = None
            message = f"decoding took more than {self._timeout_s:g} s"
            raise PictureError("decode_timeout", message) from error
        except asyncio.CancelledError:
            await self._end(child)
            child = None
            raise
        finally:
            self._free.put_nowait(child)

    async def _start(self) -> Process:
        paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "actors.fetching.decode_worker",
            self._settings,
            stdin=PIPE,
            stdout=PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C must reach only the job; a child ends when its input is closed
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), **_ENVIRONMENT},
        )
        self._running.add(child)
        return child

    async def _ask(self, child: Process, operation: bytes, data: bytes) -> tuple[dict[str, Any], bytes]:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(LENGTH.pack(operation, len(data)) + data)  # one system call for a small picture
        await child.stdin.drain()
        header_length, data_length = ANSWER.unpack(await child.stdout.readexactly(ANSWER.size))
        header = json.loads(await child.stdout.readexactly(header_length))
        content = await child.stdout.readexactly(data_length) if data_length else b""
        if "error_kind" in header:
            raise PictureError(header["error_kind"], header["error_message"])
        return header, content

    async def _end(self, child: Process | None) -> None:
        if child is None:
            return
        if child.returncode is None:
            child.kill()
        assert child.stdin is not None
        child.stdin.close()
        await child.communicate()  # not wait(): the pipes must be closed before the event loop
        self._running.discard(child)

    async def close(self) -> None:
        """End each process after the picture that it is decoding."""
        for _ in range(self.processes):
            await self._end(await self._free.get())
        for _ in range(self.processes):
            self._free.put_nowait(None)


def close_when_dropped(owner: object, runner: asyncio.Runner, decoders: Decoders) -> None:
    """When `owner` is collected, close `decoders`, then `runner`, whose event loop their pipes belong to.

    Otherwise the loop may be collected first, and the pipes then report a closed loop in whatever code is running.

    They are closed in a new thread, since any thread may drop the last reference to `owner`: one of the
    loop's own threads (a failed call's traceback refers to its callers) would wait for itself, and one that runs
    another loop cannot run this one.
    """
    closing = Thread(target=_close, args=(runner, decoders), name="close decoders")
    weakref.finalize(owner, closing.start).atexit = False  # then the processes are killed


def _close(runner: asyncio.Runner, decoders: Decoders) -> None:
    runner.run(decoders.close())
    runner.close()


def _kill(children: set[Process]) -> None:
    for child in children:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)


class PictureReader:
    """Decoder of one picture at a time, usable from any thread; starts its process when a picture first needs it.

    Args:
        max_pixels: larger pictures are not decoded.
        memory_bytes: limit of the process's address space.
    """

    def __init__(self, *, max_pixels: int = DEFAULT_MAX_PIXELS, memory_bytes: int = MEMORY_BYTES) -> None:
        self._max_pixels, self._memory_bytes = max_pixels, memory_bytes
        self._bounded: tuple[asyncio.Runner, Decoders] | None = None
        self._lock = threading.Lock()

    def __call__(self, data: bytes) -> Image.Image:
        """Decode a picture as `actors.pictures.decode_rgb` does.

        Raises:
            PictureError: see its kinds; also `decoder_died` and `decode_timeout`.
        """
        if needs_little(data):
            return decode_rgb(data, max_pixels=self._max_pixels)
        with self._lock:
            loop, decoders = self._process()
            return loop.run(decoders.decode_rgb(data))

    def inspect(self, data: bytes) -> PictureFacts:
        """Return the facts that `actors.pictures.inspect` returns.

        Raises:
            PictureError: as for a call.
        """
        if needs_little(data):
            return inspect(data, max_pixels=self._max_pixels)
        with self._lock:
            loop, decoders = self._process()
            return loop.run(decoders.decode(data)).facts

    def _process(self) -> tuple[asyncio.Runner, Decoders]:
        if self._bounded is None:
            decoders = Decoders(max_pixels=self._max_pixels, processes=1, memory_bytes=self._memory_bytes)
            self._bounded = asyncio.Runner(), decoders
            close_when_dropped(self, *self._bounded)
        return self._bounded
