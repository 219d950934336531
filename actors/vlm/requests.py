"""Requests to a closed-set scorer, and the scores that it returns."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from actors.rubrics.pieces import Piece
from actors.rubrics.prompts import Prompt
from actors.vlm.answers import AnswerCodes
from actors.vlm.errors import ScoringError


@dataclass(frozen=True)
class ScoringRequest:
    """A prompt to be answered with one of `codes`.

    Attributes:
        picture: PIL image, RGB; a tuple of several; or None. Requests with the same picture object (`is`, not `==`)
            share what is encoded once.
        codes: the allowed answers as the model should write them.
    """

    prompt: Prompt
    picture: Any
    codes: tuple[str, ...]


class Scores(NamedTuple):
    """The model's distribution over the answers to one request, in the order of its codes.

    Attributes:
        probabilities: probabilities of the codes among themselves, float64, summing to 1.
        logprobs: natural logarithm of each code's probability over the full vocabulary.
        outside_mass: probability of everything else, 0 to 1.
        prompt_tokens: tokens of the whole prompt, including the picture's.
        rule: how answers are read from tokens, `code` or `sequence` (`actors.vlm.answers`).
        passed_tokens: tokens that passed through the model for this request: its share of the prefix, and its suffix.
    """

    probabilities: tuple[float, ...]
    logprobs: tuple[float, ...]
    outside_mass: float
    prompt_tokens: int
    rule: str = "code"
    passed_tokens: float = 0.0


@dataclass
class RequestGroup:
    """Prompts about one picture as tokens, ready for the device.

    Attributes:
        places: index of each request in the list that was prepared.
        inputs: the processor's tensors for the first request, by name, batch 1.
        suffixes: token ids of each request after the shared ones.
        shared: how many tokens at the beginning of `inputs` all requests share.
        answers: the allowed answers of each request as tokens.
        error: why none of the requests can be scored (the picture or the template is unusable); None if they can.
    """

    places: list[int]
    inputs: dict[str, Any] = field(default_factory=dict)
    suffixes: list[list[int]] = field(default_factory=list)
    shared: int = 0
    answers: list[AnswerCodes] = field(default_factory=list)
    error: ScoringError | None = None

    @classmethod
    def of_suffixes(
        cls,
        inputs: Mapping[str, Any],
        suffixes: Sequence[Sequence[int]],
        answers: Sequence[AnswerCodes],
        *,
        shared: int,
    ) -> "RequestGroup":
        """Return the group of prompts that a CPU stage tokenized.

        Args:
            inputs: the processor's tensors for the first prompt, by name, batch 1.
            suffixes: token ids of each prompt after the first `shared` ones, which are those of `inputs`.
            answers: the allowed answers of each prompt.
        """
        bridged = [[*suffix, *codes.bridge] for suffix, codes in zip(suffixes, answers, strict=True)]
        return cls(list(range(len(bridged))), dict(inputs), bridged, shared, list(answers))

    def length(self, number: int) -> int:
        """Return the number of tokens of the whole prompt of request `number`."""
        return self.shared + len(self.suffixes[number])

    def subset(self, numbers: Sequence[int]) -> "RequestGroup":
        """Return a group of the requests with these numbers."""
        return replace(
            self,
            places=[self.places[i] for i in numbers],
            suffixes=[self.suffixes[i] for i in numbers],
            answers=[self.answers[i] for i in numbers],
        )


def group_by_prefix(requests: Sequence[ScoringRequest]) -> list[list[int]]:
    """Group the numbers of requests that can share a prefix: same picture object, prompts that differ in the suffix."""
    groups: dict[tuple[int, tuple[Piece, ...], str, str], list[int]] = {}
    for number, request in enumerate(requests):
        prompt = request.prompt
        groups.setdefault((id(request.picture), prompt.shared, prompt.start, prompt.system), []).append(number)
    return list(groups.values())
