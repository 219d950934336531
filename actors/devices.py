"""Device and dtype selection: the names in a configuration, checked before a model is loaded."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # our name -> open_clip's


def check_device(name: str) -> None:
    """Check that `name` is the name of a device, whether or not this machine has it; `auto` needs no torch.

    Raises:
        ValueError: `name` is not the name of a device.
    """
    if name != "auto":
        _parse(name)


def find_device(name: str) -> "torch.device":
    """Return the device of this machine; `auto` is cuda if available, else cpu.

    Raises:
        ValueError: not the name of a device, or a cuda device that this machine does not have.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = _parse(name)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"device={name}: torch finds no cuda device on this machine; use auto or cpu")
        if (device.index or 0) >= (count := torch.cuda.device_count()):
            raise ValueError(f"device={name}: this machine has {count} cuda device(s), numbered from 0")
    return device


def check_dtype(name: str) -> None:
    """Check the name of a dtype.

    Raises:
        ValueError: an unknown dtype.
    """
    if name != "auto" and name not in DTYPES:
        raise ValueError(f"dtype={name}: must be one of auto, {', '.join(DTYPES)}")


def find_dtype(name: str, device: "torch.device") -> str:
    """Return the name of the dtype; `auto` is bfloat16 on a cuda device that supports it, else float32.

    Raises:
        ValueError: an unknown dtype.
    """
    import torch

    check_dtype(name)
    if name == "auto":
        return "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
    return name


def _parse(name: str) -> "torch.device":
    import torch

    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={name}: must be auto, cpu, cuda, cuda:N or another device of torch") from error
