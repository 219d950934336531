"""What the engine must know of a model's architecture to score suffixes behind a prefix that was encoded before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SLIDING = "sliding_attention"
# What a processor returns a token: it is cut with the tokens; everything else belongs to the picture.
PER_TOKEN = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "cross_attention_mask")


@dataclass(frozen=True)
class Family:
    """One architecture, by transformers' `config.model_type`."""

    name: str
    three_axes: bool = False  # positions of time, height and width; text goes on after the picture's largest
    cross_attention: bool = False  # the picture is seen through layers of its own
    sees_pictures: bool = True


FAMILIES = {
    family.name: family
    for family in (
        Family("qwen2_5_vl", three_axes=True),
        Family("qwen3_vl", three_axes=True),
        Family("llava_next"),
        Family("mllama", cross_attention=True),
        Family("gemma3"),
        Family("smolvlm"),
        Family("idefics3"),
        Family("llama", sees_pictures=False),
        Family("qwen2", sees_pictures=False),
        Family("qwen3", sees_pictures=False),
    )
}


def family_of(model: Any) -> Family | None:
    """The family of `model`; None if the engine does not know it, or not in this configuration."""
    family = FAMILIES.get(model.config.model_type)
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ())
    # A window without a list of layers, or a kind of layer that is neither whole nor windowed (linear, chunked).
    if kinds - {"full_attention", "attention", SLIDING} or (not kinds and getattr(config, "use_sliding_window", False)):
        return None
    return family


def base_model(model: Any) -> Any:
    """The model without its output layer; transformers' `base_model` is not that in each release and family."""
    return getattr(model, "model", model)


def language_model(model: Any) -> Any:
    """The module that turns token ids and positions into the last hidden states."""
    base = base_model(model)
    for name in ("language_model", "text_model"):
        if hasattr(base, name):
            return getattr(base, name)
    return base


def windows(config: Any) -> dict[int, int]:
    """Layer -> how many tokens back it sees, of the layers for which that is limited."""
    kinds = getattr(config, "layer_types", None) or ()
    return {layer: int(config.sliding_window) for layer, kind in enumerate(kinds) if kind == SLIDING}


def cut(inputs: Mapping[str, Any], length: int) -> dict[str, Any]:
    """A processor's `inputs` with their first `length` tokens and the whole picture."""
    return {name: tensor[:, :length] if name in PER_TOKEN else tensor for name, tensor in inputs.items()}


def extended(inputs: Mapping[str, Any], tokens: list[int]) -> dict[str, Any]:
    """`inputs` followed by `tokens` of text."""
    import torch

    if not tokens:
        return dict(inputs)
    made = dict(inputs)
    for name in PER_TOKEN:
        if name not in inputs:
            continue
        before = inputs[name]
        if name == "input_ids":
            more = torch.tensor([tokens], dtype=before.dtype, device=before.device)
        elif name == "attention_mask":
            more = before.new_ones(1, len(tokens))
        elif name == "cross_attention_mask":  # a text token sees the pictures that the last one saw
            more = before[:, -1:].expand(-1, len(tokens), -1, -1)
        else:
            more = before.new_zeros(1, len(tokens))
        made[name] = torch.cat([before, more], 1)
    return made


def picture_tokens(config: Any, inputs: Mapping[str, Any]) -> int | None:
    """Tokens that the language model gets of the pictures in a processor's `inputs`; None where it cannot be told.

    Of a model that sees pictures by cross-attention: the states it attends to, tiles of padding not counted. What
    stands between the pieces of a picture (marks of rows and columns) is text.

    Args:
        config: the whole model's.
    """
    if (tiles := inputs.get("aspect_ratio_mask")) is not None:
        vision = config.vision_config
        return int(tiles.sum()) * ((vision.image_size // vision.patch_size) ** 2 + 1)
    token = getattr(config, "image_token_id", getattr(config, "image_token_index", None))
    return None if token is None else int((inputs["input_ids"] == token).sum())


def on_device(model: Any, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """A processor's inputs where the model is, in its dtype."""
    return {
        name: tensor.to(model.device, dtype=model.dtype if tensor.is_floating_point() else None)
        for name, tensor in inputs.items()
    }
