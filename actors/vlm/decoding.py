"""Decoding of tokens after encoded prompts: with a cache or a CUDA graph, and the draw of each token.

With a cache, it runs inside transformers' `generate`, which prepares each family's positions and masks. As a CUDA
graph, a step launches the same kernels for each token together: a step of a model with 3 B parameters has 1,150
kernels, and most of the time an H200 waits for the process that launches them. A graph needs keys and values at fixed
addresses: buffers with room for more tokens than the texts have so far, whose rest is masked. Only for families in
which every layer sees all earlier tokens, and that were tried (`families.TRIED_ON_GPUS`).
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from actors.vlm import attention, errors, families, model_inputs
from actors.vlm.families import base_model, language_model
from actors.vlm.model_inputs import PER_TOKEN
from actors.vlm.settings import Sampling
from actors.vlm.shared_prefix import attention_implementation, forget_positions

if TYPE_CHECKING:
    import torch
    from torch import Tensor
    from transformers import DynamicCache

    from actors.vlm.model_types import DecodingState, KeysValues, Tensors, Vlm

CACHES = ("past_key_values", "cache_params")  # entry of a model's outputs with its cache; the second is Mamba's
ROW_KEYS = (*PER_TOKEN, "position_ids")  # entries of the state with a row per prompt, besides the cache
GRAPH_ATTENTION = "remine_decode"
GROWTH = 256  # tokens by which the buffers grow, after which the graph is recorded again
ALIGNED = 16  # mask rows of a multiple of this length suit all attention kernels
MIN_STEPS = 16  # recording takes as long as a few steps
log = logging.getLogger(__name__)


def run_custom(model: Vlm, inputs: Tensors, decode: Callable[..., Tensor], *, pad_id: int, steps: int) -> None:
    """Run `decode` inside the library's `generate`.

    The model's own generation config is not used (Qwen2.5-VL has a repetition penalty of 1.05, Gemma 3 a top_k of 64).

    Args:
        inputs: the processor's output, possibly a batch padded on the left.
        decode: a function with the interface of transformers' `custom_generate`.
        steps: the largest number of tokens after the inputs.
    """
    import torch
    from transformers import GenerationConfig

    forget_positions(model)
    length = int(inputs["input_ids"].shape[1])
    config = GenerationConfig(
        max_length=length + max(steps, 1), pad_token_id=pad_id, eos_token_id=None, do_sample=False, use_cache=True
    )
    with torch.inference_mode(), _hide_generation_config(model):
        model.generate(**model_inputs.on_device(model, inputs), generation_config=config, custom_generate=decode)


@contextmanager
def _hide_generation_config(model: Vlm) -> Iterator[None]:
    """Hide the model's generation config, from which `generate` fills in what the call's config leaves unset.

    For instance, beams and several sequences per prompt would multiply the rows, and a static cache cannot be repeated.
    """
    from transformers import GenerationConfig

    config = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = config


def encode_once(model: Vlm, input_ids: Tensor, state: DecodingState) -> tuple[Tensor, DecodingState]:
    """Run the prompts through the model; return (logits of the last position, state to continue from).

    Raises:
        NotImplementedError: the model returns no cache that can be repeated.
    """
    outputs: Any = model(
        **model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **state), return_dict=True
    )
    names = (*ROW_KEYS, "use_cache", "logits_to_keep")
    state = {name: value for name, value in state.items() if name in names and value is not None}
    caches = {name: outputs[name] for name in CACHES if hasattr(outputs.get(name), "layers")}
    if not caches:  # RWKV and xLSTM have caches of other classes, GPT has none
        raise NotImplementedError("its class returns no cache of keys and values, or of states")
    return outputs.logits[:, -1:], state | caches


def _cache_name(state: DecodingState) -> str:
    return next(name for name in CACHES if name in state)


def repeated(state: DecodingState, repeats: int, *, rows: int, copied: bool = False) -> DecodingState:
    """Return the state with each prompt's row repeated `repeats` times in succession.

    Args:
        rows: the number of prompts.
        copied: whether to copy the cache first; otherwise the cache in `state` is modified.
    """
    import torch

    name = _cache_name(state)
    cache = copy.deepcopy(state[name]) if copied else state[name]
    if repeats > 1:  # not `batch_repeat_interleave`, which layers of linear attention do not have
        order = torch.arange(rows).repeat_interleave(repeats)
        for layer in cache.layers:
            layer.reorder_cache(order)
    result = state | {name: cache}
    for name in ROW_KEYS:
        if name in state:  # Qwen's positions have another axis before the rows
            axis = state[name].ndim - 2 if name == "position_ids" else 0
            result[name] = state[name].repeat_interleave(repeats, dim=axis)
    return result


def advance(model: Vlm, input_ids: Tensor, state: DecodingState, *, tokens: int) -> tuple[Tensor, DecodingState]:
    """Run the last `tokens` of `input_ids` after the cache; return (logits, state after them)."""
    state = model._update_model_kwargs_for_generation(
        _OutputsWithoutCache(), state, is_encoder_decoder=False, num_new_tokens=tokens
    )
    if tokens > 1 and (mask := state.get("cross_attention_mask")) is not None:  # mllama adds only one row
        import torch

        missing = input_ids.shape[1] - mask.shape[1]
        state["cross_attention_mask"] = torch.cat([mask, mask[:, -1:].expand(-1, missing, -1, -1)], dim=1)
    prepared = model.prepare_inputs_for_generation(input_ids, next_sequence_length=tokens, **state)
    if "logits_to_keep" in prepared:  # Bamba, Falcon H1, Jamba and Zamba replace it by the config's, which is 1
        prepared["logits_to_keep"] = tokens
    return model(**prepared, return_dict=True).logits, state


class _OutputsWithoutCache(dict[str, Any]):
    """A model's outputs without the cache, so that the update keeps the cache in the state."""


