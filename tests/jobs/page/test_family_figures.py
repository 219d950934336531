"""Figures of families of metrics: what is drawn, in which plot, and what only the tables have."""

import re

import pytest

from jobs.metrics.metric import Metric
from jobs.page.family_figures import MAX_PLOTS, MAX_ROWS, family_figures
from jobs.page.model import PageFigure


def metric(name: str, value: float = 0.5, **dims: str) -> Metric:
    ends = {"low": value - 0.1, "high": value + 0.1, "interval_method": "m"}
    return Metric(name=name, definition="d", value=value, n=9, dims={"rubric": "r", "question": "q", **dims}, **ends)  # type: ignore[arg-type]


def figures(metrics: list[Metric]) -> list[PageFigure]:
    return list(family_figures(metrics, [], {}))


def texts(figure: PageFigure) -> list[list[str]]:
    return [re.findall(r"<text[^>]*>([^<]*)</text>", svg) for svg in figure.plots]


@pytest.mark.parametrize(("pairs", "drawn"), [(["ab"], 0), (["ab", "ac"], 1), (["ab", "ac", "bc"], 0)])
def test_more_than_two_pairs_of_raters_are_left_to_the_heat_map(pairs: list[str], drawn: int) -> None:
    metrics = [metric("kappa", rater_a=pair[0], rater_b=pair[1]) for pair in pairs]
    assert [figure.title for figure in figures(metrics)] == ["Agreement of two raters"] * drawn


def test_of_the_kinds_of_differences_of_alpha_one_is_drawn() -> None:
    levels = [metric("alpha", level=level, group=group) for group in ("people", "models")
              for level in ("nominal", "interval", "ordinal")]  # fmt: skip
    others = [metric("alpha", level=level, group="mine") for level in ("nominal", "interval")]
    (figure,) = figures([*levels, *others])
    drawn = [text for plot in texts(figure) for text in plot]
    assert any("ordinal" in text for text in drawn)
    assert not any("interval" in text for text in drawn)


def test_rows_of_several_questions_keep_their_question() -> None:
    titles = ("sub region", "sensitive", "sub region of the world")
    metrics = [
        metric("alpha", question=title, level=level)
        for title, level in zip(titles, ("nominal", "ordinal", "interval"), strict=True)
    ]
    (figure,) = figures(metrics)
    assert {"α (nominal), sub region", "α (ordinal), sensitive"} <= set(texts(figure)[0])
    assert any(text.startswith("sub region of the world: α") for text in texts(figure)[0])


def test_a_family_whose_values_are_all_zero_is_not_drawn() -> None:
    assert figures([metric("group_mean_score", 0.0, group="a"), metric("group_mean_score", 0.0, group="b")]) == []


def test_rows_and_plots_past_the_limits_are_counted() -> None:
    many = [metric("group_mean_score", group=f"m{number:02}") for number in range(MAX_ROWS + 2)]
    (figure,) = figures(many)
    assert figure.notes == ("2 values are only in the tables: a plot has at most 24 rows and 3 colours.",)
    questions = [metric("group_mean_score", group=f"m{rater}", question=f"q{number}")
                 for number in range(MAX_PLOTS + 1) for rater in range(4)]  # fmt: skip
    (figure,) = figures(questions)
    assert (len(figure.plots), figure.notes) == (6, ("6 of 7 plots; the others are in the tables.",))
    (figure,) = figures([one for one in questions if one.dims["group"] != "m3"])
    assert (len(figure.plots), figure.notes) == (1, ())  # three raters are colours, and the questions are rows


def test_each_question_has_a_plot_by_subgroup_before_any_has_two() -> None:
    metrics = [
        metric("group_mean_score", question=f"q{number}", attribute=f"a{attribute}", part=part, group="people")
        for number in range(3)
        for attribute in range(MAX_PLOTS)
        for part in ("x", "y")
    ]
    (figure,) = figures(metrics)
    titles = [title for plot in texts(figure) for title in plot if title.rpartition(", ")[2] in ("q0", "q1", "q2")]
    assert [title.rpartition(", ")[2] for title in titles] == ["q0", "q1", "q2"] * 2


def test_a_rater_has_one_colour_in_all_plots_of_a_figure() -> None:
    groups = {"q0": ["m1", "m2"], "q1": ["m2", "people"]}
    metrics = [
        metric("group_mean_score", question=question, attribute="region", part=part, group=group)
        for question, names in groups.items()
        for part in ("x", "y")
        for group in names
    ]
    (figure,) = figures(metrics)
    of_intervals = re.compile(r"stroke: var\(--plot-(\w+), [^)]*\); stroke-width: 1.4")
    assert [list(dict.fromkeys(of_intervals.findall(svg))) for svg in figure.plots] == [
        ["accent", "second"],
        ["second", "printed"],
    ]
