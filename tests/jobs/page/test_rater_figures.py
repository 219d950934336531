"""Heat maps of pairs of raters: who is in them, and the mean of several questions."""

import re
from typing import Any

import pytest

from jobs.metrics.metric import Metric, undefined
from jobs.metrics.suite import ACROSS
from jobs.page.card_links import pair_anchor
from jobs.page.metric_families import blocks
from jobs.page.model import Wording
from jobs.page.rater_figures import MAX_MAPS, MAX_QUESTIONS, MAX_RATERS, MAX_SCORED, agreement_map, score_map
from tests.cases import check_cases


def kappa(first: str, second: str, value: float, question: str = "q", group: str = "models") -> Metric:
    dims = {"rubric": "r", "question": question, "rater_a": first, "rater_b": second, "group": group}
    return Metric(name="kappa", definition="", value=value, n=9, coverage=1.0, reason="none", dims=dims)


def score(group: str, question: str, value: float, **dims: str) -> Metric:
    key = {"rubric": "r", "question": question, "group": group, **dims}
    return Metric(name="group_mean_score", definition="", value=value, n=9, coverage=1.0, reason="none", dims=key)


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_raters_of_any_pair_are_in_the_map_of_their_question() -> None:
    """b is in pairs with a and c; the mean over both questions of a and b is (0.2 + 0.8) / 2."""
    metrics = [kappa("a", "b", 0.2), kappa("b", "c", 0.4), kappa("a", "b", 0.8, "p")]
    unknown = {**metrics[0].dims, "rater_a": "x", "rater_b": "y"}
    metrics.append(undefined("kappa", "", "no common items", dims=unknown))
    (figure,) = agreement_map(metrics, [], {})
    mean, of_q, of_p = (texts(svg) for svg in figure.plots)
    names = {"a  1", "b  2", "c  3"}
    assert [names & set(of_item) for of_item in (mean, of_q, of_p)] == [names, names, {"a  1", "b  2"}]
    values = [sorted(text for text in of_item if re.fullmatch(r"[\d.]{4}|–", text)) for of_item in (mean, of_q, of_p)]
    assert values == [
        ["0.40", "0.40", "0.50", "0.50", *["–"] * 5],
        ["0.20", "0.20", "0.40", "0.40", *["–"] * 5],
        ["0.80", "0.80", "–", "–"],
    ]
    assert figure.notes == []
    assert list(agreement_map(metrics[:1], [], {})) == []  # two raters are a number, and no map


def test_people_come_first_and_raters_past_the_limit_are_reported() -> None:
    models = [kappa("a", f"m{number:02}", 0.5) for number in range(MAX_RATERS)]
    (figure,) = agreement_map([*models, kappa("zoe", "yan", 0.5, group="people")], [], {})
    assert {"yan  1", "zoe  2", "a  3"} <= set(texts(figure.plots[0]))
    assert figure.notes == [f"Not drawn: m{MAX_RATERS - 3}; m{MAX_RATERS - 2}; m{MAX_RATERS - 1}."]
    (figure,) = agreement_map(models[1:], [], {})
    assert figure.notes == []  # as many as there may be
    other = Metric(name="alpha", definition="", value=1, n=9, reason="none",
                   dims={"group": "people", "rater_a": "m03", "rater_b": "m02"})  # fmt: skip
    (figure,) = agreement_map([*models[1:4], other], [], {})
    assert {"a  1", "m01  2", "m02  3", "m03  4"} <= set(texts(figure.plots[0]))  # only kappas say who is a person


def test_mean_scores_of_groups_and_of_models() -> None:
    cases = [
        (["people", "models", "m", "n"], ["people", "models", "m", "n"]),
        (["people", "models", "m"], ["people", "m"]),  # of one model the mean of all is its own
        (["models", "m", "n"], ["models", "m", "n"]),
        (["m"], []),
    ]

    def check(groups: list[str], rows: list[str]) -> None:
        metrics = [score(group, question, 2.0) for group in groups for question in ("q", "p")]
        figures = list(score_map([*metrics, score("part", "q", 9.0, attribute="region")], [], {}))
        assert [name for figure in figures for name in rows if name in texts(figure.plots[0])] == rows
        assert len(figures) == bool(rows)
        assert "9.00" not in [text for figure in figures for text in texts(figure.plots[0])]
        of_one_question = [metric for metric in metrics if metric.dims["question"] == "q"]
        assert list(score_map(of_one_question, [], {})) == []

    check_cases(check, cases)


