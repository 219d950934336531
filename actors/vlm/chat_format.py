"""What every use of a model's chat has in common: its template, its tokens, and text that must stay text."""

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from actors.vlm.families import picture_tokens
from actors.vlm.picture_size import NO_BOUNDS, PictureSizer, PixelBounds

# Some templates (Llama 3.2's, for prompts without a picture) write the day into a prompt. A prompt must not depend on
# the day it is asked on, so every prompt is of the day that Llama's own template names where it has no clock.
DAY = datetime.date(2024, 7, 26)
_TODAY = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")


class ChatFormat:
    """A model's template and tokenizer, from its processor (of a model of text: `actors.vlm.loading.TextProcessor`).

    The template is the processor's own, or its tokenizer's if the processor has none. A template that takes a message
    as a string only (Qwen2's, which came with Pangea's tokenizer) gets each picture as the model's token for pictures
    and a line end, which is how LLaVA models were trained.

    Args:
        bounds: of the pixels of a picture as the model sees it; the processor's own where not given.
        config: the model's, needed only to count the tokens of pictures.

    Raises:
        ValueError: a model without a chat template, or one of pictures whose template leaves the picture out.
    """

    def __init__(self, processor: Any, *, bounds: PixelBounds = NO_BOUNDS, config: Any = None) -> None:
        self._sized, self._config = PictureSizer(processor, bounds), config
        self.processor, self.tokenizer = processor, processor.tokenizer
        self.sees_pictures = bool(getattr(processor, "sees_pictures", True))
        own = getattr(processor, "chat_template", None)
        template = own or self.tokenizer.chat_template
        if not template:
            raise ValueError("the model has no chat template; name an instruction-tuned model")
        self._template: Callable[..., str] = (
            processor if own or not self.sees_pictures else self.tokenizer
        ).apply_chat_template
        dated = isinstance(template, str) and _TODAY.search(template)
        self._options = {"chat_template": _TODAY.sub(_as_of_day, template)} if dated else {}
        self.special = _special_tokens(processor)
        self._pieces = True  # whether the template takes a message as a list of pieces
        if self.sees_pictures and not self._shows_pictures():
            self._pieces = False
            if not self._shows_pictures():
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
        shown, options = self._sized(pictures)
        given: dict[str, Any] = {"images": [shown]} if shown else {}
        if options:
            given["images_kwargs"] = options
        made = self.processor(
            text=[text], add_special_tokens=not (begin and text.startswith(begin)), return_tensors="pt", **given
        )
        return dict(made)

    def picture_tokens(self, inputs: Mapping[str, Any]) -> int | None:
        """Tokens of the pictures in `inputs` (`actors.vlm.families.picture_tokens`); None where it cannot be told."""
        return None if self._config is None else picture_tokens(self._config, inputs)

    def render(self, messages: list[dict[str, Any]], *, open_turn: bool = True) -> str:
        """The template's text of `messages`, by default up to where the model's turn begins."""
        given = messages if self._pieces else [self._as_string(message) for message in messages]
        return self._template(given, tokenize=False, add_generation_prompt=open_turn, **self._options)

    def ids(self, text: str) -> list[int]:
        """The tokens of `text`, with none put around them."""
        found: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return found

    def _shows_pictures(self) -> bool:
        """Whether a picture in a message puts a mark for a picture into the prompt."""
        marks = _picture_marks(self.processor)
        if not marks and not self._pieces:
            return False
        text = {"type": "text", "text": "x"}
        with_picture, without = ([{"role": "user", "content": [*s, text]}] for s in ([{"type": "image"}], []))
        try:
            shown, bare = self.render(with_picture), self.render(without)
        except (TypeError, jinja2.TemplateError):
            return False
        return any(shown.count(mark) > bare.count(mark) for mark in marks) if marks else shown != bare

    def _as_string(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message with its content as one string."""
        content = message["content"]
        if isinstance(content, str):
            return dict(message)
        mark = _picture_marks(self.processor)[0]
        return {**message, "content": "".join(p["text"] if p["type"] == "text" else f"{mark}\n" for p in content)}


def _as_of_day(call: re.Match[str]) -> str:
    """The string that a template's call for today's date gives on `DAY`; transformers lets no function be passed in."""
    return repr(DAY.strftime(call[2]))


def _picture_marks(processor: Any) -> list[str]:
    """What stands for a picture in a prompt: Gemma's is `boi_token`, every other family's `image_token`."""
    found = (str(getattr(processor, name, None) or "") for name in ("boi_token", "image_token"))
    return [mark for mark in found if mark]


def _special_tokens(processor: Any) -> re.Pattern[str]:
    tokenizer = processor.tokenizer
    found = set(tokenizer.all_special_tokens)
    found |= {str(token) for token in tokenizer.added_tokens_decoder.values() if token.special}
    found |= {str(getattr(processor, name, "") or "") for name in ("image_token", "video_token", "boi_token")}
    # Longest first, so that a token is not broken at a shorter one inside it and left whole.
    longest = sorted((token for token in found if len(token) > 1), key=lambda token: (-len(token), token))
    return re.compile("|".join(map(re.escape, longest)) or r"(?!)")
