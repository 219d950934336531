"""Attention functions for passes of several prompts as one sequence, registered with transformers by name.

Cascade attention: queries of many suffixes attend to one prefix and to their own suffix, and the parts are merged. A
pass over packed suffixes has one row of Q queries. Each query sees the whole prefix, which needs no mask and is one
dense product for all suffixes, and the earlier tokens of its own suffix. Each part returns the log-sum-exp of its
scores, from which the parts are merged exactly (Juravsky et al. 2024, Hydragen, arXiv:2402.05099). Without an active
plan it is `sdpa`.

Attention within segments, which are sequences of various lengths concatenated without padding: on GPUs in half
precision, torch's kernel for sequences of different lengths (FlashAttention) computes all segments at once; elsewhere
each segment is computed separately, with the same result.
"""

from __future__ import annotations

import importlib.util
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from actors.devices import upload
from actors.vlm.families import TOWERS_WITH_SEGMENTS, Reach, base_model

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from actors.vlm.model_types import KeysValues, Vlm

    Attended = tuple[Tensor, Tensor]  # the output of attention, and the log-sum-exp of its scores

CASCADE_ATTENTION = "remine_cascade"
_active = threading.local()
# transformers passes the lengths of pictures and windows only to attention whose name contains "flash".
SEGMENT_ATTENTION = "remine_flash_segments"


@dataclass
class AttentionPlan:
    """Inputs of cascade attention for one pass, in addition to queries, keys and values.

    Attributes:
        prefix: keys and values [1, key heads, seen, head size] by layer; `seen` are the prefix's last tokens.
        length: number of tokens of the prefix, of which a layer with a limited reach keeps only the last.
        reaches: how far back a query sees, by layer, for layers where that is limited.
        rows, width: shape of the padded block of suffixes.
        places: [Q] index of each query in the flattened block [rows * width]; None if the block has no padding.
        depths: [rows, width] distance of each token from the prefix's end; padding is 0.
        ancestors: [rows, width, width] bool, which tokens of its suffix a token sees; None if each suffix is a plain
            sequence.
        before: keys and values [rows, key heads, tokens, head size], by layer, of the tokens between the prefix and the
            rows, which all tokens of a row see; none by default.
        are_rows: whether the pass has one row per suffix, [rows, width], instead of one row of Q tokens.
        sources: the layer that computed the keys with an `id`, for layers that use the keys of another layer.
    """

    prefix: Mapping[int, KeysValues]
    length: int
    reaches: Mapping[int, Reach]
    rows: int
    width: int
    places: Tensor | None
    depths: Tensor
    ancestors: Tensor | None
    before: Mapping[int, KeysValues] = field(default_factory=dict)
    are_rows: bool = False
    sources: dict[int, int] = field(default_factory=dict)
    _cache: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def on(self, tensor: Tensor, device: torch.device) -> Tensor:
        """Return one of the plan's tensors on `device`, since a model may be spread over several devices."""
        key = (id(tensor), device)
        if key not in self._cache:
            self._cache[key] = tensor.to(device)
        moved: Tensor = self._cache[key]
        return moved

    def places_on(self, device: torch.device) -> Tensor | None:
        """Return `places` on `device`."""
        return None if self.places is None else self.on(self.places, device)

    def layer_of(self, module: Any, key: Tensor) -> int | None:
        """Return the layer whose prefix a call attends to; None if it has none, such as cross-attention."""
        layer = getattr(module, "layer_idx", None)
        layer = layer if layer in self.prefix else self.sources.get(id(key))
        return layer if layer in self.prefix else None

    def limit(self, layer: int) -> Reach | None:
        """Return how far back the queries see in a layer; None if all see all of the prefix that the layer keeps."""
        if (reach := self.reaches.get(layer)) is None:
            return None
        if ("last",) not in self._cache:
            self._cache["last",] = self.length + int(self.depths.max())
        first = self.length - self.prefix[layer][0].shape[2]
        return None if reach.sees(self._cache["last",], first) else reach

    def local_mask(self, like: Tensor, reach: Reach | None, *, before: int) -> Tensor | None:
        """Return the additive mask [rows, 1, width, before + width] of suffixes; None where causal order suffices.

        Args:
            before: tokens of each row before the pass.
        """
        if self.ancestors is None and reach is None and not before:
            return None
        key = ("local", reach, before, like.dtype, like.device)
        if key not in self._cache:
            import torch

            if self.ancestors is None:
                seen = (
                    torch.ones(self.width, self.width, dtype=torch.bool, device=like.device)
                    .tril()
                    .expand(self.rows, -1, -1)
                )
            else:
                seen = self.on(self.ancestors, like.device)
            earlier_part = torch.ones(self.rows, self.width, before, dtype=torch.bool, device=like.device)
            seen = torch.cat([earlier_part, seen], 2)
            if reach is not None:
                depths = self.on(self.depths, like.device)
                earlier = torch.arange(before, device=like.device).expand(self.rows, -1)
                keys = torch.cat([earlier, depths], 1)[:, None, :]
                seen = seen & reach.sees(self.length + depths[:, :, None], self.length + keys)
            self._cache[key] = _additive(seen, like)[:, None]
        mask: Tensor = self._cache[key]
        return mask

    def prefix_mask(self, like: Tensor, reach: Reach | None, *, seen: int, groups: int) -> Tensor | None:
        """Return the additive mask [1, 1, groups * Q, seen] of a layer; None if its queries see all of the prefix."""
        if reach is None:
            return None
        key = ("prefix", reach, seen, groups, like.dtype, like.device)
        if key not in self._cache:
            import torch

            depths = self.on(self.depths, like.device).flatten()
            places = self.places_on(like.device)
            depths = depths if places is None else depths[places]
            keys = torch.arange(self.length - seen, self.length, device=like.device)
            visible = reach.sees(self.length + depths[:, None], keys[None])
            self._cache[key] = _additive(visible, like).repeat(groups, 1)[None, None]
        mask: Tensor = self._cache[key]
        return mask


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


