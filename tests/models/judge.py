"""A judge of the demo that answers lessons, by the engines of `judge` and `generate`."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image

from actors.vlm.chat import ChatEncoder
from actors.vlm.errors import ScoringError
from actors.vlm.generation import text_generator
from actors.vlm.loading import load_vlm
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import Scores, ScoringRequest
from actors.vlm.settings import Sampling
from jobs.testbed.little_world import drawing
from jobs.testbed.little_world.scenes import Scene
from tests.models.pool import HELD_OUT
from tests.models.tasks import Lesson, Task

LONGEST = 120  # tokens of a written answer
Change = Callable[[Image.Image], Image.Image]
Asked = tuple[Task, tuple[Image.Image, ...]]  # a task and its pictures


class Answered(NamedTuple):
    """A judge's answer to a task; of texts the probabilities are 1 and 0."""

    task: Task
    value: str
    probability: float = 1.0
    outside: float = 0.0

    @property
    def is_right(self) -> bool:
        """Whether it is the task's answer."""
        return self.value == self.task.answer


class Judge:
    """A loaded judge that answers lessons.

    Args:
        model: a folder, or `local:demo-judge`.
    """

    def __init__(self, model: str = "local:demo-judge") -> None:
        loaded, processor = load_vlm(model, dtype="float32", device_map="cpu")
        self.scorer = ClosedSetScorer(loaded, processor)
        self.chat = ChatEncoder(processor)
        self.writer = text_generator(loaded, self.chat)

    def answers(self, taught: Sequence[Lesson], change: Change | None = None) -> list[Answered]:
        """Return the answers to all tasks, in their order; pictures go through `change` first.

        Closed questions are scored in one call, so that whatever wrongly belongs to two pictures at once is noticed;
        lessons about the same scenes have the same picture.
        """
        shown: dict[tuple[Scene, ...], tuple[Image.Image, ...]] = {}
        for lesson in taught:
            if lesson.scenes not in shown:
                painted = [drawing.paint(one, seed=HELD_OUT) for one in lesson.scenes]
                shown[lesson.scenes] = tuple(change(picture) if change else picture for picture in painted)
        asked = [(task, shown[lesson.scenes]) for lesson in taught for task in lesson.tasks]
        return self._chosen(asked) if asked[0][0].codes else self._written(asked)

    def _chosen(self, asked: Sequence[Asked]) -> list[Answered]:
        requests = [
            ScoringRequest(task.prompt, pictures[0] if len(pictures) == 1 else pictures or None, task.codes)
            for task, pictures in asked
        ]
        answered = []
        for (task, _), scores in zip(asked, self.scorer.score(requests), strict=True):
            assert isinstance(scores, Scores), scores
            best = int(np.argmax(scores.probabilities))
            answered.append(Answered(task, task.codes[best], scores.probabilities[best], scores.outside_mass))
        return answered

    def _written(self, asked: Sequence[Asked]) -> list[Answered]:
        prompts = []
        for task, pictures in asked:
            turn = [piece for piece in (*task.prompt.shared, task.prompt.suffix) if piece != ""]
            prompts.append(self.chat.encode(turn, pictures, system=task.prompt.system))
        sampling = Sampling(temperature=0, max_tokens=LONGEST)
        results = self.writer.generate(prompts, seeds=[[0]] * len(prompts), sampling=sampling)
        answered = []
        for (task, _), result in zip(asked, results, strict=True):
            assert not isinstance(result, ScoringError), result
            answered.append(Answered(task, self.chat.decode(result[0].tokens)))
        return answered
