"""Scores and strengths of the models that drew the pictures, by hand."""

from typing import Any

import pytest

from jobs.papers import paper_tables
from jobs.papers.rome_tables import competitors, image_models
from jobs.plots.panels import Intervals
from tests.jobs.papers.studies import metric, rows_of, study, units_of

NONE = (None, None)
COMPARED = {"rubric": "comparison", "question": "preference"}


def test_strength_has_a_row_per_drawing_model_and_a_colour_per_rater(monkeypatch: pytest.MonkeyPatch) -> None:
    plots: list[Any] = []
    monkeypatch.setattr(paper_tables, "small_multiples", lambda panels, **_: plots.extend(panel for _, panel in panels))
    metrics = [
        metric(name, value, **COMPARED, rater=rater, competitor=competitor)
        for name, value, rater, competitor in (
            ("bradley_terry", 0.5, "m", "x"), ("win_rate", 0.6, "m", "x"), ("bradley_terry", -0.5, "m", "y"),
            ("bradley_terry", 0.1, "people", "y"), ("win_rate", 0.9, "other", "x"),
        )
    ]  # fmt: skip
    (figure,) = competitors(study(metrics))
    assert figure.numbers.columns == (
        ("m", "strength"),
        ("m", "win rate"),
        ("people", "strength"),
        ("people", "win rate"),
    )
    assert rows_of(figure.numbers) == {
        ("x",): [(0.5, None), (0.6, None), NONE, NONE], ("y",): [(-0.5, None), NONE, (0.1, None), NONE]
    }  # fmt: skip
    assert units_of(figure.numbers) == ["number", "percent"] * 2
    (panel,) = plots
    assert isinstance(panel, Intervals)
    assert (panel.label, panel.reference) == ("Bradley-Terry strength (log-odds)", 0)
    assert [(one.label, one.series, one.value) for one in panel.estimates] == [
        ("x", "m", 0.5), ("x", "people", None), ("y", "m", -0.5), ("y", "people", 0.1)
    ]  # fmt: skip
    assert list(competitors(study())) == []


def test_scores_need_two_drawing_models(monkeypatch: pytest.MonkeyPatch) -> None:
    panels: list[tuple[str, Any]] = []

    def draw(of_figure: Any, **_: object) -> str:
        panels.extend(of_figure)
        return ""

    monkeypatch.setattr(paper_tables, "small_multiples", draw)
    questions = {"rating": "match", "scores": "with_dependencies"}
    of_parts = {"attribute": study().metric_settings.competitors}
    metrics = [
        metric("group_mean_score", value, rubric=role, question=questions[role], part=part, group=group, **of_parts)
        for role, value, part, group in (
            ("rating", 4, "x", "people"), ("rating", 3, "y", "people"), ("rating", 2, "y", "m"),
            ("scores", 0.5, "x", "m"), ("rating", 1, "x", "another"),
        )
    ]  # fmt: skip
    answered = {("rating", "match"): ["m"], ("scores", "with_dependencies"): ["m", "n"]}
    (figure,) = image_models(study(metrics, answered=answered))
    assert figure.numbers.columns == (
        ("Mean rating", "People"), ("Mean rating", "m"), ("Mean score by questions", "m")
    )  # fmt: skip
    assert rows_of(figure.numbers) == {
        ("x",): [(4, None), NONE, (0.5, None)], ("y",): [(3, None), (2, None), NONE]
    }  # fmt: skip
    assert units_of(figure.numbers) == ["number"] * 3
    assert figure.numbers.notes == ("Intervals are over pictures; n counts pictures.",)
    assert [(title, len(panel.estimates)) for title, panel in panels] == [
        ("Mean rating", 4), ("Mean score by questions", 2)
    ]  # fmt: skip
    assert list(image_models(study([metrics[0]], answered=answered))) == []
    panels.clear()
    list(image_models(study(metrics[:2], answered=answered)))
    assert [title for title, _ in panels] == ["Mean rating"]
