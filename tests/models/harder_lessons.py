"""Questions at the edge of what the judge can: pairs that differ in one fact, years that are near, and grades."""

import random
from collections.abc import Sequence

from jobs.corpora.tric import worded_date
from jobs.testbed.little_world import scene_texts
from jobs.testbed.little_world.scenes import YEARS, Scene
from tests.models.closed_lessons import compared, rated
from tests.models.little_world import questions
from tests.models.little_world.studies import DrawnPicture, rating_of
from tests.models.tasks import Lesson, Task, builder

DISTANCES = (1, 2, 5, 10, 50)  # years


def pairs(scenes: Sequence[Scene], *, wrong: int, layout: str) -> list[Lesson]:
    """Return, for each scene, the same question in both orders: which picture is right; the other has `wrong` facts."""
    asked = [questions.pair(one, seed=0, wrong=(wrong,)) for one in scenes]
    return [
        compared(pair.text, pair.scenes[::step], pair.better if step == 1 else 1 - pair.better, layout)
        for pair in asked
        for step in (1, -1)
    ]


def years(one: Scene, distance: int) -> Lesson:
    """Whether captions of the picture belong to its date: one of its year, and one so many years away."""
    other = one.year + distance if one.year + distance <= YEARS[-1] else one.year - distance
    captions = {questions.dated_caption(one, year): year == one.year for year in (one.year, other)}
    context = {"date": worded_date(questions.day_of(one), "day")}
    prompts = builder("caption_match", "paper").prompts(context, targets=list(captions))
    return Lesson((one,), [Task(p, q.codes[int(captions[caption])], q.codes) for caption, q, p in prompts])


def grade(one: Scene, draw: random.Random, *, wrong: int, layout: str) -> Lesson:
    """Return a lesson on how well a picture matches a text in which `wrong` facts are changed."""
    asked = scene_texts.changed(one, draw.sample(scene_texts.STATED, wrong), draw)
    return rated(one, asked, wrong, layout)


def grade_of_drawn(drawn: DrawnPicture) -> Lesson:
    """Return a lesson on how well a picture by an invented model matches its prompt, as Rome's pipeline asks."""
    return rated(drawn.shown, drawn.asked, 5 - rating_of(drawn), "paper")
