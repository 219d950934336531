"""Cascade attention: queries of many suffixes attend to one prefix and to their own suffix, and the parts are merged.

A pass over packed suffixes has one row of Q queries. Each query sees the whole prefix, which needs no mask and is one
dense product for all suffixes, and the earlier tokens of its own suffix. Each part returns the log-sum-exp of its
scores, from which the parts are merged exactly (Juravsky et al. 2024, Hydragen, arXiv:2402.05099). The function is
registered with transformers under `NAME`; without an active plan it is `sdpa`.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

NAME = "remine_cascade"
_active = threading.local()


@dataclass
class AttentionPlan:
    """Inputs of cascade attention for one pass, in addition to queries, keys and values.

    Attributes:
        prefix: keys and values [1, key heads, seen, head size] by layer; `seen` are the prefix's last tokens.
        windows: how many tokens back a query sees, by layer, for layers where that is limited.
        rows, width: shape of the padded block of suffixes.
        places: [Q] index of each query in the flattened block [rows * width]; None if the block has no padding.
        depths: [rows, width] distance of each token from the prefix's end; padding is 0.
        ancestors: [rows, width, width] bool, which tokens of its suffix a token sees; None if each suffix is a plain
            sequence.
    """

    prefix: Mapping[int, tuple[Any, Any]]
    windows: Mapping[int, int]
    rows: int
    width: int
    places: Any
    depths: Any
    ancestors: Any
    _cache: dict[Any, Any] = field(default_factory=dict)

    def on(self, name: str, device: Any) -> Any:
        """Return the tensor `name` on `device`, since a model may be spread over several devices."""
        key = (name, device)
        if key not in self._cache:
            tensor = getattr(self, name)
            self._cache[key] = None if tensor is None else tensor.to(device)
        return self._cache[key]

    def local_mask(self, like: Any, window: int | None) -> Any:
        """Return the additive mask [rows, 1, width, width] within suffixes; None where causal order suffices."""
        if self.ancestors is None and (window is None or self.width <= window):
            return None
        key = ("local", window, like.dtype, like.device)
        if key not in self._cache:
            import torch

            seen = self.on("ancestors", like.device)
            if seen is None:
                seen = torch.ones(self.width, self.width, dtype=torch.bool, device=like.device).tril()[None]
            if window is not None:
                depths = self.on("depths", like.device)
                seen = seen & (depths[:, :, None] - depths[:, None, :] < window)
            self._cache[key] = _additive(seen.expand(self.rows, -1, -1), like)[:, None]
        return self._cache[key]

    def prefix_mask(self, like: Any, window: int | None, *, seen: int, groups: int) -> Any:
        """Return the additive mask [1, 1, groups * Q, seen] of a layer; None if it has no window."""
        if window is None:
            return None
        key = ("prefix", window, seen, groups, like.dtype, like.device)
        if key not in self._cache:
            import torch

            depths = self.on("depths", like.device).flatten()
            places = self.on("places", like.device)
            depths = depths if places is None else depths[places]
            back = torch.arange(seen, 0, -1, device=like.device)  # the prefix's last token is one before depth 0
            self._cache[key] = _additive(depths[:, None] + back[None] < window, like).repeat(groups, 1)[None, None]
        return self._cache[key]


@contextmanager
def active(plan: Any) -> Iterator[None]:
    """Make one of our attention functions use `plan` in this thread (`active_plan`)."""
    _active.plan = plan
    try:
        yield
    finally:
        _active.plan = None


def active_plan() -> Any:
    """Return the plan of this thread's pass; None outside a pass."""
    return getattr(_active, "plan", None)


def register(name: str, attend: Callable[..., tuple[Any, None]]) -> None:
    """Register an attention function with transformers; may be called repeatedly."""
    from transformers import AttentionInterface

    AttentionInterface.register(name, attend)