def test_a_map_is_symmetric_with_letters_and_links(panels: list[tuple[Any, dict[str, str]]]) -> None:
    metrics = [
        kappa("b", "org/a@1", 0.2, group=ACROSS), kappa("zoe", "yan", 0.6, group="people"),
        kappa("org/a@1", "c", 0.4), kappa("x", "y", 0.9, group="other"),
    ]  # fmt: skip
    letters = {"yan": "D", "zoe": "E", "b": "B", "c": "C", "org/a@1": "A"}
    wording = {("r", "q"): Wording("How much?")}
    places = [pair_anchor("b", "org/a@1"), pair_anchor("b", "b")]
    (figure,) = agreement_map(metrics, blocks(metrics), wording, places, letters)
    ((panel, words),) = panels
    assert panel.rows == ["yan  D", "zoe  E", "b  B", "c  C", "a  A"]
    assert panel.columns == ["D", "E", "B", "C", "A"]
    assert panel.values == [
        [None, 0.6, None, None, None], [0.6, None, None, None, None], [None, None, None, None, 0.2],
        [None, None, None, None, 0.4], [None, None, 0.2, 0.4, None],
    ]  # fmt: skip
    assert panel.links == {
        (2, 4): (places[0], "Cards on which b and a differ"), (4, 2): (places[0], "Cards on which a and b differ")
    }  # fmt: skip
    assert (panel.percent, panel.low, panel.high) == (False, -1, 1)
    assert words == {
        "title": "Pairwise agreement of raters: How much?", "heading": "How much?",
        "description": "Heat map of Cohen's kappa of every pair of yan, zoe, b, c, a.",
    }  # fmt: skip
    assert [title for title, _ in figure.numbers] == ["How much?"]
    list(agreement_map(metrics, [], {}, (), {"b": "B"}))  # a rater without a letter
    assert panels[-1][0].columns == list("12345")


def test_the_maps_of_questions_past_the_limit_are_counted(panels: list[tuple[Any, dict[str, str]]]) -> None:
    def of_questions(count: int) -> Any:
        panels.clear()
        pairs = [kappa(pair[0], pair[1], 0.5, f"q{number}") for number in range(count) for pair in ("ab", "bc")]
        (figure,) = agreement_map(pairs, [], {})
        return [words["heading"] for _, words in panels], figure.notes

    assert of_questions(1) == (["q0"], [])
    headings, notes = of_questions(MAX_MAPS)
    assert (headings[:2], len(headings), notes) == ([f"Mean of {MAX_MAPS} questions", "q0"], MAX_MAPS + 1, [])
    for more, words in ((1, f"q{MAX_MAPS}"), (2, f"q{MAX_MAPS}; q{MAX_MAPS + 1}")):
        headings, notes = of_questions(MAX_MAPS + more)
        assert (len(headings), notes) == (MAX_MAPS + 1, [f"Not drawn: {words}."])


def test_colours_of_scores_go_between_the_ends_of_the_scale(panels: list[tuple[Any, dict[str, str]]]) -> None:
    metrics = [
        score("m", "q", 2.5), score("m", "p", 4.5, condition="c"), score("people", "q", 1.5),
        score("m", "q", 9.0, versions="yes"), undefined("group_mean_score", "", "none", dims=score("x", "q", 1).dims),
    ]  # fmt: skip
    (figure,) = score_map(metrics, blocks(metrics), {("r", "q"): Wording("How much?", scale=(1, 5))})
    ((panel, words),) = panels
    assert (panel.rows, panel.columns) == (["people", "m"], ["How much?", "p, c"])
    assert panel.values == [[1.5, None], [2.5, 4.5]]
    assert (panel.ends, panel.percent) == ([(1, 5), (4.5, 4.5)], False)  # of p, the scale is unknown
    assert words["description"] == "Heat map of mean scores: 2 raters and groups by 2 questions."
    assert (figure.title, figure.notes) == ("Mean scores by question", [])
    assert [title for title, _ in figure.numbers] == ["p, condition c", "How much?"]


@pytest.mark.parametrize(("raters", "questions", "noted"), [
    (MAX_SCORED, MAX_QUESTIONS, False), (MAX_SCORED + 1, 2, True), (2, MAX_QUESTIONS + 1, True)
])  # fmt: skip
def test_scores_past_the_limits_are_counted(
    panels: list[tuple[Any, dict[str, str]]], raters: int, questions: int, noted: bool
) -> None:
    metrics = [score(f"m{rater}", f"q{place}", rater) for rater in range(raters) for place in range(questions)]
    (figure,) = score_map(metrics, [], {})
    rows, columns = min(raters, MAX_SCORED), min(questions, MAX_QUESTIONS)
    assert (len(panels[0][0].rows), len(panels[0][0].columns)) == (rows, columns)
    left = [*(f"m{rater}" for rater in range(rows, raters)), *(f"q{place}" for place in range(columns, questions))]
    assert figure.notes == [f"Not drawn: {'; '.join(left)}."] * noted
