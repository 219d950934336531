"""Closed-set scoring by vLLM, with the interface of `actors.vlm.scoring.ClosedSetScorer`.

An answer of several tokens is read along its tokens: after the prompt, and after each beginning of an answer, one
request asks for the log-probabilities of the tokens that may follow, over the full vocabulary. The requests about a
picture share all but their last tokens through vLLM's cache of prefixes.
"""

from collections.abc import Sequence
from typing import Any

from actors.vlm.answers import AnswerCodes
from actors.vlm.engines import RequestLikelihoods
from actors.vlm.errors import ScoringError
from actors.vlm.picture_size import NO_BOUNDS, PixelBounds
from actors.vlm.requests import RequestGroup
from actors.vlm.scoring import AnswerScorer
from actors.vlm.vllm_model import VllmModel
from actors.vlm.vllm_prompts import EnginePrompt, unpack

MOST_IDS = 128  # log-probabilities that vLLM returns for one request


class VllmScorer(AnswerScorer):
    """Scores closed answers with a model in vLLM.

    Args:
        bounds: bounds of a picture's pixels as the model sees it; by default those of the processor.
    """

    def __init__(self, model: VllmModel, *, bounds: PixelBounds = NO_BOUNDS) -> None:
        super().__init__(model.config, model.processor, bounds=bounds, keeps_pictures=True)
        self.model = model

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return "vllm"

    def _likelihoods(self, group: RequestGroup, numbers: Sequence[int]) -> Sequence[RequestLikelihoods | ScoringError]:
        prompts: list[EnginePrompt] = []
        asked: list[list[int]] = []  # ids of each prompt
        errors: dict[int, ScoringError] = {}
        owners: list[int] = []  # number of each prompt's request
        starts: list[tuple[int, ...]] = []  # the beginning of an answer with which each prompt ends
        for number in numbers:
            steps = following(group.answers[number])
            longest = group.length(number) + max(map(len, steps))
            if error := self.model.too_long(longest, positions=self.max_tokens):
                errors[number] = error
                continue
            for start, ids in steps.items():
                prompt = unpack(group.inputs, shared=group.shared, suffix=[*group.suffixes[number], *start])
                for first in range(0, len(ids), MOST_IDS):
                    prompts.append(prompt)
                    asked.append(ids[first : first + MOST_IDS])
                    owners.append(number)
                    starts.append(start)
        params = [self.model.params(max_tokens=1, logprob_token_ids=ids) for ids in asked]
        values: dict[int, dict[tuple[int, ...], float]] = {number: {} for number in numbers}
        tokens = dict.fromkeys(numbers, 0)
        for number, start, ids, output in zip(
            owners, starts, asked, self.model.run(prompts, params) if prompts else [], strict=True
        ):
            if isinstance(output, ScoringError):
                errors[number] = output
                continue
            logprobs = output.outputs[0].logprobs[0]
            values[number] |= {(*start, token): float(logprobs[token].logprob) for token in ids}
            tokens[number] += len(output.prompt_token_ids) - (output.num_cached_tokens or 0)
        return [
            errors[number] if number in errors else _summed(group.answers[number], values[number], tokens[number])
            for number in numbers
        ]


def following(codes: AnswerCodes) -> dict[tuple[int, ...], list[int]]:
    """Return the tokens that may follow each beginning of an answer, the empty one included."""
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
