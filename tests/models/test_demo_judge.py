"""The demo's judge on pictures that it was not trained on, and what breaks if the way to it is wrong.

Thresholds lie between what `python -m tests.models.measure_judge` finds (the model card has it) and chance.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from jobs.testbed.little_world import questions
from jobs.testbed.little_world.questions import ASKED
from jobs.testbed.little_world.scenes import Scene, distinct_scenes
from tests.models import lessons
from tests.models.lessons import Lesson
from tests.models.measure_judge import Answered, Judge
from tests.models.pool import HELD_OUT

SCENES = distinct_scenes(40, seed=HELD_OUT)
SEEN = [question.name for question in lessons.rubric("little_world").questions]
LABELS = [question.name for question in lessons.rubric("century_labels").questions]
NOMINAL = {q.name for q in lessons.rubric("century_labels").questions if q.scale == "nominal"}
LEAST_SEEN, LEAST_LABELLED = 0.9, 0.9  # chance: 0.08 to 0.5, and 0.04 to 0.33
LEAST_RELEVANT = 0.9  # chance: 0.4, the share of the most frequent grade
LEAST_PREFERRED = {"fast": 0.8, "paper": 0.55}  # chance: 0.5
LEAST_MATCHED = 0.9  # chance: 0.5
LEAST_MARKED = 0.8  # F1; chance: less than 0.1
LEAST_WRITTEN = 0.55  # chance: 0


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


def test_an_article_does_not_answer_what_only_the_picture_shows(judge: Judge) -> None:
    names = [name for name in LABELS if name != "sensitive"]  # which cannot be answered by `unsure`
    right = accuracy(judge.answers(labels(picture=False)), names)
    assert min(right["image_type"], right["content_type"]) > 0.95, right  # the right answer is `unsure`


def test_yes_and_no_are_right_for_each_fact(judge: Judge, asked: list[Lesson]) -> None:
    right = accuracy(judge.answers(asked), ASKED)
    assert min(right.values()) > 0.9, right  # chance: 0.5


def test_without_the_picture_nothing_is_confirmed(judge: Judge, asked: list[Lesson]) -> None:
    answered = judge.answers([Lesson((), lesson.tasks) for lesson in asked[:8]])
    assert np.mean([answer.value == "No" for answer in answered]) > 0.9


def test_grades_of_relevance_are_those_of_the_census(judge: Judge) -> None:
    answered = judge.answers(taught(lessons.relevance, SCENES[:24]))
    assert share(answered) > LEAST_RELEVANT


@pytest.mark.parametrize("layout", ["paper", "fast"])
def test_the_picture_that_follows_a_text_is_preferred_in_either_position(judge: Judge, layout: str) -> None:
    pairs = [questions.pair(one, seed=0) for one in SCENES[:24]]
    first = judge.answers([lessons.compared(one.text, one.scenes, one.better, layout) for one in pairs])
    swapped = judge.answers([lessons.compared(one.text, one.scenes[::-1], 1 - one.better, layout) for one in pairs])
    assert min(share(first), share(swapped)) > LEAST_PREFERRED[layout]
    both = [one.is_right and other.is_right for one, other in zip(first, swapped, strict=True)]
    assert np.mean(both) > LEAST_PREFERRED[layout] - 0.15  # chance: 0.25


def test_captions_are_told_apart_by_the_picture_and_by_the_date(judge: Judge) -> None:
    asked = taught(lessons.caption_match, SCENES[:24])
    right: dict[str, list[bool]] = defaultdict(list)
    for answer in judge.answers(asked):
        right[answer.task.answer].append(answer.is_right)
    assert min(np.mean(hits) for hits in right.values()) > LEAST_MATCHED, {
        a: np.mean(hits) for a, hits in right.items()
    }


def test_mistakes_and_omissions_are_listed(judge: Judge) -> None:
    answered = judge.answers(taught(lessons.marks, SCENES[:24]))
    planted, listed = ([set(text.splitlines()) - {"NONE"} for text in texts] for texts in
                       ([a.task.answer for a in answered], [a.value for a in answered]))  # fmt: skip
    hits = sum(len(one & other) for one, other in zip(planted, listed, strict=True))
    assert 2 * hits / sum(map(len, planted + listed)) > LEAST_MARKED  # F1


def test_json_has_the_labels_of_the_census(judge: Judge) -> None:
    assert share(judge.answers(taught(lessons.json_labels, SCENES[:24]))) > 0.9  # chance of all eight: 0


def test_descriptions_are_true_of_their_pictures(judge: Judge) -> None:
    answered = judge.answers(taught(lessons.written, SCENES[:24]))
    assert share(answered) > LEAST_WRITTEN
