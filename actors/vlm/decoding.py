"""Decoding with a cache, inside transformers' `generate`, which prepares each family's positions and masks."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from actors.vlm import families
from actors.vlm.families import PER_TOKEN
from actors.vlm.prefix import forget_positions

ROW_KEYS = (*PER_TOKEN, "position_ids")  # entries of the state with a row per prompt, besides the cache


def run_custom(model: Any, inputs: dict[str, Any], decode: Any, *, pad_id: int, steps: int) -> None:
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
        model.generate(**families.on_device(model, inputs), generation_config=config, custom_generate=decode)


@contextmanager
def _hide_generation_config(model: Any) -> Iterator[None]:
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


def encode_once(model: Any, input_ids: Any, state: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Run the prompts through the model; return (logits of the last position, state to continue from)."""
    outputs = model(
        **model.prepare_inputs_for_generation(input_ids, is_first_iteration=True, **state), return_dict=True
    )
    names = (*ROW_KEYS, "use_cache", "logits_to_keep")
    state = {name: value for name, value in state.items() if name in names and value is not None}
    return outputs.logits[:, -1:], state | {"past_key_values": outputs.past_key_values}


def repeated(state: dict[str, Any], repeats: int, *, rows: int, copied: bool = False) -> dict[str, Any]:
    """Return the state with each prompt's row repeated `repeats` times in succession.

    Args:
        rows: the number of prompts.
        copied: whether to copy the cache first; otherwise the cache in `state` is modified.
    """
    import torch

    cache = copy.deepcopy(state["past_key_values"]) if copied else state["past_key_values"]
    if repeats > 1:  # not `batch_repeat_interleave`, which layers of linear attention do not have
        order = torch.arange(rows).repeat_interleave(repeats)
        for layer in cache.layers:
            layer.reorder_cache(order)
    result = state | {"past_key_values": cache}
    for name in ROW_KEYS:
        if name in state:  # Qwen's positions have another axis before the rows
            axis = state[name].ndim - 2 if name == "position_ids" else 0
            result[name] = state[name].repeat_interleave(repeats, dim=axis)
    return result


def advance(model: Any, input_ids: Any, state: dict[str, Any], *, tokens: int) -> tuple[Any, dict[str, Any]]:
    """Run the last `tokens` of `input_ids` after the cache; return (logits, state after them)."""
    state = model._update_model_kwargs_for_generation(
        _OutputsWithoutCache(), state, is_encoder_decoder=False, num_new_tokens=tokens
    )
    if tokens > 1 and (mask := state.get("cross_attention_mask")) is not None:  # mllama adds only one row
        import torch

        missing = input_ids.shape[1] - mask.shape[1]
        state["cross_attention_mask"] = torch.cat([mask, mask[:, -1:].expand(-1, missing, -1, -1)], dim=1)
    prepared = model.prepare_inputs_for_generation(input_ids, next_sequence_length=tokens, **state)
    return model(**prepared, return_dict=True).logits, state


class _OutputsWithoutCache(dict[str, Any]):
    """A model's outputs without the cache, so that the update keeps the cache in the state."""
