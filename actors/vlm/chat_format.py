"""What every use of a model's chat has in common: its template, its tokens, and text that must stay text."""

import re
from collections.abc import Callable, Sequence
from typing import Any


class ChatFormat:
    """A model's template and tokenizer, from its processor (of a model of text: `actors.vlm.loading.TextProcessor`).

    Raises:
        ValueError: a model without a chat template, or one of pictures whose template leaves the picture out.
    """

    def __init__(self, processor: Any) -> None:
        self.processor, self.tokenizer = processor, processor.tokenizer
        self.sees_pictures = bool(getattr(processor, "sees_pictures", True))
        if not self.tokenizer.chat_template and not getattr(processor, "chat_template", None):
            raise ValueError("the model has no chat template; name an instruction-tuned model")
        self.special = _special_tokens(processor)
        asked = {"type": "text", "text": "x"}
        with_picture, without = ([{"role": "user", "content": [*s, asked]}] for s in ([{"type": "image"}], []))
        if self.sees_pictures and self.render(with_picture) == self.render(without):
            raise ValueError("the model's chat template leaves the picture out; its answers would not be about it")

    def as_data(self, text: str) -> str:
        """`text` with a space inside whatever the model would read as a special token (a turn's end, a picture)."""
        return self.special.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)

    def token_starts(self, text: str) -> list[int]:
        """For each token of `text` on its own, the character at which it begins."""
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [start for start, _ in encoded["offset_mapping"]]

    def inputs(self, text: str, pictures: Sequence[Any]) -> dict[str, Any]:
        """What the processor returns for a rendered prompt, batch 1: all of it goes to the model.

        Qwen2.5-VL without `mm_token_type_ids`, say, silently takes one-dimensional positions for the picture.

        Args:
            pictures: PIL images, RGB.
        """
        begin = getattr(self.tokenizer, "bos_token", None)  # which templates write themselves
        given = {"images": [list(pictures)]} if pictures else {}
        made = self.processor(
            text=[text], add_special_tokens=not (begin and text.startswith(begin)), return_tensors="pt", **given
        )
        return dict(made)

    def render(self, messages: list[dict[str, Any]], *, open_turn: bool = True) -> str:
        """The template's text of `messages`, by default up to where the model's turn begins."""
        rendered: Callable[..., str] = self.processor.apply_chat_template
        return rendered(messages, tokenize=False, add_generation_prompt=open_turn)

    def ids(self, text: str) -> list[int]:
        """The tokens of `text`, with none put around them."""
        found: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found


def _special_tokens(processor: Any) -> re.Pattern[str]:
    tokenizer = processor.tokenizer
    found = set(tokenizer.all_special_tokens)
    found |= {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    found |= {str(getattr(processor, name, "") or "") for name in ("image_token", "video_token", "boi_token")}
    # Longest first, so that a token is not broken at a shorter one inside it and left whole.
    longest = sorted((token for token in found if len(token) > 1), key=lambda token: (-len(token), token))
    return re.compile("|".join(map(re.escape, longest)) or r"(?!)")
