"""The demo's judge on pictures that it was not trained on, and what breaks if the way to it is wrong.

Thresholds lie between what `python -m tests.models.train_judge` reaches (the model card has it) and chance.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from actors.vlm.loading import load_vlm
from actors.vlm.requests import Scores, ScoringRequest
from actors.vlm.scoring import ClosedSetScorer
from jobs.testbed.little_world import drawing
from jobs.testbed.little_world.scenes import Scene, distinct_scenes
from tests.models import lessons
from tests.models.lessons import Lesson
from tests.models.pool import HELD_OUT

SCENES = distinct_scenes(40, seed=HELD_OUT)
PICTURES = {one: drawing.paint(one, seed=HELD_OUT) for one in SCENES}

Change = Callable[[Image.Image], Image.Image]


class Answered(NamedTuple):
    """A closed answer: its question, whether it is right, its probability, and that of everything not allowed."""

    question: str
    is_right: bool
    value: str
    probability: float
    outside: float


@pytest.fixture(scope="module")
def judge() -> ClosedSetScorer:
    return ClosedSetScorer(*load_vlm("local:demo-judge", dtype="float32", device_map="cpu"))


def unchanged(picture: Image.Image) -> Image.Image:
    return picture


def answers(
    judge: ClosedSetScorer, taught: Sequence[Lesson], names: Sequence[str], change: Change = unchanged
) -> list[Answered]:
    """Return the judge's answers to the closed tasks of lessons; `names` are those of each lesson's questions."""
    answered = []
    for lesson in taught:
        shown = tuple(change(PICTURES[one]) for one in lesson.scenes)
        picture = None if not shown else shown[0] if len(shown) == 1 else shown
        requests = [ScoringRequest(task.prompt, picture, task.codes) for task in lesson.tasks]
        for name, task, scores in zip(names, lesson.tasks, judge.score(requests), strict=True):
            assert isinstance(scores, Scores)
            best = int(np.argmax(scores.probabilities))
            value = task.codes[best]
            answered.append(
                Answered(name, value == task.answer, value, scores.probabilities[best], scores.outside_mass)
            )
    return answered


def accuracy(answered: Sequence[Answered]) -> dict[str, float]:
    """Return the share of right answers by question."""
    right = defaultdict(list)
    for answer in answered:
        right[answer.question].append(answer.is_right)
    return {name: float(np.mean(hits)) for name, hits in right.items()}


def looks(scenes: Sequence[Scene] = SCENES) -> list[Lesson]:
    """Return the questions of `little_world` about each scene."""
    return [lessons.sight(one, random.Random(0)) for one in scenes]


def labels(*, article: bool = True, picture: bool = True) -> list[Lesson]:
    """Return the questions of `century_labels` about each scene."""
    return [lessons.labelled(one, layout="paper", has_article=article, has_picture=picture) for one in SCENES]


SEEN = [question.name for question in lessons.rubric("little_world").questions]
LABELS = [question.name for question in lessons.rubric("century_labels").questions]

LEAST_SEEN, LEAST_LABELLED = 0.9, 0.9  # chance: 0.08 to 0.5, and 0.04 to 0.33


@pytest.fixture(scope="module")
def seen(judge: ClosedSetScorer) -> list[Answered]:
    return answers(judge, looks(), SEEN)


@pytest.fixture(scope="module")
def labelled(judge: ClosedSetScorer) -> list[Answered]:
    return answers(judge, labels(), LABELS)


def mean(hits: Sequence[bool]) -> float:
    return float(np.mean(hits))


def test_closed_questions_about_the_picture_are_answered_rightly(seen: list[Answered]) -> None:
    assert min(accuracy(seen).values()) > LEAST_SEEN, accuracy(seen)


def test_centurys_labels_are_read_off_the_picture_and_its_article(labelled: list[Answered]) -> None:
    assert min(accuracy(labelled).values()) > LEAST_LABELLED, accuracy(labelled)


def test_probabilities_are_calibrated_and_leave_little_to_other_answers(
    seen: list[Answered], labelled: list[Answered]
) -> None:
    answered = [*seen, *labelled]
    assert abs(mean([a.is_right for a in answered]) - float(np.mean([a.probability for a in answered]))) < 0.06
    assert float(np.mean([a.outside for a in answered])) < 0.05
    doubtful = [a.is_right for a in answered if a.probability < 0.7]
    certain = [a.is_right for a in answered if a.probability > 0.95]
    assert mean(certain) > 0.95
    assert not doubtful or mean(doubtful) < mean(certain)


def test_questions_without_their_picture_are_not_answered(judge: ClosedSetScorer) -> None:
    unsure = answers(judge, labels(article=False, picture=False), [n for n in LABELS if n in NOMINAL])
    assert mean([a.is_right for a in unsure]) > 0.95  # the right answer is `unsure`


NOMINAL = {q.name for q in lessons.rubric("century_labels").questions if q.scale == "nominal"}


def test_swapped_channels_are_noticed(judge: ClosedSetScorer) -> None:
    def swap(picture: Image.Image) -> Image.Image:
        return Image.fromarray(np.ascontiguousarray(np.asarray(picture)[..., ::-1]))

    wrong = accuracy(answers(judge, looks(), SEEN, swap))
    assert wrong["colour"] < LEAST_SEEN
    assert wrong["country"] < LEAST_SEEN


def test_a_dropped_picture_is_noticed(judge: ClosedSetScorer) -> None:
    dropped = [Lesson((), lesson.tasks) for lesson in looks()]
    assert mean([a.is_right for a in answers(judge, dropped, SEEN)]) < 0.5


def test_a_shared_cache_is_noticed(judge: ClosedSetScorer) -> None:
    mixed = [Lesson((SCENES[0],), lesson.tasks) for lesson in looks()]
    assert mean([a.is_right for a in answers(judge, mixed, SEEN)]) < 0.5


def test_a_shifted_row_is_noticed(seen: list[Answered]) -> None:
    values = [a.value for a in seen]
    shifted = values[len(SEEN) :] + values[: len(SEEN)]
    wanted = [task.answer for one in looks() for task in one.tasks]
    assert mean([value == answer for value, answer in zip(shifted, wanted, strict=True)]) < 0.5
