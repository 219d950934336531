"""Closed-set scoring by vLLM, with the interface of `actors.vlm.scoring.ClosedSetScorer`.

An answer of several tokens is read token by token: after the prompt, and after each beginning of an answer, one request
asks for the log-probabilities of the tokens that may follow, over the full vocabulary. The requests about a picture
share all but their last tokens through vLLM's prefix cache.
"""

from collections.abc import Sequence
from itertools import islice
from typing import Any

from actors.vlm import errors
from actors.vlm.answers import AnswerCodes
from actors.vlm.engines import RequestLikelihoods
from actors.vlm.errors import ScoringError
from actors.vlm.picture_size import NO_BOUNDS, PixelBounds
from actors.vlm.requests import RequestGroup
from actors.vlm.scoring import AnswerScorer
from actors.vlm.vllm_model import VllmModel
from actors.vlm.vllm_prompts import EnginePrompt, prompts_of

MOST_IDS = 128  # log-probabilities that vLLM returns for one request


class VllmScorer(AnswerScorer):
    """Scorer of closed answers with a model in vLLM.

    Args:
        bounds: bounds of a picture's pixels as the model sees it; by default the processor's.
    """

    def __init__(self, model: VllmModel, *, bounds: PixelBounds = NO_BOUNDS) -> None:
        super().__init__(model.config, model.processor, bounds=bounds, keeps_pictures=True)
        self.model = model

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return "vllm"

    def _all_likelihoods(
        self, parts: Sequence[tuple[RequestGroup, Sequence[int]]]
    ) -> list[list[RequestLikelihoods | ScoringError]]:
        """See `AnswerScorer`; all requests form one call of vLLM, which batches them itself."""
        readings = [self._reading(group, numbers) for group, numbers in parts]
        prompts = [prompt for reading in readings for prompt in reading.prompts]
        params = [self.model.params(max_tokens=1, logprob_token_ids=ids) for r in readings for ids in r.asked]
        outputs = iter(self.model.run(prompts, params) if prompts else [])
        return [reading.likelihoods(list(islice(outputs, len(reading.prompts)))) for reading in readings]

    def _reading(self, group: RequestGroup, numbers: Sequence[int]) -> "_Reading":
        reading = _Reading(group, numbers)
        try:
            prompt_of = prompts_of(group.inputs, shared=group.shared)
        except Exception as error:
            reading.errors = dict.fromkeys(numbers, errors.reason(error))
            return reading
        for number in numbers:
            steps = following(group.answers[number])
            longest = group.length(number) + max(map(len, steps))
            if reason := self.model.too_long(longest, positions=self.max_tokens):
                reading.errors[number] = reason
                continue
            for start, ids in steps.items():
                reading.add(number, start, prompt_of([*group.suffixes[number], *start]), ids)
        return reading


class _Reading:
    """The prompts by which a group's answers are read token by token, and the resulting likelihoods."""

    def __init__(self, group: RequestGroup, numbers: Sequence[int]) -> None:
        self._group, self._numbers = group, numbers
        self.prompts: list[EnginePrompt] = []
        self.asked: list[list[int]] = []  # token ids of each prompt
        self.errors: dict[int, ScoringError] = {}  # errors of requests, by number
        self._owners: list[tuple[int, tuple[int, ...]]] = []  # each prompt's request and beginning of an answer

    def add(self, number: int, start: tuple[int, ...], prompt: EnginePrompt, ids: Sequence[int]) -> None:
        """Request the likelihoods of the tokens `ids` after `start` in request `number`."""
        for first in range(0, len(ids), MOST_IDS):
            self.prompts.append(prompt)
            self.asked.append(list(ids[first : first + MOST_IDS]))
            self._owners.append((number, start))

    def likelihoods(self, outputs: Sequence[Any]) -> list[RequestLikelihoods | ScoringError]:
        """Return the likelihoods of the requests, in the order of their numbers.

        Args:
            outputs: vLLM's output for each prompt, or a ScoringError.
        """
        values: dict[int, dict[tuple[int, ...], float]] = {number: {} for number in self._numbers}
        tokens = dict.fromkeys(self._numbers, 0)
        failed = dict(self.errors)
        for (number, start), ids, output in zip(self._owners, self.asked, outputs, strict=True):
            if isinstance(output, ScoringError):
                failed[number] = output
                continue
            logprobs = output.outputs[0].logprobs[0]
            values[number] |= {(*start, token): float(logprobs[token].logprob) for token in ids}
            tokens[number] += len(output.prompt_token_ids) - (output.num_cached_tokens or 0)
        answers = self._group.answers
        return [
            failed[number] if number in failed else _summed(answers[number], values[number], tokens[number])
            for number in self._numbers
        ]


def following(codes: AnswerCodes) -> dict[tuple[int, ...], list[int]]:
    """Return the tokens that may follow each beginning of an answer, including the empty one."""
    steps: dict[tuple[int, ...], list[int]] = {}
    for sequence in codes.sequences:
        for cut, token in enumerate(sequence):
            ids = steps.setdefault(sequence[:cut], [])
            if token not in ids:
                ids.append(token)
    return steps


def _summed(codes: AnswerCodes, values: dict[tuple[int, ...], float], tokens: int) -> Any:
    """Return the likelihoods of whole answers from those of their tokens."""
    logprobs = [sum(values[sequence[: cut + 1]] for cut in range(len(sequence))) for sequence in codes.sequences]
    return RequestLikelihoods(logprobs, tokens)
