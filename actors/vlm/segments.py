"""Attention within segments: sequences of various lengths concatenated without padding.

On GPUs in half precision, torch's kernel for sequences of different lengths (FlashAttention) computes all segments at
once; elsewhere each segment is computed separately, with the same result.
"""

import importlib.util
import inspect
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from actors.devices import upload
from actors.vlm.attention import attend, register
from actors.vlm.families import base_model, family_of

# transformers passes the lengths of pictures and windows only to attention whose name contains "flash".
VISION = "remine_flash_segments"


class Segments:
    """Lengths of segments, and where they begin on a device."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = tuple(lengths)
        self.bounds = (0, *accumulate(self.lengths))
        self.longest = max(self.lengths, default=0)
        self._on: dict[Any, Any] = {}

    def on(self, device: Any) -> Any:
        """Return the bounds [segments + 1] on `device`, int32."""
        if device not in self._on:
            import torch

            self._on[device] = upload(torch.tensor(self.bounds, dtype=torch.int32), device)
        return self._on[device]


def attend_segments(
    query: Any, key: Any, value: Any, *, queries: Segments, keys: Segments, scale: float, causal: bool = False
) -> tuple[Any, Any]:
    """Attend from each segment of queries to the segment of keys with the same index.

    Args:
        query: [all queries, heads, head size].
        key, value: [all keys, key heads, head size]; `heads` is a multiple of `key heads`.
        causal: whether the i-th query of a segment sees only its first i keys; both then have the same lengths.

    Returns:
        ([all queries, heads, head size] in the query's dtype, log-sum-exp of the scores [heads, all queries] float32).
    """
    # With as many queries as heads, the shape of the kernel's sums would not show their order.
    if has_kernel(query.device, query.dtype) and query.shape[0] != query.shape[1]:
        bounds = queries.on(query.device), keys.on(query.device), queries.longest, keys.longest
        if (result := _varlen(query, key, value, bounds, scale=scale, causal=causal)) is not None:
            return result
    return _one_by_one(query, key, value, queries.bounds, keys.bounds, scale=scale, causal=causal)


def attend_in_pictures(
    module: Any, query: Any, key: Any, value: Any, attention_mask: Any, *, scaling: float | None = None, **options: Any
) -> tuple[Any, None]:
    """Attend within pictures or their windows, with transformers' interface.

    Without FlashAttention's own package, transformers instead makes a call per window, after waiting for the device in
    every layer.

    Args:
        query, key, value: [1, heads, patches, head size].
        options: `cu_seq_lens_q`, the bounds of the segments on the device, int32, and `max_length_q`.

    Returns:
        ([1, patches, heads, head size], None).
    """
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    query, key, value = (tensor[0].transpose(0, 1) for tensor in (query, key, value))
    bounds, longest = options["cu_seq_lens_q"], int(options["max_length_q"])
    if has_kernel(query.device, query.dtype):
        result = _varlen(query, key, value, (bounds, bounds, longest, longest), scale=scale, causal=False)
        if result is not None:
            return result[0][None], None
    ends = bounds.tolist()
    return _one_by_one(query, key, value, ends, ends, scale=scale, causal=False)[0][None], None


def use_for_pictures(model: Any) -> None:
    """Make the vision tower of `model` use `attend_in_pictures`, if it passes segments and its GPU has the kernel."""
    family = family_of(model)
    if family is None or not family.three_axes:  # only Qwen's towers have been tried
        return
    tower = base_model(model).visual
    weight = next(tower.parameters())
    if has_kernel(weight.device, weight.dtype):
        register(VISION, attend_in_pictures)
        tower.config._attn_implementation = VISION


def has_kernel(device: Any, dtype: Any) -> bool:
    """Return whether all segments are computed at once: on GPUs in half precision, if torch has the kernel."""
    return bool(device.type == "cuda" and dtype.itemsize == 2 and _torch_has_kernel())


@lru_cache(maxsize=1)
def _torch_has_kernel() -> bool:
    return importlib.util.find_spec("torch.nn.attention.varlen") is not None


def _varlen(
    query: Any, key: Any, value: Any, segments: tuple[Any, Any, int, int], *, scale: float, causal: bool
) -> tuple[Any, Any] | None:
    """Return the result of torch's kernel; None if it does not support this size."""
    import torch
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    options: dict[str, Any] = {"scale": scale, "window_size": (-1, 0) if causal else (-1, -1)}
    if _names_grouped_heads():
        options["enable_gqa"] = True
    try:
        out, sums = varlen_attn(query, key, value, *segments, return_aux=AuxRequest(lse=True), **options)
    except torch.cuda.OutOfMemoryError:
        raise
    except (RuntimeError, NotImplementedError):
        return None
    # Documented as [queries, heads]; torch 2.11 returns [heads, queries].
    return out, sums if sums.shape[0] == query.shape[1] else sums.transpose(0, 1)


@lru_cache(maxsize=1)
def _names_grouped_heads() -> bool:
    """Return whether torch requires an argument to accept fewer key heads than heads; 2.11 does not."""
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters


def _one_by_one(
    query: Any, key: Any, value: Any, queries: Sequence[int], keys: Sequence[int], *, scale: float, causal: bool
) -> tuple[Any, Any]:
    import torch

    groups = query.shape[1] // key.shape[1]
    outs, sums = [], []
    for (first, end), (key_first, key_end) in zip(pairwise(queries), pairwise(keys), strict=True):
        if first == end:
            continue
        of_sequence = query[first:end].transpose(0, 1)[None]
        seen = [part[key_first:key_end].transpose(0, 1)[None].repeat_interleave(groups, 1) for part in (key, value)]
        out, total = attend(of_sequence, *seen, scale=scale, causal=causal)
        outs.append(out[0].transpose(0, 1))
        sums.append(total[0])
    if not outs:
        return query, query.new_zeros(query.shape[1], 0, dtype=torch.float32)
    return torch.cat(outs), torch.cat(sums, 1)
