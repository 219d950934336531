"""A prompt as a model's inputs, which are a processor's tensors: parts, batches, and bytes passed between stages.

Decoding, resizing and tokenising need neither weights nor a device, so a pool of CPU actors does them and passes each
prompt's inputs on as one compressed safetensors buffer.

vLLM runs the model's image processor itself. For vLLM, the stage that prepares prompts therefore passes on the pictures
as the processor expects them, and the tokens that the processor makes of the whole prompt: vLLM must make the same
ones. A prompt in vLLM's form is tokens with one mark per picture, the pictures, and options of the image processor.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from actors.devices import upload

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor
    from transformers import PretrainedConfig

    from actors.vlm.model_types import Inputs, Tensors, Vlm

# The tensors of a processor's output with an entry per token; all others describe the picture.
PER_TOKEN = (
    *("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids", "cross_attention_mask"),
    "moe_mm_token_type_ids",  # ERNIE 4.5 VL routes tokens by it
)
LENGTH_BYTES = 8
MARKED_IDS, OPTIONS, PICTURE = "marked_ids", "image_options", "picture_"  # names of tensors


def cut(inputs: Inputs, length: int) -> Tensors:
    """Return a processor's `inputs` with their first `length` tokens and the whole picture."""
    return {name: tensor[:, :length] if name in PER_TOKEN else tensor for name, tensor in inputs.items()}


def extended(inputs: Inputs, tokens: list[int]) -> Tensors:
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


def picture_tokens(config: PretrainedConfig, inputs: Inputs) -> int | None:
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


def on_device(model: Vlm, inputs: Inputs) -> Tensors:
    """Return a processor's inputs on the model's device, with floating-point tensors in its dtype."""
    return {name: upload(tensor.to(dtype_in(model, tensor)), model.device) for name, tensor in inputs.items()}


def dtype_in(model: Vlm, tensor: Tensor) -> torch.dtype:
    """Return the dtype in which `model` expects a tensor: its own for floating-point numbers."""
    return model.dtype if tensor.is_floating_point() else tensor.dtype


def to_bytes(inputs: Tensors) -> bytes:
    """Return inputs as one buffer: the length of the safetensors data (8 bytes), then the data as an LZ4 frame.

    Normalised pixels have few distinct values, and Qwen's processor repeats each frame: the 23 MB of a one-megapixel
    scan compress to 2.3 MB, so that a unit of pictures fits Ray's object store.
    """
    import pyarrow as pa
    from safetensors.torch import save

    buffer = save({name: tensor.contiguous() for name, tensor in inputs.items()})
    frame: bytes = pa.compress(buffer, codec="lz4", asbytes=True)
    return len(buffer).to_bytes(LENGTH_BYTES, "little") + frame


def from_bytes(data: bytes) -> Tensors:
    """Return the inputs in a buffer made by `to_bytes`."""
    import pyarrow as pa
    from safetensors.torch import load

    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    return load(pa.decompress(memoryview(data)[LENGTH_BYTES:], length, codec="lz4", asbytes=True))


def collate(batch: Sequence[Tensors], *, pad_id: int) -> Tensors:
    """Return the inputs of several prompts as one batch, padded on the left so that all end in the same column.

    Tensors without a token axis (pixels, grid sizes) are concatenated. If pictures have different numbers of tiles, the
    missing ones are filled with zeros, as in the processors.

    Args:
        pad_id: token id of the padding.

    Raises:
        ValueError: prompts have different inputs, such as one with a picture and one without.
    """
    import torch

    if any(inputs.keys() != batch[0].keys() for inputs in batch):
        raise ValueError("prompts with and without pictures cannot be in one batch")
    length = max(inputs["input_ids"].shape[1] for inputs in batch)
    result = {}
    for name in batch[0]:
        tensors = [inputs[name] for inputs in batch]
        if name in PER_TOKEN:
            fill = pad_id if name == "input_ids" else 0
            tensors = [_left_padded(tensor, length, fill) for tensor in tensors]
        if len({tensor.shape[1:] for tensor in tensors}) > 1:
            largest = [max(sizes) for sizes in zip(*(tensor.shape[1:] for tensor in tensors), strict=True)]
            tensors = [_right_padded(tensor, largest) for tensor in tensors]
        result[name] = torch.cat(tensors)
    return result


def _left_padded(tensor: Tensor, length: int, fill: int) -> Tensor:
    import torch

    missing = length - tensor.shape[1]
    if not missing:
        return tensor
    return torch.cat([tensor.new_full((tensor.shape[0], missing, *tensor.shape[2:]), fill), tensor], dim=1)


def _right_padded(tensor: Tensor, sizes: Sequence[int]) -> Tensor:
    padded = tensor.new_zeros((tensor.shape[0], *sizes))
    padded[tuple(slice(size) for size in tensor.shape)] = tensor
    return padded


class VllmPrompt(NamedTuple):
    """A prompt for vLLM.

    Attributes:
        request: the prompt with the keys of vLLM's `TokensPrompt`.
        tokens: the tokens that vLLM must make of it, including those of pictures.
    """

    request: dict[str, Any]
    tokens: list[int]


def pack_for_vllm(
    inputs: Inputs, marked_ids: Sequence[int], pictures: Sequence[Image.Image], options: Mapping[str, Any]
) -> Tensors:
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


def unpack_for_vllm(inputs: Inputs) -> VllmPrompt:
    """Return a prompt from the tensors of `pack`, or from a processor's output if it shows no picture."""
    return vllm_prompts_of(inputs, shared=int(inputs["input_ids"].shape[1]))([])


def vllm_prompts_of(inputs: Inputs, *, shared: int) -> Callable[[Sequence[int]], VllmPrompt]:
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

    def prompt(suffix: Sequence[int]) -> VllmPrompt:
        return VllmPrompt({"prompt_token_ids": [*marked, *suffix], **options}, [*start, *suffix])

    return prompt