def register(name: str, attend: Callable[..., tuple[Tensor, None]]) -> None:
    """Register an attention function with transformers; may be called repeatedly."""
    from transformers import AttentionInterface

    AttentionInterface.register(name, attend)


def cascade(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend, with the interface of transformers: query [1, heads, Q, head size] -> [1, Q, heads, head size].

    In a pass with one row per suffix, queries are [rows, heads, width, head size].

    Args:
        softcap: bound of the scores (Gemma 2), which each part applies to its own.
        s_aux: sinks [heads] (gpt-oss): the score of a key without a value, which takes its share once both parts are
            merged.
    """
    import torch

    plan: AttentionPlan | None = active_plan()
    layer = None if plan is None else plan.layer_of(module, key)
    if plan is None or layer is None:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        if softcap is not None or s_aux is not None:
            raise NotImplementedError("attention with a soft cap or sinks outside cascade attention")
        plain: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **options
        )
        return plain
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if plan.are_rows:
        query, key, value = (_joined(tensor) for tensor in (query, key, value))
    _, heads, count, size = query.shape
    keys, values = expanded(module, plan.prefix[layer])
    before = plan.before.get(layer)
    groups = heads // keys.shape[1]
    reach = plan.limit(layer)
    # Heads that share keys become additional queries of these keys, which is exact because this part is not causal.
    folded = query.reshape(1, keys.shape[1], groups * count, size)
    mask = plan.prefix_mask(query, reach, seen=keys.shape[2], groups=groups)
    far, far_sum = attend(folded, keys, values, scale=scale, mask=mask, softcap=softcap)
    before = None if before is None else expanded(module, before)
    near, near_sum = within_suffixes(plan, query, key, value, scale=scale, reach=reach, before=before, softcap=softcap)
    far, far_sum = far.reshape(1, heads, count, -1), far_sum.reshape(1, heads, count)
    weight = (far_sum - near_sum).sigmoid().unsqueeze(-1)
    merged = near.float().lerp(far.float(), weight)
    if s_aux is not None:
        whole = torch.logaddexp(far_sum.float(), near_sum.float())
        merged = merged * (whole - s_aux.float()[:, None]).sigmoid().unsqueeze(-1)
    merged = merged.to(query.dtype)
    if plan.are_rows:
        merged = merged.reshape(heads, plan.rows, plan.width, -1).transpose(0, 1)
    return merged.transpose(1, 2).contiguous(), None


def expanded(module: Any, pair: KeysValues) -> KeysValues:
    """Return keys and values for attention from what a cache holds of a layer: DeepSeek's holds compressed ones."""
    expand = getattr(module, "expand_kv", None)
    return pair if expand is None else expand(*pair)


def _joined(tensor: Tensor) -> Tensor:
    """Return [rows, heads, width, size] as [1, heads, rows * width, size]."""
    return tensor.transpose(0, 1).flatten(1, 2)[None]


def within_suffixes(
    plan: AttentionPlan,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    reach: Reach | None = None,
    before: KeysValues | None = None,
    softcap: float | None = None,
) -> Attended:
    """Attend to each suffix's own keys; returns ([1, heads, Q, head size], log-sum-exp [1, heads, Q]).

    Args:
        before: keys and values [rows, key heads, tokens, head size] of earlier tokens of each suffix.
        softcap: bound of the scores; None: none.
    """
    import torch

    heads, groups = query.shape[1], query.shape[1] // key.shape[1]
    places = plan.places_on(query.device)

    def block(flat: Tensor) -> Tensor:  # [1, heads, Q, size] -> [rows, heads, width, size]
        if places is not None:
            padded = flat.new_zeros(flat.shape[1], plan.rows * plan.width, flat.shape[3])
            padded[:, places] = flat[0]
            flat = padded
        return flat.reshape(-1, plan.rows, plan.width, flat.shape[-1]).transpose(0, 1)

    keys, values = block(key), block(value)
    earlier = 0
    if before is not None:
        earlier = before[0].shape[2]
        keys, values = (torch.cat(pair, 2) for pair in zip(before, (keys, values), strict=True))
    repeated = (tensor.repeat_interleave(groups, 1) for tensor in (keys, values))
    mask = plan.local_mask(query, reach, before=earlier)
    out, sums = attend(block(query), *repeated, scale=scale, mask=mask, causal=mask is None, softcap=softcap)
    out, sums = out.transpose(0, 1).reshape(heads, plan.rows * plan.width, -1), sums.transpose(0, 1).reshape(heads, -1)
    if places is not None:
        out, sums = out[:, places], sums[:, places]
    return out[None], sums[None]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    mask: Tensor | None = None,
    causal: bool = False,
    softcap: float | None = None,
) -> Attended:
    """Compute attention and the log-sum-exp of its scores, with the fastest kernel that returns both.

    Args:
        query, key, value: [batch, heads, length, size], with the same number of heads.
        mask: additive, or None.
        causal: whether query i sees keys 0..i only.
        softcap: bound of the scores, which no kernel applies; None: none.

    Returns:
        ([batch, heads, queries, size] in the query's dtype, [batch, heads, queries] float32).
    """
    import torch

    if (missing := query.shape[-1] - value.shape[-1]) > 0:  # DeepSeek's values are narrower; no kernel takes them
        padded = torch.nn.functional.pad(value, (0, missing))
        out, sums = attend(query, key, padded, scale=scale, mask=mask, causal=causal, softcap=softcap)
        return out[..., :-missing], sums
    if softcap is not None:
        return _plain(query, key, value, scale=scale, mask=mask, causal=causal, softcap=softcap)
    kernel = {"cpu": _on_cpu, "cuda": _on_cuda}.get(query.device.type, _plain)
    try:
        return kernel(query, key, value, scale=scale, mask=mask, causal=causal)
    except torch.cuda.OutOfMemoryError:
        raise
    except (RuntimeError, NotImplementedError, AttributeError):  # the kernel does not support this size or dtype
        return _plain(query, key, value, scale=scale, mask=mask, causal=causal)


