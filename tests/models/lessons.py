"""Lessons of the judge: prompts of the project's own rubrics about scenes, with the true answers.

A lesson is one item with its pictures: the text that its prompts share, and the questions that differ, each with the
text to answer.
"""

import random
from collections.abc import Callable, Sequence

from jobs.testbed.little_world.scenes import Scene
from tests.models import claim_lessons as claims
from tests.models import closed_lessons as closed
from tests.models import written_lessons as written
from tests.models.tasks import Lesson

Kind = tuple[float, Callable[[Scene, random.Random], Lesson]]  # a weight, and what makes the lesson
ALL: Sequence[Kind] = (
    (0.06, closed.labels),
    (0.03, closed.sight),
    (0.05, closed.mirrored),
    (0.07, closed.relevance),
    (0.05, closed.scene_graph),
    (0.27, closed.close_comparison),
    (0.07, closed.rating),
    (0.11, closed.caption_match),
    (0.04, closed.contextualisation),
    (0.09, written.described),
    (0.01, written.retold),
    (0.03, written.json_labels),
    (0.09, written.marks),
    (0.03, claims.cut),
    (0.05, claims.judged),
)

# At the end: what each single year means, and to copy it.
LAST: Sequence[Kind] = (
    *((0.5 * weight, teach) for weight, teach in ALL),
    (0.15, closed.period),
    (0.2, written.dated),
    (0.15, written.json_labels),
)

# Before what asks for the finest differences, and for grades of what is right or wrong.
EASIER: Sequence[Kind] = (
    (0.06, closed.labels),
    (0.03, closed.sight),
    (0.06, closed.mirrored),
    (0.07, closed.relevance),
    (0.07, closed.scene_graph),
    (0.25, closed.comparison),
    (0.13, closed.caption_match),
    (0.12, written.described),
    (0.04, written.json_labels),
    (0.17, written.marks),
)

# At the beginning: to see, and to compare a word with a picture.
FIRST: Sequence[Kind] = ((0.2, closed.labels), (0.2, closed.sight), (0.6, closed.scene_graph))


def lesson(one: Scene, draw: random.Random, kinds: Sequence[Kind] = ALL) -> Lesson:
    """Return a lesson about a scene, of a kind drawn by the weights of `kinds`."""
    (teach,) = draw.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
    return teach(one, draw)
