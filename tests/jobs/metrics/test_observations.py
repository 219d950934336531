"""The data that plots need: each kind has its own limit."""

from typing import Any

import numpy as np
import pytest

from jobs.metrics import observations
from jobs.metrics.answers import RatingTable
from jobs.metrics.observations import Observations
from jobs.metrics.question import MetricSettings, QuestionContext, RatedQuestion

ITEMS = 6


@pytest.fixture
def rated() -> RatedQuestion:
    """A question with a matrix of a model and people, and without points."""
    answers = RatingTable.from_matrix(np.tile([1.0, 2], (ITEMS, 1)), raters=["m", "anna"])
    kinds = {"m": "model", "anna": "human"}
    context = QuestionContext(kinds, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64), scale=(1, 5))
    return RatedQuestion(answers, context, MetricSettings())


def test_matrices_and_points_have_limits_of_their_own(monkeypatch: pytest.MonkeyPatch, rated: RatedQuestion) -> None:
    matrices, points = [2, 2, 2, 2], [1, 1, 1, 1]
    monkeypatch.setattr(observations, "MAX_KEPT", 3)
    monkeypatch.setattr(observations, "confusions", lambda _: ["matrix"] * matrices.pop())
    monkeypatch.setattr(observations, "paired_scores", lambda _: ["points"] * points.pop())
    kept = Observations()
    for number in range(4):
        kept({"question": str(number)}, rated)
    pairs: list[Any] = [dims["question"] for dims, _ in kept.pairs]
    assert [dims["question"] for dims, _ in kept.confusions] == ["0", "0", "1", "1"]
    assert pairs == ["0", "1", "2"]


def test_a_question_has_a_matrix_of_each_rater(rated: RatedQuestion) -> None:
    kept = Observations()
    kept({"question": "q"}, rated)
    assert {dims["question"] for dims, _ in kept.confusions} == {"q"}
    assert kept.pairs == []
