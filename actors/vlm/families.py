"""Facts about a model's architecture that the engines need, read from its config, its cache and its modules.

No list of architectures decides what an engine supports: what is read here is enough for the architectures of
transformers that keep keys and values, or states, for each layer. What cannot be read, an engine shows by its
likelihoods of the first prompts (`actors.vlm.engines.EngineChoice`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from actors.vlm.model_types import Vlm

Layout = Literal["sequence", "rows"]
CHUNKED = "chunked_attention"
# Layers of transformers' caches that keep nothing but keys and values, or nothing (they use those of another layer).
KEY_LAYERS = ("DynamicLayer", "DynamicSlidingWindowLayer", "DummyLayer")
STATE_LAYERS = (
    "LinearAttentionLayer",
    "LinearAttentionAndFullAttentionLayer",
    "LinearAttentionAndSlidingWindowAttentionLayer",
)
# Keys of configs of models whose attention depends on a token's place in the pass, not only on its position: Llama 4
# scales queries by it. Suffixes pass as rows, in which both are the same.
BY_PLACE = ("attn_temperature_tuning",)
# Vision towers that have been tried with `actors.vlm.attention.attend_in_pictures`, which only GPUs use.
TOWERS_WITH_SEGMENTS = ("qwen2_5_vl", "qwen3_vl")
# Architectures that were tried on GPUs in half precision, whose rounding hides differences: nothing compares the logits
# of steps that are recorded as a graph, and pictures of other prompts can change likelihoods by less than the rounding.
TRIED_ON_GPUS = (*TOWERS_WITH_SEGMENTS, "llama", "qwen2", "qwen3")


class Reach(NamedTuple):
    """How far back a token sees in a layer: `size` tokens with itself, or to the beginning of its chunk of `size`."""

    size: int
    is_chunk: bool = False

    def sees(self, query: Any, key: Any) -> Any:
        """Return whether a token sees an earlier one, given the numbers of both in the prompt; they broadcast."""
        return query // self.size == key // self.size if self.is_chunk else query - key < self.size


def layer_configs(config: PretrainedConfig) -> list[PretrainedConfig]:
    """Return the config of each layer: some values, such as Gemma 4's `head_dim`, differ between layers.

    Args:
        config: the config of the text model. It raises an error if a value that differs is read from it.
    """
    by_layer = getattr(config, "per_layer_config", None)  # not in transformers 4
    return [config] * config.num_hidden_layers if by_layer is None else list(by_layer)


def layout(config: PretrainedConfig) -> Layout | None:
    """Return how suffixes pass after a prefix: all in one sequence, or as rows; None if a cache layer is unknown.

    Layers with linear attention or a convolution read the tokens before a token from a state, which each row has.

    Args:
        config: the config of the text model.
    """
    kinds = _kinds(config)
    if kinds - {*KEY_LAYERS, *STATE_LAYERS}:
        return None
    return "rows" if kinds & {*STATE_LAYERS} or any(getattr(config, key, None) for key in BY_PLACE) else "sequence"


def reaches(config: PretrainedConfig) -> dict[int, Reach]:
    """Return how far back each layer sees, for the layers where that is limited.

    Args:
        config: the config of the text model.
    """
    kinds = getattr(config, "layer_types", None) or ()
    all_chunked = not kinds and getattr(config, "sliding_window", None) is None
    return {
        number: Reach(int(layer.sliding_window), kinds[number] == CHUNKED if kinds else all_chunked)
        for number, layer in enumerate(_cache_layers(config))
        if getattr(layer, "is_sliding", False)
    }


def shares_keys(config: PretrainedConfig) -> bool:
    """Return whether some layers use the keys of an earlier layer, as Gemma 4's last layers do."""
    return "DummyLayer" in _kinds(config)


def _kinds(config: PretrainedConfig) -> set[str]:
    return {type(layer).__name__ for layer in _cache_layers(config)}


def _cache_layers(config: PretrainedConfig) -> list[Any]:
    """Return the layers of an empty cache; empty if all keep all keys and values."""
    from transformers import DynamicCache

    try:
        return list(DynamicCache(config=config).layers)
    except (KeyError, ValueError, AttributeError, TypeError):  # transformers has no cache for one of the layers
        return [None]


def crossing_layers(config: PretrainedConfig) -> frozenset[int]:
    """Return the layers that attend to the picture instead of the text."""
    return frozenset(getattr(config, "cross_attention_layers", None) or ())


def packs(config: PretrainedConfig) -> bool:
    """Return whether several prompts may pass as one sequence (`actors.vlm.packed`): each layer sees all tokens.

    That the tensors of their pictures follow one another on the first axis, without indices into each other, is shown
    by the likelihoods.

    Args:
        config: the config of the text model.
    """
    is_whole = layout(config) == "sequence" and not reaches(config) and not shares_keys(config)
    return is_whole and not crossing_layers(config)


def base_model(model: Vlm) -> Any:
    """Return the model without its output layer, which transformers' own `base_model` is not in all releases."""
    prefix = getattr(model, "base_model_prefix", "")  # GPT-2's is `transformer`
    return getattr(model, "model", None) or getattr(model, prefix, None) or model


def language_model(model: Vlm) -> Any:
    """Return the module that maps token ids and positions to the last hidden states."""
    base = base_model(model)
    for name in ("language_model", "text_model"):
        if hasattr(base, name):
            module = getattr(base, name)
            return module.model if hasattr(module, "lm_head") else module  # Llama 4's has its own output layer
    return base
