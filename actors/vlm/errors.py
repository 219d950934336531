"""Errors of a forward pass: the failure of one request (such as too little memory), and the loss of the device."""

import sys
from typing import NamedTuple

from actors.errors import first_line


class EngineError(RuntimeError):
    """The engine cannot answer any more requests, for example because a GPU failed; no result may be recorded."""


class ScoringError(NamedTuple):
    """The reason why a request has no scores or texts; returned as the request's result, not raised."""

    kind: str
    message: str


def is_out_of_memory(error: Exception) -> bool:
    """Return whether the device or the machine ran out of memory."""
    import torch

    # torch's CPU allocator raises a plain RuntimeError
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def is_fatal(error: Exception) -> bool:
    """Return whether the device is lost. Running out of memory affects one request only and is not fatal."""
    import torch

    if is_out_of_memory(error):
        return False
    return "CUDA error" in str(error) or isinstance(error, getattr(torch, "AcceleratorError", ()))


def is_device_lost(error: Exception) -> bool:
    """Return whether a stage failed because of its device; does not import torch if the process has not."""
    return isinstance(error, EngineError) or ("torch" in sys.modules and is_fatal(error))


def reason(error: Exception) -> ScoringError:
    """Return the result of a request that failed with a non-fatal error."""
    if is_out_of_memory(error):
        return ScoringError("out_of_memory", "not enough memory on the device, even for the smallest pass")
    return ScoringError(type(error).__name__, first_line(error))
