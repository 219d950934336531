"""Figures of families of metrics: what is drawn, in which plot, and what only the tables have."""

import re

import pytest

from jobs.metrics.metric import Metric
from jobs.page.card_links import cards_of
from jobs.page.family_figures import MAX_PLOTS, MAX_ROWS, _joined, family_figures
from jobs.page.metric_families import blocks
from jobs.page.model import PageFigure, Wording
from jobs.plots.panels import Estimate, Intervals


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
    titles = ("sub-region", "sensitive", "sub-region of the world")
    metrics = [
        metric("alpha", question=title, level=level)
        for title, level in zip(titles, ("nominal", "ordinal", "interval"), strict=True)
    ]
    (figure,) = figures(metrics)
    assert {"α (nominal), sub-region", "α (ordinal), sensitive"} <= set(texts(figure)[0])
    assert any(text.startswith("sub-region of the world: α") for text in texts(figure)[0])


def test_a_family_whose_values_are_all_zero_is_not_drawn() -> None:
    assert figures([metric("group_mean_score", 0.0, group="a"), metric("group_mean_score", 0.0, group="b")]) == []


def test_rows_and_plots_past_the_limits_are_counted() -> None:
    many = [metric("group_mean_score", group=f"m{number:02}") for number in range(MAX_ROWS + 2)]
    (figure,) = figures(many)
    assert figure.notes == ("2 values are only in the tables: a plot has at most 24 rows and 3 colours.",)
    (figure,) = figures(many[1:])
    assert figure.notes == ("1 value is only in the tables: a plot has at most 24 rows and 3 colours.",)
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


def test_plots_whose_values_are_all_zero_are_left_out(panels: list[tuple[Intervals, dict[str, str]]]) -> None:
    metrics = [
        metric("group_mean_score", value, question=question, group=f"m{number}")
        for question, values in (("zero", (0, 0, 0, 0)), ("some", (0, 0, 0.5, 0)))
        for number, value in enumerate(values)
    ]
    (figure,) = figures(metrics)
    ((panel, words),) = panels
    assert (len(figure.plots), figure.notes) == (1, ())
    assert words == {
        "title": "Scores: mean, some",
        "description": "Values with 95% intervals: mean, some.",
        "heading": "mean, some",
    }
    assert [(e.label, e.value, e.low, e.high, e.series) for e in panel.estimates][2] == ("m2", 0.5, 0.4, 0.6, "")
    assert (panel.reference, panel.bounds, panel.percent) == (0, None, False)


def test_the_axis_of_shares_begins_at_0_and_ends_after_the_widest_interval(
    panels: list[tuple[Intervals, dict[str, str]]],
) -> None:
    for value in (0.52, 0.15, 0.1, 0.05, 0.95):
        figures([metric("percent_agreement", value, group=group) for group in ("people", "models")])
    ends = [panel.bounds for panel, _ in panels]
    assert ends == [(0, 0.7), (0, pytest.approx(0.3)), (0, 0.2), None, None]
    assert [panel.percent for panel, _ in panels] == [True] * 5
    assert [panel.reference for panel, _ in panels] == [None, None, None, 0, None]
    assert {panel.width for panel, _ in panels} == {2.6}  # two plots fit next to each other


def test_single_values_past_the_limit_are_counted() -> None:
    def joined(count: int) -> tuple[str, int, int]:
        single = [(f"m{n}, q", Intervals([Estimate("all", 0.5, 0.4, 0.6)]), 0) for n in range(count)]
        ((heading, panel, left),) = _joined(single)
        return heading, len(panel.estimates), left

    assert [joined(count) for count in (2, MAX_ROWS, MAX_ROWS + 2)] == [
        ("q", 2, 0), ("q", MAX_ROWS, 0), ("q", MAX_ROWS, 2)
    ]  # fmt: skip


def test_subgroups_have_three_colours_of_raters_and_link_to_their_cards(
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
    (figure,) = family_figures(metrics, blocks(metrics), wording, [place])
    ((panel, words),) = panels
    assert [(e.label, e.series) for e in panel.estimates] == [
        (part, name) for part in ("Caribbean", "Polynesia") for name in ("people", "m1", "m2")
    ]
    assert figure.notes == ("2 values are only in the tables: a plot has at most 24 rows and 3 colours.",)
    assert panel.links == {"Polynesia": (place, "Cards: Polynesia")}
    assert panel.colour_order == ("people", "m1", "m2")
    assert words["heading"] == "mean by region, How much?"
    assert not figure.folded
    assert [label for label, _ in figure.numbers] == ["How much?"]
