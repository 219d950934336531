"""Prompts as vLLM takes them: tokens with one mark per picture, the pictures, and options of the image processor.

vLLM runs the model's image processor itself. The stage that prepares prompts therefore passes the pictures on as they
go into that processor, next to the tokens that the processor makes of the whole prompt: vLLM's must be the same.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

MARKED_IDS, OPTIONS, PICTURE = "marked_ids", "image_options", "picture_"  # names of tensors


class EnginePrompt(NamedTuple):
    """One prompt.

    Attributes:
        request: the prompt with the keys of vLLM's `TokensPrompt`.
        tokens: the tokens that vLLM must make of it, those of pictures included.
    """

    request: dict[str, Any]
    tokens: list[int]


def pack(
    inputs: Mapping[str, Any], marked_ids: Sequence[int], pictures: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a prompt with pictures as tensors that travel between stages.

    Args:
        inputs: the processor's output.
        marked_ids: the prompt's tokens with one mark per picture.
        pictures: PIL images, RGB, as the processor got them.
        options: the options with which the image processor was called.
    """
    import numpy as np
    import torch

    packed = {"input_ids": inputs["input_ids"], MARKED_IDS: torch.tensor([marked_ids])}
    if options:
        packed[OPTIONS] = torch.frombuffer(bytearray(json.dumps(options).encode()), dtype=torch.uint8)
    return packed | {f"{PICTURE}{i}": torch.from_numpy(np.array(picture)) for i, picture in enumerate(pictures)}


def unpack(inputs: Mapping[str, Any], *, shared: int | None = None, suffix: Sequence[int] = ()) -> EnginePrompt:
    """Return a prompt from the tensors of `pack`, or from a processor's output if it shows no picture.

    Args:
        shared: how many tokens of `inputs` the prompt begins with, pictures included; None: all.
        suffix: the tokens after them.
    """
    from PIL import Image

    tokens = inputs["input_ids"][0].tolist()
    shared = len(tokens) if shared is None else shared
    whole = [*tokens[:shared], *suffix]
    if MARKED_IDS not in inputs:
        return EnginePrompt({"prompt_token_ids": whole}, whole)
    marked = inputs[MARKED_IDS][0].tolist()
    # Behind the last picture, which all prompts share, both lists of tokens are the same.
    request: dict[str, Any] = {"prompt_token_ids": [*marked[: len(marked) - len(tokens) + shared], *suffix]}
    arrays = [inputs[f"{PICTURE}{i}"].numpy() for i in range(sum(name.startswith(PICTURE) for name in inputs))]
    request["multi_modal_data"] = {"image": [Image.fromarray(array) for array in arrays]}
    if OPTIONS in inputs:
        request["mm_processor_kwargs"] = {"images_kwargs": json.loads(bytes(inputs[OPTIONS].tolist()))}
    return EnginePrompt(request, whole)
