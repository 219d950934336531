"""Closed-set scoring: the likelihood of each allowed answer, instead of a generated text that must be parsed.

An answer's probability is its share of the probability of all allowed answers; the probability of everything else is
reported as `outside_mass`. `actors.vlm.engines` computes the likelihoods.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from actors.vlm import errors, model_inputs
from actors.vlm.chat import Chat
from actors.vlm.engines import EngineChoice, PackedEngine, RequestLikelihoods
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.memory import BudgetedScorer
from actors.vlm.picture_size import NO_BOUNDS, PixelBounds
from actors.vlm.scoring_requests import AnswerCodes, RequestGroup, Scores, ScoringRequest, group_by_prefix

if TYPE_CHECKING:
    from transformers import PretrainedConfig

    from actors.vlm.model_types import Processor, Vlm

PACKED_GROUPS = 64  # groups whose tensors are in memory at a time where several pass together
MAX_CACHED_CODES = 1000  # sets of allowed answers whose tokens are cached


class AnswerScorer:
    """Base class of scorers: answers as tokens, groups of requests, results; a subclass adds `_all_likelihoods`.

    Args:
        config: the model's config.
        bounds: bounds of a picture's pixels as the model sees it; by default the processor's.
        keeps_pictures: see `actors.vlm.chat_format.ChatFormat`.
    """

    def __init__(
        self,
        config: PretrainedConfig,
        processor: Processor,
        *,
        bounds: PixelBounds = NO_BOUNDS,
        keeps_pictures: bool = False,
    ) -> None:
        self.processor = processor
        self.max_tokens: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
        self.label = f"model {getattr(config, '_name_or_path', '') or config.model_type!r}"
        self.chat = Chat(processor, name=self.label, bounds=bounds, config=config, keeps_pictures=keeps_pictures)
        self.sees_pictures = self.chat.sees_pictures
        self._codes: dict[tuple[tuple[str, ...], str, str | None], AnswerCodes] = {}

    @property
    def engine(self) -> str:
        """Name of the engine in use."""
        raise NotImplementedError

    @property
    def groups_at_once(self) -> int | None:
        """The number of groups to pass to `run_many` at a time; None: all of them."""
        return None

    def check_codes(self, codes: Sequence[str]) -> list[int]:
        """Return the token ids of `codes` at the start of the model's turn, as its chat template writes it.

        Raises:
            ValueError: a code is not exactly one token there, or is the same token as another code.
        """
        answers = self.answers(codes)
        if answers.rule != "code" or answers.bridge:
            pairs = zip(codes, answers.sequences, strict=True)
            long = next((code for code, sequence in pairs if len(sequence) > 2), codes[0])
            raise ValueError(f"{self.label} does not encode the answer code {long!r} as one token; use other codes")
        return [sequence[0] for sequence in answers.sequences]

    def answers(self, codes: Sequence[str], *, start: str = "", written: str | None = None) -> AnswerCodes:
        """Return `codes` as tokens, with the rule by which they are scored.

        Args:
            start, written: as for `Chat.answers`.

        Raises:
            ValueError: there are no codes, a code is empty, or two codes are the same tokens.
        """
        key = (tuple(codes), start, written)
        if key not in self._codes:
            if len(self._codes) >= MAX_CACHED_CODES:  # with reasoning, each answer has a different start
                self._codes.clear()
            self._codes[key] = self.chat.answers(codes, start=start, written=written)
        return self._codes[key]

    def score(self, requests: Sequence[ScoringRequest]) -> list[Scores | ScoringError]:
        """Return the scores of `requests`, in order; a request that fails does not affect the others.

        Raises:
            ValueError: two codes are the same tokens (`answers`).
            EngineError: the device failed.
        """
        results: dict[int, Scores | ScoringError] = {}
        places = group_by_prefix(requests)
        step = self.groups_at_once or max(1, len(places))
        for first in range(0, len(places), step):
            groups = [
                self.prepare([requests[i] for i in numbers], places=numbers) for numbers in places[first : first + step]
            ]
            for scores in self.run_many(groups):
                results |= scores
        return [results[place] for place in range(len(requests))]

    def prepare(self, requests: Sequence[ScoringRequest], *, places: Sequence[int] | None = None) -> RequestGroup:
        """Tokenise `requests` about one picture and process the picture; needs no device.

        Args:
            places: keys of the results of `run`; None: 0, 1, …

        Raises:
            ValueError: two codes are the same tokens (`answers`).
        """
        numbers = list(places if places is not None else range(len(requests)))
        answers = [self.answers(request.codes, start=request.prompt.start) for request in requests]
        try:
            tokens = self.chat.tokens([request.prompt for request in requests], requests[0].picture)
        except Exception as error:
            return RequestGroup(numbers, error=errors.reason(error))
        group = RequestGroup.of_suffixes(tokens.inputs, tokens.suffixes, answers, shared=tokens.shared)
        return replace(group, places=numbers)

    def run(self, group: RequestGroup) -> dict[int, Scores | ScoringError]:
        """Return the scores of a prepared group by `group.places`.

        Raises:
            EngineError: the device failed.
        """
        (results,) = self.run_many([group])
        return results

    def run_many(self, groups: Sequence[RequestGroup]) -> list[dict[int, Scores | ScoringError]]:
        """Return the scores of several prepared groups; see `run`.

        Raises:
            EngineError: the device failed.
        """
        results: list[dict[int, Scores | ScoringError]] = []
        fitting: list[tuple[int, list[int]]] = []  # (index of a group, numbers of its requests to score)
        for index, group in enumerate(groups):
            results.append({})
            if group.error:
                results[index] = dict.fromkeys(group.places, group.error)
                continue
            numbers = []
            for number, place in enumerate(group.places):
                if self.max_tokens is not None and group.length(number) > self.max_tokens:
                    message = f"{group.length(number)} tokens; the model takes {self.max_tokens}"
                    results[index][place] = ScoringError("prompt_too_long", message)
                else:
                    numbers.append(number)
            if numbers:
                fitting.append((index, numbers))
        likelihoods = self._all_likelihoods([(groups[index], numbers) for index, numbers in fitting])
        for (index, numbers), values in zip(fitting, likelihoods, strict=True):
            group = groups[index]
            for number, value in zip(numbers, values, strict=True):
                scores = value if isinstance(value, ScoringError) else _scores(value, group, number)
                results[index][group.places[number]] = scores
        return results

    def _all_likelihoods(
        self, parts: Sequence[tuple[RequestGroup, Sequence[int]]]
    ) -> Iterable[Sequence[RequestLikelihoods | ScoringError]]:
        """Return the likelihoods of requests of several groups; a group's failure does not affect the others.

        Args:
            parts: each group with the numbers of its requests.

        Raises:
            EngineError: the device failed.
        """
        raise NotImplementedError


class ClosedSetScorer(AnswerScorer, BudgetedScorer):
    """Scorer of closed answers with a model and processor from `actors.vlm.loading.load_vlm`.

    Args:
        engine: one of `actors.vlm.settings.ENGINES`.
        memory_budget_gb: memory for one forward pass; None: half of the free memory.
        bounds: bounds of a picture's pixels as the model sees it; by default the processor's.

    Raises:
        ValueError: the engine is unknown, or does not support the model's family.
    """

    def __init__(
        self,
        model: Vlm,
        processor: Processor,
        *,
        engine: str = "auto",
        memory_budget_gb: float | None = None,
        bounds: PixelBounds = NO_BOUNDS,
    ) -> None:
        super().__init__(model.config, processor, bounds=bounds)
        self.model = model
        self.engines = EngineChoice(model, requested=engine, label=self.label)
        self._set_budget(memory_budget_gb)

    @property
    def engine(self) -> str:
        """Name of the engine in use."""
        return self.engines.current.name

    @property
    def groups_at_once(self) -> int | None:
        """See `AnswerScorer`."""
        return PACKED_GROUPS if isinstance(self.engines.current, PackedEngine) else 1

    def _all_likelihoods(
        self, parts: Sequence[tuple[RequestGroup, Sequence[int]]]
    ) -> Iterator[Sequence[RequestLikelihoods | ScoringError]]:
        waiting = list(parts)
        while waiting:
            settled = list(takewhile(lambda part: self.engines.is_settled(part[0]), waiting))
            engine = self.engines.current
            if not settled:
                yield self._alone(*waiting.pop(0))
            elif isinstance(engine, PackedEngine):
                yield from self._packed(engine, settled)
            else:
                yield from (self._alone(*part) for part in settled)
            del waiting[: len(settled)]

    def _packed(
        self, engine: PackedEngine, parts: Sequence[tuple[RequestGroup, Sequence[int]]]
    ) -> Iterator[Sequence[RequestLikelihoods | ScoringError]]:
        """Yield the likelihoods of each group; the next ones are launched before the results of these are read."""
        previous: Callable[[], Sequence[Sequence[RequestLikelihoods | ScoringError]]] | None = None
        for chunk in engine.chunks(parts, budget=self.budget):
            launched = self._launched(engine, chunk)
            if previous is not None:
                yield from previous()
            previous = launched
        if previous is not None:
            yield from previous()

    def _launched(
        self, engine: PackedEngine, chunk: Sequence[tuple[RequestGroup, Sequence[int]]]
    ) -> Callable[[], Sequence[Sequence[RequestLikelihoods | ScoringError]]]:
        """Launch a chunk of groups on the device; return a function that waits for the results.

        If they cannot pass together, each passes alone, so that one that fails does not fail the others.
        """

        def alone() -> list[Sequence[RequestLikelihoods | ScoringError]]:
            return [self._alone(*part) for part in chunk]

        def result() -> Sequence[Sequence[RequestLikelihoods | ScoringError]]:
            try:
                return wait()
            except Exception as error:
                self._raise_if_fatal(error)
            return alone()

        try:
            wait = engine.launch(chunk, budget=self.budget)
        except Exception as error:
            self._raise_if_fatal(error)
            is_scarce = errors.is_out_of_memory(error)
        else:
            return result
        if is_scarce and self.budget > self._least_budget:
            self._halve()
        return alone

    def _alone(self, group: RequestGroup, numbers: Sequence[int]) -> Sequence[RequestLikelihoods | ScoringError]:
        """Return the likelihoods of one group, or the error of all its requests."""
        try:
            return self._likelihoods(group, numbers)
        except EngineError:
            raise
        except Exception as error:
            self._raise_if_fatal(error)
            return [errors.reason(error)] * len(numbers)

    def _likelihoods(self, group: RequestGroup, numbers: Sequence[int]) -> Sequence[RequestLikelihoods]:
        inputs = model_inputs.on_device(self.model, group.inputs)

        def compute() -> Sequence[RequestLikelihoods]:
            if not self.engines.is_settled(group):
                self.engines.settle(group, inputs, numbers, budget=self.budget)
            return self.engines.current.log_likelihoods(group, inputs, numbers, budget=self.budget)

        return self._in_budget(compute)


def _scores(likelihoods: RequestLikelihoods, group: RequestGroup, number: int) -> Scores | ScoringError:
    logprobs = likelihoods.logprobs
    if not all(map(math.isfinite, logprobs)):
        return ScoringError("not_finite", "the model's likelihoods are not finite")
    largest = max(logprobs)
    shares = [math.exp(value - largest) for value in logprobs]
    inside = math.fsum(math.exp(value) for value in logprobs)
    return Scores(
        probabilities=tuple(share / math.fsum(shares) for share in shares),
        logprobs=tuple(logprobs),
        outside_mass=min(1.0, max(0.0, 1.0 - inside)),
        prompt_tokens=group.length(number) if group.suffixes else 0,
        rule=group.answers[number].rule,
        passed_tokens=likelihoods.tokens,
    )
