"""The section of estimates for the whole set: what it says, plans, draws and leaves out."""

import re
from typing import Any

import pytest

from actors.status import Status
from jobs.metrics.estimates import ALL_RATED, NOT_RANDOM
from jobs.metrics.metric import Metric
from jobs.metrics.rating_plans import BOTH, JUDGES_ALONE, PEOPLE_ALONE
from jobs.page.estimate_section import OPENING, estimate_sections, estimate_sentences, estimated_questions, plan_lines
from jobs.page.page_contents import Page, Wording
from jobs.page.render import render

WORDS = {("r", "q"): Wording("tense", scale=(1.0, 5.0)), ("r", "kind"): Wording("kind", labels={"a": "A photograph"})}


def metric(name: str, value: float | None, half: float | None = None, **dims: Any) -> Metric:
    ends: dict[str, Any] = {}
    if half is not None and value is not None:
        ends = {"low": value - half, "high": value + half, "interval_method": "t"}
    status = Status.OK if value is not None else Status.SKIPPED
    reason = None if ends else dims.pop("reason", "no interval: a test")
    return Metric(name=name, definition="d", value=value, n=44, coverage=44 / 142, reason=reason, status=status,
                  dims={"rubric": "r", "question": "q", **dims}, **ends)  # fmt: skip


def of_question(**part: Any) -> list[Metric]:
    return [
        metric("estimated_mean", 3.08, 0.13, source=BOTH, **part),
        metric("estimated_mean", 3.0, 0.35, source=PEOPLE_ALONE, **part),
        metric("estimated_mean", 2.89, source=JUDGES_ALONE, **part),
        metric("expected_half_width", 0.13, source=BOTH, ratings="44", **part),
        metric("expected_half_width", 0.35, source=PEOPLE_ALONE, ratings="44", **part),
        metric("ratings_for_half_width", 17, source=BOTH, half_width="0.1", **part),
        metric("ratings_for_half_width", 76, source=PEOPLE_ALONE, half_width="0.1", **part),
    ]


MORE = [
    metric("expected_half_width", 0.09, source=BOTH, ratings="66"),
    metric("expected_half_width", 0.25, source=PEOPLE_ALONE, ratings="66"),
    metric("effective_ratings", 314, of="people’s mean"),
    metric("expected_detectable_difference", 0.72, of="two values of region", ratings="44"),
    metric("half_width_of_split", 0.1, per_item="1", ratings="132"),
    metric("half_width_of_split", 0.12, per_item="2", ratings="132"),
]


def test_the_first_screen_has_the_estimate_and_what_more_ratings_bring() -> None:
    opening, sentence = estimate_sentences(estimated_questions([*of_question(), *MORE], WORDS))
    assert opening == OPENING
    assert sentence == (
        "tense, all 142 items: 3.08 ± 0.13; from the 44 that people rated alone: 3.00 ± 0.35; from models alone, "
        "uncorrected: 2.89; 17 more rated: ± 0.10 (without models 76 more)."
    )


def test_the_first_screen_says_that_models_do_not_help() -> None:
    same = [metric("estimated_mean", 3.0, 0.35, source=source) for source in (BOTH, PEOPLE_ALONE)]
    _, sentence = estimate_sentences(estimated_questions(same, WORDS))
    assert sentence == "tense, all 142 items: 3.00 ± 0.35; from the 44 that people rated; models do not narrow it."


def test_plans_name_subgroups_differences_and_the_best_split() -> None:
    east = of_question(attribute="region", part="East")
    assert list(plan_lines(estimated_questions([*of_question(), *east, *MORE], WORDS))) == [
        "tense, if people rate so many items: 44: ± 0.13 (people alone ± 0.35); 66: ± 0.09 (people alone ± 0.25).",
        "tense, more ratings by people: East 17 more rated: ± 0.10 (without models 76 more).",
        "tense, smallest differences that would be found (power 80%): two values of region 0.72.",
        "tense, as many answers as so far, by answers per item: 1: ± 0.10, 2: ± 0.12; 1 answer per item is best.",
    ]


