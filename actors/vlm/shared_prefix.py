"""Likelihoods of answers after many suffixes of one prefix: the prefix passes once, the suffixes in packed groups.

What the model keeps of the prefix is kept for later passes, which read and do not modify it: keys and values, and the
states of layers with linear attention or a convolution. There are two kinds of passes over suffixes, which return the
same hidden states: `cascade` attends as in `actors.vlm.attention`; `batched` has one row per suffix over an expanded
cache and uses the model's usual attention. `cascade` puts all suffixes into one sequence, unless a layer has a state:
then suffixes are rows (`actors.vlm.branches`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from actors.devices import upload
from actors.vlm import attention, branches, memory, token_trees
from actors.vlm.branches import Branch, SuffixPiece
from actors.vlm.families import Reach, base_model, crossing_layers, language_model, layout, reaches, shares_keys
from actors.vlm.scoring_requests import AnswerNodes, RequestGroup, log_likelihoods
from actors.vlm.token_trees import PackedRows, TokenTree, block

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import DynamicCache

    from actors.vlm.model_types import Inputs, KeysValues, Tensors, Vlm

PassKind = Literal["cascade", "batched"]
FULL = "full_attention"
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
            layers with a limited reach.
        reaches: how far back a token sees, by layer, where that is limited.
        states: the states of layers that have some.
        shares_keys: whether some layers use the keys of an earlier layer.
        cross: keys and values of the picture, by cross-attention layer.
        cross_mask: [1, 1, pictures, tiles] what the last token sees of the picture; None without cross-attention.
    """

    length: int
    position: int
    layers: dict[int, KeysValues]
    reaches: dict[int, Reach] = field(default_factory=dict)
    states: Branch = branches.NOTHING
    shares_keys: bool = False
    cross: dict[int, KeysValues] = field(default_factory=dict)
    cross_mask: Tensor | None = None


