"""Upload of arrays to an accelerator by a thread that copies ahead while earlier arrays are used.

A plain copy from pageable memory would wait for the device and reach a sixth of the bus's rate. Here it takes two
steps: a thread copies bytes to page-locked (pinned) memory, with all of torch's threads, and the device fetches them
from there by itself. Memory that is already pinned is fetched directly. Bytes are sent as they are stored: float16
takes half the bytes of float32.
"""

from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch

AT_A_TIME = 3  # arrays on the device: one in use, two being copied
STAGES = 3  # buffers of pinned memory: one is written while the device fetches the others
STAGE_BYTES = 32 << 20  # takes a fast bus 0.6 ms; starting the threads that fill it takes 0.1 ms


class Event(Protocol):
    """A point in the sequence of copies, or of the work on the device."""

    def synchronize(self) -> None:
        """Wait until the device has reached this point."""


class Lane(Protocol):
    """A device's copies, which run concurrently with its work; each of the two keeps its order."""

    def pinned(self, size: int) -> "torch.Tensor":
        """Return `size` bytes of host memory that the device can fetch by itself, uint8."""

    def allocate(self, size: int) -> "torch.Tensor":
        """Return `size` bytes of device memory, uint8."""

    def send(self, target: "torch.Tensor", source: "torch.Tensor") -> Event:
        """Begin a copy to the device; return the event after it."""

    def hold_copies(self, event: Event) -> None:
        """Make later copies wait for an event of the work."""

    def hold_work(self, event: Event, memory: "torch.Tensor") -> None:
        """Make later work on `memory` wait for an event of the copies."""

    def worked(self) -> Event:
        """Return the event after all work so far."""

    def wait(self) -> None:
        """Wait for all copies."""


class CudaLane:
    """Copies on a separate stream."""

    def __init__(self, device: "torch.device") -> None:
        import torch

        cuda: Any = torch.cuda  # its streams have no types
        self._device, self._stream = device, cuda.Stream(device)

    def pinned(self, size: int) -> "torch.Tensor":
        """See `Lane`."""
        import torch

        with torch.cuda.stream(self._stream):
            return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def allocate(self, size: int) -> "torch.Tensor":
        """See `Lane`. The memory belongs to the copies' stream, so its next user on that stream comes after them."""
        import torch

        with torch.cuda.stream(self._stream):
            return torch.empty(size, dtype=torch.uint8, device=self._device)

    def send(self, target: "torch.Tensor", source: "torch.Tensor") -> Event:
        """See `Lane`."""
        import torch

        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
        event: Event = self._stream.record_event()
        return event

    def hold_copies(self, event: Any) -> None:
        """See `Lane`."""
        self._stream.wait_event(event)

    def hold_work(self, event: Any, memory: "torch.Tensor") -> None:
        """See `Lane`."""
        import torch

        stream = torch.cuda.current_stream(self._device)
        stream.wait_event(event)
        memory.record_stream(stream)  # not reused after being freed until this stream is done with it

    def worked(self) -> Event:
        """See `Lane`."""
        import torch

        event: Event = torch.cuda.current_stream(self._device).record_event()
        return event

    def wait(self) -> None:
        """See `Lane`."""
        self._stream.synchronize()


@dataclass
class _Buffer:
    """A reusable buffer, and the event after which it may be overwritten."""

    memory: "torch.Tensor | None" = None
    free: Event | None = None


class _Upload(NamedTuple):
    array: "torch.Tensor"  # on the device
    arrived: Event
    buffer: _Buffer


class Uploads:
    """Copier of arrays to a device, ahead of the work on them."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._buffers = deque(_Buffer() for _ in range(AT_A_TIME))
        self._last: _Buffer | None = None  # whose array `send` returned last
        self._stages = deque(_Buffer() for _ in range(STAGES))
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="uploads")

    def __call__(self, arrays: Iterable["torch.Tensor"]) -> Generator["torch.Tensor", None, None]:
        """Yield the arrays on the device, with the same dtypes and shapes.

        Each is valid until the next one is requested: later copies overwrite it after the work begun by then.

        Args:
            arrays: in host memory, not empty; they must not change until the iterator is closed.
        """
        coming: deque[Future[_Upload]] = deque()
        try:
            for array in arrays:
                coming.append(self._pool.submit(self._upload, array, self._next_buffer()))
                if len(coming) == AT_A_TIME:
                    yield from self._use(coming.popleft())
            while coming:
                yield from self._use(coming.popleft())
        finally:
            for future in coming:
                if not future.cancel():
                    future.exception()  # waits
            self._lane.wait()

    def send(self, array: "torch.Tensor") -> "torch.Tensor":
        """Return one array on the device without using the thread, for callers that run ahead of the device themselves.

        It is valid until the next call, as with the iterator. The input may be changed at once if it is not pinned.
        """
        if self._last is not None:
            self._last.free = self._lane.worked()
        self._last = self._next_buffer()
        upload = self._upload(array, self._last)
        self._lane.hold_work(upload.arrived, upload.array)
        return upload.array

    def _next_buffer(self) -> _Buffer:
        self._buffers.rotate(-1)
        return self._buffers[0]

    def _use(self, future: "Future[_Upload]") -> Iterator["torch.Tensor"]:
        upload = future.result()
        self._lane.hold_work(upload.arrived, upload.array)
        try:
            yield upload.array
        finally:
            upload.buffer.free = self._lane.worked()

    def _upload(self, array: "torch.Tensor", buffer: _Buffer) -> _Upload:
        """Begin all copies of an array."""
        import torch

        with torch.inference_mode(mode=False):  # memory allocated in inference mode cannot be written outside it
            source = array.contiguous().view(-1).view(torch.uint8)
            size = len(source)
            if buffer.memory is None or len(buffer.memory) < size:
                buffer.memory = self._lane.allocate(size)
            elif buffer.free is not None:
                self._lane.hold_copies(buffer.free)
            target = buffer.memory[:size]
            if source.is_pinned():
                arrived = self._lane.send(target, source)
            else:
                for first in range(0, size, STAGE_BYTES):
                    part = slice(first, first + STAGE_BYTES)
                    arrived = self._send(source[part], target[part])
            return _Upload(target.view(array.dtype).view(array.shape), arrived, buffer)

    def _send(self, part: "torch.Tensor", target: "torch.Tensor") -> Event:
        """Begin copying at most `STAGE_BYTES` from pageable memory."""
        stage = self._stages[0]
        self._stages.rotate(-1)
        if stage.free is not None:
            stage.free.synchronize()
        if stage.memory is None:
            stage.memory = self._lane.pinned(STAGE_BYTES)
        stage.free = self._lane.send(target, stage.memory[: len(part)].copy_(part))
        return stage.free


def tensor_of(array: np.ndarray) -> "torch.Tensor":
    """Return a tensor that shares the array's memory, without torch's warning about read-only memory (mmap, Arrow)."""
    import warnings

    import torch

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*not writable")
        return torch.from_numpy(array)
