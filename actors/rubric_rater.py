"""Base class of the stages that rate prepared items with a rubric: `actors.judge` and `actors.reasoning_judge`."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.items import TARGETS, asked_pairs, default_targets
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import ANY, Question
from actors.schemas import RatingRow, failed
from actors.status import Status
from actors.tallies import TallyingStage
from actors.vlm import errors, model_inputs
from actors.vlm.engine_sample import EngineSample
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.loading import RaterFacts, load_model
from actors.vlm.model_inputs import VllmPrompt, from_bytes, vllm_prompts_of
from actors.vlm.ratings import rating_key, rating_table
from actors.vlm.scoring_requests import Scores
from actors.vlm.settings import ModelSettings, RubricSettings

LEAST = 1e-12  # smaller probabilities are rounding
IMPROBABLE = 0.99  # probability outside the allowed answers


@dataclass(frozen=True)
class PreparedItem:
    """The prompts about one item as tokens, as `actors.preparers` returns them.

    Attributes:
        item_id: the item's id.
        pairs: (target, question) of each prompt, from `asked_pairs`.
        inputs: the processor's tensors for the first prompt, pictures included.
        shared: number of tokens at the beginning of `inputs` that all prompts share.
        suffixes: token ids of each prompt after the shared ones.
        truncated: the context fields that were cut; None if the context is whole.
    """

    item_id: str
    pairs: tuple[tuple[str, Question], ...]
    inputs: dict[str, Any]
    shared: int
    suffixes: list[list[int]]
    truncated: list[str] | None

    def whole_prompts(self) -> list[dict[str, Any]]:
        """Return the inputs of each prompt: name -> tensor, batch 1."""
        prefix = model_inputs.cut(self.inputs, self.shared)
        return [model_inputs.extended(prefix, suffix) for suffix in self.suffixes]

    def engine_prompts(self) -> list[VllmPrompt]:
        """Return each prompt for vLLM; `inputs` has the pictures themselves."""
        return list(map(vllm_prompts_of(self.inputs, shared=self.shared), self.suffixes))


class RubricRater(TallyingStage):
    """Base class of actors that load a model and rate prepared items; a subclass implements `_ratings`.

    Args:
        settings: rubric, layout and limits.
        model: which model to load.
        targets: labels for items without their own; None: the rubric's.
        threads: torch's threads on a CPU; None: torch's default.

    Raises:
        ValueError: the model cannot be loaded, or `targets` are given for a rubric that asks about no target.
    """

    INPUTS = schemas.PREPARED_QUESTIONS
    OUTPUTS = schemas.RATINGS

    samples = 1  # ratings per item, target and question
    items_at_once: int | None = 1  # items whose tensors are in memory at a time; None: the whole batch

    def __init__(
        self,
        settings: RubricSettings,
        *,
        model: ModelSettings,
        targets: Sequence[str] | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__()
        self.rubric = Rubric.from_dict(settings.rubric)
        self.layout = self.rubric.resolve_layout(settings.layout)
        self.targets = default_targets(self.rubric, targets)
        self.condition = settings.condition
        self.facts: RaterFacts = self._load(model, threads)
        self._last_end: float | None = None  # time.perf_counter at the end of the last batch

    def _load(self, model: ModelSettings, threads: int | None) -> RaterFacts:
        """Load `self.model` and `self.processor`, and return the facts about the model."""
        self.model, self.processor, facts = load_model(model, threads=threads)
        return facts

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Rate a batch.

        Args:
            batch: `actors.schemas.PREPARED_QUESTIONS`, as `actors.preparers.RubricPreparer` returns it.

        Returns:
            Table `ratings`: items in the batch's order, each by target, question and sample.

        Raises:
            EngineError: the device failed; no row of this batch is returned.
        """
        begin = time.perf_counter()
        since = begin if self._last_end is None else self._last_end
        rows: list[RatingRow] = []
        step = self.items_at_once or max(1, batch.num_rows)
        for first in range(0, batch.num_rows, step):
            rows += self._rows(batch.slice(first, step).to_pylist())
        self._last_end = time.perf_counter()
        self._tally["milliseconds/all"] += round(1000 * (self._last_end - since))
        return rating_table(rows)

    def _rows(self, rows: Sequence[Mapping[str, Any]]) -> list[RatingRow]:
        """Return the rows of prepared items, including those without prompts."""
        ratings: list[list[RatingRow]] = []
        items: list[PreparedItem] = []
        places: list[int] = []
        begin = time.perf_counter()
        for place, row in enumerate(rows):
            pairs = asked_pairs(self.rubric, row, row[TARGETS] or self.targets)
            ratings.append([])
            if row["inputs"] is None:
                reason = ScoringError(row["error_kind"] or "", row["error_message"] or "")
                if self.rubric.asks_own_questions and not pairs:
                    pairs = (("", self.rubric.question(ANY)),)  # one row for an item without questions
                ratings[place] = self._unanswered(
                    row["item_id"], pairs, failed(RatingRow, Status(row["status"]), reason)
                )
                continue
            try:
                inputs = from_bytes(row["inputs"])
            except Exception as error:
                ratings[place] = self._unanswered(
                    row["item_id"], pairs, failed(RatingRow, Status.ERROR, errors.reason(error))
                )
                continue
            items.append(PreparedItem(row["item_id"], pairs, inputs, row["shared"], row["suffixes"], row["truncated"]))
            places.append(place)
        for place, rated in zip(places, self._rated(items) if items else [], strict=True):
            ratings[place] = rated
        if items:
            self._tally["milliseconds/device"] += round(1000 * (time.perf_counter() - begin))
        return [
            {**rating, "empty_context": row["empty_context"]}
            for row, rated in zip(rows, ratings, strict=True)
            for rating in rated
        ]

    def _rated(self, items: Sequence[PreparedItem]) -> list[list[RatingRow]]:
        """Return the ratings of each item, as `[items][rows]`; if rating them together fails, rate each alone."""
        try:
            return self._ratings(items)
        except EngineError:
            raise
        except Exception as error:
            if len(items) > 1:
                return [rows for item in items for rows in self._rated([item])]
            (item,) = items
            return [self._unanswered(item.item_id, item.pairs, failed(RatingRow, Status.ERROR, errors.reason(error)))]

    def _ratings(self, items: Sequence[PreparedItem]) -> list[list[RatingRow]]:
        """Return the ratings of each item of a batch, as `[items][rows]`; all items have prepared prompts.

        Raises:
            EngineError: the device failed.
        """
        raise NotImplementedError

    def _count_mass(self, results: Iterable[Scores | ScoringError]) -> None:
        """Count the answers, and those that the model would hardly write: nearly all the probability is elsewhere."""
        masses = [result.outside_mass for result in results if isinstance(result, Scores)]
        self._tally["answers/scored"] += len(masses)
        self._tally["answers/improbable"] += sum(mass > IMPROBABLE for mass in masses)

    def _unanswered(self, item_id: str, pairs: Sequence[tuple[str, Question]], ended: RatingRow) -> list[RatingRow]:
        return [
            {**self._key(item_id, target, question, sample=sample), **ended}
            for target, question in pairs
            for sample in range(self.samples)
        ]

    def _method(self, question: Question) -> str:
        """Return the value of column `method`."""
        raise NotImplementedError

    def _key(self, item_id: str, target: str, question: Question, *, sample: int = 0) -> RatingRow:
        return rating_key(
            item_id=item_id,
            target=target,
            rubric=self.rubric.name,
            question=question.name,
            rater=self.facts.rater,
            condition=self.condition,
            method=self._method(question),
            order=self.layout,
            sample=sample,
        )


def sampled_ratings(
    items: pa.Table,
    *,
    prepare: Callable[[], Any],
    rate: Callable[[], RubricRater],
    compared: int | None = None,
) -> EngineSample:
    """Load a model and return its ratings of items, with the words of a written reasoning.

    Args:
        items: as for `actors.preparers.RubricPreparer`.
        prepare, rate: build the stages that prepare and rate.
        compared: number of the items whose ratings are returned; of the others, only the time is. None: all.

    Raises:
        ValueError: the model cannot be loaded.
    """
    preparer, stage = prepare(), rate()
    first = items.slice(0, compared)
    rows = stage(preparer(first)).to_pylist()
    others = preparer(items.slice(first.num_rows))
    began = time.perf_counter()
    if others.num_rows:
        stage(others)
    seconds = time.perf_counter() - began if others.num_rows else 0.0
    texts = [(row["comment"] or "").split() for row in rows]
    logprobs = [
        [math.log(max(p * (1 - row["outside_mass"]), LEAST)) for p in row["probabilities"] or ()] for row in rows
    ]
    facts = stage.facts
    return EngineSample(texts, [row["status"] for row in rows], logprobs, facts.dtype, facts.engine, seconds)
