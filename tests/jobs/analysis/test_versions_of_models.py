"""Which raters' versions are compared, and at which thresholds."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from jobs.analysis.versions_of_models import versions_of_models
from jobs.metrics.answers import RatingTable
from jobs.metrics.question import MetricSettings, QuestionContext, RatedQuestion

ITEMS = 6
KINDS = {"m": "model", "once": "model", "log": "model", "anna": "human", "clip": "encoder", "key": "gold"}
VERSIONS = RatingTable.from_matrix(
    np.stack([np.tile([1.0, 3, 5], 2), np.tile([1.0, 4, 5], 2)], axis=1), raters=["json", "closed"]
)


def compared(scale: tuple[float, float] | None) -> dict[tuple[str, str], set[str]]:
    """Return the thresholds of each rater's versions, by rater and their names."""
    versions = {name: {("closed", ""), ("json", "")} for name in KINDS} | {"once": {("closed", "")}}
    questions = list[dict[str, Any]]()

    def question(key: Any, **keywords: Any) -> Any:
        questions.append(keywords)
        return SimpleNamespace(answers=VERSIONS)

    reduction: Any = SimpleNamespace(versions_of=lambda key: versions, question=question)
    group: Any = SimpleNamespace(key=("r", "q"))
    answers = RatingTable.from_matrix(np.ones((ITEMS, len(KINDS))), raters=list(KINDS))
    context = QuestionContext(KINDS, picture=np.arange(ITEMS), target=np.zeros(ITEMS, np.int64), scale=scale)
    settings = MetricSettings(at_least=[2.0, 9.0])
    rated = RatedQuestion(answers, context, settings, unscaled=frozenset({"log"}))
    thresholds: dict[tuple[str, str], set[str]] = {}
    for metric in versions_of_models(reduction, group, rated):
        of_rater = thresholds.setdefault((metric.dims["rater"], metric.dims["versions"]), set())
        of_rater |= {metric.dims["threshold"]} if metric.name == "share_at_least" else set()
    assert questions == [{"order": answers.values, "versions_of": rater} for rater, _ in thresholds]
    return thresholds


def test_only_models_with_several_versions_on_the_scale_are_compared() -> None:
    assert compared((1.0, 5.0)) == {("m", "closed, json"): {"2"}}


def test_without_a_scale_there_are_no_thresholds() -> None:
    assert compared(None) == {("m", "closed, json"): set()}
