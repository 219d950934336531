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
    """Return the median wall time of `work` after one call to warm up."""
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


def linear_flops(model: Any, work: Callable[[], Any]) -> int:
    """FLOP of the linear layers of `model` in one call; FlopCounterMode refuses attention with fewer key heads."""
    import torch

    counts: list[int] = []

    def count(layer: Any, inputs: Any, _: Any) -> None:
        counts.append(2 * inputs[0].numel() * layer.out_features)

    hooks = [m.register_forward_hook(count) for m in model.modules() if isinstance(m, torch.nn.Linear)]
    try:
        work()
    finally:
        for hook in hooks:
            hook.remove()
    return sum(counts)


def idle_share(device: Any, work: Callable[[], Any]) -> dict[str, float]:
    """Return `device idle`, the share of a call's time in which neither kernels nor copies run; none on a CPU."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    if device.type != "cuda":
        return {}
    work()
    synchronize(device)
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        start = time.perf_counter()
        work()
        synchronize(device)
        took = time.perf_counter() - start
    kernels = [e.time_range for e in profiler.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    ends, microseconds = 0.0, 0.0
    for one in sorted(kernels, key=lambda one: one.start):  # streams overlap
        microseconds += max(0.0, one.end - max(one.start, ends))
        ends = max(ends, one.end)
    return {"device idle": 1 - microseconds / 1e6 / took}
