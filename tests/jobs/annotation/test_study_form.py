"""Questions about targets on a form, with a rubric of which only some questions are about targets."""

from typing import Any

import pytest
from omegaconf import OmegaConf

from actors.rubrics.rubric import Rubric
from jobs.annotation.annotate_config import AnnotateConfig
from jobs.annotation.form import ShownItem, WelfareConfig
from jobs.annotation.own_questions import OwnSet
from jobs.annotation.study_form import asks_targets, build_form, read_questions, showing
from jobs.errors import InputError
from jobs.runtime.configuration.config_files import CONF
from tests.cases import check_cases

SHORT: dict[str, Any] = {
    "name": "mood",
    "targets": ["joy", "fear"],
    "questions": [
        {"name": "shown", "text": "How strongly?", "answers": [1, 2, 3]},
        {"name": "people", "text": "Are there people?", "answers": ["yes", "no"], "targets": False},
    ],
}


def test_a_study_asks_about_targets_or_without():
    rubric = Rubric.from_dict(SHORT)
    assert asks_targets(AnnotateConfig(only_questions=["shown"]), rubric)
    assert not asks_targets(AnnotateConfig(only_questions=["people"]), rubric)
    with pytest.raises(InputError, match=r"only_questions=\[shown\] and only_questions=\[people\]"):
        asks_targets(AnnotateConfig(), rubric)
    assert not asks_targets(AnnotateConfig(), Rubric.from_dict({**SHORT, "targets": []}))


def test_keys_and_rubrics_that_do_not_fit_are_refused() -> None:
    about_targets = {**SHORT, "questions": SHORT["questions"][:1]}
    rubric, span_labels = read_questions(AnnotateConfig(rubric=about_targets, target="group", group="country"))
    assert (rubric and rubric.name, span_labels) == ("mood", None)
    of_groups: Any = OmegaConf.to_container(OmegaConf.load(CONF / "rubric" / "cultural_relevance.yaml"))
    of_groups["targets"] = []
    read_questions(AnnotateConfig(rubric=of_groups, target="group", group="country"))  # raises nothing
    cases = [
        ({"rubric": {**SHORT, "questions": []}}, "^annotate: "),
        ({"rubric": SHORT, "span_labels": {"name": "s"}}, "^annotate: "),
        ({"questions": "Q"}, "questions=Q: needs a rubric"),
        ({"rubric": about_targets, "target": "group"}, "target=group: needs group="),
        ({"target": "group", "group": "country"}, "target=group: needs .* a rubric that asks about a target"),
        ({"rubric": SHORT, "only_questions": ["people"], "target": "group", "group": "country"}, "target=group: needs"),
        ({"rubric": of_groups}, "rubric=cultural_relevance: asks about targets, but has none; .*target=group"),
    ]

    def check(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            read_questions(AnnotateConfig(**keys))

    check_cases(check, cases)


def test_a_form_that_the_tool_cannot_show_is_refused() -> None:
    item = ShownItem("i", ("p",), ("https://i/p",), (), {"target": ("t", "A dog.")}, ())
    rubric = Rubric.from_dict({**SHORT, "targets": []})
    cases = {
        "label_studio": "^annotate: tool=label_studio: two parts of a task are called 'target'",
        "spreadsheet": "^annotate: tool=spreadsheet: a column 'target' has another meaning",
    }
    for tool, message in cases.items():
        with pytest.raises(InputError, match=message):
            build_form(AnnotateConfig(tool=tool), rubric, None, item)
    keys = AnnotateConfig(tool="prodigy", only_questions=["people"], welfare=WelfareConfig(notice="Careful."))
    form = build_form(keys, rubric, None, item)
    assert (form.pictures, form.texts, form.welfare.notice) == (1, ("target",), "Careful.")
    assert [question.name for question in form.questions] == ["people"]


def test_people_see_what_models_see_if_they_answer_questions_of_the_items() -> None:
    rubric = Rubric.from_dict(SHORT)
    own_sets = {"i": OwnSet("s", (("1", "Is it red?"),))}
    files = AnnotateConfig(pictures="files", picture_base="https://h/")
    assert showing(files, rubric, own_sets).roles == rubric.context_fields
    assert showing(files, rubric, {}).roles is None
    assert showing(files, None, own_sets).roles is None
    assert showing(AnnotateConfig(span_labels={"name": "s"}), rubric, own_sets).roles is None
    assert [showing(cfg, rubric, {}).base for cfg in (files, AnnotateConfig())] == ["https://h/", None]