def cascade(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *, scaling: float | None = None, **options: Any
) -> tuple[Any, None]:
    """Attend, with the interface of transformers: query [1, heads, Q, head size] -> [1, Q, heads, head size]."""
    plan: AttentionPlan | None = active_plan()
    layer = getattr(module, "layer_idx", None)
    if plan is None or layer is None or layer not in plan.prefix:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        plain: tuple[Any, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return plain
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    _, heads, count, size = query.shape
    key_heads = key.shape[1]
    groups = heads // key_heads
    window = plan.windows.get(layer)
    keys, values = plan.prefix[layer]
    # Heads that share keys become additional queries of these keys, which is exact because this part is not causal.
    folded = query.reshape(1, key_heads, groups * count, size)
    mask = plan.prefix_mask(query, window, seen=keys.shape[2], groups=groups)
    far, far_sum = attend(folded, keys, values, scale=scale, mask=mask)
    near, near_sum = within_suffixes(plan, query, key, value, scale=scale, window=window)
    far, far_sum = far.reshape(1, heads, count, size), far_sum.reshape(1, heads, count)
    weight = (far_sum - near_sum).sigmoid().unsqueeze(-1)
    merged = near.float().lerp(far.float(), weight).to(query.dtype)
    return merged.transpose(1, 2).contiguous(), None


def within_suffixes(
    plan: AttentionPlan, query: Any, key: Any, value: Any, *, scale: float, window: int | None
) -> tuple[Any, Any]:
    """Attend to each suffix's own keys; returns ([1, heads, Q, head size], log-sum-exp [1, heads, Q])."""
    _, heads, _, size = query.shape
    groups = heads // key.shape[1]
    places = plan.on("places", query.device)

    def block(flat: Any) -> Any:  # [1, heads, Q, size] -> [rows, heads, width, size]
        if places is not None:
            padded = flat.new_zeros(flat.shape[1], plan.rows * plan.width, size)
            padded[:, places] = flat[0]
            flat = padded
        return flat.reshape(-1, plan.rows, plan.width, size).transpose(0, 1)

    repeated = (block(flat).repeat_interleave(groups, 1) for flat in (key, value))
    mask = plan.local_mask(query, window)
    out, sums = attend(block(query), *repeated, scale=scale, mask=mask, causal=mask is None)
    out, sums = out.transpose(0, 1).reshape(heads, -1, size), sums.transpose(0, 1).reshape(heads, -1)
    if places is not None:
        out, sums = out[:, places], sums[:, places]
    return out[None], sums[None]


def attend(
    query: Any, key: Any, value: Any, *, scale: float, mask: Any = None, causal: bool = False
) -> tuple[Any, Any]:
    """Compute attention and the log-sum-exp of its scores, with the fastest kernel that returns both.

    Args:
        query, key, value: [batch, heads, length, size], with the same number of heads.
        mask: additive, or None.
        causal: whether query i sees keys 0..i only.

    Returns:
        ([batch, heads, queries, size] in the query's dtype, [batch, heads, queries] float32).
    """
    import torch

    kernel = {"cpu": _on_cpu, "cuda": _on_cuda}.get(query.device.type, _plain)
    try:
        return kernel(query, key, value, scale=scale, mask=mask, causal=causal)
    except torch.cuda.OutOfMemoryError:
        raise
    except (RuntimeError, NotImplementedError, AttributeError):  # the kernel does not support this size or dtype
        return _plain(query, key, value, scale=scale, mask=mask, causal=causal)


def _on_cpu(query: Any, key: Any, value: Any, *, scale: float, mask: Any, causal: bool) -> tuple[Any, Any]:
    import torch

    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, sums = kernel(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
    return out, sums if sums.shape == out.shape[:3] else sums.transpose(1, 2)  # the order differs between releases


def _on_cuda(query: Any, key: Any, value: Any, *, scale: float, mask: Any, causal: bool) -> tuple[Any, Any]:
    import torch

    if mask is None and query.dtype in (torch.float16, torch.bfloat16):
        out = torch.ops.aten._scaled_dot_product_flash_attention(query, key, value, 0.0, causal, False, scale=scale)
        return out[0], out[1][..., : query.shape[2]]
    if mask is not None:
        mask = _aligned(mask.expand(query.shape[0], query.shape[1], -1, -1))
    out = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, value, mask, True, 0.0, causal, scale=scale
    )
    return out[0], out[1][..., : query.shape[2]]  # padded to a multiple of 32 queries


def _plain(query: Any, key: Any, value: Any, *, scale: float, mask: Any, causal: bool) -> tuple[Any, Any]:
    import torch

    scores = (query.float() @ key.float().transpose(-1, -2)) * scale
    if mask is not None:
        scores = scores + mask.float()
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, torch.finfo(torch.float32).min)
    sums = scores.logsumexp(-1)
    return ((scores - sums.unsqueeze(-1)).exp() @ value.float()).to(query.dtype), sums


def _aligned(mask: Any) -> Any:
    """Return the mask with rows that begin at multiples of 16 elements, as the CUDA kernel requires."""
    import torch

    length = mask.shape[-1]
    if length % 16 == 0:
        return mask
    return torch.nn.functional.pad(mask, (0, 16 - length % 16))[..., :length]


def _additive(seen: Any, like: Any) -> Any:
    """Return 0 where `seen`, else the dtype's minimum, since -inf would give NaN in a row that sees nothing."""
    import torch

    mask = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill_(~seen, torch.finfo(like.dtype).min)
