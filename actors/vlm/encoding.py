"""Chats as a model's inputs, and as bytes passed between stages.

Decoding, resizing and tokenising need neither weights nor a device, so a pool of CPU actors does them and passes each
prompt's inputs on as one compressed safetensors buffer.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from actors import hub
from actors.errors import ModelError, first_line
from actors.local_models import is_local, is_ready
from actors.model_files import is_s3, resolve
from actors.rubrics import pieces, thoughts
from actors.rubrics.pieces import Piece
from actors.rubrics.thoughts import Written
from actors.vlm.chat_format import ChatFormat
from actors.vlm.families import PER_TOKEN
from actors.vlm.loading import TextProcessor, completed, refuse_blind
from actors.vlm.picture_size import PixelBounds

LENGTH_BYTES = 8
LARGEST_TRIED = 2**24  # pixels, more than any model's bound


class ChatEncoder(ChatFormat):
    """Encoder of user turns as the inputs of one model."""

    def encode(
        self, turn: Sequence[Piece], pictures: Sequence[Any], *, start: str = "", system: str = ""
    ) -> dict[str, Any]:
        """Return the inputs of one prompt: the system's turn, if any, the user's, and the beginning of the model's.

        Args:
            turn: the pieces of the user's turn, in order.
            pictures: PIL images, RGB, in the item's order.
            start: the beginning of the model's turn.
            system: text of the system's turn; if empty, the template's own, if any.

        Returns:
            tensors from the processor by name, batch 1: `input_ids`, `attention_mask` and those of the family.

        Raises:
            ValueError: a text model is shown pictures.
        """
        if pictures and not self.sees_pictures:
            raise ValueError(
                "a text model cannot see pictures; use a vision-language model or a prompt without `picture`"
            )
        text = self.text(turn, len(pictures), start=start, system=system)
        return self.inputs(text, pieces.in_order(turn, pictures))

    def text(self, turn: Sequence[Piece], pictures: int, *, start: str = "", system: str = "") -> str:
        """Return the prompt from the chat template, with one placeholder per picture.

        Special tokens in the texts of both turns are ordinary text.
        """
        turn = [self.as_data(piece) if isinstance(piece, str) else piece for piece in turn]
        content: str | list[dict[str, Any]] = pieces.content(turn, [None] * pictures)
        if not self.sees_pictures:  # templates of text models accept only strings
            content = "\n\n".join(piece for piece in turn if isinstance(piece, str) and piece)
        return self.render(pieces.messages(content, self.as_data(system))) + start

    def continuation(self, start: str, words: str) -> list[int]:
        """Return the token ids of `words` after `start` in the model's turn.

        Raises:
            ValueError: the tokens of `start` change when `words` follow.
        """
        # The user's turn is left empty, because text before the model's turn does not change the tokens of that turn.
        head = self.text([""], 0, start=start)
        before, whole = self.ids(head), self.ids(head + self.as_data(words))
        if whole[: len(before)] != before or len(whole) == len(before):
            raise ValueError(
                f"the model's tokens do not split between {start!r} and {words!r}; end the start elsewhere"
            )
        return whole[len(before) :]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of generated tokens, without outer white space and special tokens.

        Those that mark thoughts are kept (`actors.rubrics.thoughts`).
        """
        options = {"clean_up_tokenization_spaces": False}
        parts = (
            self.tokenizer.decode(list(part), skip_special_tokens=not is_mark, **options)
            for is_mark, part in groupby(ids, key=self._thought_marks.__contains__)
        )
        return "".join(parts).strip()

    def written(self, ids: Sequence[int], *, start: str = "") -> Written:
        """Return the thought and the answer in generated tokens.

        Args:
            start: the beginning of the model's turn.
        """
        return thoughts.split(self.decode(ids), opened=bool(self.opened_thought(start)))

    @cached_property
    def _thought_marks(self) -> frozenset[int]:
        special = {str(token): number for number, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        return frozenset(special[token] for token in thoughts.marks(special))


def load_processor(model: str, *, revision: str | None = None, local_only: bool = False) -> Any:
    """Return a model's processor (`TextProcessor` for a text model); loads no weights and runs no remote code.

    Args:
        local_only: whether to use only a folder or the hub's cache.

    Raises:
        ValueError: the model does not exist, its files are invalid, or it accepts pictures and its processor does not.
    """
    from transformers import AutoProcessor

    source = resolve(model, weights=False)
    options = {"revision": revision or "main", "trust_remote_code": False, "local_files_only": local_only}
    try:
        processor = AutoProcessor.from_pretrained(source, **options)
    except Exception as error:  # model files are untrusted, so any exception is possible
        raise ModelError(f"{model}: cannot load the processor ({first_line(error)})") from error
    config = load_config(model, revision=revision, local_only=local_only)
    if hasattr(processor, "image_processor"):
        return completed(processor, config)
    refuse_blind(model, config)
    return TextProcessor(processor)


def load_config(model: str, *, revision: str | None = None, local_only: bool = False) -> Any:
    """Return a model's config. Arguments and errors as for `load_processor`."""
    from transformers import AutoConfig

    source = resolve(model, weights=False)
    options = {"revision": revision or "main", "trust_remote_code": False, "local_files_only": local_only}
    try:
        return AutoConfig.from_pretrained(source, **options)
    except Exception as error:  # model files are untrusted, so any exception is possible
        raise ModelError(f"{model}: cannot load the config ({first_line(error)})") from error


def tokens_of_sizes(
    model: str, sizes: Sequence[tuple[int, int]], *, bounds: PixelBounds, revision: str | None = None
) -> list[int] | None:
    """Return how many tokens a picture of each size takes, by passing blank pictures to the model's own processor.

    Loads no weights and downloads or builds nothing.

    Args:
        sizes: (width, height).

    Returns:
        the numbers; empty for a text model; None if the processor is not on this machine or the tokens are unknown.
    """
    if is_s3(model) or (not is_ready(model) if is_local(model) else not hub.is_cached(model, "config.json", revision)):
        return None
    from PIL import Image

    try:
        processor = load_processor(model, revision=revision, local_only=True)
        config = load_config(model, revision=revision, local_only=True)
        chat = ChatEncoder(processor, bounds=bounds, config=config)
    except (ValueError, OSError):
        return None
    if not chat.sees_pictures:
        return []
    # Above the bound only the aspect ratio matters, and a full-size photo would take a second.
    tried = PixelBounds(4 * bounds.max_pixels if bounds.max_pixels else LARGEST_TRIED)
    counts = []
    for size in sizes:
        tokens = chat.picture_tokens(chat.encode([None, "x"], [Image.new("RGB", tried.size(*size))]))
        if tokens is None:
            return None
        counts.append(tokens)
    return counts


def to_bytes(inputs: dict[str, Any]) -> bytes:
    """Return inputs as one buffer: the length of the safetensors data (8 bytes), then the data as an LZ4 frame.

    Normalised pixels have few distinct values, and Qwen's processor repeats each frame: the 23 MB of a one-megapixel
    scan compress to 2.3 MB, so that a unit of pictures fits Ray's object store.
    """
    import pyarrow as pa
    from safetensors.torch import save

    buffer = save({name: tensor.contiguous() for name, tensor in inputs.items()})
    frame: bytes = pa.compress(buffer, codec="lz4", asbytes=True)
    return len(buffer).to_bytes(LENGTH_BYTES, "little") + frame


def from_bytes(data: bytes) -> dict[str, Any]:
    """Return the inputs in a buffer made by `to_bytes`."""
    import pyarrow as pa
    from safetensors.torch import load

    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    return load(pa.decompress(memoryview(data)[LENGTH_BYTES:], length, codec="lz4", asbytes=True))


def collate(batch: Sequence[dict[str, Any]], *, pad_id: int) -> dict[str, Any]:
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


def _left_padded(tensor: Any, length: int, fill: int) -> Any:
    import torch

    missing = length - tensor.shape[1]
    if not missing:
        return tensor
    return torch.cat([tensor.new_full((tensor.shape[0], missing, *tensor.shape[2:]), fill), tensor], dim=1)


def _right_padded(tensor: Any, sizes: Sequence[int]) -> Any:
    padded = tensor.new_zeros((tensor.shape[0], *sizes))
    padded[tuple(slice(size) for size in tensor.shape)] = tensor
    return padded
