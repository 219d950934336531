"""A chat as a model's inputs: what the processor makes of pictures and texts, as bytes that travel between stages.

The work of the processor (decoding, resizing, tokenizing) needs no weights and no device: it is done in a pool of
CPU actors, and what it makes is handed on as one safetensors buffer a prompt.
"""

from collections.abc import Sequence
from typing import Any

from actors.errors import first_line
from actors.local_models import is_local, is_ready, resolve
from actors.vlm.chat_format import ChatFormat
from actors.vlm.families import PER_TOKEN
from actors.vlm.loading import TextProcessor, completed
from actors.vlm.picture_size import PixelBounds

LARGEST_TRIED = 2**24  # pixels; above all models' own bounds


class ChatEncoder(ChatFormat):
    """Turns user turns into the inputs of one model."""

    def encode(self, pieces: Sequence[str | None], pictures: Sequence[Any], *, start: str = "") -> dict[str, Any]:
        """The inputs of one prompt: a user's turn and the beginning of the model's.

        Args:
            pieces: texts in their order, None where all the pictures stand.
            pictures: PIL images, RGB.
            start: how the model's turn begins.

        Returns:
            tensors by name as the processor makes them, batch 1: `input_ids`, `attention_mask` and the family's own.

        Raises:
            ValueError: pictures for a model that takes none.
        """
        if pictures and not self.sees_pictures:
            raise ValueError("the model takes no pictures; use a vision-language model or a prompt without `picture`")
        return self.inputs(self.text(pieces, len(pictures), start=start), pictures)

    def text(self, pieces: Sequence[str | None], pictures: int, *, start: str = "") -> str:
        """The prompt as the chat template renders it, each picture one placeholder."""
        content: list[dict[str, Any]] = []
        for piece in pieces:
            if piece is None:
                content += [{"type": "image"}] * pictures
            else:
                content.append({"type": "text", "text": piece})
        whole: Any = content
        if not self.sees_pictures:  # templates of text models know strings only
            whole = "\n\n".join(piece for piece in pieces if piece)
        return self.render([{"role": "user", "content": whole}]) + start

    def continuation(self, start: str, words: str) -> list[int]:
        """The tokens of `words` behind `start` in the model's own turn.

        Raises:
            ValueError: the tokens of `start` change when `words` follow.
        """
        # Rendered around nothing: what stands before does not change how the model's own turn is cut into tokens.
        head = self.text([""], 0, start=start)
        before, whole = self.ids(head), self.ids(head + words)
        if whole[: len(before)] != before or len(whole) == len(before):
            raise ValueError(
                f"the model's tokens do not split between {start!r} and {words!r}; end the start elsewhere"
            )
        return whole[len(before) :]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of generated tokens, without special ones and without white space around it."""
        text: str = self.tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text.strip()


def load_processor(model: str, *, revision: str | None = None, here: bool = False) -> Any:
    """The processor of a model (`TextProcessor` of one without pictures); no weights are loaded, no code is run.

    Args:
        here: only from a folder or the hub's cache, without asking the hub.

    Raises:
        ValueError: a model that cannot be found.
    """
    from transformers import AutoConfig, AutoProcessor

    source = resolve(model)
    common = {"revision": revision or "main", "trust_remote_code": False, "local_files_only": here}
    try:
        made = AutoProcessor.from_pretrained(source, **common)
        if hasattr(made, "image_processor"):
            return completed(made, AutoConfig.from_pretrained(source, **common))
        return TextProcessor(made)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ValueError(f"cannot load the processor of model {model!r} ({first_line(error)})") from error


def tokens_of_sizes(
    model: str, sizes: Sequence[tuple[int, int]], *, bounds: PixelBounds, revision: str | None = None
) -> list[int] | None:
    """Tokens of a picture of each of `sizes` (width, height): the model's own processor is given blank ones.

    No weights are loaded and nothing is downloaded or built. Empty for a model that sees no pictures; None where the
    processor is not on this machine, or where a picture's tokens cannot be told.
    """
    from PIL import Image
    from transformers import AutoConfig

    if is_local(model) and not is_ready(model):
        return None
    try:
        processor = load_processor(model, revision=revision, here=True)
        source, common = resolve(model), {"revision": revision or "main", "trust_remote_code": False}
        config = AutoConfig.from_pretrained(source, local_files_only=True, **common)
        chat = ChatEncoder(processor, bounds=bounds, config=config)
    except (ValueError, OSError):
        return None
    if not chat.sees_pictures:
        return []
    # Above the bound only the aspect ratio matters, and a camera's picture takes a second.
    tried = PixelBounds(4 * bounds.max_pixels if bounds.max_pixels else LARGEST_TRIED)
    found = []
    for size in sizes:
        tokens = chat.picture_tokens(chat.encode([None, "x"], [Image.new("RGB", tried.size(*size))]))
        if tokens is None:
            return None
        found.append(tokens)
    return found


def to_bytes(inputs: dict[str, Any]) -> bytes:
    """Inputs as one safetensors buffer."""
    from safetensors.torch import save

    return save({name: tensor.contiguous() for name, tensor in inputs.items()})


def from_bytes(data: bytes) -> dict[str, Any]:
    """Inputs from what `to_bytes` made."""
    from safetensors.torch import load

    return load(data)


def collate(batch: Sequence[dict[str, Any]], *, pad_id: int) -> dict[str, Any]:
    """Inputs of several prompts as one batch, padded on the left, so that all end in the same column.

    What is not a sequence (pixels, sizes of grids) is concatenated; where pictures have different numbers of tiles, the
    missing ones are zeros, as the processors pad.
    """
    import torch

    length = max(inputs["input_ids"].shape[1] for inputs in batch)
    made = {}
    for name in batch[0]:
        tensors = [inputs[name] for inputs in batch]
        if name in PER_TOKEN:
            fill = pad_id if name == "input_ids" else 0
            tensors = [_left_padded(tensor, length, fill) for tensor in tensors]
        if len({tensor.shape[1:] for tensor in tensors}) > 1:
            most = [max(sizes) for sizes in zip(*(tensor.shape[1:] for tensor in tensors), strict=True)]
            tensors = [_right_padded(tensor, most) for tensor in tensors]
        made[name] = torch.cat(tensors)
    return made


def _left_padded(tensor: Any, length: int, fill: int) -> Any:
    missing = length - tensor.shape[1]
    if not missing:
        return tensor
    return _cat(tensor.new_full((tensor.shape[0], missing, *tensor.shape[2:]), fill), tensor)


def _right_padded(tensor: Any, sizes: Sequence[int]) -> Any:
    padded = tensor.new_zeros((tensor.shape[0], *sizes))
    padded[tuple(slice(size) for size in tensor.shape)] = tensor
    return padded


def _cat(*tensors: Any) -> Any:
    import torch

    return torch.cat(tensors, dim=1)
