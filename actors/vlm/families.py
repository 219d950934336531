"""Facts about models' architectures that the engines need to run suffixes over an encoded prefix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from actors.vlm.model_types import Vlm

SLIDING = "sliding_attention"


@dataclass(frozen=True)
class Family:
    """A model architecture.

    Attributes:
        name: `config.model_type` in transformers.
        three_axes: positions have time, height and width; text continues after the picture's largest position.
        cross_attention: the model sees the picture through cross-attention layers.
        sees_pictures: False for text models.
        packs: several prompts can pass as one sequence: the tensors of their pictures follow one another on the first
            axis, and all layers see all earlier tokens.
    """

    name: str
    three_axes: bool = False
    cross_attention: bool = False
    sees_pictures: bool = True
    packs: bool = False


FAMILIES = {
    family.name: family
    for family in (
        Family("qwen2_5_vl", three_axes=True, packs=True),
        Family("qwen3_vl", three_axes=True, packs=True),
        Family("llava_next"),
        Family("mllama", cross_attention=True),
        Family("gemma3"),
        Family("smolvlm"),
        Family("idefics3"),
        Family("llama", sees_pictures=False, packs=True),
        Family("qwen2", sees_pictures=False, packs=True),
        Family("qwen3", sees_pictures=False, packs=True),
    )
}


def family_of(model: Vlm) -> Family | None:
    """Return the family of `model`; None if the engines do not support it, at all or in this configuration."""
    family = FAMILIES.get(model.config.model_type)
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    # Not supported: a window without a list of layers, and layers that are neither full nor windowed (linear, chunked).
    if kinds - {"full_attention", "attention", SLIDING} or (not kinds and getattr(config, "use_sliding_window", False)):
        return None
    return family


def base_model(model: Vlm) -> Any:
    """Return the model without its output layer, which transformers' own `base_model` is not in all releases."""
    return getattr(model, "model", model)


def language_model(model: Vlm) -> Any:
    """Return the module that maps token ids and positions to the last hidden states."""
    base = base_model(model)
    for name in ("language_model", "text_model"):
        if hasattr(base, name):
            return getattr(base, name)
    return base


def layer_configs(config: PretrainedConfig) -> list[PretrainedConfig]:
    """Return the config of each layer: some values, such as Gemma 4's `head_dim`, differ between layers.

    Args:
        config: the config of the text model. It raises an error if a value that differs is read from it.
    """
    by_layer = getattr(config, "per_layer_config", None)  # not in transformers 4
    return [config] * config.num_hidden_layers if by_layer is None else list(by_layer)


def packs(model: Vlm) -> bool:
    """Return whether several prompts can pass through `model` as one sequence (`actors.vlm.packed`)."""
    family = family_of(model)
    return family is not None and family.packs and not windows(model.config.get_text_config())


def windows(config: PretrainedConfig) -> dict[int, int]:
    """Return how many tokens back each layer sees, for the layers where that is limited."""
    kinds = getattr(config, "layer_types", None) or ()
    layers = layer_configs(config)
    return {layer: int(layers[layer].sliding_window) for layer, kind in enumerate(kinds) if kind == SLIDING}
