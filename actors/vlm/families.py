"""Facts about models' architectures that the engines need to run suffixes over an encoded prefix."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from actors.devices import upload

SLIDING = "sliding_attention"
# The tensors of a processor's output with an entry per token; all others describe the picture.
PER_TOKEN = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "cross_attention_mask")


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


def family_of(model: Any) -> Family | None:
    """Return the family of `model`; None if the engines do not support it, at all or in this configuration."""
    family = FAMILIES.get(model.config.model_type)
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    # Not supported: a window without a list of layers, and layers that are neither full nor windowed (linear, chunked).
    if kinds - {"full_attention", "attention", SLIDING} or (not kinds and getattr(config, "use_sliding_window", False)):
        return None
    return family


def base_model(model: Any) -> Any:
    """Return the model without its output layer, which transformers' own `base_model` is not in all releases."""
    return getattr(model, "model", model)


def language_model(model: Any) -> Any:
    """Return the module that maps token ids and positions to the last hidden states."""
    base = base_model(model)
    for name in ("language_model", "text_model"):
        if hasattr(base, name):
            return getattr(base, name)
    return base


def packs(model: Any) -> bool:
    """Return whether several prompts can pass through `model` as one sequence (`actors.vlm.packed`)."""
    family = family_of(model)
    return family is not None and family.packs and not windows(model.config.get_text_config())


def windows(config: Any) -> dict[int, int]:
    """Return how many tokens back each layer sees, for the layers where that is limited."""
    kinds = getattr(config, "layer_types", None) or ()
    return {layer: int(config.sliding_window) for layer, kind in enumerate(kinds) if kind == SLIDING}


def cut(inputs: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Return a processor's `inputs` with their first `length` tokens and the whole picture."""
    return {name: tensor[:, :length] if name in PER_TOKEN else tensor for name, tensor in inputs.items()}


def extended(inputs: Mapping[str, Any], tokens: list[int]) -> dict[str, Any]:
    """Return `inputs` followed by `tokens` of text."""
    import torch

    if not tokens:
        return dict(inputs)
    result = dict(inputs)
    for name in PER_TOKEN:
        if name not in inputs:
            continue
        before = inputs[name]
        if name == "input_ids":
            more = torch.tensor([tokens], dtype=before.dtype, device=before.device)
        elif name == "attention_mask":
            more = before.new_ones(1, len(tokens))
        elif name == "cross_attention_mask":  # a text token sees the pictures that the last token saw
            more = before[:, -1:].expand(-1, len(tokens), -1, -1)
        else:
            more = before.new_zeros(1, len(tokens))
        result[name] = torch.cat([before, more], 1)
    return result


def picture_tokens(config: Any, inputs: Mapping[str, Any]) -> int | None:
    """Return how many tokens the language model gets for the pictures in a processor's `inputs`; None if unknown.

    For a model with cross-attention these are the states that it attends to, without padding tiles. Marks of rows and
    columns between the pieces of a picture count as text.

    Args:
        config: the config of the whole model.
    """
    if (tiles := inputs.get("aspect_ratio_mask")) is not None:
        vision = config.vision_config
        return int(tiles.sum()) * (int(vision.image_size // vision.patch_size) ** 2 + 1)
    token = getattr(config, "image_token_id", getattr(config, "image_token_index", None))
    return None if token is None else int((inputs["input_ids"] == token).sum())


def on_device(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a processor's inputs on the model's device, with floating-point tensors in its dtype."""
    return {name: upload(tensor.to(dtype_in(model, tensor)), model.device) for name, tensor in inputs.items()}


def dtype_in(model: Any, tensor: Any) -> Any:
    """Return the dtype in which `model` expects a tensor: its own for floating-point numbers."""
    return model.dtype if tensor.is_floating_point() else tensor.dtype
