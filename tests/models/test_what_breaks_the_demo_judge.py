"""What would make a judge's answers wrong without an error: each such change of the program must be noticed.

The judge answers all questions about some pictures in one call: plain ones, and those with a system turn that exchanges
left and right. Each change below is made in the program itself.
"""

import io
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from PIL import Image

from actors import pictures
from actors.rubrics import pieces
from actors.rubrics.prompts import Prompt
from actors.vlm import scoring, scoring_requests
from actors.vlm.scoring_requests import Scores, ScoringRequest
from jobs.testbed.little_world.scenes import distinct_scenes
from tests.models import closed_lessons as closed
from tests.models import tasks
from tests.models.judge import Judge
from tests.models.pool import HELD_OUT

pytestmark = pytest.mark.long

SCENES = distinct_scenes(24, seed=HELD_OUT)
LEAST = 0.9  # of the answers to each question; chance: 0.08 to 0.5


def shares(judge: Judge) -> dict[str, float]:
    """Return the share of right answers to each question of `little_world`, plain and with the system turn."""
    draw = random.Random(0)
    taught = [teach(one, draw) for one in SCENES for teach in (closed.sight, closed.mirrored)]
    names = [f"{kind} {question.name}" for kind in ("plain", "mirrored") for question in
             tasks.rubric("little_world").questions]  # fmt: skip
    right = defaultdict(list)
    for number, answer in enumerate(judge.answers(taught, loaded)):
        right[names[number % len(names)]].append(answer.is_right)
    return {name: float(np.mean(hits)) for name, hits in right.items()}


def loaded(picture: Image.Image) -> Image.Image:
    """Return a picture as stages load it."""
    data = io.BytesIO()
    picture.save(data, "PNG", compress_level=1)
    return pictures.decode_rgb(data.getvalue())


def without_picture(patch: pytest.MonkeyPatch, judge: Judge) -> None:
    messages = Prompt.messages
    patch.setattr(Prompt, "messages", lambda prompt, picture: messages(prompt, None))
    patch.setattr(Prompt, "pictures", lambda prompt, picture: [])


def same_prefix_for_all_pictures(patch: pytest.MonkeyPatch, judge: Judge) -> None:
    _group_by(patch, lambda request: (request.prompt.shared, request.prompt.start, request.prompt.system))


def same_prefix_for_all_system_turns(patch: pytest.MonkeyPatch, judge: Judge) -> None:
    _group_by(patch, lambda request: (id(request.picture), request.prompt.shared, request.prompt.start))


def _group_by(patch: pytest.MonkeyPatch, key: Callable[[ScoringRequest], Any]) -> None:
    def groups(asked: list[ScoringRequest]) -> list[list[int]]:
        numbers = defaultdict(list)
        for number, request in enumerate(asked):
            numbers[key(request)].append(number)
        return list(numbers.values())

    assert vars(scoring)["group_by_prefix"] is scoring_requests.group_by_prefix
    patch.setattr(scoring, "group_by_prefix", groups)


def picked_pixels(patch: pytest.MonkeyPatch, judge: Judge) -> None:
    processor: Any = judge.scorer.processor
    patch.setattr(processor.image_processor, "resample", Image.Resampling.NEAREST)


def blue_before_red(patch: pytest.MonkeyPatch, judge: Judge) -> None:
    decode = pictures.decode_rgb
    patch.setattr(
        pictures, "decode_rgb", lambda data: Image.fromarray(np.ascontiguousarray(np.asarray(decode(data))[..., ::-1]))
    )


def without_system_turn(patch: pytest.MonkeyPatch, judge: Judge) -> None:
    messages = pieces.messages
    patch.setattr(pieces, "messages", lambda content, system: messages(content, ""))


def scores_of_the_next_row(patch: pytest.MonkeyPatch, judge: Judge) -> None:
    score = judge.scorer.score

    def rolled(asked: list[ScoringRequest]) -> list[Scores | Any]:
        results, of_one = score(asked), len(asked) // len(SCENES)
        return [*results[of_one:], *results[:of_one]]

    patch.setattr(judge.scorer, "score", rolled)


CHANGES = (
    without_picture,
    same_prefix_for_all_pictures,
    same_prefix_for_all_system_turns,
    picked_pixels,
    blue_before_red,
    without_system_turn,
    scores_of_the_next_row,
)


def test_each_change_is_noticed() -> None:
    judge = Judge()
    plain = shares(judge)
    assert min(plain.values()) > LEAST, plain
    unnoticed = []
    for change in CHANGES:
        with pytest.MonkeyPatch.context() as patch:
            change(patch, judge)
            if min(shares(judge).values()) > LEAST:
                unnoticed.append(change.__name__)
    assert not unnoticed
    assert shares(judge) == plain  # the changes are gone
