"""Likelihoods of answers after many suffixes of one prefix: the prefix passes once, the suffixes in packed groups.

The prefix's keys and values are kept for later passes, which read and do not modify them. There are two kinds of passes
over suffixes, which return the same hidden states: `cascade` puts all suffixes into one sequence and attends as in
`actors.vlm.attention`; `batched` has one row per suffix over an expanded cache and uses the model's usual attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from actors.devices import upload
from actors.vlm import attention, memory, token_trees
from actors.vlm.families import SLIDING, Family, base_model, language_model, windows
from actors.vlm.scoring_requests import AnswerNodes, RequestGroup, log_likelihoods
from actors.vlm.token_trees import PackedRows, TokenTree, block

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import DynamicCache, PretrainedConfig

    from actors.vlm.model_types import Inputs, KeysValues, Tensors, Vlm

PassKind = Literal["cascade", "batched"]
PLAIN = "sdpa"  # transformers' name of the attention that all families support
# Largest difference from the log-likelihoods of whole forward passes. Rounding stays below 1e-4 in float32 and is 0.03
# to 0.16 in bfloat16 (measured); a wrong mask or position makes a larger difference than either.
TOLERANCE = {"float32": 1e-3}
ROUNDED_TOLERANCE = 0.5


@dataclass(frozen=True)
class Prefix:
    """A prefix of one sequence, after its pass through the model.

    Attributes:
        length: number of tokens.
        position: position of the first token after it; differs from `length` if a picture takes fewer positions than
            tokens.
        layers: keys and values [1, key heads, seen, head size] by self-attention layer; `seen` is below `length` in
            layers with a window.
        cross: keys and values of the picture, by cross-attention layer.
        cross_mask: [1, 1, pictures, tiles] what the last token sees of the picture; None without cross-attention.
    """

    length: int
    position: int
    layers: dict[int, KeysValues]
    cross: dict[int, KeysValues]
    cross_mask: Tensor | None


def encode(model: Vlm, family: Family, inputs: Inputs) -> Prefix:
    """Pass `inputs` through the model and return the prefix.

    Args:
        inputs: the processor's output, cut to the prefix. (Cropping the cache instead would also crop the picture's
            keys in cross-attention layers.)
    """
    import torch
    from transformers import DynamicCache

    config = model.config.get_text_config()
    cache: Any = DynamicCache(config=config)
    forget_positions(model)
    no_nodes = torch.empty(0, dtype=torch.long)  # only keys and values are used
    with torch.inference_mode(), last_layer_at(model, no_nodes):
        base_model(model)(**inputs, past_key_values=cache, use_cache=True)
    length = int(inputs["input_ids"].shape[1])
    crossing = set(getattr(config, "cross_attention_layers", ())) if family.cross_attention else set()
    pairs = {number: (layer.keys, layer.values) for number, layer in enumerate(cache.layers) if layer.keys is not None}
    mask = inputs.get("cross_attention_mask")
    return Prefix(
        length=length,
        position=length + (_offset(model) if family.three_axes else 0),
        layers={number: pair for number, pair in pairs.items() if number not in crossing},
        cross={number: pair for number, pair in pairs.items() if number in crossing and pair[0].numel()},
        cross_mask=None if mask is None else mask[:, -1:],
    )


@contextmanager
def last_layer_at(model: Vlm, nodes: Tensor | None) -> Iterator[None]:
    """Compute the last layer's feed-forward only for some tokens; the output of the others is not read.

    This saves 7 % of the work in a model with ten layers and 2 % with thirty.

    Args:
        nodes: [n] indices of the tokens in the flattened pass, int64; None: all.
    """
    feed = None if nodes is None else getattr(language_model(model).layers[-1], "mlp", None)
    if feed is None or nodes is None:
        yield
        return
    import torch

    whole, before = feed.forward, feed.__dict__.get("forward")  # accelerate replaces `forward` on the instance

    def partial(hidden: Tensor) -> Tensor:
        output = torch.zeros_like(hidden)
        if nodes.numel():
            places = upload(nodes, hidden.device)
            output.view(-1, hidden.shape[-1])[places] = whole(hidden.reshape(-1, hidden.shape[-1])[places][None])[0]
        return output

    feed.forward = partial
    try:
        yield
    finally:
        del feed.forward
        if before is not None:
            feed.forward = before


def forget_positions(model: Vlm) -> None:
    """Clear the position offset of the last picture, which Qwen keeps on the module and applies to the next prompt."""
    for module in (model, base_model(model)):
        if hasattr(module, "rope_deltas"):
            module.rope_deltas = None


def _offset(model: Vlm) -> int:
    """Return the difference between positions and tokens that the last pass left on the module; 0 without a picture."""
    offset = getattr(base_model(model), "rope_deltas", None)
    return 0 if offset is None else int(offset.flatten()[0])


def shell(prefix: Prefix, *, rows: int, config: PretrainedConfig, is_joined: bool) -> DynamicCache:
    """Return a cache over the prefix's tensors for one pass; what the pass computes is not stored in it.

    Args:
        rows: batch size of the pass.
        config: the config of the text model.
        is_joined: whether a layer gets the prefix's keys before its own (for plain attention), or only its own.
    """
    from transformers import DynamicCache
    from transformers.cache_utils import DynamicLayer

    class CacheShell(DynamicCache):  # type: ignore[misc] # transformers is not type-checked (pyproject.toml)
        def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> KeysValues:
            if not is_joined:
                return key_states, value_states
            import torch

            keys, values = prefix.layers[layer_idx]
            return (
                torch.cat([keys.expand(rows, -1, -1, -1), key_states], 2),
                torch.cat([values.expand(rows, -1, -1, -1), value_states], 2),
            )

        def get_seq_length(self, *_: Any, **__: Any) -> int:
            return prefix.length

    cache: Any = CacheShell()
    if prefix.cross:  # cross-attention reads its layers directly, without `update`
        cache.layers = [DynamicLayer() for _ in range(config.num_hidden_layers)]
        for number, (keys, values) in prefix.cross.items():
            layer = cache.layers[number]
            layer.keys, layer.values = (tensor.expand(rows, -1, -1, -1) for tensor in (keys, values))
            layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
    return cache


def hidden_states(
    model: Vlm,
    family: Family,
    prefix: Prefix,
    rows: Sequence[TokenTree],
    *,
    kind: PassKind,
    read: Sequence[int] | None = None,
) -> Tensor:
    """Return the last hidden states of the tokens of `rows` after `prefix`.

    Args:
        read: indices, in the flattened result, of the tokens that are needed; None: all. Other tokens are undefined.

    Returns:
        [rows, width, hidden] in the model's dtype; undefined past the end of a row.
    """
    import torch

    packed = block(rows)
    nodes = None if read is None else torch.tensor(sorted(set(read)))
    with torch.inference_mode():
        return (_cascade if kind == "cascade" else _batched)(model, family, prefix, packed, nodes)


def _cascade(model: Vlm, family: Family, prefix: Prefix, suffixes: PackedRows, nodes: Tensor | None) -> Tensor:
    import torch

    config = model.config.get_text_config()
    count, width = suffixes.ids.shape
    is_padded = not bool(suffixes.real.all())
    places = suffixes.real.flatten().nonzero().flatten() if is_padded else None
    ids, depths = suffixes.ids.flatten(), suffixes.depths.flatten()
    if places is not None:
        ids, depths = ids[places], depths[places]
        nodes = None if nodes is None else torch.searchsorted(places, nodes)
    plan = attention.AttentionPlan(
        prefix=prefix.layers,
        windows=windows(config),
        rows=count,
        width=width,
        places=places,
        depths=suffixes.depths,
        ancestors=suffixes.ancestors,
    )
    attention.register(attention.CASCADE_ATTENTION, attention.cascade)
    with (
        attention_implementation(model, attention.CASCADE_ATTENTION),
        attention.active(plan),
        last_layer_at(model, nodes),
    ):
        states = text_pass(model, family, prefix, ids[None], depths[None], mask=None, is_joined=False)[0]
    if places is None:
        return states.reshape(count, width, -1)
    padded = states.new_zeros(count * width, states.shape[-1])
    padded[places.to(states.device)] = states
    return padded.reshape(count, width, -1)


def _batched(model: Vlm, family: Family, prefix: Prefix, suffixes: PackedRows, nodes: Tensor | None) -> Tensor:
    import torch

    config = model.config.get_text_config()
    count, width = suffixes.ids.shape
    ancestors = suffixes.ancestors
    if ancestors is None:
        ancestors = torch.ones(width, width, dtype=torch.bool).tril().expand(count, -1, -1)
    device = _device(model)
    depths = suffixes.depths

    def visible(seen: int, window: int | None) -> Tensor:  # [rows, 1, width, seen + width]
        prefix_part = torch.ones(count, width, seen, dtype=torch.bool)
        row_part = ancestors
        if window is not None:
            back = torch.arange(seen, 0, -1)
            prefix_part = depths[:, :, None] + back[None, None] < window
            row_part = ancestors & (depths[:, :, None] - depths[:, None] < window)
        return torch.cat([prefix_part, row_part], 2)[:, None].to(device)

    limited = windows(config)
    seen = {layer: keys.shape[2] for layer, (keys, _) in prefix.layers.items()}
    full = next((n for layer, n in seen.items() if layer not in limited), prefix.length)
    everywhere = visible(full, None)
    mask: Tensor | Tensors = everywhere
    if limited:
        layer, window = next(iter(limited.items()))
        mask = {"full_attention": everywhere, SLIDING: visible(seen[layer], window)}
    with attention_implementation(model, PLAIN), last_layer_at(model, nodes):
        return text_pass(model, family, prefix, suffixes.ids, depths, mask=mask, is_joined=True)


def text_pass(
    model: Vlm,
    family: Family,
    prefix: Prefix,
    ids: Tensor,
    depths: Tensor,
    *,
    mask: Tensor | Tensors | None,
    is_joined: bool,
) -> Tensor:
    """Return the text model's last hidden states [rows, length, hidden] of tokens after `prefix`.

    Args:
        ids: [rows, length] token ids.
        depths: [rows, length] positions after `prefix.position`.
        mask: attention mask, as transformers expects it.
        is_joined: as for `shell`.
    """
    rows, length = ids.shape
    device = _device(model)
    positions = upload(depths + prefix.position, device)
    extra: Tensors = {}
    if family.three_axes:
        positions = positions[None].expand(3, -1, -1)
    if prefix.cross_mask is not None:
        extra = _cross_masks(model, prefix.cross_mask, rows, length)
    config = model.config.get_text_config()
    states: Tensor = language_model(model)(
        input_ids=upload(ids, device),
        attention_mask=mask,
        position_ids=positions,
        past_key_values=shell(prefix, rows=rows, config=config, is_joined=is_joined),
        use_cache=True,
        **extra,
    ).last_hidden_state
    return states


def _cross_masks(model: Vlm, row: Tensor, rows: int, length: int) -> Tensors:
    """Return mllama's masks: each token sees the same tiles as the prefix's last token, not the padding tiles."""
    import torch

    tiles = row.expand(rows, length, -1, -1).repeat_interleave(base_model(model).vision_model.num_patches, 3)
    seen = tiles.reshape(rows, 1, length, -1).bool()
    some = seen.any(-1, keepdim=True)
    least = torch.finfo(model.dtype).min
    mask = torch.zeros(seen.shape, dtype=model.dtype, device=seen.device).masked_fill_(~seen & some, least)
    return {"cross_attention_mask": mask, "full_text_row_masked_out_mask": some.to(model.dtype)}


@contextmanager
def attention_implementation(model: Vlm, name: str) -> Iterator[None]:
    """Use the attention function `name` in the text model."""
    config = language_model(model).config
    before = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = before


def _device(model: Vlm) -> torch.device:
    """Return the device of the input embedding, to which token ids go: a model may be spread over several devices."""
    return model.get_input_embeddings().weight.device


class SuffixLikelihoods(NamedTuple):
    """The result of `log_likelihoods`.

    Attributes:
        logprobs: natural logarithm of the probability of each answer of each suffix.
        tokens: tokens that passed through the model for all suffixes together.
    """

    logprobs: list[list[float]]
    tokens: int


def suffix_likelihoods(
    model: Vlm, family: Family, group: RequestGroup, inputs: Inputs, *, kind: PassKind, budget: int
) -> SuffixLikelihoods:
    """Compute the likelihood of each request's allowed answers, over the full vocabulary.

    Args:
        inputs: the group's inputs on the model's device.
        kind: the kind of forward passes over suffixes (`PassKind`).
        budget: bytes that one forward pass may take.
    """
    prefix = encode(model, family, group.prefix(inputs))
    rows, nodes = group.trees()
    by_row: dict[int, list[int]] = {}
    for number, suffix_nodes in enumerate(nodes):
        by_row.setdefault(suffix_nodes.row, []).append(number)
    widest = max(len(row.tokens) for row in rows)
    limit = memory.tokens_per_pass(model, budget=budget, prefix=prefix.length, width=widest, kind=kind)
    logprobs: dict[int, list[float]] = {}
    for row_numbers in token_trees.groups(rows, limit):
        block_rows = [rows[n] for n in row_numbers]
        width = max(len(row.tokens) for row in block_rows)
        members = [(at, number) for at, n in enumerate(row_numbers) for number in by_row[n]]
        answer_nodes = [
            AnswerNodes(
                group.answers[number],
                at * width + nodes[number].last,
                tuple(at * width + node for node in nodes[number].inner),
            )
            for at, number in members
        ]
        read = [node for nodes in answer_nodes for node in (nodes.last, *nodes.inner)]
        hidden = hidden_states(model, family, prefix, block_rows, kind=kind, read=read)
        values = log_likelihoods(model, hidden.flatten(0, 1), answer_nodes)
        logprobs |= {number: value for (_, number), value in zip(members, values, strict=True)}
    tokens = prefix.length + sum(len(row.tokens) for row in rows)
    return SuffixLikelihoods([logprobs[number] for number in range(len(group.suffixes))], tokens)


def tolerance(model: Vlm) -> float:
    """Return the largest difference allowed between two engines' log-likelihoods in this model's dtype."""
    return TOLERANCE.get(str(model.dtype).removeprefix("torch."), ROUNDED_TOLERANCE)
