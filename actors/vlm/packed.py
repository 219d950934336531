"""Likelihoods of the answers of several groups at once: their prompts pass as one sequence of segments.

A picture with its questions has about 2,000 tokens, which a large GPU processes in less time than the process needs to
launch the work. Several groups together keep it busy: their prefixes pass as one sequence in which each token sees only
its own prefix, then all their suffixes as another, in which each sees its own group's prefix and its own row.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.devices import upload_joined
from actors.vlm import attention, memory, model_inputs, token_trees
from actors.vlm.attention import Segments, attend_segments
from actors.vlm.families import base_model
from actors.vlm.model_inputs import PER_TOKEN
from actors.vlm.scoring_requests import AnswerNodes, PendingLikelihoods, RequestGroup, pending_likelihoods
from actors.vlm.shared_prefix import (
    Prefix,
    SuffixLikelihoods,
    attention_implementation,
    forget_positions,
    last_layer_at,
    shell,
    text_pass,
)
from actors.vlm.token_trees import SuffixNodes, TokenTree

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import DynamicCache

    from actors.vlm.model_types import Inputs, KeysValues, Tensors, Vlm

PACKED_ATTENTION = "remine_packed"


class PendingGroups:
    """Results of a pass that the device may still be computing."""

    def __init__(self, passes: Sequence[tuple[PendingLikelihoods, list[tuple[int, int]]]], tokens: list[int]) -> None:
        self._passes, self._tokens = passes, tokens

    def result(self) -> list[SuffixLikelihoods]:
        """Return the likelihoods of each group, once the device has them."""
        values: list[dict[int, list[float]]] = [{} for _ in self._tokens]
        for pending, members in self._passes:
            for (group, number), logprobs in zip(members, pending.result(), strict=True):
                values[group][number] = logprobs
        return [
            SuffixLikelihoods([by_number[n] for n in range(len(by_number))], tokens)
            for by_number, tokens in zip(values, self._tokens, strict=True)
        ]


def launch(model: Vlm, groups: Sequence[RequestGroup], *, budget: int) -> PendingGroups:
    """Give the device the work of all groups without waiting for results.

    Args:
        budget: bytes that one forward pass may take.
    """
    import torch

    attention.register(PACKED_ATTENTION, attend_packed)
    with torch.inference_mode():
        prefixes = [group.prefix(group.inputs) for group in groups]
        lengths = Segments([int(inputs["input_ids"].shape[1]) for inputs in prefixes])
        positions = [_positions(model, inputs) for inputs in prefixes]
        layers = _encode(model, prefixes, positions, lengths)
        trees = [group.trees() for group in groups]  # after the device has its first work
        rows = [of_group for of_group, _ in trees]
        starts = [int(of_group.max()) + 1 for of_group in positions]
        passes = []
        for chosen in _passes(rows, memory.packed_tokens(model, budget=budget)):
            prefixes_before = PackedPrefixes(layers, keys=lengths, queries=_queries(rows, chosen))
            passes.append(_suffix_pass(model, groups, trees, chosen, prefixes=prefixes_before, starts=starts))
    counts = [
        length + sum(len(row.tokens) for row in of_group)
        for length, of_group in zip(lengths.lengths, rows, strict=True)
    ]
    return PendingGroups(passes, counts)


def chunks(groups: Sequence[RequestGroup], *, most: int) -> Iterator[list[int]]:
    """Yield indices of consecutive groups that pass together: as few passes as possible, of about the same size.

    A small pass takes a GPU almost as long as the process needs to launch it.

    Args:
        most: largest number of prefix tokens, or of suffix tokens, in a pass; a larger group passes alone.
    """
    tokens = [group.sizes for group in groups]
    fewest = len(list(_chunks(tokens, most=most, enough=2 * most)))
    yield from _chunks(tokens, most=most, enough=math.ceil(sum(map(sum, tokens)) / max(1, fewest)))


def _chunks(tokens: Sequence[tuple[int, int]], *, most: int, enough: int) -> Iterator[list[int]]:
    """Yield lists of consecutive indices of `tokens`, each of which ends once it has `enough` tokens in total."""
    chunk: list[int] = []
    prefixes = suffixes = 0
    for place, (shared, rest) in enumerate(tokens):
        if chunk and (prefixes + suffixes >= enough or prefixes + shared > most or suffixes + rest > most):
            yield chunk
            chunk, prefixes, suffixes = [], 0, 0
        chunk.append(place)
        prefixes, suffixes = prefixes + shared, suffixes + rest
    if chunk:
        yield chunk


@dataclass
class PackedPlan:
    """The data that packed attention needs for one pass.

    Attributes:
        rows: the queries by row; each sees the earlier ones of its row.
        trees: used instead of `rows` for rows that branch, which need a mask.
        prefixes: the prefixes before the rows; None while prefixes are encoded.
    """

    rows: Segments
    trees: attention.AttentionPlan | None = None
    prefixes: PackedPrefixes | None = None


class PackedPrefixes(NamedTuple):
    """Prefixes that queries attend to, and which queries belong to which.

    Attributes:
        layers: keys and values [1, key heads, all prefixes, head size] by layer.
        keys: number of tokens of each group's prefix.
        queries: number of tokens of each group's rows; 0 for a group without rows in this pass.
    """

    layers: Mapping[int, KeysValues]
    keys: Segments
    queries: Segments


def attend_packed(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend according to the active plan, with transformers' interface: -> [1, Q, heads, head size]."""
    plan: PackedPlan = attention.active_plan()
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    flat = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]
    if plan.trees is None:
        near, near_sum = attend_segments(*flat, queries=plan.rows, keys=plan.rows, scale=scale, causal=True)
    else:
        within, sums = attention.within_suffixes(plan.trees, query, key, value, scale=scale)
        near, near_sum = within[0].transpose(0, 1), sums[0]
    if (before := plan.prefixes) is None:
        return near[None], None
    pair = attention.expanded(module, before.layers[module.layer_idx])
    keys, values = (tensor[0].transpose(0, 1) for tensor in pair)
    far, far_sum = attend_segments(flat[0], keys, values, queries=before.queries, keys=before.keys, scale=scale)
    weight = (far_sum - near_sum).sigmoid().transpose(0, 1).unsqueeze(-1)
    # In half precision the sum is computed in float32 and rounded once, like `near` and `far`.
    return near.lerp(far, weight.to(near.dtype))[None], None