def test_the_page_has_tables_plots_and_a_folded_table_of_subgroups() -> None:
    metrics = [*of_question(), *of_question(attribute="region", part="East"), *MORE]
    questions = estimated_questions(metrics, WORDS)
    (section,) = estimate_sections(questions, metrics, WORDS)
    assert [table.folded for table in section.tables] == [False, True, True]
    ((title, cells),) = section.tables[0].rows
    assert title == "tense"
    assert cells[3:] == ["44 of 142", "270 more rated items", "17 more rated: ± 0.10 (without models 76 more)"]
    (figure,) = section.figures
    assert [drawing.name.partition(": ")[2] for drawing in figure.plots] == [
        "People’s mean", "tense: ± by items rated", "tense: People’s mean, by region",
    ]  # fmt: skip
    html = render(Page("t", sections=[section], metrics=metrics, wording=WORDS))
    text = re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", html))
    assert "What people would answer if they rated everything" in text
    assert "<summary>Estimates for subgroups</summary>" in html


def test_the_page_has_a_table_of_how_good_each_model_is_over_all_items() -> None:
    of_judge = [
        metric("estimated_accuracy", 0.8, 0.05, source=BOTH, rater="org/m@1", threshold="4"),
        metric("estimated_accuracy", 0.7, 0.1, source=PEOPLE_ALONE, rater="org/m@1", threshold="4"),
        metric("estimated_f1", 0.6, 0.1, source=BOTH, rater="org/m@1", answer="a", question="kind"),
        metric("estimated_brier", 0.12, 0.02, source=BOTH, rater="org/m@1"),
        metric("overconfidence", 0.03, 0.02, rater="org/m@1"),
    ]
    metrics = [*of_question(), *of_judge]
    (section,) = estimate_sections(estimated_questions(metrics, WORDS), metrics, WORDS)
    table = section.tables[1]
    assert table.columns == ["Accuracy", "Brier score", "Surer than right"]
    ((title, cells),) = table.rows
    assert (title, [cell.value for cell in cells if isinstance(cell, Metric)]) == ("tense (≥ 4): m", [0.8, 0.12, 0.03])
    (section,) = estimate_sections(estimated_questions(of_question(), WORDS), [*of_question(), of_judge[-1]], WORDS)
    assert len(section.tables) == 1  # without estimates of a judge, its calibration is only of what people rated


def test_categories_show_their_most_frequent_answer_as_a_share() -> None:
    answers = [
        metric("estimated_answer_share", 0.32, 0.066, source=BOTH, answer="a", question="kind"),
        metric("estimated_answer_share", 0.2, 0.05, source=BOTH, answer="b", question="kind"),
        metric("expected_half_width", 0.066, source=BOTH, answer="a", ratings="44", question="kind"),
        metric("ratings_for_half_width", 17, source=BOTH, half_width="0.05", answer="a", question="kind"),
        metric("ratings_for_half_width", 48, source=PEOPLE_ALONE, half_width="0.05", answer="a", question="kind"),
    ]
    _, sentence = estimate_sentences(estimated_questions(answers, WORDS))
    assert sentence.startswith("kind: A photograph, all 142 items: 32.0% ± 6.6%; from the 44")
    assert "17 more rated: ± 5.0% (without models 48 more)" in sentence


@pytest.mark.parametrize(
    ("reason", "shown"), [(NOT_RANDOM, 0), (ALL_RATED, 0), ("people answered 2 items outside of the assignments", 1)]
)
def test_reasons_are_shown_where_estimates_were_asked_for(reason: str, shown: int) -> None:
    undefined = [metric("estimated_mean", None, source=BOTH, reason=reason)]
    questions = estimated_questions(undefined, WORDS)
    assert len(list(estimate_sections(questions, undefined, WORDS))) == shown
    assert [reason in sentence for sentence in estimate_sentences(questions)] == [True] * shown
