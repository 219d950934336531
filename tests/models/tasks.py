"""Tasks of the judge's lessons: prompts of the project's own rubrics and instructions, with the true answers.

Prompts come from the same builders as those of `judge`, `generate` and `mark_spans`.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from actors.marking.span_prompts import SpanPrompts
from actors.rubrics.instructions import Instruction
from actors.rubrics.prompts import Prompt, PromptBuilder
from actors.rubrics.rubric import Rubric
from jobs.testbed.little_world import scene_texts
from jobs.testbed.little_world.scenes import Scene

CONF = Path(__file__).parents[2] / "conf"


class Task(NamedTuple):
    """A prompt and the answer that is right; `codes` are the allowed ones of a closed question."""

    prompt: Prompt
    answer: str
    codes: tuple[str, ...] = ()


class Lesson(NamedTuple):
    """Tasks about one item that share the beginning of their prompts, and the scenes of its pictures."""

    scenes: tuple[Scene, ...]
    tasks: list[Task]


@cache
def rubric(name: str) -> Rubric:
    """Return a rubric of `conf/`."""
    return Rubric.from_dict(conf("rubric", name))


@cache
def instruction(name: str) -> Instruction:
    """Return an instruction of `conf/prompt/`."""
    return Instruction.from_dict(conf("prompt", name))


@cache
def span_prompts() -> SpanPrompts:
    """Return the prompts of `mark_spans`."""
    return SpanPrompts.from_dict(conf("span_prompts", "docent"))


@cache
def builder(name: str, layout: str) -> PromptBuilder:
    """Return the builder of a rubric's prompts."""
    return PromptBuilder(rubric(name), layout=layout)


def conf(group: str, name: str) -> Any:
    """Return a file of `conf/`."""
    return yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))


def article_fields(one: Scene) -> dict[str, str]:
    """Return the context fields of a record about the scene."""
    return {"page_title": scene_texts.title(one), "context_page_description": scene_texts.article(one)}


def asked_after_pictures(prompt: Prompt) -> Prompt:
    """Return the same prompt, of which only what precedes and what is in the pictures' part is shared."""
    cut = max(place for place, piece in enumerate(prompt.shared) if not isinstance(piece, str)) + 1
    rest = "".join(str(piece) for piece in prompt.shared[cut:])
    return replace(prompt, shared=prompt.shared[:cut], suffix=rest + prompt.suffix)


def instructed(name: str, context: Mapping[str, str], values: Mapping[str, Any]) -> Prompt:
    """Return the prompt of an instruction of `conf/prompt/`."""
    used = instruction(name)
    turn = used.render(context, **values)
    return Prompt(tuple(turn), "", system=used.render_system(context, **values))
