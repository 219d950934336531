"""Float32 matrix products by oneDNN, on CPUs where MKL, torch's default, is slow.

On x86 processors that Intel did not make, MKL is limited to AVX2. oneDNN, which is part of torch, uses AVX-512 there,
but torch passes it float32 products only if they may be computed in bfloat16. oneDNN does so only on processors with
AMX, which Intel makes: on others the products stay float32, and only the order of their sums changes (a relative
difference of about 1e-6). `enable` verifies this with a product. Set the environment variable REMINE_ONEDNN=0 to keep
torch's default.
"""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

SWITCH = "REMINE_ONEDNN"


@lru_cache(maxsize=1)
def enable() -> bool:
    """Let this process multiply float32 matrices on the CPU with oneDNN, if that is faster and stays float32.

    Returns:
        Whether oneDNN is now used. If not, torch's settings are unchanged.
    """
    if os.environ.get(SWITCH) == "0" or not _is_faster():
        return False
    mkldnn: Any = torch.backends.mkldnn
    mkldnn.matmul.fp32_precision = "bf16"
    if _keeps_float32():
        return True
    mkldnn.matmul.fp32_precision = "ieee"
    return False


def _is_faster() -> bool:
    """Return whether this CPU has AVX-512 that MKL does not use, and torch has the setting (2.9 and later)."""
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
    rows = torch.full((64, 4096), 1 + 2.0**-12)
    return bool((torch.mm(rows, rows.T) > 4097).all())