def _on_cpu(query: Tensor, key: Tensor, value: Tensor, *, scale: float, mask: Tensor | None, causal: bool) -> Attended:
    import torch

    kernel = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    out, sums = kernel(query, key, value, 0.0, causal, attn_mask=mask, scale=scale)
    return out, sums if sums.shape == out.shape[:3] else sums.transpose(1, 2)  # the order differs between releases


def _on_cuda(query: Tensor, key: Tensor, value: Tensor, *, scale: float, mask: Tensor | None, causal: bool) -> Attended:
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


def _plain(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    scale: float,
    mask: Tensor | None,
    causal: bool,
    softcap: float | None = None,
) -> Attended:
    import torch

    scores = (query.float() @ key.float().transpose(-1, -2)) * scale
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    if mask is not None:
        scores = scores + mask.float()
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(later, torch.finfo(torch.float32).min)
    sums = scores.logsumexp(-1)
    return ((scores - sums.unsqueeze(-1)).exp() @ value.float()).to(query.dtype), sums


def _aligned(mask: Tensor) -> Tensor:
    """Return the mask with rows that begin at multiples of 16 elements, as the CUDA kernel requires."""
    import torch

    length = mask.shape[-1]
    if length % 16 == 0:
        return mask
    return torch.nn.functional.pad(mask, (0, 16 - length % 16))[..., :length]


