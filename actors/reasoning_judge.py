"""Ratings after written reasoning: `judge method=reasoned`.

The model first writes its reasoning, which becomes the beginning of its turn; the allowed answers are then scored
after it, so that the whole distribution is kept and no text is parsed.

CAIRE's prompt asks for step-by-step reasoning as well (section 5.2, figure 8), but its answer is read from the score
tokens alone (section 3.2), without any written reasoning; here it is written.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from actors.generator import sample_seed, text_generator
from actors.rubric_rater import PreparedItem, RubricRater, RubricSettings
from actors.status import Status
from actors.vlm.encoding import ChatEncoder
from actors.vlm.errors import ScoringError
from actors.vlm.generation import Generated
from actors.vlm.ratings import answered, failed
from actors.vlm.requests import RequestGroup
from actors.vlm.rubric import Question
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.settings import ModelSettings, SamplingSettings
from actors.vlm.token_trees import common

METHOD = "generate_then_score"
# Comes last: a rubric may ask for the bare answer before it.
REASONING_INSTRUCTION = (
    "Before you answer, think it through step by step in a few sentences. "
    "Then write a last line with `Final answer:` and, behind it, nothing but your answer."
)
ANSWER_LINE = "Final answer:"  # the answer's code follows after a space
CLOSING_TOKENS = 32  # for that line, and for reasoning that is tokenised into more tokens than were drawn
_FINAL = re.compile(r"\**final\s+(?:answer|score)\b.*", re.IGNORECASE | re.DOTALL)


@dataclass(kw_only=True)
class ReasoningSettings(RubricSettings, SamplingSettings):
    """Which questions are asked, and how the reasoning before each answer is drawn."""

    @property
    def reserved_tokens(self) -> int:
        """Return the positions that the longest reasoning and its answer need."""
        return self.max_tokens + CLOSING_TOKENS


class ReasoningJudge(RubricRater):
    """Has the model reason in writing about every question, then scores every allowed answer after it.

    Slower than `actors.judge.Judge` by orders of magnitude; the reasoning is kept in column `comment`.

    Args:
        settings: rubric, sampling and limits.
        model: which model to load.
        targets: labels for items without their own; the rubric's if None.
        threads: of torch on a CPU; torch's choice if None.

    Raises:
        ValueError: a model that cannot be loaded, or that does not write each answer as one token of its own.
    """

    def __init__(
        self,
        settings: ReasoningSettings,
        *,
        model: ModelSettings,
        targets: Sequence[str] | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(settings, model=model, targets=targets, threads=threads)
        self.samples, self.seed, self.sampling = settings.samples, settings.seed, settings.sampling
        self.chat = ChatEncoder(self.processor)
        self.engine = text_generator(
            self.model, self.chat, memory_budget_gb=settings.memory_budget_gb, group_rows=settings.group_rows
        )
        if self.engine.max_positions is not None:  # the answer is scored after the longest reasoning
            self.engine.max_positions -= CLOSING_TOKENS
        self.scorer = ClosedSetScorer(self.model, self.processor, memory_budget_gb=settings.memory_budget_gb)
        for question in self.rubric.questions:
            self.scorer.check_codes(question.codes)

    def report_tokens(self, report: Callable[[int], None]) -> None:
        """Call `report` with the number of tokens drawn, at each step of the reasoning."""
        self.engine.on_tokens = report

    def _method(self, question: Question) -> str:
        return METHOD

    def _ratings(self, item: PreparedItem) -> list[dict[str, Any]]:
        reasonings = self._reasonings(item)
        asked = [
            (number, sample, begun_turn(text))
            for number, texts in enumerate(reasonings)
            if not isinstance(texts, ScoringError)
            for sample, text in enumerate(texts)
        ]
        suffixes = [self._continued(item.suffixes[number], begun) for number, _, begun in asked]
        answers = [self.scorer.answers(item.pairs[number][1].codes, start=begun) for number, _, begun in asked]
        group = RequestGroup.of_suffixes(item.inputs, suffixes, answers, shared=item.shared)
        results = self.scorer.run(group) if asked else {}
        places = {(number, sample): place for place, (number, sample, _) in enumerate(asked)}
        rows = []
        for number, ((target, question), texts) in enumerate(zip(item.pairs, reasonings, strict=True)):
            for sample in range(self.samples):
                key = self._key(item.item_id, target, question, sample=sample)
                if isinstance(texts, ScoringError):
                    rows.append(key | failed(Status.ERROR, texts))
                    continue
                answer = answered(question, results[places[number, sample]], item.cut)
                rows.append(key | answer | {"comment": texts[sample]})
        self._tally[self.facts.tally] += len(places)
        return rows

    def _reasonings(self, item: PreparedItem) -> list[list[str] | ScoringError]:
        """Return the samples of each prompt, in the order of `item.pairs`."""
        seeds = [
            [
                sample_seed(self.seed, f"{item.item_id}\x1f{target}\x1f{question.name}", sample)
                for sample in range(self.samples)
            ]
            for target, question in item.pairs
        ]
        return [
            result if isinstance(result, ScoringError) else [self._reasoning(sample) for sample in result]
            for result in self.engine.generate(item.whole_prompts(), seeds=seeds, sampling=self.sampling)
        ]

    def _reasoning(self, sample: Generated) -> str:
        # Without the answer that the model gave itself: the scored one takes its place.
        return self.chat.as_data(_FINAL.sub("", self.chat.decode(sample.tokens)).strip())

    def _continued(self, suffix: list[int], begun: str) -> list[int]:
        """Return the tokens of a prompt's suffix followed by the model's begun turn.

        Raises:
            ValueError: the tokenizer joins the turn's opening with text that the suffix does not hold.
        """
        chat = self.scorer.chat
        opening = chat.ids(chat.start)
        opened = chat.ids(chat.start + chat.lead + begun)
        kept = common(opening, opened)  # fewer than all tokens of `opening` if its end and the text are joined
        joined = opening[kept:]
        if joined and suffix[-len(joined) :] != joined:
            raise ValueError("the model's tokenizer joins its turn's opening with the reasoning in an unknown way")
        return [*suffix[: len(suffix) - len(joined)], *opened[kept:]]


def begun_turn(reasoning: str) -> str:
    """Return the model's turn up to its answer."""
    return f"{reasoning}\n\n{ANSWER_LINE}" if reasoning else ANSWER_LINE
