"""What arrangements read of a study, with raters and metrics by hand."""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.metrics.metric import Metric
from jobs.metrics.question import MetricSettings
from jobs.papers.caire import universal
from jobs.papers.caire.raters import ShownRater
from jobs.papers.metric_index import MetricIndex
from jobs.papers.rome.question_answers import figure_4
from jobs.papers.rome.scenarios import SCORES, dims_of
from jobs.papers.settings import PaperSettings
from jobs.papers.study import Study

KINDS = {"p1": "human", "clip@1": "encoder", "gpt@1": "model", "open@1": "model"}


def study(*metrics: Metric, leave_out: list[str] | None = None, **options: str) -> Study:
    """A study in which the raters of `KINDS` answered one question of each rubric, and one model that of scores."""
    answered = {("r", "q"): KINDS, ("scores", "q"): {"open@1": "model"}}
    reduction = SimpleNamespace(keys=list(answered), methods_of=lambda key: answered[key])
    unused: Any = None
    return Study(
        PaperSettings(options=options),
        MetricSettings(leave_out=leave_out or []),
        MetricIndex(metrics),
        tables=unused,
        summary=SimpleNamespace(raters=SimpleNamespace(kinds=KINDS)),  # type: ignore[arg-type]
        items=unused,
        reduction=reduction,  # type: ignore[arg-type]
        rubrics=unused,
        exclusion_filter=unused,
    )


def test_raters_of_a_rubric_by_kind_and_the_group_of_models() -> None:
    assert study().raters("r") == ["clip@1", "gpt@1", "open@1"]
    assert study().raters("r", kinds=("human",)) == ["p1"]
    assert study(leave_out=["gpt*", "p1"]).model_group("r") == ("clip@1", "open@1")


@pytest.mark.parametrize(
    ("named", "best"),
    [("gpt@1", "gpt@1"), ("", "open@1")],
)
def test_the_judge_of_table_17_is_the_one_that_is_named_else_one_with_a_linked_context(named: str, best: str) -> None:
    judges = [ShownRater("gpt@1", "", "none"), ShownRater("open@1", "article", "article")]
    assert universal._best(study(rater=named), judges).rater == best


def test_bars_count_whole_pictures() -> None:
    """A share of 1/49 times 49 is below 1 in floating point."""
    dims = dims_of(study(), SCORES) | {"rater": "open@1", "answer": "0.00"}
    share = Metric(name="share", definition="n counts items", value=1 / 49, n=49, reason="few", coverage=1.0, dims=dims)
    (figure,) = figure_4(study(share))
    (row,) = figure.numbers.rows
    assert row.cells[0].metric is not None
    assert row.cells[0].metric.value == 1
