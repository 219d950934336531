"""Points of figure 12: each response's length, and the mean of what the models gave it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jobs.analysis.item_attributes import Items
from jobs.metrics.answers import RatingTable
from jobs.metrics.question import MetricSettings
from jobs.papers.century import response_figures
from jobs.papers.study import Study
from tests.jobs.papers.studies import metric, study

HASHES = np.array([3, 5, 7, 9], np.uint64)
LENGTHS = np.array([100, 200, np.nan, 400])
WRITERS = ("w", "v")
SCORES = np.array([[5, 3, 1], [4, 4, 1], [2, 2, 1], [1, np.nan, 1]], float)  # of models a and b, and of person p


def points(monkeypatch: pytest.MonkeyPatch, items: Items, *, inverted: tuple[str, ...] = ()) -> dict[str, Any]:
    """Writer -> (lengths, scores), of responses 3, 5, 7 and 9 and of one that the items do not have."""
    answers = RatingTable.from_matrix(np.vstack([SCORES, [5, 5, 5]]), raters=("a", "b", "p"))
    rated = answers, np.append(HASHES, np.uint64(10))
    monkeypatch.setattr(Study, "rated", lambda *_: rated)
    metrics = [metric("share_at_least", 0.5, rubric="responses", attribute="model", part=part) for part in WRITERS]
    one = study(metrics, kinds={"p": "human"}, answered={("responses", "q"): ["a", "b", "p"]}, items=items)
    rubrics: Any = SimpleNamespace(scale=lambda *_: ((1, 5), ()))
    one = replace(one, rubrics=rubrics, metric_settings=MetricSettings(inverted=list(inverted)))
    return {name: (x.tolist(), y.tolist()) for name, (x, y) in response_figures._points(one, "q").items()}


def items(lengths: Any = LENGTHS) -> Items:
    return Items(HASHES, {"model": (np.array([0, 0, 0, 1], np.int32), WRITERS)}, lengths)


def test_points_are_of_responses_with_a_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first response is that of the first row of the items."""
    assert points(monkeypatch, items()) == {"w": ([100, 200], [4, 4]), "v": ([400], [1])}
    assert points(monkeypatch, items(), inverted=("q",)) == {"w": ([100, 200], [2, 2]), "v": ([400], [5])}
    assert points(monkeypatch, items(), inverted=("other",))["w"][1] == [4, 4]
    assert points(monkeypatch, items(None)) == {}
