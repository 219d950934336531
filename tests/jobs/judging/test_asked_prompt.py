"""Prompts of `generate` and `loglik`: which instructions each refuses, and what a prompt asks."""

from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from actors.preparers import PromptPreparer
from actors.vlm.settings import ContextSettings, ModelSettings
from jobs.judging import asked_prompt
from jobs.judging.asked_prompt import prompt_for_labels, prompt_for_texts
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
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


def test_the_stage_prepares_the_instruction_and_the_questions() -> None:
    prompt = prompt_for_texts(conf("prompt", "rubric_json"), conf("rubric", "century_labels"))
    cfg = config.load("generate", cli.job("generate").schema, ["input=i", "out=o", "model=local-tiny"])
    stage = prompt.stage(cfg, answer_tokens=5)
    assert (stage.pool, stage.actor, len(prompt.questions)) == ("decode", PromptPreparer, 8)
    assert stage.kwargs == {
        "settings": ContextSettings.part_of(cfg),
        "model": ModelSettings.part_of(cfg.model),
        "instruction": prompt.data,
        "questions": prompt.questions,
        "answer_tokens": 5,
        "keeps_pictures": False,
    }


def test_a_label_is_asked_about_by_its_likelihood_alone() -> None:
    about_label = {**conf("prompt", "explicit"), "start": "{{ target }}"}
    with pytest.raises(ValueError, match=r"^prompt=explicit: uses a label; use it with remine loglik"):
        prompt_for_texts(about_label, {})
    both = {**conf("prompt", "rubric_json"), "start": "{{ target }}"}
    for data, word in ((about_label, "target"), (conf("prompt", "rubric_json"), "questions"), (both, "questions")):
        with pytest.raises(ValueError, match=f": must not use '{word}'; the label follows its start"):
            prompt_for_labels(data)


def test_only_a_prompt_with_a_picture_needs_a_model_that_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    with_picture = prompt_for_texts(conf("prompt", "explicit"), {})
    assert with_picture.instruction.shows_picture
    without = {**conf("prompt", "explicit"), "name": "blind"}
    parts = {name: text for name, text in without["parts"].items() if name != "picture"}
    without |= {"parts": parts, "order": [name for name in without["order"] if name != "picture"]}
    checked: list[str] = []
    opened: list[bool] = []
    monkeypatch.setattr(asked_prompt, "check_model", lambda cfg, *, shown_by: checked.append(shown_by))
    monkeypatch.setattr(asked_prompt, "sources_of", lambda cfg, *, fields, pictures: opened.append(pictures))
    monkeypatch.setattr(asked_prompt, "reading", lambda sources, *, fields, pictures: opened.append(pictures))
    monkeypatch.setattr(asked_prompt.model_run, "expected_tokens", lambda model, pictures: f"{pictures} tokens")
    sources: Any = SimpleNamespace(pictures="p")
    phrases = []
    for prompt in (with_picture, prompt_for_texts(without, {})):
        prompt.check_model(None)  # type: ignore[arg-type]
        prompt.open_sources(None)  # type: ignore[arg-type]
        prompt.reader(sources)
        for plan in (True, False):
            cfg: Any = SimpleNamespace(plan=plan, model=None)
            phrases.append(prompt.expected_tokens(cfg, sources))
    assert checked == ["prompt 'explicit'", ""]
    assert opened == [True, True, False, False]
    assert phrases == ["p tokens", "", "", ""]
