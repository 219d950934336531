"""Responses that count, and the tables about them, compared with values by hand."""

from dataclasses import replace

from jobs.metrics.metric import Metric
from jobs.metrics.rated_question import MetricSettings
from jobs.papers import century_tables
from jobs.papers.century_tables import prompt_note, prompts, self_preference, table_3, table_12, written_by
from jobs.papers.study import PrintedTable, Study
from tests.jobs.papers.studies import metric, rows_of, study, units_of

NONE = (None, None)
OF_OTHER_RUBRIC = [
    metric("share_at_least", 0.9, rubric="other", attribute="model", part="x"),
    metric("share_at_least", 0.9, rubric="other", attribute="model+prompt", part="x + y"),
    metric("self_preference", 0.9, rubric="other", rater="x", question="due_weight"),
]


def share(value: float, group: str = "models", question: str = "identification", **part: str) -> Metric:
    dims = {"rubric": "responses", "question": question, "group": group, "threshold": "4", "rule": "mean"}
    return metric("share_at_least", value, **(dims | part))


def of_writer(value: float, writer: str, group: str = "models") -> Metric:
    return share(value, group, attribute="model", part=writer)


def of_prompt(value: float, writer: str, prompt: str) -> Metric:
    return share(value, attribute="model+prompt", part=f"{writer} + {prompt}")


def contrasted(metrics: list[Metric], of_paper: list[str], of_metrics: list[str]) -> Study:
    one = study(metrics, contrast=of_paper)
    return replace(one, metric_settings=MetricSettings(contrast=of_metrics))


def test_the_contrasted_prompts_are_the_first_that_the_responses_have() -> None:
    metrics = [*OF_OTHER_RUBRIC, *(of_prompt(0.5, "w", prompt) for prompt in ("a", "b", "c"))]
    cases: list[tuple[list[str], list[str], tuple[str, str] | None]] = [
        (["prompt:x-y"], ["prompt:b-a"], ("b", "a")),
        (["prompt:a-b"], ["prompt:b-c"], ("a", "b")),
        (["prompt:x-b"], ["prompt:c-y"], ("c", "y")),  # the explicit one counts more
        (["prompt:x-y", "prompt:x-a"], [], ("x", "a")),
        (["prompt:x-y"], ["prompt:y-x"], ("x", "y")),
        (["rater:a-b"], [], None),
        ([], [], None),
    ]
    chosen = [prompts(contrasted(metrics, of_paper, of_metrics)) for of_paper, of_metrics, _ in cases]
    assert chosen == [expected for *_, expected in cases]


def test_responses_to_the_explicit_prompt_count_if_there_are_any() -> None:
    metrics = [
        *OF_OTHER_RUBRIC,
        of_writer(0.1, "w"),
        of_writer(0.2, "v"),
        of_prompt(0.3, "w", "explicit"),
        of_prompt(0.4, "v", "minimal"),
    ]
    one = study(metrics, contrast=["prompt:explicit-minimal"])
    assert century_tables.writers(one) == ["v", "w"]
    assert written_by(one, "w") == {"attribute": "model+prompt", "part": "w + explicit"}
    assert written_by(one, "v") == {"attribute": "model", "part": "v"}
    assert prompt_note(one) == "Responses to all prompts count."
    both = study([*metrics, of_prompt(0.5, "v", "explicit")], contrast=["prompt:explicit-minimal"])
    assert prompt_note(both) == "Responses to the prompt explicit count."
    assert prompt_note(study()) == "Responses to all prompts count."


def test_table_3_has_automated_ratings_before_those_of_people() -> None:
    metrics = [of_writer(0.1, "w@1"), of_writer(0.2, "w@1", "people"), of_writer(0.3, "v@1")]
    printed = {
        "table_3": PrintedTable(
            "t", ["W", "Other"],
            {"identification / Automated": [11, 12], "identification / Human": [21, 22]},
        )
    }  # fmt: skip
    kinds, answered = {"p": "human"}, {("responses", "identification"): ["p", "m"]}
    table = table_3(study(metrics, printed=printed, kinds=kinds, answered=answered, names=["w*=W"]))
    assert table.columns == (("v",), ("w",), ("Other",))
    rows = list(rows_of(table).items())
    assert rows[:2] == [
        (("Accuracy", "Correct identification", "Automated"), [(0.3, None), (0.1, 0.11), (None, 0.12)]),
        (("Accuracy", "Correct identification", "Human"), [NONE, (0.2, 0.21), (None, 0.22)]),
    ]
    assert len(rows) == 14
    assert units_of(table) == ["percent"] * 3
    assert "nobody rated due_weight" in table.reasons


