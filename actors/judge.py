"""Rate items by the likelihood of each allowed answer, without generating text: `judge method=closed`."""

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence

from actors.rubric_rater import PreparedItem, RubricRater
from actors.rubrics.rubric_questions import Question
from actors.schemas import RatingRow
from actors.vlm.errors import ScoringError
from actors.vlm.loading import RaterFacts
from actors.vlm.ratings import METHODS, answered
from actors.vlm.scoring import AnswerScorer, ClosedSetScorer
from actors.vlm.scoring_requests import AnswerCodes, RequestGroup, Scores
from actors.vlm.settings import ClosedSettings, ModelSettings
from actors.vlm.vllm_engine import VllmModel, VllmScorer


class Judge(RubricRater):
    """Actor that scores every allowed answer to every question about an item, for every target.

    Use it to compare answers when no text is needed; `actors.reasoning_judge.ReasoningJudge` lets the model reason
    first, at many times the cost.

    Args:
        settings: rubric, engine and limits.
        model: which model to load.
        targets: labels for items without their own; None: the rubric's.
        threads: torch's threads on a CPU; None: torch's default.

    Raises:
        ValueError: the model cannot be loaded or does not support the engine, or its tokens do not distinguish the
            answers.
    """

    def __init__(
        self,
        settings: ClosedSettings,
        *,
        model: ModelSettings,
        targets: Sequence[str] | None = None,
        threads: int | None = None,
    ) -> None:
        self.settings = settings
        super().__init__(settings, model=model, targets=targets, threads=threads)
        self.items_at_once = self.scorer.groups_at_once  # some engines work on the prompts of several items together
        self.rescore_fraction = settings.rescore_fraction
        self._answers = {
            question.name: self.scorer.answers(question.codes, start=self.rubric.answer_start)
            for question in self.rubric.questions
        }

    def _load(self, model: ModelSettings, threads: int | None) -> RaterFacts:
        engine, budget = self.settings.engine, self.settings.memory_budget_gb
        self.scorer: AnswerScorer
        if engine == "vllm":
            loaded = VllmModel(model, memory_budget_gb=budget, threads=threads)
            self.scorer = VllmScorer(loaded)
            return loaded.facts
        facts = super()._load(model, threads)
        self.scorer = ClosedSetScorer(self.model, self.processor, engine=engine, memory_budget_gb=budget)
        return facts

    def _method(self, question: Question) -> str:
        return METHODS[self._answers_to(question).rule]

    def _answers_to(self, question: Question) -> AnswerCodes:
        return self._answers[self.rubric.question(question.name).name]

    def _ratings(self, items: Sequence[PreparedItem]) -> list[list[RatingRow]]:
        groups = []
        for item in items:
            answers = [self._answers_to(question) for _, question in item.pairs]
            groups.append(RequestGroup.of_suffixes(item.inputs, item.suffixes, answers, shared=item.shared))
        scores = self.scorer.run_many(groups)
        for results in scores:
            self._count(results.values())
        if self.rescore_fraction:
            for item, group, results in zip(items, groups, scores, strict=True):
                self._rescore(item, group, results)
        return [
            [
                {**self._key(item.item_id, target, question), **answered(question, results[index], item.truncated)}
                for index, (target, question) in enumerate(item.pairs)
            ]
            for item, results in zip(items, scores, strict=True)
        ]

    def _rescore(self, item: PreparedItem, group: RequestGroup, results: Mapping[int, Scores | ScoringError]) -> None:
        """Score a share of the rows again, one by one, and tally the differences, which are due to rounding."""
        sample = [
            index
            for index, (target, question) in enumerate(item.pairs)
            if isinstance(results[index], Scores)
            and _uniform(item.item_id, target, question.name) < self.rescore_fraction
        ]
        # The whole prompt is then the prefix, so that every matrix product has another shape.
        again = self.scorer.run_many([group.subset([index]) for index in sample])
        for index, scores in zip(sample, again, strict=True):
            first, second = results[index], scores[index]
            self._tally["rescored/rows"] += 1
            if not isinstance(second, Scores) or not isinstance(first, Scores):
                self._tally["rescored/failed"] += 1
                continue
            pairs = list(zip(first.probabilities, second.probabilities, strict=True))
            self._tally["rescored/changed answers"] += _likeliest(first) != _likeliest(second)
            self._tally[f"rescored difference/{_rounded_up(max(abs(a - b) for a, b in pairs))}"] += 1

    def _count(self, results: Collection[Scores | ScoringError]) -> None:
        self._count_mass(results)
        scores = [result for result in results if isinstance(result, Scores)]
        self._tally["tokens/of whole prompts"] += sum(result.prompt_tokens for result in scores)
        self._tally["tokens/passed"] += round(sum(result.passed_tokens for result in scores))
        facts = self.facts._replace(engine=f"{self.scorer.engine}, {self.facts.engine}")
        self._tally[facts.tally] += len(scores)


def _uniform(*key: str) -> float:
    """Return a number in [0, 1) that depends on the key only, uniformly distributed over keys."""
    return int.from_bytes(hashlib.sha256("\x1f".join(key).encode()).digest()[:6], "big") / 2**48


def _likeliest(scores: Scores) -> int:
    return max(range(len(scores.probabilities)), key=lambda index: scores.probabilities[index])


def _rounded_up(value: float) -> str:
    """Return `value` in two significant digits, rounded up, so that a largest difference remains an upper bound."""
    if value == 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit) * unit:.1e}"