def can_record(model: Vlm, *, steps: int) -> bool:
    """Return whether to decode `steps` tokens with a graph: on one GPU, for a model that packs, if they are enough."""
    devices = set((getattr(model, "hf_device_map", None) or {}).values())
    is_tried = model.config.model_type in families.TRIED_ON_GPUS and families.packs(model.config.get_text_config())
    return model.device.type == "cuda" and len(devices) <= 1 and steps >= MIN_STEPS and is_tried


class GraphDecoder:
    """Decoder of one token per row at a time, after prompts encoded by `encode_once`.

    Args:
        model: a model of a family that packs.
        state: the state from `actors.vlm.decoding.encode_once`; its cache is emptied.
        samples: rows per prompt.
        steps: the largest number of tokens to decode.
    """

    def __init__(self, model: Vlm, state: DecodingState, *, samples: int, steps: int) -> None:
        import torch

        attention.register(GRAPH_ATTENTION, attend_to_buffers)
        self._model = model
        layers = state["past_key_values"].layers
        self._buffers: list[KeysValues] = []
        for layer in layers:  # one at a time, so that not all keys are in memory twice
            self._buffers.append((layer.keys.repeat_interleave(samples, 0), layer.values.repeat_interleave(samples, 0)))
            layer.keys = layer.values = None
        keys = self._buffers[0][0]
        rows, self._length, device = keys.shape[0], keys.shape[2], keys.device
        seen = torch.ones(rows // samples, self._length, device=device, dtype=torch.bool)
        if state.get("attention_mask") is not None:
            seen = state["attention_mask"].bool()
        starts = seen.sum(-1) + _offsets(model, len(seen)).to(device)
        self._bias = torch.zeros(seen.shape, dtype=keys.dtype, device=device)
        self._bias.masked_fill_(~seen, torch.finfo(keys.dtype).min)
        self._bias = self._bias.repeat_interleave(samples, 0)
        self._tokens = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self._positions = starts.repeat_interleave(samples)[:, None].clone()
        self._place = torch.tensor([self._length], device=device)
        self._end = self._length + steps
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits: Tensor | None = None
        self._records = device.type == "cuda"

    def step(self, tokens: Tensor) -> Tensor:
        """Return the logits [rows, vocabulary] after one more token per row; the next step overwrites them.

        Args:
            tokens: [rows] token ids.
        """
        if self._length == self._bias.shape[1]:
            self._grow()
        self._tokens.copy_(tokens[:, None])
        self._bias[:, self._length] = 0
        if self._graph is None:
            self._logits = self._forward()
        else:
            self._graph.replay()
        self._length += 1
        self._positions += 1
        self._place += 1
        assert self._logits is not None
        return self._logits

    def _grow(self) -> None:
        """Enlarge the buffers, and record the graph for the new ones."""
        import torch

        self._graph = self._logits = None
        length = min(self._end, self._length + GROWTH)
        more = length + -length % ALIGNED - self._length
        for number, pair in enumerate(self._buffers):
            keys, values = (torch.nn.functional.pad(part, (0, 0, 0, more)) for part in pair)
            self._buffers[number] = keys, values
        self._bias = torch.nn.functional.pad(self._bias, (0, more), value=torch.finfo(self._bias.dtype).min)
        if self._records:
            self._record()

    def _record(self) -> None:
        """Record one step; if that fails, each step launches its kernels without a graph."""
        import torch

        try:
            here = torch.cuda.current_stream()
            aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            aside.wait_stream(here)
            with torch.cuda.stream(aside):
                self._forward()  # selects and loads kernels, which cannot be recorded; the step overwrites these keys
            here.wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                self._logits = self._forward()
        except Exception as error:
            if errors.is_fatal(error) or errors.is_out_of_memory(error):
                raise
            log.warning("model %r: its steps cannot be recorded (%s); slower", self._model.config.model_type, error)
            self._records = False
        else:
            self._graph = graph

    def _forward(self) -> Tensor:
        with attention_implementation(self._model, GRAPH_ATTENTION):
            hidden = language_model(self._model)(
                input_ids=self._tokens,
                attention_mask=self._bias[:, None, None],
                position_ids=self._positions,  # the same on all axes for text
                past_key_values=self._cache(),
                use_cache=True,
            ).last_hidden_state
        return self._model.get_output_embeddings()(hidden[:, -1])

    def _cache(self) -> DynamicCache:
        """Return a cache that writes into the buffers at the position of the step."""
        from transformers import DynamicCache

        buffers, place = self._buffers, self._place

        class BufferedCache(DynamicCache):  # type: ignore[misc] # transformers is not type-checked (pyproject.toml)
            def update(
                self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
            ) -> KeysValues:
                keys, values = buffers[layer_idx]
                return keys.index_copy_(2, place, key_states), values.index_copy_(2, place, value_states)

        return BufferedCache()


def attend_to_buffers(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    *,
    scaling: float | None = None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Attend from one token of each row, with transformers' interface.

    Heads that share keys become additional queries of these keys, so that keys are not copied for each head.

    Args:
        query: [rows, heads, 1, head size].
        key, value: [rows, key heads, length, head size].
        attention_mask: [rows, 1, 1, length], additive.
    """
    import torch

    rows, heads, _, size = query.shape
    folded = query.reshape(rows, key.shape[1], heads // key.shape[1], size)
    mask = attention_mask.expand(-1, key.shape[1], folded.shape[2], -1)
    out = torch.nn.functional.scaled_dot_product_attention(folded, key, value, attn_mask=mask, scale=scaling)
    return out.reshape(rows, 1, heads, size), None


def _offsets(model: Vlm, prompts: int) -> Tensor:
    """Return the difference [prompts] between positions and tokens that the last pass left on the module, or 0."""
    import torch

    offsets = getattr(base_model(model), "rope_deltas", None)
    return torch.zeros(prompts, dtype=torch.long) if offsets is None else offsets.flatten()


def draw(logits: Tensor, numbers: Sequence[float], sampling: Sampling) -> Tensor:
    """Draw one token per row: the most likely one, or the one where a number falls on the cumulative distribution.

    The distribution covers the nucleus, the smallest set of most likely tokens with a probability of at least `top_p`.

    Args:
        logits: [rows, vocabulary].
        numbers: one per row, in [0, 1).

    Returns:
        token ids [rows], int64.

    Raises:
        ValueError: the logits are not finite.
    """
    import torch

    logits = logits.float()
    if not bool(torch.isfinite(logits.max(dim=-1).values).all()):
        raise ValueError("the model's likelihoods are not finite")
    return choose(logits, numbers, sampling)


def choose(logits: Tensor, numbers: Sequence[float], sampling: Sampling) -> Tensor:
    """Return what `draw` returns for float32 logits; arbitrary tokens where they are not finite."""
    import torch

    if sampling.temperature == 0:
        return logits.argmax(dim=-1)
    shares = (logits / sampling.temperature).softmax(dim=-1, dtype=torch.float64)
    order = None
    if sampling.top_p < 1:
        shares, order = shares.sort(dim=-1, descending=True, stable=True)
        outside = shares.cumsum(dim=-1) - shares >= sampling.top_p  # the tokens before it have enough probability
        shares = shares.masked_fill(outside, 0.0)
    sums = shares.cumsum(dim=-1)
    targets = torch.tensor(numbers, dtype=torch.float64, device=logits.device)[:, None] * sums[:, -1:]
    # A number on a boundary belongs to the next token, so that a token without probability is never drawn.
    places = torch.searchsorted(sums, targets, right=True)
    last = torch.arange(shares.shape[-1], device=shares.device).where(shares > 0, 0).amax(dim=-1, keepdim=True)
    places = torch.minimum(places, last)
    return (places if order is None else order.gather(-1, places))[:, 0]
