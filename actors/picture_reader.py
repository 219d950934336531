"""Decodes pictures for models: those that need little in this process, all others in a process with bounded memory
and time.

A picture of the table `images` may come from elsewhere than `fetch`, and a codec may take gigabytes for a few hundred
kilobytes. It must cost its own row, not the process that holds the model.
"""

import asyncio
import threading

from PIL import Image

from actors.fetching.decoders import MEMORY_BYTES, Decoders, close_when_dropped
from actors.pictures import DEFAULT_MAX_PIXELS, PictureFacts, decode_rgb, inspect, needs_little


class PictureReader:
    """Decodes one picture at a time, for any thread; starts its process when a picture first needs it.

    Args:
        max_pixels: larger pictures are not decoded.
        memory_bytes: address space of the process.
    """

    def __init__(self, *, max_pixels: int = DEFAULT_MAX_PIXELS, memory_bytes: int = MEMORY_BYTES) -> None:
        self._max_pixels, self._memory_bytes = max_pixels, memory_bytes
        self._bounded: tuple[asyncio.Runner, Decoders] | None = None
        self._lock = threading.Lock()

    def __call__(self, data: bytes) -> Image.Image:
        """Return what `actors.pictures.decode_rgb` returns.

        Raises:
            PictureError: its kinds, `decoder_died` and `decode_timeout`.
        """
        if needs_little(data):
            return decode_rgb(data, max_pixels=self._max_pixels)
        with self._lock:
            loop, decoders = self._process()
            return loop.run(decoders.decode_rgb(data))

    def inspect(self, data: bytes) -> PictureFacts:
        """Return what `actors.pictures.inspect` returns.

        Raises:
            PictureError: as a call.
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
