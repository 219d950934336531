"""Distinction of errors of one request and errors of the device."""

from actors.vlm.errors import EngineError, ScoringError, is_device_lost, is_fatal, is_out_of_memory, reason
from tests.cases import check_cases


def test_errors_of_a_pass() -> None:
    cases = [
        (MemoryError(), True, False),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"), True, False),
        (RuntimeError("CUDA error: can't allocate memory"), True, False),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False, True),
        (ValueError("two\nlines"), False, False),
    ]

    def check(error: Exception, scarce: bool, fatal: bool) -> None:
        import torch

        assert torch.OutOfMemoryError is not MemoryError
        assert (is_out_of_memory(error), is_fatal(error), is_device_lost(error)) == (scarce, fatal, fatal)
        assert (reason(error).kind == "out_of_memory") == scarce

    check_cases(check, cases)


def test_errors_of_a_device() -> None:
    import torch

    assert is_out_of_memory(torch.OutOfMemoryError("no"))
    assert not is_fatal(torch.OutOfMemoryError("CUDA error: no"))
    assert is_device_lost(EngineError("gone"))
    assert reason(ValueError("two\nlines")) == ScoringError("ValueError", "two")
