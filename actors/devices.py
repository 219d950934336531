"""Devices and dtypes: the names in a configuration, checked before a model is loaded, and float32 products on CPUs."""

import os
import socket
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actors.errors import SettingError

if TYPE_CHECKING:
    import torch

GPU_SHARE = "REMINE_GPU_SHARE"  # environment variable of an actor that uses part of a GPU
ONEDNN_SWITCH = "REMINE_ONEDNN"  # environment variable; 0 keeps torch's default for float32 products on CPUs
DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # our name -> open_clip's


def check_device(name: str) -> None:
    """Check that `name` is the name of a device, whether or not this machine has it; `auto` needs no torch.

    Raises:
        ValueError: `name` is not the name of a device.
    """
    if name != "auto":
        _parse(name)


class MissingDeviceError(ValueError):
    """This process was assigned a GPU, but torch finds none."""


def has_cuda() -> bool:
    """Return whether this process can compute on a GPU.

    Raises:
        MissingDeviceError: it was assigned one (Ray and Slurm set `CUDA_VISIBLE_DEVICES`), but torch finds none. On a
            CPU a model would silently take a hundred times as long, in another dtype.
    """
    import torch

    if torch.cuda.is_available():
        return True
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if devices and devices != "-1" and "NoDevFiles" not in devices:
        raise MissingDeviceError(
            f"CUDA_VISIBLE_DEVICES={devices}, but torch {torch.__version__} finds no CUDA device; "
            f"check the driver of {socket.gethostname()} (nvidia-smi), or set num_gpus=0 to compute on CPUs"
        )
    return False


def upload(tensor: "torch.Tensor", device: "torch.device") -> "torch.Tensor":
    """Return `tensor` on `device`.

    A plain copy of more than 64 kB from pageable memory waits for the GPU's earlier work; this one does not.
    """
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def upload_joined(
    tensors: "Sequence[torch.Tensor]", device: "torch.device", *, axis: int, dtype: "torch.dtype | None" = None
) -> "torch.Tensor":
    """Concatenate tensors along `axis`, on `device`.

    For a GPU they are joined in pinned memory, which torch reuses in later calls: allocating new pages costs as much
    as the copy.

    Args:
        dtype: dtype of the result; None: that of the tensors.
    """
    import torch

    first = tensors[0]
    dtype = dtype or first.dtype
    if device.type != "cuda":
        return torch.cat([tensor.to(dtype) for tensor in tensors], axis).to(device)
    shape = list(first.shape)
    shape[axis] = sum(tensor.shape[axis] for tensor in tensors)
    joined = torch.empty(shape, dtype=dtype, pin_memory=True)
    begin = 0
    for tensor in tensors:
        joined.narrow(axis, begin, tensor.shape[axis]).copy_(tensor)
        begin += tensor.shape[axis]
    return joined.to(device, non_blocking=True)


def find_device(name: str) -> "torch.device":
    """Return the device of this machine; `auto` is cuda if available, else cpu.

    Raises:
        ValueError: `name` is not a device, or is a cuda device that this machine does not have.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if has_cuda() else "cpu")
    device = _parse(name)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise SettingError("torch finds no cuda device on this machine; use auto or cpu", "device", name)
        if (device.index or 0) >= (count := torch.cuda.device_count()):
            raise SettingError(f"this machine has {count} cuda device(s), numbered from 0", "device", name)
    return device


def check_dtype(name: str) -> None:
    """Check the name of a dtype.

    Raises:
        ValueError: an unknown dtype.
    """
    if name != "auto" and name not in DTYPES:
        raise SettingError(f"must be one of auto, {', '.join(DTYPES)}", "dtype", name)


def find_dtype(name: str, device: "torch.device") -> str:
    """Return the name of the dtype; `auto` is bfloat16 on a cuda device that supports it, else float32.

    Raises:
        ValueError: an unknown dtype, or bfloat16 on a GPU that only emulates it.
    """
    import torch

    check_dtype(name)
    if device.type != "cuda" or name not in ("auto", "bfloat16"):
        return "float32" if name == "auto" else name
    if torch.cuda.is_bf16_supported(including_emulation=False):
        return "bfloat16"
    if name == "auto":
        return "float32"
    raise ValueError(
        f"{socket.gethostname()}: dtype=bfloat16, but the GPU {torch.cuda.get_device_name(device)} does not compute in "
        "it; use GPUs of compute capability 8.0 or newer, or dtype=float16 or float32 in a new table"
    )


def _parse(name: str) -> "torch.device":
    import torch

    try:
        return torch.device(name)
    except RuntimeError as error:
        raise SettingError("must be auto, cpu, cuda, cuda:N or another device of torch", "device", name) from error


@lru_cache(maxsize=1)
def enable_onednn() -> bool:
    """Let this process multiply float32 matrices on the CPU with oneDNN, if that is faster and stays float32.

    On x86 processors that Intel did not make, MKL, torch's default, is limited to AVX2. oneDNN, which is part of torch,
    uses AVX-512 there, but torch passes it float32 products only if they may be computed in bfloat16. oneDNN does so
    only on processors with AMX, which Intel makes: on others the products stay float32, and only the order of their
    sums changes (a relative difference of about 1e-6), which is verified with a product.

    Returns:
        Whether oneDNN is now used. If not, torch's settings are unchanged.
    """
    import torch

    if os.environ.get(ONEDNN_SWITCH) == "0" or not _is_faster():
        return False
    mkldnn: Any = torch.backends.mkldnn
    mkldnn.matmul.fp32_precision = "bf16"
    if _keeps_float32():
        return True
    mkldnn.matmul.fp32_precision = "ieee"
    return False


def _is_faster() -> bool:
    """Return whether this CPU has AVX-512 that MKL does not use, and torch has the setting (2.9 and later)."""
    import torch

    backends: Any = torch.backends
    return (
        hasattr(backends.mkldnn, "matmul")
        and backends.mkl.is_available()
        and backends.cpu.get_cpu_capability() == "AVX512"
        and not _is_intel()
    )


def _is_intel() -> bool:
    """Return whether Intel made the processor, or its maker is unknown."""
    try:
        description = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return True
    return "GenuineIntel" in description or "vendor_id" not in description


def _keeps_float32() -> bool:
    """Return whether products keep numbers that bfloat16 would round: 1 + 2^-12 becomes 1."""
    import torch

    rows = torch.full((64, 4096), 1 + 2.0**-12)
    return bool((torch.mm(rows, rows.T) > 4097).all())