def test_table_12_has_both_prompts_and_their_difference_of_each_writer() -> None:
    difference = {"rubric": "responses", "question": "identification", "group": "models", "threshold": "4",
                  "attribute": "prompt", "first": "long", "second": "short", "model": "w"}  # fmt: skip
    metrics = [of_writer(0, "w"), of_prompt(0.6, "w", "long"), of_prompt(0.2, "w", "short")]
    metrics += [metric("share_difference", 0.4, **difference)]
    printed = {
        "table_12": PrintedTable(
            "t", ["W explicit", "W minimal", "W delta", "Other explicit", "Other minimal", "Other delta"],
            {"identification": [61, 21, 40, 1, 2, 3]},
        )
    }  # fmt: skip
    (table,) = table_12(study(metrics, printed=printed, contrast=["prompt:long-short"], names=["w=W"]))
    assert table.columns == (
        *(("w", c) for c in ("Long", "Short", "Delta")),
        *(("Other", c) for c in ("Long", "Short", "Delta")),
    )
    assert rows_of(table)["Accuracy", "Correct identification", "All models"] == [
        (0.6, 0.61), (0.2, 0.21), (0.4, 0.4), (None, 0.01), (None, 0.02), (None, 0.03)
    ]  # fmt: skip
    assert units_of(table) == ["percent"] * 6
    assert list(table_12(study(metrics))) == []


def test_named_ensembles_have_rows_of_tables_3_and_12_and_the_papers_numbers_if_they_have_its_name() -> None:
    metrics = [of_prompt(0.6, "w", "long"), share(0.7, "four", attribute="model+prompt", part="w + long"),
               of_prompt(0.2, "w", "short"), of_writer(0.4, "w")]  # fmt: skip
    answered = {("responses", "identification"): ["m", "n", "o"]}
    printed = {
        "table_3": PrintedTable("t", ["W"], {"identification / Automated": [11]}),
        "table_12": PrintedTable("t", ["W explicit", "W minimal", "W delta"], {"identification": [61, 21, 40]}),
    }
    for groups, in_paper in (({"models": "All"}, None), ({"models": "All", "four": "All"}, 0.61)):
        one = study(metrics, printed=printed, answered=answered, contrast=["prompt:long-short"], names=["w=W"],
                    ensembles={"four": ["m", "n"], "absent": ["x"]}, groups=groups)  # fmt: skip
        (of_12,), of_3 = table_12(one), table_3(one)
        rows = rows_of(of_12)
        assert {headers[2] for headers in rows} == {"All models", "four"}
        assert rows["Accuracy", "Correct identification", "All models"][0] == (0.6, 0.61)
        assert rows["Accuracy", "Correct identification", "four"][0] == (0.7, in_paper)
        assert rows_of(of_3)["Accuracy", "Correct identification", "four"] == [(0.7, in_paper and 0.11)]


def test_a_missing_share_has_the_reason_for_which_it_is_missing() -> None:
    mean = {"rubric": "responses", "question": "identification"}
    metrics = [
        metric("group_mean_score", 3, **mean, group="models"),
        metric("group_mean_score", 3, **mean, group="models", attribute="model", part="w"),
    ]
    answered = {("responses", "identification"): ["m", "n", "p"], ("responses", "due_weight"): ["m"]}
    one = study(metrics, answered=answered, kinds={"p": "human"})
    of_w, of_v = ({"attribute": "model", "part": part} for part in "wv")
    assert [century_tables.no_share(one, *case) for case in (
        ("factual_errors", "models", of_w), ("due_weight", "n", of_w), ("identification", "n", of_w),
        ("identification", "models", of_v), ("identification", "models", of_w), ("due_weight", "people", of_w),
    )] == [
        "nobody rated factual_errors", "n did not rate due_weight", "no rating of identification by n is ok",
        "no response of v was rated on identification", "4 is not the highest of metrics.at_least that is on the scale",
        "people did not rate due_weight",
    ]  # fmt: skip


def test_self_preference_of_the_judges_that_have_it() -> None:
    def of_judge(value: float, rater: str, question: str) -> Metric:
        return metric("self_preference", value, rubric="responses", rater=rater, question=question)

    metrics = [of_judge(0.5, "m@1", "due_weight"), of_judge(-0.5, "m@1", "identification")]
    (table,) = self_preference(study([*OF_OTHER_RUBRIC, *metrics]))
    assert list(rows_of(table)) == [("m",)]
    assert (set(units_of(table)), table.reasons[0]) == ({"number"}, "no ok rating of factual_errors by m")
    assert table.notes[0] == "Responses to all prompts count."
    by_element = dict(zip(table.columns, rows_of(table)["m",], strict=True))
    assert (by_element["Due weight",], by_element["Correct identification",]) == ((0.5, None), (-0.5, None))
    assert list(self_preference(study(OF_OTHER_RUBRIC))) == []


def test_self_preference_is_of_the_first_prompt_as_in_the_tables_around_it() -> None:
    def of_prompt(value: float, **dims: str) -> Metric:
        return metric("self_preference", value, rubric="responses", rater="m", question="due_weight", **dims)

    metrics = [of_prompt(0.1), of_prompt(0.2, attribute="prompt", part="long"),
               of_prompt(0.3, attribute="prompt", part="short")]  # fmt: skip
    (table,) = self_preference(study(metrics, contrast=["prompt:long-short"]))
    assert (0.2, None) in rows_of(table)["m",]
    assert table.notes[0] == "Responses to the prompt long count."
    (table,) = self_preference(study(metrics, contrast=["prompt:other-short"]))
    assert (0.1, None) in rows_of(table)["m",]
