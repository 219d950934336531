"""Prompts as text for a person to read: the tokens that a model gets, with its pictures as placeholders."""

import re
from collections.abc import Sequence
from typing import Any


class PromptText:
    """Converter of token ids back to text.

    Args:
        processor: the model's processor, or a `TextProcessor`.
        sizes: (width, height) of the prompt's pictures, in order.
    """

    def __init__(self, processor: Any, sizes: Sequence[tuple[int, int]]) -> None:
        self._tokenizer, self._sizes = processor.tokenizer, list(sizes)
        mark = str(getattr(processor, "image_token", None) or "")
        self._marks = re.compile(rf"{re.escape(mark)}(?:\s*{re.escape(mark)})*") if mark else None
        self._mark = mark

    def __call__(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` with special tokens; a picture's become `[picture 300 x 225: 88 tokens]`."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return self._marks.sub(self._placeholder, text) if self._marks else text

    def _placeholder(self, run: re.Match[str]) -> str:
        width_height = " {} x {}".format(*self._sizes.pop(0)) if self._sizes else ""
        return f"[picture{width_height}: {run[0].count(self._mark)} tokens]"