def _additive(seen: Tensor, like: Tensor) -> Tensor:
    """Return 0 where `seen`, else the dtype's minimum, since -inf would give NaN in a row that sees nothing."""
    import torch

    mask = torch.zeros(seen.shape, dtype=like.dtype, device=like.device)
    return mask.masked_fill_(~seen, torch.finfo(like.dtype).min)


class Segments:
    """Lengths of segments, and where they begin on a device."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.lengths = tuple(lengths)
        self.bounds = (0, *accumulate(self.lengths))
        self.longest = max(self.lengths, default=0)
        self._on: dict[torch.device, Tensor] = {}

    def on(self, device: torch.device) -> Tensor:
        """Return the bounds [segments + 1] on `device`, int32."""
        if device not in self._on:
            import torch

            self._on[device] = upload(torch.tensor(self.bounds, dtype=torch.int32), device)
        return self._on[device]


def attend_segments(
    query: Tensor, key: Tensor, value: Tensor, *, queries: Segments, keys: Segments, scale: float, causal: bool = False
) -> Attended:
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
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
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


def use_for_pictures(model: Vlm) -> None:
    """Make the vision tower of `model` use `attend_in_pictures`, if it passes segments and its GPU has the kernel."""
    if model.config.model_type not in TOWERS_WITH_SEGMENTS:
        return
    tower = base_model(model).visual
    weight = next(tower.parameters())
    if has_kernel(weight.device, weight.dtype):
        register(SEGMENT_ATTENTION, attend_in_pictures)
        tower.config._attn_implementation = SEGMENT_ATTENTION


def has_kernel(device: torch.device, dtype: torch.dtype) -> bool:
    """Return whether all segments are computed at once: on GPUs in half precision, if torch has the kernel."""
    return bool(device.type == "cuda" and dtype.itemsize == 2 and _torch_has_kernel())


@lru_cache(maxsize=1)
def _torch_has_kernel() -> bool:
    return importlib.util.find_spec("torch.nn.attention.varlen") is not None


def _varlen(
    query: Tensor, key: Tensor, value: Tensor, segments: tuple[Tensor, Tensor, int, int], *, scale: float, causal: bool
) -> Attended | None:
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
    query: Tensor,
    key: Tensor,
    value: Tensor,
    queries: Sequence[int],
    keys: Sequence[int],
    *,
    scale: float,
    causal: bool,
) -> Attended:
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
