"""Where torch computes, and in what numbers: the words of a config, checked before a model is loaded."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}  # ours -> open_clip's word


def check_device(name: str) -> None:
    """Refuse what is the name of no device, whether or not this machine has it; `auto` needs no torch.

    Raises:
        ValueError: see above.
    """
    if name != "auto":
        _named(name)


def find_device(name: str) -> "torch.device":
    """The device of this machine: `auto` is cuda if there is one, else cpu.

    Raises:
        ValueError: no such name, or no such cuda device here.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = _named(name)
    if device.type == "cuda":
        if not torch.cuda.is_available():
            raise ValueError(f"device is {name!r}, but torch sees no cuda device here; allowed are auto and cpu")
        if (device.index or 0) >= (count := torch.cuda.device_count()):
            raise ValueError(f"device is {name!r}, but torch sees {count} cuda device(s) here, counted from 0")
    return device


def check_dtype(name: str) -> None:
    """Refuse an unknown dtype.

    Raises:
        ValueError: see above.
    """
    if name != "auto" and name not in DTYPES:
        raise ValueError(f"dtype is {name!r}; allowed are auto, {', '.join(DTYPES)}")


def find_dtype(name: str, device: "torch.device") -> str:
    """The dtype's name: `auto` is bfloat16 on a cuda device that has it, else float32.

    Raises:
        ValueError: an unknown dtype.
    """
    import torch

    check_dtype(name)
    if name == "auto":
        return "bfloat16" if device.type == "cuda" and torch.cuda.is_bf16_supported() else "float32"
    return name


def _named(name: str) -> "torch.device":
    import torch

    try:
        return torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device is {name!r}; allowed are auto, cpu, cuda, cuda:N and torch's others") from error
