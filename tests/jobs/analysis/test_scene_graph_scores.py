"""Scene-graph metrics of tables: whose answers count, under which condition, and people's means."""

from typing import Any

from jobs.analysis.scene_graph_scores import dsg_metrics
from jobs.runtime.selection.exclusions import ExclusionFilter
from tests.factories import TableInMemory, rating

QUESTIONS: Any = TableInMemory(
    "questions", [{"set_id": name, "question_id": question} for name in ("i", "set") for question in ("1", "2")]
)


def answer(item: str, question: str, value: str | None, **columns: Any) -> dict[str, Any]:
    return {**rating(item, "m", question, value, **columns), "rubric": "dsg"}


def likert(item: str, score: int | None, question: str = "match", **columns: Any) -> dict[str, Any]:
    return {**rating(item, "anna", question, None if score is None else str(score), **columns), "rubric": "people"}


def scores(rows: list[dict[str, Any]], excluded: str = "", of_people: str | None = None) -> dict[tuple[str, ...], Any]:
    """(metric, condition) -> value and n with dependencies, of pictures that have an answer."""
    metrics = dsg_metrics(
        [TableInMemory("ratings", rows)],  # type: ignore[list-item]
        QUESTIONS, rubric="dsg", likert=of_people, kinds={"anna": "human"},
        exclusion_filter=ExclusionFilter(frozenset({excluded} - {""})),
    )  # fmt: skip
    return {
        (metric.name, metric.dims.get("condition", "")): (metric.value, metric.n)
        for metric in metrics
        if metric.dims.get("reading", "with dependencies") == "with dependencies"
        and metric.dims.get("convention", "answered") == "answered"
    }


def test_excluded_pictures_and_other_rubrics_do_not_count() -> None:
    rows = [
        answer("out", "1", "no", target="i"),
        answer("i", "1", "yes"),
        answer("i", "2", "no"),
        answer("j", "1", "yes", target="set"),
        {**answer("j", "2", "yes", target="set"), "rubric": "other"},
        answer("j", "2", "yes", target="set", status="truncated"),
    ]
    # i is answered yes to one of two questions, j to the one that has an answer
    assert scores(rows, "out")["dsg_score", ""] == (0.75, 2)
    assert scores(rows)["dsg_score", ""] == ((0.5 + 1 + 0) / 3, 3)


def test_each_condition_has_metrics_and_people_count_under_each() -> None:
    rows = [
        answer(item, question, value, condition=condition, target="set")
        for condition, values in (("a", ("no", "no", "yes")), ("b", ("yes", "no", "yes")))
        for item, value in zip("ijk", values, strict=True)
        for question in "12"
    ]
    rows += [likert("i", 1), likert("j", 2), likert("k", 4), likert("k", 2), likert("j", None), likert("j", 5, "other")]
    question_scores = scores(rows, of_people="people/match")
    assert question_scores["dsg_score", "a"] == (1 / 3, 3)
    assert question_scores["dsg_score", "b"] == (2 / 3, 3)
    # of the means 1, 2 and 3: the last is the only picture of a, and the first and last are those of b
    assert question_scores["dsg_spearman", "a"][0] > 0.8
    assert question_scores["dsg_spearman", "b"] == (0, 3)


def test_models_that_answer_the_same_question_as_people_do_not_count_as_people() -> None:
    rows = [answer(item, "1", value, target="set") for item, value in zip("ijk", ("no", "yes", "yes"), strict=True)]
    people = [likert(item, score) for item, score in zip("ijk", (3, 2, 1), strict=True)]
    judged = [likert(item, score) | {"rater": "judge"} for item, score in zip("ijk", (1, 5, 5), strict=True)]
    assert scores(rows + people + judged, of_people="people/match") == scores(rows + people, of_people="people/match")
    assert ("dsg_spearman", "") not in scores(rows + judged, of_people="people/match")


def test_people_who_rated_under_the_condition_precede_those_without_one() -> None:
    rows = [
        answer(item, "1", value, condition="a", target="set")
        for item, value in zip("ijk", ("no", "yes", "yes"), strict=True)
    ]
    rows += [likert(item, score) for item, score in zip("ijk", (3, 2, 1), strict=True)]
    of_condition = [likert(item, score, condition="a") for item, score in zip("ij", (1, 2), strict=True)]
    # with people's ratings without a condition the picture without a yes has the best rating, else the worst
    assert scores(rows, of_people="people/match")["dsg_spearman", ""][0] < 0
    rows += [likert("k", 3, condition="a"), *of_condition]
    assert scores(rows, of_people="people/match")["dsg_spearman", ""][0] > 0


def test_raters_are_in_order_and_people_without_a_score_do_not_count() -> None:
    rows = [answer("i", "1", "yes") | {"rater": name} for name in ("n", "m")]
    rows += [likert("i", 3), likert("i", None) | {"status": "ok"}]
    metrics = dsg_metrics(
        [TableInMemory("ratings", rows)],  # type: ignore[list-item]
        QUESTIONS, rubric="dsg", likert="people/match", kinds={"anna": "human"},
        exclusion_filter=ExclusionFilter(frozenset()),
    )  # fmt: skip
    assert list(dict.fromkeys(metric.dims["rater"] for metric in metrics)) == ["m", "n"]
