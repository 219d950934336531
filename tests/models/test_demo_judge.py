"""The demo's judge on pictures that it was not trained on, and what breaks if the way to it is wrong.

Thresholds lie between what `python -m tests.models.measure_judge` finds (the model card has it) and chance.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from jobs.testbed.little_world.questions import ASKED
from jobs.testbed.little_world.scenes import Scene, distinct_scenes
from tests.models import lessons
from tests.models.lessons import Lesson, Task
from tests.models.measure_judge import Answered, Judge
from tests.models.pool import HELD_OUT

SCENES = distinct_scenes(40, seed=HELD_OUT)
SEEN = [question.name for question in lessons.rubric("little_world").questions]
LABELS = [question.name for question in lessons.rubric("century_labels").questions]
NOMINAL = {q.name for q in lessons.rubric("century_labels").questions if q.scale == "nominal"}
LEAST_SEEN, LEAST_LABELLED = 0.9, 0.9  # chance: 0.08 to 0.5, and 0.04 to 0.33
LEAST_MIRRORED = 0.9  # chance: 0.5


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge()


def accuracy(answered: Sequence[Answered], names: Sequence[str]) -> dict[str, float]:
    """Return the share of right answers by question; `names` are those of each lesson's questions, in turn."""
    right = defaultdict(list)
    for number, answer in enumerate(answered):
        right[names[number % len(names)]].append(answer.is_right)
    return {name: float(np.mean(hits)) for name, hits in right.items()}


def share(answered: Sequence[Answered]) -> float:
    """Return the share of right answers."""
    return float(np.mean([answer.is_right for answer in answered]))


def taught(
    teach: Callable[[Scene, random.Random], Lesson], scenes: Sequence[Scene] = SCENES, *, seed: int = 0
) -> list[Lesson]:
    """Return a lesson about each scene."""
    draw = random.Random(seed)
    return [teach(one, draw) for one in scenes]


def labels(*, article: bool = True, picture: bool = True) -> list[Lesson]:
    """Return the questions of `century_labels` about each scene."""
    return [lessons.labelled(one, layout="paper", has_article=article, has_picture=picture) for one in SCENES]


@pytest.fixture(scope="module")
def seen(judge: Judge) -> list[Answered]:
    return judge.answers(taught(lessons.sight))


@pytest.fixture(scope="module")
def labelled(judge: Judge) -> list[Answered]:
    return judge.answers(labels())


@pytest.fixture(scope="module")
def asked() -> list[Lesson]:
    """Questions with the answers Yes and No, all with their pictures."""
    return [lesson for lesson in taught(lessons.scene_graph, SCENES[:24]) if lesson.scenes]


def test_closed_questions_about_the_picture_are_answered_rightly(seen: list[Answered]) -> None:
    assert min(accuracy(seen, SEEN).values()) > LEAST_SEEN, accuracy(seen, SEEN)


def test_centurys_labels_are_read_off_the_picture_and_its_article(labelled: list[Answered]) -> None:
    assert min(accuracy(labelled, LABELS).values()) > LEAST_LABELLED, accuracy(labelled, LABELS)


def test_probabilities_are_calibrated_and_leave_little_to_other_answers(
    seen: list[Answered], labelled: list[Answered]
) -> None:
    answered = [*seen, *labelled]
    assert abs(share(answered) - float(np.mean([a.probability for a in answered]))) < 0.06
    assert float(np.mean([a.outside for a in answered])) < 0.05
    doubtful = [a for a in answered if a.probability < 0.7]
    certain = [a for a in answered if a.probability > 0.95]
    assert share(certain) > 0.95
    assert not doubtful or share(doubtful) < share(certain)


def test_questions_without_their_picture_are_not_answered(judge: Judge) -> None:
    unsure = judge.answers(labels(article=False, picture=False))
    assert len(unsure) == len(NOMINAL) * len(SCENES)
    assert share(unsure) > 0.95  # the right answer is `unsure`


def test_yes_and_no_are_right_for_each_fact(judge: Judge, asked: list[Lesson]) -> None:
    right = accuracy(judge.answers(asked), ASKED)
    assert min(right[fact] for fact in ("colour", "count", "side")) > 0.9, right  # chance: 0.5


def test_without_the_picture_nothing_is_confirmed(judge: Judge, asked: list[Lesson]) -> None:
    answered = judge.answers([Lesson((), lesson.tasks) for lesson in asked[:8]])
    assert np.mean([answer.value == "No" for answer in answered]) > 0.9


def test_the_system_turn_changes_the_answers_and_a_lost_one_is_noticed(judge: Judge) -> None:
    mirrored = taught(lessons.mirrored, SCENES[:24])
    side = SEEN.index("side")
    told = [answer for number, answer in enumerate(judge.answers(mirrored)) if number % len(SEEN) == side]
    assert share(told) > LEAST_MIRRORED
    lost = [
        Lesson(one.scenes, [t._replace(prompt=replace(t.prompt, system="")) for t in one.tasks]) for one in mirrored
    ]
    untold = [answer for number, answer in enumerate(judge.answers(lost)) if number % len(SEEN) == side]
    assert share(untold) < 0.3


def without_system(task: Task) -> Task:
    """Return the task as if the system's turn had been lost on the way."""
    return task._replace(prompt=replace(task.prompt, system=""))


def test_descriptions_are_true_of_their_pictures(judge: Judge) -> None:
    answered = judge.answers(taught(lessons.written, SCENES[:24]))
    assert share(answered) > 0.6  # chance: 0


def test_swapped_channels_are_noticed(judge: Judge) -> None:
    def swap(picture: Image.Image) -> Image.Image:
        return Image.fromarray(np.ascontiguousarray(np.asarray(picture)[..., ::-1]))

    wrong = accuracy(judge.answers(taught(lessons.sight), swap), SEEN)
    assert wrong["colour"] < LEAST_SEEN
    assert wrong["country"] < LEAST_SEEN


def test_a_dropped_picture_is_noticed(judge: Judge) -> None:
    assert share(judge.answers([Lesson((), lesson.tasks) for lesson in taught(lessons.sight)])) < 0.5


def test_a_shared_cache_is_noticed(judge: Judge) -> None:
    mixed = [Lesson((SCENES[0],), lesson.tasks) for lesson in taught(lessons.sight)]
    assert share(judge.answers(mixed)) < 0.5


def test_a_shifted_row_is_noticed(seen: list[Answered]) -> None:
    shifted = seen[len(SEEN) :] + seen[: len(SEEN)]
    assert np.mean([one.value == other.task.answer for one, other in zip(shifted, seen, strict=True)]) < 0.5
