"""Rate items by the likelihood of each allowed answer after written reasoning: `judge method=reasoned`.

The model first writes its reasoning, which becomes the beginning of its turn, after which the allowed answers are
scored. The result has the full distribution, and no text is parsed. A model whose prompts open a thought is not asked
to reason: the answers, after the rubric's start, follow its own thought.

CAIRE's prompt also asks for step-by-step reasoning (section 5.2, figure 8), but CAIRE reads the answer from the
likelihoods of the score tokens alone (section 3.2) and generates no reasoning; this stage does.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from actors.errors import SettingError
from actors.rubric_rater import PreparedItem, RubricRater
from actors.rubrics.rubric_questions import Question
from actors.schemas import RatingRow, failed
from actors.status import Status
from actors.vlm.chat import ChatEncoder
from actors.vlm.errors import ScoringError
from actors.vlm.generation import Generated, TextGenerator, sample_seed, text_ends, text_generator
from actors.vlm.loading import RaterFacts
from actors.vlm.ratings import answered
from actors.vlm.scoring import AnswerScorer, ClosedSetScorer
from actors.vlm.scoring_requests import RequestGroup, Scores
from actors.vlm.settings import CLOSING_TOKENS, ModelSettings, ReasoningSettings
from actors.vlm.token_trees import common
from actors.vlm.vllm_engine import VllmModel, VllmScorer, VllmTextGenerator

METHOD = "generate_then_score"
# Appended to the prompt: the rubric may ask for the bare answer before it.
REASONING_INSTRUCTION = (
    "Before you answer, think it through step by step in a few sentences. "
    "Then write a last line with `Final answer:` and, behind it, nothing but your answer."
)
ANSWER_LINE = "Final answer:"  # the answer's code follows after a space
ENGINES = ("auto", "vllm")
_FINAL = re.compile(r"\**final\s+(?:answer|score)\b.*", re.IGNORECASE | re.DOTALL)


class Reasoning(NamedTuple):
    """What a model wrote before its answer.

    Attributes:
        text: the reasoning, without the marks of a thought.
        written: what it wrote in its turn, in the words of its chat template.
        start: the text between that and the answer's code.
        is_cut: whether it ends inside a thought.
    """

    text: str
    written: str
    start: str
    is_cut: bool


_Request = tuple[int, int, Reasoning]  # number of the prompt, sample, and what the model wrote


class ReasoningJudge(RubricRater):
    """Actor that lets the model reason in writing about every question, then scores every allowed answer.

    Slower than `actors.judge.Judge` by orders of magnitude. The reasoning is stored in the column `comment`.

    Args:
        settings: rubric, sampling and limits.
        model: which model to load.
        targets: labels for items without their own; None: the rubric's.
        threads: torch's threads on a CPU; None: torch's default.

    Raises:
        ValueError: the model cannot be loaded, or an answer is not a single token of its tokenizer.
    """

    def __init__(
        self,
        settings: ReasoningSettings,
        *,
        model: ModelSettings,
        targets: Sequence[str] | None = None,
        threads: int | None = None,
    ) -> None:
        if settings.engine not in ENGINES:
            raise SettingError(f"must be one of {', '.join(ENGINES)} with method=reasoned", "engine", settings.engine)
        self.settings = settings
        super().__init__(settings, model=model, targets=targets, threads=threads)
        self.items_at_once = None if settings.engine == "vllm" else 1  # vLLM batches the prompts of all items
        self.samples, self.seed, self.sampling = settings.samples, settings.seed, settings.sampling
        self.engine.reserve(CLOSING_TOKENS)  # the answer is scored after the longest reasoning
        for question in self.rubric.questions:
            self.scorer.check_codes(question.codes)

    def _load(self, model: ModelSettings, threads: int | None) -> RaterFacts:
        budget, rows = self.settings.memory_budget_gb, self.settings.group_rows
        self.engine: TextGenerator | VllmTextGenerator
        self.scorer: AnswerScorer
        if self.settings.engine == "vllm":
            loaded = VllmModel(model, memory_budget_gb=budget, sequences=rows, threads=threads)
            self.chat = ChatEncoder(loaded.processor)
            self.engine = VllmTextGenerator(loaded, ends=text_ends(loaded, self.chat))
            self.scorer = VllmScorer(loaded)
            return loaded.facts
        facts = super()._load(model, threads)
        self.chat = ChatEncoder(self.processor)
        self.engine = text_generator(self.model, self.chat, memory_budget_gb=budget, group_rows=rows)
        self.scorer = ClosedSetScorer(self.model, self.processor, memory_budget_gb=budget)
        return facts

    def report_tokens(self, report: Callable[[int], None]) -> None:
        """Call `report` with the number of new tokens at each step of generation."""
        self.engine.on_tokens = report

    def _method(self, question: Question) -> str:
        return METHOD

    def _ratings(self, items: Sequence[PreparedItem]) -> list[list[RatingRow]]:
        reasonings = self._reasonings(items)
        requests = [_requests(texts) for texts in reasonings]
        scores = self.scorer.run_many([self._group(*pair) for pair in zip(items, requests, strict=True)])
        return [self._rows_of(*parts) for parts in zip(items, reasonings, requests, scores, strict=True)]

    def _group(self, item: PreparedItem, requests: Sequence[_Request]) -> RequestGroup:
        """Return the requests for the answers that follow each reasoning about an item."""
        suffixes = [self._with_turn(item.suffixes[number], text.written + text.start) for number, _, text in requests]
        answers = [
            self.scorer.answers(item.pairs[number][1].codes, start=text.start, written=text.written)
            for number, _, text in requests
        ]
        return RequestGroup.of_suffixes(item.inputs, suffixes, answers, shared=item.shared)

    def _rows_of(
        self,
        item: PreparedItem,
        reasonings: Sequence[list[Reasoning] | ScoringError],
        requests: Sequence[_Request],
        results: Mapping[int, Scores | ScoringError],
    ) -> list[RatingRow]:
        self._count_mass(results.values())
        indices = {(number, sample): index for index, (number, sample, _) in enumerate(requests)}
        rows: list[RatingRow] = []
        for number, ((target, question), texts) in enumerate(zip(item.pairs, reasonings, strict=True)):
            for sample in range(self.samples):
                key = self._key(item.item_id, target, question, sample=sample)
                if isinstance(texts, ScoringError):
                    rows.append({**key, **failed(RatingRow, Status.ERROR, texts)})
                    continue
                comment = texts[sample].text
                if texts[sample].is_cut:  # the answer would be scored inside the thought
                    reason = ScoringError("answer_cut", "the reasoning ended inside a thought; raise max_tokens")
                    rows.append({**key, **failed(RatingRow, Status.TRUNCATED, reason), "comment": comment})
                    continue
                answer = answered(question, results[indices[number, sample]], item.truncated)
                rows.append({**key, **answer, "comment": comment})
        self._tally[self.facts.tally] += len(requests)
        return rows

    def _reasonings(self, items: Sequence[PreparedItem]) -> list[list[list[Reasoning] | ScoringError]]:
        """Return the samples of each prompt of each item, in the order of `item.pairs`."""
        seeds = [
            [
                sample_seed(self.seed, f"{item.item_id}\x1f{target}\x1f{question.name}", sample)
                for sample in range(self.samples)
            ]
            for item in items
            for target, question in item.pairs
        ]
        if isinstance(self.engine, VllmTextGenerator):
            prompts = [prompt for item in items for prompt in item.engine_prompts()]
            results = self.engine.generate(prompts, seeds=seeds, sampling=self.sampling)
        else:
            inputs = [prompt for item in items for prompt in item.whole_prompts()]
            results = self.engine.generate(inputs, seeds=seeds, sampling=self.sampling)
        texts = (
            result if isinstance(result, ScoringError) else [self._reasoning(sample) for sample in result]
            for result in results
        )
        return [list(islice(texts, len(item.pairs))) for item in items]

    def _reasoning(self, sample: Generated) -> Reasoning:
        """Return a sample without the generated answer, which the scored answer replaces."""
        chat, turn = self.scorer.chat, self.scorer.chat.turn
        thought, answer, is_cut = self.chat.written(sample.tokens)
        thought = chat.as_data(thought)
        if turn.opened:
            return Reasoning(thought, thought + turn.after_thought, self.rubric.answer_start, is_cut)
        text = chat.as_data(_FINAL.sub("", answer).strip())
        before = f"{turn.before_thought}{thought}{turn.after_thought}" if thought else chat.open_lead
        written = before + (f"{text}\n\n" if text else "")
        return Reasoning("\n\n".join(filter(None, (thought, text))), written, ANSWER_LINE, is_cut)

    def _with_turn(self, suffix: list[int], text: str) -> list[int]:
        """Return the tokens of a prompt's suffix followed by `text` in the model's turn, without trailing space.

        Raises:
            ValueError: the tokenizer merges the opening of the turn with text outside the suffix.
        """
        chat = self.scorer.chat
        opening = chat.ids(chat.open_start)
        turn = chat.ids((chat.open_start + text).rstrip(" "))
        kept = common(opening, turn)  # fewer than all tokens of `opening` if its end is merged with the text
        merged = opening[kept:]
        if merged and suffix[-len(merged) :] != merged:
            raise ValueError(
                "the model's tokenizer merges tokens across the opening of the turn and the "
                "reasoning, which is not supported"
            )
        return [*suffix[: len(suffix) - len(merged)], *turn[kept:]]


def _requests(reasonings: Sequence[list[Reasoning] | ScoringError]) -> list[_Request]:
    return [
        (number, sample, text)
        for number, texts in enumerate(reasonings)
        if not isinstance(texts, ScoringError)
        for sample, text in enumerate(texts)
        if not text.is_cut
    ]
