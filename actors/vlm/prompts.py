"""Prompts of a rubric: what the prompts of one picture share, and the suffix in which each differs.

Shared text ends in an empty line (or at the picture) and a suffix begins with a letter or sign, so that the tokens
of shared + suffix are the tokens of the one followed by the tokens of the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jinja2

from actors.vlm.rubric import PICTURE, Question, Rubric, environment


@dataclass(frozen=True)
class Prompt:
    """A picture (or several side by side) with the text around it.

    `before` and `after` are the same in all prompts of one picture.
    `start` is how the model's turn begins ("Final score:"), if it is begun for it.
    """

    before: str
    after: str
    suffix: str
    start: str = ""

    def messages(self, picture: Any) -> list[dict[str, Any]]:
        """The chat: one turn of the user's with its pictures, in the form that transformers' templates read.

        Args:
            picture: one, or several in a sequence; without any (None) the turn is one text.
        """
        if picture is None:
            return [{"role": "user", "content": [{"type": "text", "text": self.before + self.after + self.suffix}]}]
        content: list[dict[str, Any]] = [{"type": "image", "image": each} for each in as_list(picture)]
        if self.before:
            content.insert(0, {"type": "text", "text": self.before})
        content.append({"type": "text", "text": self.after + self.suffix})
        return [{"role": "user", "content": content}]


def as_list(picture: Any) -> list[Any]:
    """The pictures of a prompt, of which `picture` is one or a sequence of several."""
    return list(picture) if isinstance(picture, list | tuple) else [picture]


class TargetPrompt(NamedTuple):
    """One question about one picture, against one target (empty if the rubric has none)."""

    target: str
    question: Question
    prompt: Prompt


class PromptBuilder:
    """Renders the prompts of one rubric in one layout.

    Raises:
        ValueError: a layout that the rubric does not have.
    """

    def __init__(self, rubric: Rubric, *, layout: str | None = None) -> None:
        self.rubric = rubric
        self.layout = rubric.resolve_layout(layout)
        order, split = rubric.layouts[self.layout], rubric.split(self.layout)
        place = order.index(PICTURE)
        self._before, self._after, self._tail = (
            [self._template(entry) for entry in entries]
            for entries in (order[:place], order[place + 1 : split], order[split:])
        )

    def _template(self, part: str) -> jinja2.Template:
        return environment().from_string(self.rubric.parts[part])

    def prompts(self, context: Mapping[str, str], *, targets: Sequence[str] = ("",)) -> list[TargetPrompt]:
        """Every question against every target about one picture: targets outside, questions inside.

        Args:
            context: text by context field; what is missing is empty. It is data and never read as a template.
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
                    _render(self._tail, texts | _words(question, target)).rstrip(),
                    self.rubric.answer_start,
                ),
            )
            for target in targets
            for question in self.rubric.questions
        ]


def _words(question: Question, target: str) -> dict[str, str]:
    lines = zip(question.codes, question.answers, strict=True)
    by_label = question.reply == "label"
    options = "\n".join(f"- {code}" if by_label else f"{code} = {answer.label}" for code, answer in lines)
    return {"question": question.text, "note": question.note, "options": options, "target": target}


def _render(parts: Sequence[jinja2.Template], words: Mapping[str, str]) -> str:
    blocks = (part.render(words).strip() for part in parts)
    return "".join(block + "\n\n" for block in blocks if block)
