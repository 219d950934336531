"""Values that tables and figures read from a study, with raters and metrics by hand."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.metrics.metric import Metric
from jobs.metrics.question import MODELS, PEOPLE, MetricSettings
from jobs.papers.caire import specific, universal
from jobs.papers.caire.raters import ShownRater
from jobs.papers.metric_index import MetricIndex
from jobs.papers.rome.question_answers import figure_4
from jobs.papers.rome.scenarios import SCORES, dims_of
from jobs.papers.settings import PaperSettings
from jobs.papers.study import Study

KINDS = {"p1": "human", "clip@1": "encoder", "gpt@1": "model", "open@1": "model"}


def study(*metrics: Metric, leave_out: list[str] | None = None, **options: str) -> Study:
    """Return a study: the raters of `KINDS` answered one question of each rubric, and one model that of scores."""
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


def metric(name: str, value: float, n: int, **dims: str) -> Metric:
    return Metric(name=name, definition="n counts items", value=value, n=n, reason="few", coverage=1.0, dims=dims)


def test_raters_of_a_rubric_by_kind_and_the_group_of_models() -> None:
    assert study().raters("r") == ["clip@1", "gpt@1", "open@1"]
    assert study().raters("r", kinds=("human",)) == ["p1"]
    assert study(leave_out=["gpt*", "p1"]).model_group("r") == ("clip@1", "open@1")


def test_groups_of_a_rubric_are_those_with_a_rater_of_it() -> None:
    ensembles = {"some": ["gpt*", "absent*"], "none": ["absent*"]}
    grouped = replace(study(), metric_settings=MetricSettings(ensembles=ensembles))
    assert grouped.groups("r", people="P", models="M") == [(PEOPLE, "P"), (MODELS, "M"), ("some", "some")]
    assert grouped.groups("scores", people="P", models="M") == [(MODELS, "M")]


def test_ratings_are_those_of_the_configured_condition_if_there_are_several() -> None:
    def rated(condition: str | None, *conditions: str) -> str | None:
        """Return the condition of the ratings that are read."""
        reduction: Any = SimpleNamespace(
            by=("condition",),
            keys=[("r", "q", name) for name in conditions],
            methods_of=lambda _: {"gpt@1": {"closed"}},
            question=lambda key, shared: SimpleNamespace(answers=key[2], item=None),
        )
        read = replace(study(), settings=PaperSettings(condition=condition), reduction=reduction).rated("r", "q")
        return None if read is None else str(read[0])

    assert rated("titles", "article", "titles") == "titles"
    assert rated("other", "article", "titles") is None
    assert rated(None, "article") == "article"
    assert rated(None) is None


@pytest.mark.parametrize(
    ("named", "best"),
    [("gpt@1", ("gpt@1", "none")), ("open@1", ("open@1", "titles")), ("", ("open@1", "titles"))],
)
def test_the_judge_of_table_17_has_a_linked_context_and_the_name_that_is_set(named: str, best: tuple[str, str]) -> None:
    judges = [ShownRater("gpt@1", "", "none"), ShownRater("open@1", "", "none"), ShownRater("open@1", "t", "titles")]
    judge = universal._best(study(rater=named), judges)
    assert (judge.rater, judge.role) == best


def test_concepts_are_of_judges_that_were_shown_the_article_or_of_all_without_any() -> None:
    dims = {"attribute": universal.CONCEPT, "part": "dance"}
    value = metric(universal.BY_IMAGE, 0.5, 9, **dims)
    judges = [ShownRater("gpt@1", "", "none"), ShownRater("open@1", "", "titles")]

    def columns(*more: ShownRater) -> list[str]:
        table = universal._by_concept(study(value), [*judges, *more])
        return [header[0] for header in table.columns]

    assert columns() == ["gpt@1, no context", "open@1, titles of linked articles"]
    assert columns(ShownRater("gpt@1", "", "article")) == ["gpt@1, linked article"]


def test_without_right_labels_there_is_no_f1() -> None:
    assert list(specific.tables(study(), [ShownRater("gpt@1", "", "none")])) == []


def test_bars_count_whole_pictures() -> None:
    """A share of 1/49 times 49 is below 1 in floating point."""
    dims = dims_of(study(), SCORES) | {"rater": "open@1", "answer": "0.00"}
    (figure,) = figure_4(study(metric("share", 1 / 49, 49, **dims)))
    (row,) = figure.numbers.rows
    assert row.cells[0].metric is not None
    assert row.cells[0].metric.value == 1
