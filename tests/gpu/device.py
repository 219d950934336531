"""Time and rates on a device: seconds of work that the device has finished, matrix products, copies."""

import statistics
import time
from collections.abc import Callable
from typing import Any

REPEATS = 3


def synchronize(device: Any) -> None:
    """Wait until the device has finished its work."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds(device: Any, work: Callable[[], Any], *, repeats: int = REPEATS) -> float:
    """The median wall time of `work` after one call to warm up."""
    work()
    times = []
    for _ in range(repeats):
        synchronize(device)
        start = time.perf_counter()
        work()
        synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def matrix_rate(device: Any, dtype: Any, *, side: int) -> float:
    """FLOP per second of products of square matrices of random numbers."""
    import torch

    one, other = (torch.randn(side, side, device=device, dtype=dtype) for _ in range(2))
    times = 5
    return 2 * side**3 * times / seconds(device, lambda: [one @ other for _ in range(times)])


def copy_rate(device: Any, *, size: int) -> float:
    """Bytes per second, read and written, of a copy of `size` bytes within the device's memory."""
    import torch

    source = torch.zeros(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    times = 5
    return 2 * size * times / seconds(device, lambda: [target.copy_(source) for _ in range(times)])


def upload_rate(device: Any, *, size: int) -> float:
    """Bytes per second that reach the device from pinned memory of the machine."""
    import torch

    source = torch.zeros(size, dtype=torch.uint8)
    if device.type == "cuda":
        source = source.pin_memory()
    target = torch.empty(size, dtype=torch.uint8, device=device)
    return size / seconds(device, lambda: target.copy_(source, non_blocking=True))


def flops(work: Callable[[], Any]) -> int:
    """FLOP of one call, as torch's FlopCounterMode counts them: matrix products and attention."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())
