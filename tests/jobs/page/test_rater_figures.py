"""Heat maps of pairs of raters: who is in them, and the mean of several questions."""

import re

from jobs.metrics.metric import Metric, undefined
from jobs.page.rater_figures import MAX_RATERS, agreement_map, score_map
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
    assert figure.notes == [f"{MAX_RATERS} of {MAX_RATERS + 3} raters."]


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