def _positions(model: Vlm, inputs: Inputs) -> Tensor:
    """Return the positions [axes, tokens] of a prompt's tokens, as the model computes them."""
    import torch

    count = int(inputs["input_ids"].shape[1])
    find = getattr(base_model(model), "get_rope_index", None)  # in models whose pictures have positions on three axes
    if find is None:
        return torch.arange(count)[None]
    if inputs.get("image_grid_thw") is None:
        return torch.arange(count)[None].expand(3, -1)
    names = inputs.keys() & inspect.signature(find).parameters.keys() - {"attention_mask"}
    positions: Tensor = find(**{name: inputs[name] for name in names})[0]
    return positions[:, 0]


def _encode(
    model: Vlm, prefixes: Sequence[Inputs], positions: Sequence[Tensor], lengths: Segments
) -> dict[int, KeysValues]:
    """Pass all prefixes as one sequence; return keys and values [1, key heads, tokens, head size] by layer."""
    import torch

    inputs: Tensors = {}
    for name in dict.fromkeys(name for of_prefix in prefixes for name in of_prefix):
        if name != "attention_mask":  # there is no padding
            parts = [of_prefix[name] for of_prefix in prefixes if name in of_prefix]
            axis = 1 if name in PER_TOKEN else 0
            inputs[name] = upload_joined(parts, model.device, axis=axis, dtype=model_inputs.dtype_in(model, parts[0]))
    joined = upload_joined(positions, model.device, axis=-1)
    joined = joined[:, None] if len(joined) > 1 else joined
    cache, layers = _cache()
    forget_positions(model)
    no_nodes = torch.empty(0, dtype=torch.long)  # only keys and values are used
    with (
        attention_implementation(model, PACKED_ATTENTION),
        attention.active(PackedPlan(lengths)),
        last_layer_at(model, no_nodes),
    ):
        base_model(model)(**inputs, position_ids=joined, past_key_values=cache, use_cache=True)
    return layers


