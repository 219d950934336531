"""Lessons of `mark_spans method=claims`: a description is cut into pieces, and each piece is judged."""

import random
from typing import Any

from actors.marking.span_prompts import bullets
from actors.rubrics.prompts import Prompt
from jobs.testbed.little_world import scene_texts
from jobs.testbed.little_world.scene_texts import Planted
from jobs.testbed.little_world.scenes import Scene
from tests.models.tasks import Lesson, Task, span_prompts


def cut(one: Scene, draw: random.Random) -> Lesson:
    """The words of the facts in a description, one per line."""
    planted = scene_texts.planted(one, seed=draw.randrange(10**6))
    stated = [fact for fact in scene_texts.STATED if fact not in planted.omitted]
    step = span_prompts().of_method("claims")["cut"]
    prompt = Prompt(tuple(step.turn({"text": planted.text})), "", system=step.system)
    return Lesson((), [Task(prompt, "\n".join(scene_texts.stated_words(planted.described, fact) for fact in stated))])


def judged(one: Scene, draw: random.Random) -> Lesson:
    """Return a lesson on the pieces of a description: wrong or right, missing, present or corrected."""
    planted = scene_texts.planted(one, seed=draw.randrange(10**6))
    return judged_as(one, planted, draw.choice(("mistakes", "omissions")))


def judged_as(one: Scene, planted: Planted, name: str) -> Lesson:
    """The questions of one step about all pieces of the generated description, or of the correct one."""
    correct = scene_texts.description(one)
    text, described = (planted.text, planted.described) if name == "mistakes" else (correct, one)
    values: dict[str, Any] = {"correct": correct, "generated": planted.text, "labels": ""}
    if name == "omissions":
        values["mistakes"] = bullets([scene_texts.stated_words(planted.described, fact) for fact in planted.wrong])
    step = span_prompts().of_method("claims")[name]
    codes = tuple(answer.code for answer in step.answers)
    tasks = []
    for fact in scene_texts.STATED:
        if name == "mistakes" and fact in planted.omitted:
            continue
        ((begin, end),) = scene_texts.places(text, described, [fact])
        marked = f"{text[:begin]}[[{text[begin:end]}]]{text[end:]}"
        prompt = step.prompt({**values, "claim": text[begin:end], "marked": marked})
        tasks.append(Task(prompt, _code(name, planted, fact), codes))
    return Lesson((one,), tasks)


def _code(name: str, planted: Planted, fact: str) -> str:
    if name == "mistakes":
        return "A" if fact in planted.wrong else "B"
    return "A" if fact in planted.omitted else "C" if fact in planted.wrong else "B"
