"""Decode pictures for models: those that need little memory in this process, all others in a process with bounded
memory and time.

A picture in the table `images` need not come from `fetch`, and a codec may take gigabytes for a few hundred kilobytes.
That must fail the picture's row, not the process that holds the model.
"""

import asyncio
import threading

from PIL import Image

from actors.fetching.decoders import MEMORY_BYTES, Decoders, close_when_dropped
from actors.pictures import DEFAULT_MAX_PIXELS, PictureFacts, decode_rgb, inspect, needs_little


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