def _cache() -> tuple[DynamicCache, dict[int, KeysValues]]:
    """Return a cache for one pass and the keys and values that it stores; transformers' own cache copies them."""
    from transformers import DynamicCache

    layers: dict[int, KeysValues] = {}

    class LayerCache(DynamicCache):  # type: ignore[misc] # transformers is not type-checked (pyproject.toml)
        def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> KeysValues:
            layers[layer_idx] = key_states, value_states
            return key_states, value_states

    return LayerCache(), layers


def _passes(rows: Sequence[Sequence[TokenTree]], most: int) -> Iterator[list[tuple[int, int]]]:
    """Yield (group, row) of rows that pass together: at most `most` tokens, with padding if a row branches."""
    chosen: list[tuple[int, int]] = []
    tokens = widest = 0
    branches = any(not row.is_chain for group_rows in rows for row in group_rows)
    for group, group_rows in enumerate(rows):
        for number, row in enumerate(group_rows):
            width = max(widest, len(row.tokens))
            need = (len(chosen) + 1) * width if branches else tokens + len(row.tokens)
            if chosen and need > most:
                yield chosen
                chosen, tokens, width = [], 0, len(row.tokens)
            chosen.append((group, number))
            tokens, widest = tokens + len(row.tokens), width
    if chosen:
        yield chosen


def _queries(rows: Sequence[Sequence[TokenTree]], chosen: Sequence[tuple[int, int]]) -> Segments:
    """Return the tokens of each group's rows in a pass of some (group, row)."""
    queries = [0] * len(rows)
    for group, number in chosen:
        queries[group] += len(rows[group][number].tokens)
    return Segments(queries)


def _suffix_pass(
    model: Vlm,
    groups: Sequence[RequestGroup],
    trees: Sequence[tuple[list[TokenTree], list[SuffixNodes]]],
    chosen: Sequence[tuple[int, int]],
    *,
    prefixes: PackedPrefixes,
    starts: Sequence[int],
) -> tuple[PendingLikelihoods, list[tuple[int, int]]]:
    """Pass some rows as one sequence; return the likelihoods of their suffixes, and (group, suffix) of each."""
    import torch

    rows = [trees[group][0][number] for group, number in chosen]
    segments = Segments([len(row.tokens) for row in rows])
    first = dict(zip(chosen, segments.bounds, strict=False))
    by_row = [
        (group, number, first[group, nodes.row], nodes)
        for group, (_, group_nodes) in enumerate(trees)
        for number, nodes in enumerate(group_nodes)
        if (group, nodes.row) in first
    ]
    answer_nodes = [
        AnswerNodes(groups[group].answers[number], begin + nodes.last, tuple(begin + node for node in nodes.inner))
        for group, number, begin, nodes in by_row
    ]
    read = torch.tensor(sorted({node for nodes in answer_nodes for node in (nodes.last, *nodes.inner)}))
    plan = PackedPlan(
        rows=segments,
        trees=None if all(row.is_chain for row in rows) else _trees(rows),
        prefixes=prefixes,
    )
    ids = torch.tensor([token for row in rows for token in row.tokens])
    positions = torch.tensor(
        [starts[group] + depth for (group, _), row in zip(chosen, rows, strict=True) for depth in row.depths]
    )
    prefix = Prefix(length=prefixes.keys.bounds[-1], position=0, layers={})
    cache = shell(model, prefix, rows=1)
    with attention_implementation(model, PACKED_ATTENTION), attention.active(plan), last_layer_at(model, read):
        hidden = text_pass(model, prefix, ids[None], positions[None], mask=None, cache=cache)[0]
    pending = pending_likelihoods(model, hidden, answer_nodes)
    return pending, [(group, number) for group, number, _, _ in by_row]


def _trees(rows: Sequence[TokenTree]) -> attention.AttentionPlan:
    """Return the plan of cascade attention for rows that branch, without a prefix."""
    block = token_trees.block(rows)
    count, width = block.ids.shape
    return attention.AttentionPlan(
        prefix={},
        length=0,
        reaches={},
        rows=count,
        width=width,
        places=None if bool(block.real.all()) else block.real.flatten().nonzero().flatten(),
        depths=block.depths,
        ancestors=block.ancestors,
    )
