"""Prompts in vLLM's form: tokens with one mark per picture, the pictures, and options of the image processor.

vLLM runs the model's image processor itself. The stage that prepares prompts therefore passes on the pictures as the
processor expects them, and the tokens that the processor makes of the whole prompt: vLLM must make the same ones.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

MARKED_IDS, OPTIONS, PICTURE = "marked_ids", "image_options", "picture_"  # names of tensors


class EnginePrompt(NamedTuple):
    """A prompt for vLLM.

    Attributes:
        request: the prompt with the keys of vLLM's `TokensPrompt`.
        tokens: the tokens that vLLM must make of it, including those of pictures.
    """

    request: dict[str, Any]
    tokens: list[int]


def pack(
    inputs: Mapping[str, Any], marked_ids: Sequence[int], pictures: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a prompt with pictures as tensors that can be passed between stages.

    Args:
        inputs: the processor's output.
        marked_ids: the prompt's tokens with one mark per picture.
        pictures: PIL images, RGB, as the processor got them.
        options: the options that the image processor was called with.
    """
    import numpy as np
    import torch

    packed = {"input_ids": inputs["input_ids"], MARKED_IDS: torch.tensor([marked_ids])}
    if options:
        packed[OPTIONS] = torch.frombuffer(bytearray(json.dumps(options).encode()), dtype=torch.uint8)
    return packed | {f"{PICTURE}{i}": torch.from_numpy(np.array(picture)) for i, picture in enumerate(pictures)}


def unpack(inputs: Mapping[str, Any]) -> EnginePrompt:
    """Return a prompt from the tensors of `pack`, or from a processor's output if it shows no picture."""
    return prompts_of(inputs, shared=int(inputs["input_ids"].shape[1]))([])


def prompts_of(inputs: Mapping[str, Any], *, shared: int) -> Callable[[Sequence[int]], EnginePrompt]:
    """Return a function that makes a prompt of each suffix; the pictures, the same in all prompts, are made once.

    Args:
        inputs: the tensors of `pack`, or a processor's output if it shows no picture.
        shared: how many tokens at the beginning of `inputs` the prompts share, including those of pictures.
    """
    from PIL import Image

    tokens = inputs["input_ids"][0].tolist()
    start = marked = tokens[:shared]
    options: dict[str, Any] = {}
    if MARKED_IDS in inputs:
        ids = inputs[MARKED_IDS][0].tolist()
        # After the last picture, which all prompts share, both lists of tokens are the same.
        marked = ids[: len(ids) - len(tokens) + shared]
        arrays = [inputs[f"{PICTURE}{i}"].numpy() for i in range(sum(name.startswith(PICTURE) for name in inputs))]
        options["multi_modal_data"] = {"image": [Image.fromarray(array) for array in arrays]}
    if MARKED_IDS in inputs and OPTIONS in inputs:
        options["mm_processor_kwargs"] = {"images_kwargs": json.loads(bytes(inputs[OPTIONS].tolist()))}

    def prompt(suffix: Sequence[int]) -> EnginePrompt:
        return EnginePrompt({"prompt_token_ids": [*marked, *suffix], **options}, [*start, *suffix])

    return prompt
