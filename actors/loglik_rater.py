"""Rate labels by their likelihood after a prompt of `actors.preparers` (CAIRE, appendix B.1)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa

from actors import schemas
from actors.errors import FileError
from actors.rubrics.instructions import Instruction
from actors.schemas import RatingRow, ended, failed
from actors.settings import ConditionSettings
from actors.status import Status
from actors.tallies import TallyingStage
from actors.vlm.chat import ChatEncoder
from actors.vlm.errors import ScoringError
from actors.vlm.generation import pad_token
from actors.vlm.loading import load_model
from actors.vlm.loglik import NO_THRESHOLD, CompletionScorer, DebiasSetting, check_settings, debias
from actors.vlm.model_inputs import from_bytes
from actors.vlm.ratings import rating_key, rating_table
from actors.vlm.settings import ModelSettings

METHOD = "loglik"
QUESTION = "relevance"


@dataclass(kw_only=True)
class LoglikSettings(ConditionSettings):
    """Settings of `LoglikRater`: the prompt, the condition, and the correction of likelihoods for base rates."""

    prompt: dict[str, Any] = field(default_factory=dict)  # the instruction that precedes the label
    lambdas: list[float] = field(default_factory=lambda: [0.0, 0.25, 0.5, 0.75, 1.0])  # weights of the base rate
    thresholds: list[float] = field(default_factory=lambda: [NO_THRESHOLD])  # natural logarithms; -inf: no threshold

    def __post_init__(self) -> None:
        check_start(Instruction.from_dict(self.prompt))
        check_settings(self.pairs)
        super().__post_init__()

    @property
    def pairs(self) -> list[DebiasSetting]:
        """Return every pair of lambda and threshold; each becomes a `condition` of the ratings."""
        return [DebiasSetting(*pair) for pair in product(self.lambdas, self.thresholds)]


class LoglikRater(TallyingStage):
    """Actor that scores every label after each prepared prompt, with every pair of lambda and threshold.

    A label's base rate is its likelihood after the same instruction without picture and context. An actor computes it
    once, at the first item with the label.

    Args:
        settings: the prompt (labels follow its `start` after a space), lambdas and thresholds.
        model: which model to load.
        targets: labels for items without their own.
        threads: torch's threads on a CPU; None: torch's default.

    Raises:
        ValueError: the model cannot be loaded or would answer inside a thought, or its tokenizer merges the end of the
            prompt's start with a label.
    """

    INPUTS = schemas.PREPARED_PROMPTS
    OUTPUTS = schemas.RATINGS

    def __init__(
        self,
        settings: LoglikSettings,
        *,
        model: ModelSettings,
        targets: Sequence[str],
        threads: int | None = None,
    ) -> None:
        super().__init__()
        self.instruction = Instruction.from_dict(settings.prompt)
        self.conditions = {pair: condition_of(pair, settings.condition) for pair in settings.pairs}
        self.pairs = settings.pairs
        loaded = load_model(model, threads=threads)
        self.chat = ChatEncoder(loaded.processor)
        if self.chat.opens_thought(self.instruction.begin()):
            raise ValueError("the prompt's start leaves a thought open, in which labels would be scored; close it")
        self.scorer = CompletionScorer(loaded.model, pad_id=pad_token(self.chat, loaded.model))
        self.facts = loaded.facts
        self.targets = tuple(targets)
        self._start = self.instruction.begin()
        self._completions: dict[str, list[int]] = {}  # tokens of each label
        self._base_rates: dict[str, float] = {}  # log-likelihood of each label without picture and context
        self._complete(self.targets)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Rate a batch.

        Args:
            batch: `actors.schemas.PREPARED_PROMPTS`, as `actors.preparers.PromptPreparer` returns it. An item's
                own `targets` take precedence over those of all items.

        Returns:
            Table `ratings`: items in the batch's order, each sorted by target, then by pair (`condition`).

        Raises:
            EngineError: the device failed; no row of this batch is returned.
            ValueError: the base rates cannot be computed.
        """
        rows: list[RatingRow] = []
        for item in batch.to_pylist():
            columns: RatingRow = {**ended(RatingRow, item), "truncated": item["truncated"]}
            scores: list[float] | ScoringError | None = None
            targets = tuple(item["targets"] or self.targets)
            if item["status"] == Status.OK:
                scores = self.scorer.score(from_bytes(item["inputs"]), self._complete(targets))
            if isinstance(scores, ScoringError):
                columns, scores = failed(RatingRow, Status.ERROR, scores), None
            columns["empty_context"] = item["empty_context"]
            rows += self._rows(item["item_id"], targets, scores, columns)
        self._tally[self.facts.tally] += batch.num_rows
        return rating_table(rows)

    def base_rates(self, targets: Sequence[str]) -> np.ndarray:
        """Return the log-likelihood of each label without picture and context, shape [targets], float64.

        Raises:
            ValueError: the model cannot score the labels.
        """
        if new := [target for target in dict.fromkeys(targets) if target not in self._base_rates]:
            texts = [piece for piece in self.instruction.render({}) if isinstance(piece, str)]
            inputs = self.chat.encode(
                ["\n\n".join(texts)], [], start=self._start, system=self.instruction.render_system({})
            )
            scores = self.scorer.score(inputs, self._complete(new))
            if isinstance(scores, ScoringError):
                raise ValueError(f"cannot compute the labels' base rates: {scores.message}")
            self._base_rates.update(zip(new, scores, strict=True))
        return np.array([self._base_rates[target] for target in targets])

    def _complete(self, targets: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each label after the start of the model's turn."""
        for target in targets:
            if target not in self._completions:
                self._completions[target] = self.chat.continuation(self._start, f" {target}")
        return [self._completions[target] for target in targets]

    def _rows(
        self, item_id: str, targets: Sequence[str], scores: list[float] | None, columns: RatingRow
    ) -> list[RatingRow]:
        rows: list[RatingRow] = [
            {**self._key(item_id, target, pair), **columns} for target in targets for pair in self.pairs
        ]
        if scores is None:
            return rows
        base_rates = self.base_rates(targets)
        debiased = np.stack([debias(np.array(scores), base_rates, pair) for pair in self.pairs], axis=1)
        for row, score in zip(rows, debiased.ravel().tolist(), strict=True):
            row["score"], row["value"] = score, f"{score:.6g}"
        return rows

    def _key(self, item_id: str, target: str, pair: DebiasSetting) -> RatingRow:
        return rating_key(
            item_id=item_id,
            target=target,
            rubric=self.instruction.name,
            question=QUESTION,
            rater=self.facts.rater,
            condition=self.conditions[pair],
            method=METHOD,
        )


def condition_of(pair: DebiasSetting, condition: str) -> str:
    """Return the condition of ratings with the lambda and threshold of `pair` in a run with `condition`."""
    return f"{condition}; {pair.name}" if condition else pair.name


def check_start(instruction: Instruction) -> None:
    """Check that an instruction begins the model's turn.

    Raises:
        ValueError: it has no `start`, or its `start` ends in white space.
    """
    if not instruction.start.strip():
        raise FileError.of("prompt", instruction.name, "has no start; set it to the words that the label completes")
    if instruction.start != instruction.start.rstrip():
        raise FileError.of(
            "prompt", instruction.name, "start ends in white space; remove it: a space precedes the label"
        )
