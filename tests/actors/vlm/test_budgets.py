"""The memory budget of a scorer while the memory of the device is exhausted."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.generation import TextGenerator
from actors.vlm.loglik import CompletionScorer
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import RequestGroup
from tests.cases import check_cases

PROMPT = {"input_ids": np.zeros((1, 3))}


def scorer_of(likelihoods: Any, *, budget: int, least: int) -> ClosedSetScorer:
    scorer = object.__new__(ClosedSetScorer)
    scorer.model, scorer.label = SimpleNamespace(), "model tiny"
    scorer.budget, scorer._least_budget = budget, least
    engines: Any = SimpleNamespace(is_settled=lambda group: True, current=SimpleNamespace(log_likelihoods=likelihoods))
    scorer.engines = engines
    return scorer


BUDGETS = [  # the memory needed, the least budget, the budgets tried, and the budget afterwards
    (300, 100, [300], 300),
    (150, 100, [300, 150], 150),
    (100, 100, [300, 150, 100], 100),  # 75 is below the least
    (0, 100, [300, 150, 100], 300),  # one large picture must not slow all others
    (0, 150, [300, 150], 300),
    (0, 300, [300], 300),
]


def test_the_budget_is_halved_until_a_group_fits() -> None:
    def check(fits: int, least: int, tried: list[int], after: int) -> None:
        seen = []

        def scarce(*_: Any, budget: int) -> list[str]:
            seen.append(budget)
            if budget > fits:
                raise MemoryError
            return ["likelihoods"]

        scorer = scorer_of(scarce, budget=300, least=least)
        if fits:
            assert scorer._likelihoods(RequestGroup([0]), [0]) == ["likelihoods"]
        else:
            with pytest.raises(MemoryError):
                scorer._likelihoods(RequestGroup([0]), [0])
        assert (seen, scorer.budget) == (tried, after)

    check_cases(check, BUDGETS)


def completions_of(likelihoods: Any, *, least: int = 100) -> Any:
    scorer: Any = object.__new__(CompletionScorer)
    config = SimpleNamespace(model_type="tiny")
    scorer.model = SimpleNamespace(device=SimpleNamespace(type="cpu"), config=config)
    scorer.label = "model 'tiny'"
    scorer.max_positions, scorer.budget, scorer._least_budget = None, 300, least
    scorer._log_likelihoods = likelihoods
    return scorer


def test_the_budget_is_halved_until_the_completions_of_a_prompt_fit() -> None:
    def check(fits: int, least: int, tried: list[int], after: int) -> None:
        seen = []

        def scarce(*_: Any) -> list[float]:
            seen.append(scorer.budget)
            if scorer.budget > fits:
                raise MemoryError
            return [-1.0]

        scorer = completions_of(scarce, least=least)
        scores = scorer.score(PROMPT, [[1]])
        assert scores == [-1.0] if fits else scores.kind == "out_of_memory"
        assert (seen, scorer.budget) == (tried, after)

    check_cases(check, BUDGETS)


def test_completions_without_likelihoods() -> None:
    asked = []

    def fail(error: Exception) -> Any:
        def compute(*_: Any) -> list[float]:
            asked.append(error)
            raise error

        return completions_of(compute).score(PROMPT, [[1], [2]])

    for values in ([-1.0, math.nan], [-math.inf, -1.0]):
        assert completions_of(lambda *_, values=values: values).score(PROMPT, [[1], [2]]).kind == "not_finite"
    assert fail(ValueError("no")).kind == "ValueError"
    with pytest.raises(EngineError, match="model 'tiny': CUDA error"):
        fail(RuntimeError("CUDA error: device lost"))
    assert len(asked) == 2  # once each


def test_the_budget_of_texts_is_halved_down_to_the_least() -> None:
    for budget, after in ((200, 100), (100, 64), (64, 64), (10, 10)):
        generator: Any = object.__new__(TextGenerator)
        generator.model, generator._budget = SimpleNamespace(device="cpu"), budget << 20
        generator._halve()
        assert generator.budget() == after << 20


def test_other_errors_are_not_tried_again() -> None:
    seen = []

    def fail(*_: Any, budget: int) -> None:
        seen.append(budget)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        scorer_of(fail, budget=300, least=100)._likelihoods(RequestGroup([0]), [0])
    assert seen == [300]
    errors = scorer_of(fail, budget=300, least=100)._alone(RequestGroup([4, 5, 6]), [1, 2])  # the others were too long
    assert [error.message for error in errors if isinstance(error, ScoringError)] == ["no", "no"]


def test_groups_that_do_not_pass_together_pass_alone() -> None:
    scarce, lost, other = MemoryError(), RuntimeError("CUDA error: device lost"), ValueError("no")

    def passed(*, at_launch: Exception | None = None, waiting: Exception | None = None, least: int = 100) -> Any:
        def wait() -> list[str]:
            if waiting:
                raise waiting
            return ["together"]

        def launch(chunk: Any, *, budget: int) -> Any:
            if at_launch:
                raise at_launch
            return wait

        scorer: Any = scorer_of(None, budget=300, least=least)
        scorer._alone = lambda *part: ["alone", *part]
        engine: Any = SimpleNamespace(launch=launch)
        return scorer._launched(engine, [("a", 1), ("b", 2)])(), scorer.budget

    alone = [["alone", "a", 1], ["alone", "b", 2]]
    assert passed() == (["together"], 300)
    assert passed(waiting=scarce) == passed(waiting=other) == passed(at_launch=other) == (alone, 300)
    assert passed(at_launch=scarce) == (alone, 150)
    assert passed(at_launch=scarce, least=200) == (alone, 200)
    assert passed(at_launch=scarce, least=300) == (alone, 300)
    with pytest.raises(EngineError, match="model tiny: CUDA error"):
        passed(at_launch=lost)
    with pytest.raises(EngineError, match="model tiny: CUDA error"):
        passed(waiting=lost)
