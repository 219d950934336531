"""The keys that each method of `judge` accepts, the identity of its ratings, and the arguments of its stages."""

from typing import Any

import pytest

from actors.judge import Judge
from actors.reasoning_judge import REASONING_INSTRUCTION, ReasoningJudge
from actors.rubric_preparer import RubricPreparer
from jobs.judging import vllm_engine
from jobs.judging.methods import MethodConfig, check_method, identity, stages
from jobs.judging.targets import RatingCounts
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from tests.cases import check_cases

REASONED = ["method=reasoned", "samples=2", "max_tokens=50"]


def settings(*keys: str) -> MethodConfig:
    required = ["input=x", "out=y", "rubric=century_labels", "model=local-tiny"]
    loaded: MethodConfig = config.load("judge", cli.job("judge").schema, [*required, *keys])
    return loaded


def kwargs(*keys: str) -> tuple[dict[str, Any], dict[str, Any]]:
    prepare, rate = stages(settings(*keys), ["a", "b"], RatingCounts(5, 10))
    assert (prepare.pool, prepare.actor, rate.pool, rate.rows_out) == ("decode", RubricPreparer, "judge", 5)
    assert rate.actor is (ReasoningJudge if "method=reasoned" in keys else Judge)
    assert rate.batches == vllm_engine.batches(settings(*keys).engine)
    return prepare.kwargs, rate.kwargs


def test_closed_answers_need_no_room_for_a_text() -> None:
    prepare, rate = kwargs("resources.judge.threads=3", "resources.decode.threads=2")
    assert prepare.keys() == {"model", "targets", "keeps_pictures", "settings"}
    assert (rate["threads"], rate["targets"], prepare["targets"]) == (3, ["a", "b"], ["a", "b"])
    assert rate["settings"] is prepare["settings"]
    assert type(rate["settings"]).__name__ == "ClosedSettings"
    assert rate["model"].checkpoint == prepare["model"].checkpoint == "local:qwen2.5-vl-tiny"


def test_reasoning_has_its_instruction_and_room_for_the_text() -> None:
    prepare, rate = kwargs(*REASONED)
    assert prepare["instruction"] == REASONING_INSTRUCTION
    assert prepare["answer_tokens"] == rate["settings"].reserved_tokens > 50
    assert (rate["settings"].samples, rate["settings"].max_tokens) == (2, 50)


def test_vllm_gets_the_pictures_themselves() -> None:
    keeps = {engine: kwargs(f"engine={engine}")[0]["keeps_pictures"] for engine in ("auto", "cascade", "vllm")}
    assert keeps == {"auto": False, "cascade": False, "vllm": True}


def test_ratings_depend_on_the_keys_of_their_method() -> None:
    assert identity(settings()) == {"method": "closed"}
    reasoned = identity(settings(*REASONED))
    assert (reasoned["method"], reasoned["samples"], reasoned["max_tokens"]) == ("reasoned", 2, 50)
    assert identity(settings(*REASONED, "temperature=0.5")) != reasoned


def test_keys_of_the_other_method_are_refused() -> None:
    check_method(settings(*REASONED))
    cases = [
        (["method=open"], "method=open: must be one of closed, reasoned"),
        (["samples=2"], "samples=2: method=closed has no such key; omit it, or set method=reasoned"),
        (["method=reasoned", "engine=packed"], "engine=packed: must be one of"),
    ]

    def check(keys: list[str], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            check_method(settings(*keys))

    check_cases(check, cases)
