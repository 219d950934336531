"""Prompts of `generate` and `loglik`: which instructions each refuses, and what a prompt asks."""

from typing import Any

import pytest
import yaml

from jobs.judging.asked_prompt import prompt_for_labels, prompt_for_texts
from jobs.runtime.configuration.config_files import CONF


def conf(group: str, name: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))
    return data


def test_an_instruction_that_asks_questions_gets_those_of_the_rubric() -> None:
    century = conf("rubric", "century_labels")
    prompt = prompt_for_texts(conf("prompt", "rubric_json"), century)
    assert [question["name"] for question in prompt.questions] == [entry["name"] for entry in century["questions"]]


def test_an_instruction_without_questions_does_not_read_the_rubric() -> None:
    assert prompt_for_texts(conf("prompt", "explicit"), {"name": "not a rubric"}).questions == ()


@pytest.mark.parametrize(
    ("rubric", "message"),
    [
        ({}, "prompt=rubric_json: asks a rubric's questions; set rubric="),
        ("cultural_relevance", "rubric=cultural_relevance: asks about targets"),
        ("dsg", "rubric=dsg: asks each item its own questions"),
    ],
)
def test_questions_that_a_json_answer_cannot_hold_are_refused(rubric: Any, message: str) -> None:
    data = conf("rubric", rubric) if rubric else rubric
    with pytest.raises(ValueError, match=f"^{message}"):
        prompt_for_texts(conf("prompt", "rubric_json"), data)


def test_a_label_is_asked_about_by_its_likelihood_alone() -> None:
    about_label = {**conf("prompt", "explicit"), "start": "{{ target }}"}
    with pytest.raises(ValueError, match=r"^prompt=explicit: uses a label; use it with remine loglik"):
        prompt_for_texts(about_label, {})
    for data, word in ((about_label, "target"), (conf("prompt", "rubric_json"), "questions")):
        with pytest.raises(ValueError, match=f": must not use '{word}'; the label follows its start"):
            prompt_for_labels(data)
