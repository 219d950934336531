"""Matrix products in float32 on a CPU: taken from MKL where that is slow, and given to oneDNN.

torch multiplies float32 by MKL, which on x86 processors of other makers than Intel keeps to AVX2: half the width of an
AVX-512 processor. oneDNN, which torch brings too and takes for bfloat16, asks the processor itself. The numbers are
float32 as before, their sums in another order (about 1e-6 of a value).
"""

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch.nn import Linear, MultiheadAttention
from torch.nn.functional import scaled_dot_product_attention


def speed_up(model: torch.nn.Module) -> None:
    """Let a loaded model's layers multiply by oneDNN, in place, where that pays; elsewhere nothing is changed.

    Layers of a class of their own, and all but float32 on a CPU, stay as they are. Gradients are as before: with them
    enabled, layers take torch's own way.
    """
    if not pays():
        return
    for module in model.modules():
        if type(module) is MultiheadAttention:
            module.__class__ = _Attention
        elif type(module) is Linear:
            module.__class__ = _Linear


def linear(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """As torch's: [..., n] and [m, n] to [..., m]; by oneDNN where that pays and nothing forbids it."""
    if not (pays() and _is_plain(rows, weight)):
        return torch.nn.functional.linear(rows, weight, bias)
    return _multiply(rows, weight, bias)


def inner(one: torch.Tensor, other: torch.Tensor, *, scratch: Callable[[], torch.Tensor]) -> torch.Tensor:
    """Inner products [n, m] of rows [n, dim] with rows [m, dim]; torch's own go into `scratch()`, of that shape."""
    if pays() and _is_plain(one, other):
        return _multiply(one, other, None)
    return torch.mm(one, other.T, out=scratch())


@lru_cache(maxsize=1)
def pays() -> bool:
    """Whether torch's own products are slow on this processor."""
    return (
        hasattr(torch.ops.mkldnn, "_linear_pointwise")  # since torch 2.0, unless built without oneDNN
        and torch.backends.mkl.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and not _is_intel()
    )


def _is_intel() -> bool:
    """Also where nobody says: then nothing is known to be won."""
    try:
        described = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return True
    return "GenuineIntel" in described or "vendor_id" not in described


def _multiply(rows: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return product


def _is_plain(rows: torch.Tensor, weight: torch.Tensor) -> bool:
    return (
        rows.dtype == weight.dtype == torch.float32
        and rows.device.type == weight.device.type == "cpu"
        and rows.numel() > 0
        and not torch.is_grad_enabled()
    )


class _Linear(Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return linear(input, self.weight, self.bias)


class _Attention(MultiheadAttention):
    """Self-attention as encoders have it; everything else is torch's own."""

    def forward(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *more: Any, **options: Any
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        if more or not (query is key is value) or not self._is_encoders(query, **options):
            return super().forward(query, key, value, *more, **options)
        rows = query if self.batch_first else query.transpose(0, 1)
        batch, length, width = rows.shape
        projected = linear(rows, self.in_proj_weight, self.in_proj_bias)
        queries, keys, values = projected.view(batch, length, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        mask = options.get("attn_mask")
        if mask is not None and mask.dtype == torch.bool:
            mask = ~mask  # here what may not be seen, there what may
        seen = scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        made = linear(seen.transpose(1, 2).reshape(batch, length, width), self.out_proj.weight, self.out_proj.bias)
        return (made if self.batch_first else made.transpose(0, 1)), None

    def _is_encoders(
        self,
        rows: torch.Tensor,
        *,
        need_weights: bool = True,
        attn_mask: torch.Tensor | None = None,
        **others: Any,
    ) -> bool:
        return (
            rows.dim() == 3
            and _is_plain(rows, self.out_proj.weight)
            and not (need_weights or self.training or self.add_zero_attn or any(v is not None for v in others.values()))
            and self.in_proj_weight is not None
            and self.bias_k is None
            and (attn_mask is None or attn_mask.dim() == 2)
        )
