"""Figures of topics of metrics: what is drawn, in which plot, and what only the tables have."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from jobs.metrics.kinds import KIND_OF
from jobs.metrics.metric import Metric
from jobs.page.card_links import cards_of
from jobs.page.metric_tables import blocks
from jobs.page.page_contents import PageFigure, Wording
from jobs.page.topic_figures import MAX_LINES, MAX_PLOTS, MAX_ROWS, MAX_SERIES, FigureContext, topic_figures
from jobs.plots.panels import HeatMap, Intervals
from jobs.plots.svg import INK, of_hue


def metric(name: str, value: float = 0.5, **dims: str) -> Metric:
    ends = {"low": value - 0.1, "high": value + 0.1, "interval_method": "m"}
    return Metric(name=name, definition="d", value=value, n=9, dims={"rubric": "r", "question": "q", **dims}, **ends)  # type: ignore[arg-type]


def figures(metrics: list[Metric]) -> list[PageFigure]:
    return list(topic_figures(metrics, FigureContext()))


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
    titles = ("sub-region", "sensitive", "sub-region of the world")
    metrics = [
        metric("alpha", question=title, level=level)
        for title, level in zip(titles, ("nominal", "ordinal", "interval"), strict=True)
    ]
    (figure,) = figures(metrics)
    assert {"α (nominal), sub-region", "α (ordinal), sensitive"} <= set(texts(figure)[0])
    assert any(text.startswith("sub-region of the world: α") for text in texts(figure)[0])


def test_statuses_that_are_all_zero_are_not_drawn() -> None:
    assert figures([metric("status_share", 0.0, group="a", status=status) for status in ("error", "refused")]) == []
    (figure,) = figures([metric("group_mean_score", 0.0, group=group) for group in "ab"])  # what raters say is drawn
    assert {"a", "b"} <= set(texts(figure)[0])


def test_all_rows_are_drawn_and_plots_past_the_limit_are_named() -> None:
    many = [metric("group_mean_score", group=f"m{number:02}") for number in range(MAX_ROWS + 2)]
    (figure,) = figures(many)
    drawn = [{text for text in plot if re.fullmatch(r"m\d\d", text)} for plot in texts(figure)]
    assert [len(rows) for rows in drawn] == [MAX_ROWS, 2]
    assert [next(text for text in plot if "mean" in text) for plot in texts(figure)] == [
        "mean, q (1 of 2)", "mean, q (2 of 2)"
    ]  # fmt: skip
    assert figure.notes == []
    questions = [metric("group_mean_score", group=f"m{rater}", question=f"q{number}")
                 for number in range(MAX_PLOTS + 1) for rater in range(MAX_SERIES + 1)]  # fmt: skip
    (figure,) = figures(questions)
    assert (len(figure.plots), figure.notes) == (MAX_PLOTS, [f"Not drawn: mean, q{MAX_PLOTS}."])
    (figure,) = figures([one for one in questions if one.dims["group"] != "m3"])
    assert (len(figure.plots), figure.notes) == (2, [])  # eight raters are colours, and the 25 questions are rows
    assert [name for name, _ in figure.legend] == [f"m{rater}" for rater in (0, 1, 2, 4, 5, 6, 7, 8)]


@pytest.mark.parametrize("raters", [1, 3, 8, 9, 20])
def test_no_rater_is_left_out_of_a_plot_by_subgroup(
    panels: list[tuple[Intervals | HeatMap, dict[str, str]]], raters: int
) -> None:
    names = ["people", "models", *(f"local:a-model-with-a-long-name@{number}" for number in range(raters))]
    metrics = [
        metric("group_mean_score", attribute="region", part=part, group=group) for group in names for part in ("x", "y")
    ]
    (figure,) = figures(metrics)
    maps = [panel for panel, _ in panels if isinstance(panel, HeatMap)]
    assert [(m.columns, len(m.rows)) for m in maps] == [(["x", "y"], len(names))] * (2 * len(names) > MAX_LINES)
    intervals = [panel for panel, _ in panels if isinstance(panel, Intervals)]
    series = [list(dict.fromkeys(e.series for e in panel.estimates)) for panel in intervals]
    assert max(map(len, series)) <= MAX_SERIES
    assert [name for of_panel in series for name in of_panel] == [name for name, _ in figure.legend]
    assert len(set(dict(figure.legend))) == len(names)
    assert all(len(panel.estimates) == 2 * len(of_panel) for panel, of_panel in zip(intervals, series, strict=True))
    assert figure.notes == []


def test_a_value_without_an_interval_is_drawn_and_an_undefined_one_is_marked(
    panels: list[tuple[Intervals, dict[str, str]]],
) -> None:
    constant = replace(metric("f1", 1.0, group="perfect", average="micro", positive="4"), low=None, high=None,
                       interval_method=None, reason="the same in all resamples")  # fmt: skip
    nothing = replace(constant, dims={**constant.dims, "group": "none"}, value=None, status="skipped")
    others = [
        metric("f1", 0.5, group="people", average=average, positive="4") for average in ("micro", "macro", "samples")
    ]
    figures([*others, constant, nothing])
    ((panel, _),) = panels
    assert [(e.label, e.series, e.value, e.low) for e in panel.estimates] == [
        ("micro", "people", 0.5, 0.4), ("micro", "perfect", 1.0, None), ("micro", "none", None, None),
        ("macro", "people", 0.5, 0.4), ("samples", "people", 0.5, 0.4),
    ]  # fmt: skip
    alone = [replace(constant, dims={**constant.dims, "group": group}) for group in ("a", "b")]
    assert [figure.title for figure in figures(alone)] == ["Against gold"]  # two judges that are both right everywhere


def test_each_question_has_a_plot_by_subgroup_before_any_has_two() -> None:
    metrics = [
        metric("group_mean_score", question=f"q{number}", attribute=f"a{attribute}", part=part, group="people")
        for number in range(3)
        for attribute in range(MAX_PLOTS // 2)
        for part in ("x", "y")
    ]
    (figure,) = figures(metrics)
    titles = [title for plot in texts(figure) for title in plot if title.rpartition(", ")[2] in ("q0", "q1", "q2")]
    assert [title.rpartition(", ")[2] for title in titles] == ["q0", "q1", "q2"] * 8


def test_a_rater_has_one_colour_in_all_plots_of_a_figure() -> None:
    groups = {"q0": ["m1", "m2"], "q1": ["m2", "people"]}
    metrics = [
        metric("group_mean_score", question=question, attribute="region", part=part, group=group)
        for question, names in groups.items()
        for part in ("x", "y")
        for group in names
    ]
    figure, *_ = topic_figures(metrics, FigureContext(hues={"m1": "30", "m2": "200"}))
    of_intervals = re.compile(r"stroke: (#\w+|var\(--plot-\w+)[^;]*; stroke-width: 1.4")
    first, second = of_hue(30), of_hue(200)
    assert [list(dict.fromkeys(of_intervals.findall(svg))) for svg in figure.plots] == [
        [first, second],
        [second, "var(--plot-ink"],
    ]
    assert figure.legend == [("m1", first), ("m2", second), ("mean of people", INK)]


def test_axes_are_those_of_the_scale_and_the_same_in_all_plots_of_a_figure(
    panels: list[tuple[Intervals, dict[str, str]]],
) -> None:
    def drawn(name: str, values: Sequence[float], scale: tuple[float, float] | None = None) -> set[tuple[float, ...]]:
        panels.clear()
        metrics = [metric(name, value, question=f"q{number}", group=f"m{rater}", threshold="4", rule="mean")
                   for number, value in enumerate(values) for rater in range(MAX_SERIES + 1)]  # fmt: skip
        wording = {("r", f"q{number}"): Wording(f"q{number}", scale=scale) for number in range(len(values))}
        list(topic_figures(metrics, FigureContext(wording)))
        assert len(panels) == len(values)
        assert {panel.percent for panel, _ in panels} == {KIND_OF[name].unit.percent}
        return {
            (*(panel.bounds or ()), *(() if panel.reference is None else (panel.reference,))) for panel, _ in panels
        }

    assert drawn("share_at_least", [0.15, 0.52, 0.9]) == {(0, 1)}
    assert drawn("group_mean_score", [2.0, 2.5], (1, 5)) == {(1, 5)}
    assert drawn("group_mean_score", [2.0, 2.5]) == {(1.9, 2.6)}
    assert drawn("pairwise_pearson", [0.985, 0.99]) == {(0, 0.99 + 0.1)}
    assert drawn("alpha", [0.5, -0.05]) == {(-0.2, 1.0, 0.0)}
    ((low, high, middle),) = drawn("score_change", [-0.5, 0.3])
    assert (low < -0.6, high > 0.4, middle) == (True, True, 0)


def test_subgroups_link_to_their_cards(
    panels: list[tuple[Intervals, dict[str, str]]],
) -> None:
    metrics = [
        metric("group_mean_score", attribute="region", part=part, group=group)
        for group in ("people", "m1", "m2", "m3")
        for part in ("Polynesia", "Caribbean")
    ]
    place = cards_of(metrics[0])
    assert place
    wording = {("r", "q"): Wording("How much?")}
    (figure,) = topic_figures(metrics, FigureContext(wording, blocks(metrics), [place]))
    ((panel, words),) = panels
    assert [(e.label, e.series) for e in panel.estimates] == [
        (part, name) for part in ("Caribbean", "Polynesia") for name in ("mean of people", "m1", "m2", "m3")
    ]
    assert panel.links == {"Polynesia": (place, "Cards: Polynesia")}
    assert words["heading"] == "mean by region, How much?"
    assert not figure.folded
    assert [label for label, _ in figure.numbers] == ["How much?"]
