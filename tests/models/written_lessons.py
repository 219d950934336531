"""Lessons whose answers are written: descriptions, JSON, and the words that are wrong or missing in a description."""

import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from actors.marking.span_prompts import bullets
from actors.rubrics.instructions import asked_questions
from actors.rubrics.prompts import Prompt
from jobs.testbed.little_world import census, scene_texts
from jobs.testbed.little_world.scenes import Scene
from tests.models.tasks import Lesson, Task, article_fields, asked_after_pictures, instructed, rubric, span_prompts


def described(one: Scene, draw: random.Random) -> Lesson:
    """A description; without a picture the answer says so."""
    name = draw.choice(("explicit", "minimal", "explicit_context", "explicit_context"))
    return described_as(one, name, has_picture=draw.random() < 0.9)


def described_as(one: Scene, name: str, *, has_picture: bool = True) -> Lesson:
    """The description that the instruction `name` asks for."""
    text = f"{scene_texts.description(one)}." if has_picture else scene_texts.NO_PICTURE
    if name == "explicit_context" and has_picture:
        text += f" {scene_texts.background(one)}"
    return Lesson((one,) if has_picture else (), [Task(instructed(name, article_fields(one), {}), text)])


def dated(one: Scene, draw: random.Random) -> Lesson:
    """A description with the article's sentence on what happened when."""
    return described_as(one, "explicit_context")


def retold(one: Scene, draw: random.Random) -> Lesson:
    """The first sentence of an article, without a picture: to copy what the text says."""
    fields = article_fields(one)
    text = f"Title: {fields['page_title']}\nText: {fields['context_page_description']}"
    return Lesson(
        (), [Task(Prompt((f"{text}\n\nRepeat the first sentence of the text.",), ""), scene_texts.background(one))]
    )


def json_labels(one: Scene, draw: random.Random) -> Lesson:
    """All questions of `century_labels` at once, as JSON."""
    asked = rubric("century_labels")
    prompt = instructed("rubric_json", article_fields(one), {"questions": asked_questions(asked)})
    return Lesson((one,), [Task(prompt, json.dumps(census.century_labels(one), ensure_ascii=False))])


def marks(one: Scene, draw: random.Random) -> Lesson:
    """The wrong words of descriptions, and those that they omit, one per line, or NONE (`mark_spans method=direct`)."""
    correct = scene_texts.description(one)
    tasks = []
    for number in range(5):
        planted = scene_texts.planted(one, seed=draw.randrange(10**6))
        wrong = [scene_texts.stated_words(planted.described, fact) for fact in planted.wrong]
        values: dict[str, Any] = {"correct": correct, "generated": planted.text, "labels": ""}
        if number < 3:
            prompt, lines = _marked("mistakes", values), wrong
        else:
            prompt = _marked("omissions", values | {"mistakes": bullets(wrong)})
            lines = [scene_texts.stated_words(one, fact) for fact in scene_texts.STATED if fact in planted.omitted]
        tasks.append(Task(prompt, "\n".join(lines) or "NONE"))
    return Lesson((one,), tasks)


def _marked(name: str, values: Mapping[str, Any]) -> Prompt:
    step = span_prompts().of_method("direct")[name]
    prompt = asked_after_pictures(Prompt(tuple(step.turn(values)), "", system=step.system))
    begin = prompt.suffix.index("GENERATED")
    return replace(prompt, shared=(*prompt.shared, prompt.suffix[:begin]), suffix=prompt.suffix[begin:])
