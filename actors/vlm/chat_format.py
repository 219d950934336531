"""A model's chat format: its template, its tokens, and text that must not be read as special tokens."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jinja2
import jinja2.sandbox

from actors.errors import first_line
from actors.rubrics.templates import BoundedSandbox
from actors.special_tokens import DataTexts, special_tokens
from actors.vlm import model_inputs
from actors.vlm.model_inputs import picture_tokens
from actors.vlm.model_turn import ModelTurn, read_turn, unknown_variables, variables_of
from actors.vlm.picture_size import NO_BOUNDS, PictureSizer, PixelBounds

if TYPE_CHECKING:
    from PIL import Image
    from transformers import PretrainedConfig

    from actors.vlm.model_types import Inputs, Processor, Tensors


# Some templates (Llama 3.2's, for prompts without a picture) write today's date into the prompt. Prompts must not
# depend on the day, so the date is always the one that Llama's own template uses when it has no clock.
DAY = datetime.date(2024, 7, 26)
_TODAY = re.compile(r"""strftime_now\(\s*(["'])(.*?)\1\s*\)""")

# The forms in which templates accept the text of a system's turn: a list of pieces, a string, or not at all.
_AS_PIECES, _AS_STRING, _IN_USERS_TURN = "pieces", "string", "user"
_SYSTEM_FORMS = (_AS_PIECES, _AS_STRING)
# Attributes of processors: Qianfan-OCR has the first, Gemma the second; all others have the last.
_PICTURE_MARKS = ("image_placeholder_token", "boi_token", "image_token")
_PROBE = 'Grade it,\nor "both".'  # differs if a template prints a list instead of its texts


class ChatFormat:
    """A model's template and tokenizer, from its processor (`actors.vlm.loading.TextProcessor` for a text model).

    The template is the processor's, or its tokenizer's if the processor has none. If the template accepts messages only
    as strings (Qwen2's, in Pangea's tokenizer), each picture becomes the model's picture token and a newline, as in the
    training of LLaVA models.

    The system's turn replaces a template's default text (Qwen's). If a template accepts none, or none together with a
    picture (Llama 3.2 Vision), its text is put before that of the user's turn, and `moves_system` is set.

    The template's variables are those that the processor carries (`actors.vlm.loading.with_variables`).

    Args:
        bounds: bounds of a picture's pixels as the model sees it; by default the processor's.
        config: the model's config, needed only to count the tokens of pictures.
        keeps_pictures: whether `inputs` contains the pictures themselves, for vLLM (`pack_for_vllm`).

    Raises:
        ValueError: the model has no chat template, or its template does not read a variable that the user set, omits
            the picture or exceeds the limits of rubrics' templates.
    """

    def __init__(
        self,
        processor: Processor,
        *,
        bounds: PixelBounds = NO_BOUNDS,
        config: PretrainedConfig | None = None,
        keeps_pictures: bool = False,
    ) -> None:
        bound_templates()
        self._sizer, self._config = PictureSizer(processor, bounds), config
        self._keeps_pictures = keeps_pictures
        if not hasattr(processor, "tokenizer"):
            raise ValueError(f"the model's processor, {type(processor).__name__}, has no tokenizer")
        self.processor, self.tokenizer = processor, processor.tokenizer
        self.sees_pictures = bool(getattr(processor, "sees_pictures", True))
        processor_template = getattr(processor, "chat_template", None)
        self.template = template = processor_template or self.tokenizer.chat_template
        if not template:
            raise ValueError("the model has no chat template; use an instruction-tuned model")
        renderer = processor if processor_template or not self.sees_pictures else self.tokenizer
        self._template: Callable[..., str] = renderer.apply_chat_template
        self._source = template.get("default", "") if isinstance(template, Mapping) else str(template)
        self._variables: dict[str, Any] = dict(getattr(processor, "template_variables", None) or {})
        self._options: dict[str, Any] = dict(self._variables)
        if isinstance(template, str) and _TODAY.search(template):
            self._options["chat_template"] = _TODAY.sub(_as_of_day, template)
        if reason := unknown_variables(self._source, self._variables):
            raise ValueError(reason)
        marks = {str(getattr(processor, name, "") or "") for name in (*_PICTURE_MARKS, "video_token")}
        # Converts a text so that special tokens of the model (the end of a turn, a picture) are read as text.
        self.as_data = DataTexts(special_tokens(self.tokenizer) | marks)
        self.special = self.as_data.special
        self._takes_pieces = True  # whether the template accepts a message as a list of pieces
        self._system_forms: dict[bool, str] = {}  # one of _SYSTEM_FORMS, by whether there are pictures
        self.moves_system = False  # whether a system's turn was moved into a user's
        if not self.sees_pictures:
            self._check_question()
        elif not self._shows_pictures():
            self._takes_pieces = False
            if not self._shows_pictures():
                raise ValueError("the model's chat template drops the picture; its answers would not depend on it")

    def _check_question(self) -> None:
        """Check that the template of a text model renders a question. Raises ValueError if not."""
        try:
            self.render([{"role": "user", "content": [{"type": "text", "text": "x"}]}])
        except (TypeError, jinja2.TemplateError) as error:
            raise ValueError(
                f"the model's chat template does not render a question ({type(error).__name__}: {first_line(error)}); "
                "use a template without tools"
            ) from error

    @cached_property
    def turn(self) -> ModelTurn:
        """How the model's turn begins (`actors.vlm.model_turn`)."""
        _, names = variables_of(self._source)
        switches = [name for name in names if name not in self._variables]
        return read_turn(self.render, switches=switches, response=getattr(self.tokenizer, "response_template", None))

    def opens_thought(self, start: str = "") -> bool:
        """Return whether the model begins to write inside a thought that the prompt opened.

        Args:
            start: the beginning of the model's turn.
        """
        if start and not self.turn.marks.pattern.search(start):
            return False  # `begun` closed the thought
        return bool(self.turn.marks.unclosed(start, opened=self.turn.opened))

    def begun(self, messages: list[dict[str, Any]], start: str = "", *, lead: str = "") -> str:
        """Return the prompt in which the model's turn begins with `start`, or with nothing.

        With a start, the model answers at once: its thought, if any, is closed before it, unless the start itself has
        the marks of a thought.

        Args:
            lead: white space before the start.
        """
        if not start or self.turn.marks.pattern.search(start):
            return self.render(messages) + (lead + start if start else "")
        return self.answering(messages) + lead + start

    def answering(self, messages: list[dict[str, Any]]) -> str:
        """Return the prompt in which the model answers at once, without a thought or after one that is closed.

        Raises:
            ValueError: the template opens a thought, and nothing in it says what ends it.
        """
        if (answer := self.turn.answer) is None:
            raise ValueError(self.turn.no_answer)
        return answer.of(self.render(messages, variables=answer.variables))

    def token_starts(self, text: str) -> list[int]:
        """Return, for each token of `text` on its own, the index of its first character."""
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        return [start for start, _ in encoded["offset_mapping"]]

    def inputs(self, text: str, pictures: Sequence[Image.Image]) -> Tensors:
        """Return the processor's tensors for a rendered prompt, by name, batch 1.

        All of them must be passed to the model: Qwen2.5-VL without `mm_token_type_ids`, for example, silently uses
        one-dimensional positions for the picture.

        Args:
            pictures: PIL images, RGB.
        """
        begin = getattr(self.tokenizer, "bos_token", None)  # some templates write it
        shown, options = self._sizer(pictures)
        arguments: dict[str, Any] = {"images": [shown]} if shown else {}
        if options:
            arguments["images_kwargs"] = options
        is_bare = not (begin and text.startswith(begin))
        tensors = self.processor(text=[text], add_special_tokens=is_bare, return_tensors="pt", **arguments)
        if self._keeps_pictures and shown:
            marked_ids = self.tokenizer(text, add_special_tokens=is_bare)["input_ids"]
            return model_inputs.pack_for_vllm(tensors, marked_ids, shown, options)
        return dict(tensors)

    def picture_tokens(self, inputs: Inputs) -> int | None:
        """Return the tokens of the pictures in `inputs` (`actors.vlm.model_inputs.picture_tokens`); None if unknown."""
        return None if self._config is None else picture_tokens(self._config, inputs)

    def render(
        self, messages: list[dict[str, Any]], *, open_turn: bool = True, variables: Mapping[str, Any] | None = None
    ) -> str:
        """Return the template's text of `messages`.

        Args:
            messages: the system's turn as one text (optional), the user's turn, and any later ones.
            open_turn: whether to end where the model's turn begins.
            variables: variables of the template, besides the user's.
        """
        if messages[0]["role"] == "system":
            messages = self._with_system(messages)
        rendered = messages if self._takes_pieces else [self._as_string(message) for message in messages]
        options = {**self._options, **(variables or {})}
        return self._template(rendered, tokenize=False, add_generation_prompt=open_turn, **options)

    def _with_system(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return messages with the text of the system's turn in a form that the template accepts."""
        system, user, *others = messages
        shows_pictures = any(piece["type"] == "image" for piece in user["content"] if isinstance(piece, dict))
        if shows_pictures not in self._system_forms:
            pictures = [{"type": "image"}] * shows_pictures
            probe = {"role": "user", "content": [*pictures, {"type": "text", "text": "x"}]}
            forms = (form for form in _SYSTEM_FORMS if self._writes_system(form, probe))
            self._system_forms[shows_pictures] = next(forms, _IN_USERS_TURN)
        form = self._system_forms[shows_pictures]
        self.moves_system |= form == _IN_USERS_TURN
        return [*_system_and_user(system["content"], user, form), *others]

    def _writes_system(self, form: str, user: dict[str, Any]) -> bool:
        """Return whether the template writes the text of a system's turn in this form unchanged."""
        messages = _system_and_user(_PROBE, user, form)
        messages = messages if self._takes_pieces else [self._as_string(message) for message in messages]
        try:
            return _PROBE in self._template(messages, tokenize=False, add_generation_prompt=True, **self._options)
        except (TypeError, jinja2.TemplateError):
            return False

    def ids(self, text: str) -> list[int]:
        """Return the token ids of `text`, without special tokens around them."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def _shows_pictures(self) -> bool:
        """Return whether a picture in a message puts a picture mark into the prompt."""
        marks = _picture_marks(self.processor)
        if not marks and not self._takes_pieces:
            return False
        text = {"type": "text", "text": "x"}
        with_picture, without = ([{"role": "user", "content": [*s, text]}] for s in ([{"type": "image"}], []))
        try:
            shown, bare = self.render(with_picture), self.render(without)
        except jinja2.sandbox.SecurityError as error:
            raise ValueError(f"the model's chat template is not rendered: {error}") from error
        except (TypeError, jinja2.TemplateError):
            return False
        return any(shown.count(mark) > bare.count(mark) for mark in marks) if marks else shown != bare

    def _as_string(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return a message with its content as one string."""
        content = message["content"]
        if isinstance(content, str):
            return dict(message)
        mark = _picture_marks(self.processor)[0]
        return {**message, "content": "".join(p["text"] if p["type"] == "text" else f"{mark}\n" for p in content)}


def bound_templates() -> None:
    """Make this process render chat templates, which strangers wrote, within the limits of rubrics' templates."""
    from transformers.utils import chat_template_utils

    if chat_template_utils.ImmutableSandboxedEnvironment is not BoundedSandbox:
        chat_template_utils.ImmutableSandboxedEnvironment = BoundedSandbox
        chat_template_utils._compile_jinja_template.cache_clear()


def _system_and_user(system: str, user: dict[str, Any], form: str) -> list[dict[str, Any]]:
    text = {"type": "text", "text": system}
    if form != _IN_USERS_TURN:
        return [{"role": "system", "content": [text] if form == _AS_PIECES else system}, user]
    content = user["content"]
    if isinstance(content, str):
        return [{**user, "content": f"{system}\n\n{content}"}]
    if content[0]["type"] == "text":
        return [{**user, "content": [{**text, "text": f"{system}\n\n{content[0]['text']}"}, *content[1:]]}]
    return [{**user, "content": [{**text, "text": f"{system}\n\n"}, *content]}]


def _as_of_day(call: re.Match[str]) -> str:
    """Return the literal that replaces a template's call for today's date; transformers accepts no other clock."""
    return repr(DAY.strftime(call[2]))


def _picture_marks(processor: Processor) -> list[str]:
    """Return the tokens that mark a picture in a prompt."""
    marks = (str(getattr(processor, name, None) or "") for name in _PICTURE_MARKS)
    return [mark for mark in marks if mark]
