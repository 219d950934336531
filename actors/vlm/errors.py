"""What an error in a model's pass means: too little memory and other faults of one request, or a lost device."""

from typing import NamedTuple

from actors.errors import first_line


class EngineError(RuntimeError):
    """The engine is dead (a failed GPU, say): no further request can be answered, so none may be recorded."""


class ScoringError(NamedTuple):
    """Why one request has no scores, or no texts."""

    kind: str
    message: str


def is_out_of_memory(error: Exception) -> bool:
    """Whether the device's memory, or the machine's, did not suffice."""
    import torch

    # torch's allocator for the CPU raises a plain RuntimeError
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def is_fatal(error: Exception) -> bool:
    """Whether the device is lost; running out of its memory is one request's fault and is not."""
    import torch

    if is_out_of_memory(error):
        return False
    return "CUDA error" in str(error) or isinstance(error, getattr(torch, "AcceleratorError", ()))


def reason(error: Exception) -> ScoringError:
    """An error that is not fatal, as a row tells it."""
    if is_out_of_memory(error):
        return ScoringError("out_of_memory", "too little memory on the device, with groups of half the size too")
    return ScoringError(type(error).__name__, first_line(error))