def encode(model: Vlm, inputs: Inputs) -> Prefix:
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
    no_nodes = torch.empty(0, dtype=torch.long)  # only keys, values and states are used
    base = base_model(model)
    options = {"logits_to_keep": 1} if base is model else {}  # Llama 4 has no part without the output layer
    with torch.inference_mode(), last_layer_at(model, no_nodes):
        base(**inputs, past_key_values=cache, use_cache=True, **options)
    length = int(inputs["input_ids"].shape[1])
    crossing = crossing_layers(config)
    pairs = {
        number: (layer.keys, layer.values)
        for number, layer in enumerate(cache.layers)
        if getattr(layer, "keys", None) is not None
    }
    mask = inputs.get("cross_attention_mask")
    return Prefix(
        length=length,
        position=length + _offset(model),
        layers={number: pair for number, pair in pairs.items() if number not in crossing},
        reaches=reaches(config),
        states=branches.states_of(cache.layers),
        shares_keys=shares_keys(config),
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
    layers = getattr(language_model(model), "layers", None)  # GPT-2 and others name them differently
    feed = None if nodes is None or layers is None else getattr(layers[-1], "mlp", None)
    if feed is None or nodes is None:
        yield
        return
    import torch

    places = nodes if nodes.numel() else nodes.new_zeros(1)  # a pass shows what the feed-forward returns
    whole, before = feed.forward, feed.__dict__.get("forward")  # accelerate replaces `forward` on the instance

    def partial(hidden: Tensor, *others: Any) -> Any:
        if others:  # ERNIE 4.5 VL's kinds of tokens, for instance
            return whole(hidden, *others)
        output = torch.zeros_like(hidden)
        result = whole(hidden.reshape(-1, hidden.shape[-1])[upload(places, hidden.device)][None])
        is_tuple = isinstance(result, tuple)  # gpt-oss adds its router's scores, which nothing reads
        output.view(-1, hidden.shape[-1])[upload(places, hidden.device)] = (result[0] if is_tuple else result)[0]
        return (output, *result[1:]) if is_tuple else output

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


@lru_cache(maxsize=1)
def _shell_class() -> Any:
    """Return the class of caches over a prefix for one pass; what the pass computes is not stored in the prefix."""
    from transformers import DynamicCache

    class CacheShell(DynamicCache):  # type: ignore[misc] # transformers is not type-checked (pyproject.toml)
        def __init__(self, prefix: Prefix, *, rows: int, above: Branch, is_joined: bool, keeps: bool) -> None:
            super().__init__()
            self.prefix, self.rows, self.above, self.is_joined, self.keeps = prefix, rows, above, is_joined, keeps
            self.left = Branch({}, {}, {})
            self.sources: dict[int, int] = {}
            self._alive: list[Tensor] = []  # an `id` is unique only while its tensor exists

        def update(self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any) -> KeysValues:
            if self.keeps:
                self.left.keys[layer_idx] = (key_states, value_states)
            if self.prefix.shares_keys:
                self.sources[id(key_states)] = layer_idx
                self._alive.append(key_states)
            if not self.is_joined:
                return key_states, value_states
            import torch

            keys, values = self.prefix.layers[layer_idx]
            return (
                torch.cat([keys.expand(self.rows, -1, -1, -1), key_states], 2),
                torch.cat([values.expand(self.rows, -1, -1, -1), value_states], 2),
            )

        def get_seq_length(self, *_: Any, **__: Any) -> int:
            return self.prefix.length + self.above.length

        def has_previous_state(self, *_: Any, **__: Any) -> bool:
            return True

        def is_recording_past(self, *_: Any, **__: Any) -> bool:
            return True  # otherwise a pass of one token writes into the convolution's state

        def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
            return self._of_all_rows(self.above.convolutions.get((layer_idx, state_idx)))

        def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
            return self._of_all_rows(self.above.recurrent.get((layer_idx, state_idx)))

        def _of_all_rows(self, state: Tensor | None) -> Tensor | None:
            return None if state is None else state.expand(self.rows, *state.shape[1:]).contiguous()

        def update_conv_state(self, conv_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
            import torch

            state = self.get_conv_state(layer_idx, state_idx)
            assert state is not None
            states = torch.cat([state, conv_states], -1)
            if self.keeps:
                self.left.convolutions[layer_idx, state_idx] = states[..., -state.shape[-1] :].clone()
            return states

        def update_recurrent_state(self, states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
            if self.keeps:
                self.left.recurrent[layer_idx, state_idx] = states
            return states

    return CacheShell


def shell(
    model: Vlm, prefix: Prefix, *, rows: int, above: Branch | None = None, is_joined: bool = False, keeps: bool = False
) -> Any:
    """Return a cache over the prefix's tensors for one pass; what the pass computes is not stored in them.

    Args:
        rows: batch size of the pass.
        above: the tokens between the prefix and the pass; None: none.
        is_joined: whether a layer gets the prefix's keys before its own (for plain attention), or only its own.
        keeps: whether `left` of the cache gets the pass's own keys, values and states.
    """
    from transformers.cache_utils import DynamicLayer

    cache = _shell_class()(prefix, rows=rows, above=above or prefix.states, is_joined=is_joined, keeps=keeps)
    if prefix.cross:  # cross-attention reads its layers directly, without `update`
        cache.layers = [DynamicLayer() for _ in range(model.config.get_text_config().num_hidden_layers)]
        for number, (keys, values) in prefix.cross.items():
            layer = cache.layers[number]
            layer.keys, layer.values = (tensor.expand(rows, -1, -1, -1) for tensor in (keys, values))
            layer.dtype, layer.device, layer.is_initialized = keys.dtype, keys.device, True
    return cache


def hidden_states(
    model: Vlm,
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

    config = model.config.get_text_config()
    with torch.inference_mode():
        if kind == "cascade" and layout(config) == "rows":
            return _branched(model, prefix, rows, read)
        packed = block(rows)
        nodes = None if read is None else torch.tensor(sorted(set(read)))
        return (_cascade if kind == "cascade" else _batched)(model, prefix, packed, nodes)


def _branched(model: Vlm, prefix: Prefix, rows: Sequence[TokenTree], read: Sequence[int] | None) -> Tensor:
    """Pass suffixes as rows, each piece of a tree after the pass of the tokens above it."""
    width = max(len(row.tokens) for row in rows)
    wanted = None if read is None else set(read)
    hidden: Tensor | None = None
    waiting = [(branches.pieces(rows), prefix.states)]
    while waiting:
        pieces, above = waiting.pop()
        for group in branches.groups(pieces):
            before = above.rows([piece.parent for piece in group])
            states, branch = _row_pass(model, prefix, group, before, width=width, read=wanted)
            if hidden is None:
                hidden = states.new_zeros(len(rows), width, states.shape[-1])
            for number, piece in enumerate(group):
                places = [place for place, node in enumerate(piece.nodes) if node != branches.REPEATED]
                hidden[piece.row, [piece.nodes[place] for place in places]] = states[number, places]
                for following in piece.below:
                    following.parent = number
            if group[0].below:
                waiting.append(([following for piece in group for following in piece.below], branch))
    assert hidden is not None
    return hidden


def _row_pass(
    model: Vlm, prefix: Prefix, pieces: Sequence[SuffixPiece], above: Branch, *, width: int, read: set[int] | None
) -> tuple[Tensor, Branch]:
    """Return the last hidden states [rows, longest, hidden] of pieces, and what the pass leaves for those below them.

    Args:
        width: tokens of the widest tree.
        read: numbers (tree x width + node) of the tokens whose states are needed; None: all.
    """
    import torch

    longest = max(len(piece.tokens) for piece in pieces)
    ids = torch.zeros(len(pieces), longest, dtype=torch.long)
    for number, piece in enumerate(pieces):
        ids[number, : len(piece.tokens)] = torch.tensor(piece.tokens)
    nodes = None
    if read is not None:
        nodes = torch.tensor(
            [
                number * longest + place
                for number, piece in enumerate(pieces)
                for place, node in enumerate(piece.nodes)
                if node != branches.REPEATED and piece.row * width + node in read
            ],
            dtype=torch.long,
        )
    cache = shell(model, prefix, rows=len(pieces), above=above, keeps=bool(pieces[0].below))
    depths = torch.arange(above.length, above.length + longest).expand(len(pieces), -1)
    plan = attention.AttentionPlan(
        prefix=prefix.layers,
        length=prefix.length,
        reaches=prefix.reaches,
        rows=len(pieces),
        width=longest,
        places=None,
        depths=depths,
        ancestors=None,
        before=above.keys,
        are_rows=True,
        sources=cache.sources,
    )
    with _cascading(model, plan, nodes):
        states = text_pass(model, prefix, ids, depths, mask=None, cache=cache)
    return states, above.followed_by(cache.left, longest)


@contextmanager
def _cascading(model: Vlm, plan: attention.AttentionPlan, nodes: Tensor | None) -> Iterator[None]:
    attention.register(attention.CASCADE_ATTENTION, attention.cascade)
    with (
        attention_implementation(model, attention.CASCADE_ATTENTION),
        attention.active(plan),
        last_layer_at(model, nodes),
    ):
        yield


def _cascade(model: Vlm, prefix: Prefix, suffixes: PackedRows, nodes: Tensor | None) -> Tensor:
    import torch

    count, width = suffixes.ids.shape
    is_padded = not bool(suffixes.real.all())
    places = suffixes.real.flatten().nonzero().flatten() if is_padded else None
    ids, depths = suffixes.ids.flatten(), suffixes.depths.flatten()
    if places is not None:
        ids, depths = ids[places], depths[places]
        nodes = None if nodes is None else torch.searchsorted(places, nodes)
    cache = shell(model, prefix, rows=1)
    plan = attention.AttentionPlan(
        prefix=prefix.layers,
        length=prefix.length,
        reaches=prefix.reaches,
        rows=count,
        width=width,
        places=places,
        depths=suffixes.depths,
        ancestors=suffixes.ancestors,
        sources=cache.sources,
    )
    with _cascading(model, plan, nodes):
        states = text_pass(model, prefix, ids[None], depths[None], mask=None, cache=cache)[0]
    if places is None:
        return states.reshape(count, width, -1)
    padded = states.new_zeros(count * width, states.shape[-1])
    padded[places.to(states.device)] = states
    return padded.reshape(count, width, -1)


def _batched(model: Vlm, prefix: Prefix, suffixes: PackedRows, nodes: Tensor | None) -> Tensor:
    import torch

    config = model.config.get_text_config()
    count, width = suffixes.ids.shape
    ancestors = suffixes.ancestors
    if ancestors is None:
        ancestors = torch.ones(width, width, dtype=torch.bool).tril().expand(count, -1, -1)
    device = _device(model)
    depths = suffixes.depths

    def visible(seen: int, reach: Reach | None) -> Tensor:  # [rows, 1, width, seen + width]
        prefix_part = torch.ones(count, width, seen, dtype=torch.bool)
        row_part = ancestors
        if reach is not None:
            numbers = prefix.length + depths
            prefix_part = reach.sees(numbers[:, :, None], torch.arange(prefix.length - seen, prefix.length))
            row_part = ancestors & reach.sees(numbers[:, :, None], numbers[:, None])
        return torch.cat([prefix_part, row_part], 2)[:, None].to(device)

    kinds = getattr(config, "layer_types", None)
    masks: Tensors = {}
    for layer, (keys, _) in prefix.layers.items():
        if (kind := kinds[layer] if kinds else FULL) not in masks:
            masks[kind] = visible(keys.shape[2], prefix.reaches.get(layer))
    # transformers' models take a mask for each kind of layers if they have several, else one.
    mask: Tensor | Tensors = masks if kinds and prefix.reaches else next(iter(masks.values()))
    cache = shell(model, prefix, rows=count, is_joined=True)
    with attention_implementation(model, PLAIN), last_layer_at(model, nodes):
        return text_pass(model, prefix, suffixes.ids, depths, mask=mask, cache=cache)


def text_pass(
    model: Vlm, prefix: Prefix, ids: Tensor, depths: Tensor, *, mask: Tensor | Tensors | None, cache: DynamicCache
) -> Tensor:
    """Return the text model's last hidden states [rows, length, hidden] of tokens after `prefix`.

    Args:
        ids: [rows, length] token ids.
        depths: [rows, length] positions after `prefix.position`, the same on all axes.
        mask: attention mask, as transformers expects it.
        cache: from `shell`.
    """
    device = _device(model)
    extra: Tensors = {}
    if prefix.cross_mask is not None:
        extra = _cross_masks(model, prefix.cross_mask, *ids.shape)
    states: Tensor = language_model(model)(
        input_ids=upload(ids, device),
        attention_mask=mask,
        position_ids=upload(depths + prefix.position, device),
        past_key_values=cache,
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
    text_model = language_model(model)
    if name == PLAIN and any(hasattr(module, "sinks") for module in text_model.modules()):
        raise NotImplementedError("attention with sinks, which sdpa ignores")
    config = text_model.config
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
    model: Vlm, group: RequestGroup, inputs: Inputs, *, kind: PassKind, budget: int
) -> SuffixLikelihoods:
    """Compute the likelihood of each request's allowed answers, over the full vocabulary.

    Args:
        inputs: the group's inputs on the model's device.
        kind: the kind of forward passes over suffixes (`PassKind`).
        budget: bytes that one forward pass may take.
    """
    prefix = encode(model, group.prefix(inputs))
    rows, nodes = group.trees()
    by_row: dict[int, list[int]] = {}
    for number, suffix_nodes in enumerate(nodes):
        by_row.setdefault(suffix_nodes.row, []).append(number)
    widest = max(len(row.tokens) for row in rows)
    limit = memory.tokens_per_pass(
        model,
        budget=budget,
        prefix=prefix.length,
        width=widest,
        kind=kind,
        state_bytes=prefix.states.state_bytes,
    )
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
        hidden = hidden_states(model, prefix, block_rows, kind=kind, read=read)
        values = log_likelihoods(model, hidden.flatten(0, 1), answer_nodes)
        logprobs |= {number: value for (_, number), value in zip(members, values, strict=True)}
    tokens = prefix.length + sum(len(row.tokens) for row in rows)
    return SuffixLikelihoods([logprobs[number] for number in range(len(group.suffixes))], tokens)


def tolerance(model: Vlm) -> float:
    """Return the largest difference allowed between two engines' log-likelihoods in this model's dtype."""
    return TOLERANCE.get(str(model.dtype).removeprefix("torch."), ROUNDED_TOLERANCE)
