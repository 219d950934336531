"""Prompts of a rubric: the part that all prompts of an item share, and the suffix in which each differs.

Shared text ends in an empty line (or at the picture), and a suffix begins with a character that is not white space, so
that tokens(shared + suffix) = tokens(shared) + tokens(suffix).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jinja2

from actors.rubrics import pieces
from actors.rubrics.pieces import Piece
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import Question
from actors.rubrics.templates import compiled


@dataclass(frozen=True)
class Prompt:
    """Texts and pictures that all prompts of one item share, and the text after them.

    Attributes:
        shared: the pieces of the user's turn (`actors.rubrics.pieces`) that are the same in all prompts of one item.
        suffix: the text after that, in which prompts differ.
        start: how the model's turn begins ("Final score:"); if empty, the model begins it.
        system: text of the system's turn, the same in all prompts of one item; if empty, the template's own, if any.
    """

    shared: tuple[Piece, ...]
    suffix: str
    start: str = ""
    system: str = ""

    def messages(self, picture: Any) -> list[dict[str, Any]]:
        """Return the chat in the form that transformers' templates read: the system's turn, if any, and the user's.

        Args:
            picture: the item's picture, or a sequence of several; None: the turn is one text.
        """
        if picture is None:
            text = "".join(piece for piece in (*self.shared, self.suffix) if isinstance(piece, str))
            return pieces.messages([{"type": "text", "text": text}], self.system)
        content = pieces.content((*self.shared, self.suffix), _as_list(picture))
        return pieces.messages(content, self.system)

    def pictures(self, picture: Any) -> list[Any]:
        """Return the pictures in the order in which the prompt shows them; `picture` as for `messages`."""
        return [] if picture is None else pieces.in_order(self.shared, _as_list(picture))


def _as_list(picture: Any) -> list[Any]:
    return list(picture) if isinstance(picture, list | tuple) else [picture]


class TargetPrompt(NamedTuple):
    """One question about one picture, for one target (empty if the rubric has none)."""

    target: str
    question: Question
    prompt: Prompt


class PromptBuilder:
    """Renderer of a rubric's prompts in one layout.

    Args:
        layout: name of the layout; None: the rubric's default.

    Raises:
        ValueError: the rubric does not have this layout.
    """

    def __init__(self, rubric: Rubric, *, layout: str | None = None) -> None:
        self.rubric = rubric
        self.layout = rubric.resolve_layout(layout)
        order, split = rubric.layouts[self.layout], rubric.split(self.layout)
        self._shared, self._suffix = ([self._piece(entry) for entry in part] for part in (order[:split], order[split:]))
        self._system = compiled(rubric.system)

    def _piece(self, entry: str) -> jinja2.Template | int | None:
        return pieces.place(entry) if pieces.is_picture(entry) else compiled(self.rubric.parts[entry])

    def prompts(self, context: Mapping[str, str], *, targets: Sequence[str] = ("",)) -> list[TargetPrompt]:
        """Return a prompt for each target and question about one picture, with targets in the outer loop.

        For a rubric with questions that are asked without a target, see `actors.items.asked_pairs`.

        Args:
            context: text by context field; a missing field is empty. It is data, never read as a template.
            targets: labels to judge against.

        Raises:
            jinja2.TemplateError: a part cannot be rendered with this context.
        """
        return self.prompts_about(context, [(target, q) for target in targets for q in self.rubric.questions])

    def prompts_about(self, context: Mapping[str, str], pairs: Sequence[tuple[str, Question]]) -> list[TargetPrompt]:
        """Return the prompt of each pair of target and question about one picture.

        Args:
            context: as for `prompts`.
            pairs: questions of the rubric, or the item's questions with the rubric's answers.

        Raises:
            jinja2.TemplateError: a part cannot be rendered with this context.
        """
        texts = {field: context.get(field, "").strip() for field in self.rubric.context_fields}
        words = texts | _words(self.rubric.questions[0], "")
        shared = tuple(_render(self._shared, words))
        system = self._system.render(words).strip()

        def prompt(question: Question, target: str) -> Prompt:
            suffix = "".join(str(text) for text in _render(self._suffix, texts | _words(question, target))).rstrip()
            return Prompt(shared, suffix, self.rubric.answer_start, system)

        return [TargetPrompt(target, question, prompt(question, target)) for target, question in pairs]


def _words(question: Question, target: str) -> dict[str, str]:
    """Return the values of the reserved words of templates."""
    pairs = list(zip(question.codes, question.answers, strict=True))
    by_label = question.reply == "label"
    options = "\n".join(f"- {code}" if by_label else f"{code} = {answer.label}" for code, answer in pairs)
    numbers = ", ".join(question.codes) if all(a.label == code for code, a in pairs) else ""
    words = {"question": question.text, "note": question.note, "options": options, "numbers": numbers}
    return words | {"target": target}


def _render(parts: Sequence[jinja2.Template | int | None], words: Mapping[str, str]) -> Iterator[Piece]:
    """Yield the pieces, each text with an empty line after it; texts that render to nothing are left out."""
    for part in parts:
        if not isinstance(part, jinja2.Template):
            yield part
        elif text := part.render(words).strip():
            yield text + "\n\n"
