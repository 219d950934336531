"""Prompts of a rubric: the text that all prompts of one picture share, and the suffix in which each differs.

Shared text ends in an empty line (or at the picture) and a suffix begins with a character that is not white space, so
that tokens(shared + suffix) = tokens(shared) + tokens(suffix).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jinja2

from actors.vlm.rubric import Question, Rubric
from actors.vlm.templates import PICTURE, environment


@dataclass(frozen=True)
class Prompt:
    """A picture, or several, with the text around it.

    Attributes:
        before, after: text before and after the picture, the same in all prompts of one picture.
        suffix: the text after that, in which prompts differ.
        start: how the model's turn begins ("Final score:"); empty: the model begins it.
    """

    before: str
    after: str
    suffix: str
    start: str = ""

    def messages(self, picture: Any) -> list[dict[str, Any]]:
        """Return the chat, one turn of the user, in the form that transformers' templates read.

        Args:
            picture: one, or a sequence of several; None: the turn is one text.
        """
        if picture is None:
            return [{"role": "user", "content": [{"type": "text", "text": self.before + self.after + self.suffix}]}]
        content: list[dict[str, Any]] = [{"type": "image", "image": image} for image in as_list(picture)]
        if self.before:
            content.insert(0, {"type": "text", "text": self.before})
        content.append({"type": "text", "text": self.after + self.suffix})
        return [{"role": "user", "content": content}]


def as_list(picture: Any) -> list[Any]:
    """Return the pictures of a prompt; `picture` is one or a sequence of several."""
    return list(picture) if isinstance(picture, list | tuple) else [picture]


class TargetPrompt(NamedTuple):
    """One question about one picture, for one target (empty if the rubric has none)."""

    target: str
    question: Question
    prompt: Prompt


class PromptBuilder:
    """Renders the prompts of one rubric in one layout.

    Args:
        layout: the rubric's default if None.

    Raises:
        ValueError: a layout that the rubric does not have.
    """

    def __init__(self, rubric: Rubric, *, layout: str | None = None) -> None:
        self.rubric = rubric
        self.layout = rubric.resolve_layout(layout)
        order, split = rubric.layouts[self.layout], rubric.split(self.layout)
        place = order.index(PICTURE)
        self._before, self._after, self._suffix = (
            [self._template(entry) for entry in entries]
            for entries in (order[:place], order[place + 1 : split], order[split:])
        )

    def _template(self, part: str) -> jinja2.Template:
        return environment().from_string(self.rubric.parts[part])

    def prompts(self, context: Mapping[str, str], *, targets: Sequence[str] = ("",)) -> list[TargetPrompt]:
        """Return a prompt for each target and question about one picture; targets are the outer loop.

        Args:
            context: text by context field; a missing field is empty. It is data and never read as a template.
            targets: labels to judge against.

        Raises:
            jinja2.TemplateError: a part that cannot be rendered with this context.
        """
        texts = {field: context.get(field, "").strip() for field in self.rubric.context_fields}
        first = self.rubric.questions[0]
        before, after = (_render(parts, texts | _words(first, "")) for parts in (self._before, self._after))
        return [
            TargetPrompt(
                target,
                question,
                Prompt(
                    before,
                    after,
                    _render(self._suffix, texts | _words(question, target)).rstrip(),
                    self.rubric.answer_start,
                ),
            )
            for target in targets
            for question in self.rubric.questions
        ]


def _words(question: Question, target: str) -> dict[str, str]:
    """Return the values of the reserved words of templates."""
    pairs = zip(question.codes, question.answers, strict=True)
    by_label = question.reply == "label"
    options = "\n".join(f"- {code}" if by_label else f"{code} = {answer.label}" for code, answer in pairs)
    return {"question": question.text, "note": question.note, "options": options, "target": target}


def _render(parts: Sequence[jinja2.Template], words: Mapping[str, str]) -> str:
    blocks = (part.render(words).strip() for part in parts)
    return "".join(block + "\n\n" for block in blocks if block)
