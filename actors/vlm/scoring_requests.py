"""Requests to a closed-set scorer: prompts, allowed answers as tokens, and the answers' likelihoods.

There are two rules for answers. `code`: each answer is one token and has that token's probability. `sequence`: an
answer is several tokens followed by the end of the model's turn, and its probability is the product of theirs; answers
with the same beginning share its computation. Both rules use the full vocabulary, so that the probability outside the
answers is known. The log-likelihoods of an answer's tokens are summed, not averaged: a mean favours long answers whose
later tokens follow from the first ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from actors.devices import upload
from actors.vlm import model_inputs
from actors.vlm.errors import ScoringError
from actors.vlm.token_trees import SuffixNodes, TokenTree, rows_of, shared_length

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor

    CopiedValues = tuple[Tensor, torch.cuda.Event | None]  # on the CPU, complete after the event, or already

    from actors.rubrics.pieces import Piece
    from actors.rubrics.prompts import Prompt
    from actors.vlm.model_types import Inputs, Tensors, Vlm

Rule = Literal["code", "sequence"]
LOGITS_BYTES = 256 << 20  # of one chunk of logits [nodes, vocabulary], float32


class AnswerCodes(NamedTuple):
    """Allowed answers as a model writes them.

    Attributes:
        rule: `code` or `sequence`.
        bridge: tokens of the white space that all answers begin with, scored as part of the prompt.
        sequences: token ids of each answer, with the end of the turn under `sequence`.
    """

    rule: Rule
    bridge: tuple[int, ...]
    sequences: tuple[tuple[int, ...], ...]

    @property
    def inner(self) -> tuple[tuple[int, ...], ...]:
        """The distinct beginnings of answers after which another token follows."""
        return _beginnings(self.sequences)


@lru_cache(maxsize=1000)  # read several times for each request, while a device may be idle
def _beginnings(sequences: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
    return tuple(dict.fromkeys(sequence[:cut] for sequence in sequences for cut in range(1, len(sequence))))


@dataclass(frozen=True)
class ScoringRequest:
    """A prompt to be answered with one of `codes`.

    Attributes:
        picture: PIL image, RGB; a tuple of several; or None. Requests with the same picture object (`is`, not `==`)
            share what is encoded once.
        codes: the allowed answers as the model should write them.
    """

    prompt: Prompt
    picture: Image.Image | tuple[Image.Image, ...] | None
    codes: tuple[str, ...]


class Scores(NamedTuple):
    """The model's distribution over the answers to one request, in the order of its codes.

    Attributes:
        probabilities: probabilities of the codes among themselves, float64, summing to 1.
        logprobs: natural logarithm of each code's probability over the full vocabulary.
        outside_mass: probability of everything else, 0 to 1.
        prompt_tokens: tokens of the whole prompt, including the picture's.
        rule: how answers are read from tokens, `code` or `sequence`.
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
    inputs: Tensors = field(default_factory=dict)
    suffixes: list[list[int]] = field(default_factory=list)
    shared: int = 0
    answers: list[AnswerCodes] = field(default_factory=list)
    error: ScoringError | None = None

    @classmethod
    def of_suffixes(
        cls,
        inputs: Inputs,
        suffixes: Sequence[Sequence[int]],
        answers: Sequence[AnswerCodes],
        *,
        shared: int,
    ) -> RequestGroup:
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

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of tokens that all prompts share, and an upper bound for all suffixes with their answers."""
        more = shared_length(self.suffixes)
        pairs = zip(self.suffixes, self.answers, strict=True)
        return self.shared + more, sum(len(suffix) - more + sum(map(len, codes.inner)) for suffix, codes in pairs)

    def prefix(self, inputs: Inputs) -> Tensors:
        """Return the inputs of the tokens that all prompts share.

        Args:
            inputs: the group's inputs, on any device. They end in a suffix, which need not be one of the group's.
        """
        return model_inputs.extended(
            model_inputs.cut(inputs, self.shared), self.suffixes[0][: shared_length(self.suffixes)]
        )

    def trees(self) -> tuple[list[TokenTree], list[SuffixNodes]]:
        """Return the suffixes as rows after the prefix, with the inner tokens of answers, and each suffix's nodes."""
        more = shared_length(self.suffixes)
        return rows_of([suffix[more:] for suffix in self.suffixes], [codes.inner for codes in self.answers])

    def subset(self, numbers: Sequence[int]) -> RequestGroup:
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


class AnswerNodes(NamedTuple):
    """The nodes whose hidden states determine a request's likelihoods: the prompt's last token and inner beginnings."""

    answers: AnswerCodes
    last: int
    inner: tuple[int, ...]


class PendingLikelihoods:
    """Likelihoods of answers that the device may still be computing."""

    def __init__(self, chunks: Sequence[CopiedValues], steps: Sequence[Sequence[Sequence[int]]]) -> None:
        """Keep the values without waiting for the device.

        Args:
            chunks: values of consecutive pairs, float32 on the CPU, each with the event of its copy or None.
            steps: indices of the pairs of each answer, by request.
        """
        self._chunks, self._steps = chunks, steps

    def result(self) -> list[list[float]]:
        """Return the natural logarithm of each answer's probability, for each request, once the device has it."""
        values: list[float] = []
        for chunk, event in self._chunks:
            if event is not None:
                event.synchronize()
            values += chunk.double().tolist()
        return [[sum(values[i] for i in steps) for steps in request_steps] for request_steps in self._steps]


def log_likelihoods(model: Vlm, hidden: Tensor, requests: Sequence[AnswerNodes]) -> list[list[float]]:
    """Return the natural logarithm of each answer's probability, for each request.

    Args:
        hidden: [nodes, hidden] last hidden states, which the requests index.
    """
    return pending_likelihoods(model, hidden, requests).result()


def pending_likelihoods(model: Vlm, hidden: Tensor, requests: Sequence[AnswerNodes]) -> PendingLikelihoods:
    """Begin to compute what `log_likelihoods` returns, without waiting for the device."""
    pairs: list[tuple[int, int]] = []  # (node, token) whose log-probability is needed
    answer_steps: list[list[list[int]]] = []  # request -> answer -> indices in `pairs`
    index: dict[tuple[int, int], int] = {}
    for request in requests:
        node_after = {(): request.last} | dict(zip(request.answers.inner, request.inner, strict=True))
        request_steps = []
        for sequence in request.answers.sequences:
            steps = []
            for cut, token in enumerate(sequence):
                key = (node_after[sequence[:cut]], token)
                if key not in index:
                    index[key] = len(pairs)
                    pairs.append(key)
                steps.append(index[key])
            request_steps.append(steps)
        answer_steps.append(request_steps)
    # Sorted by node, so that each chunk of logits has consecutive pairs.
    order = sorted(range(len(pairs)), key=lambda i: pairs[i][0])
    place = {number: at for at, number in enumerate(order)}
    steps_in_order = [[[place[i] for i in steps] for steps in request_steps] for request_steps in answer_steps]
    return PendingLikelihoods(_log_probabilities(model, hidden, [pairs[i] for i in order]), steps_in_order)


def _log_probabilities(model: Vlm, hidden: Tensor, pairs: Sequence[tuple[int, int]]) -> list[CopiedValues]:
    """Return log-probabilities of each `token` after `node`, over the full vocabulary, as chunks for the results.

    Args:
        pairs: sorted by node.
    """
    import torch

    nodes = sorted({node for node, _ in pairs})
    row = {node: place for place, node in enumerate(nodes)}
    rows = np.array([row[node] for node, _ in pairs])
    tokens = np.array([token for _, token in pairs])
    config = model.config.get_text_config()
    step = max(1, LOGITS_BYTES // (4 * config.vocab_size))
    head, cap = model.get_output_embeddings(), getattr(config, "final_logit_softcapping", None)
    scale = logit_scale(model)
    chunks: list[CopiedValues] = []
    with torch.inference_mode():
        states = hidden[upload(torch.tensor(nodes), hidden.device)]
        for begin in range(0, len(nodes), step):
            logits = head(states[begin : begin + step]).float()
            if scale != 1:
                logits = logits * scale
            if cap:
                logits = (logits / cap).tanh() * cap
            first, end = np.searchsorted(rows, (begin, begin + step))
            chunk_rows, chunk_tokens = (
                upload(torch.from_numpy(numbers[first:end]), logits.device) for numbers in (rows - begin, tokens)
            )
            values = logits[chunk_rows, chunk_tokens] - logits.logsumexp(-1)[chunk_rows]
            chunks.append(_on_the_way(values))
    return chunks


def logit_scale(model: Vlm) -> float:
    """Return the factor between the output layer's values and the logits, which only some text models have."""
    # Cohere's models multiply, and Granite's divide; vision-language models with their parts do neither.
    return (getattr(model, "logit_scale", None) or 1.0) / (getattr(model.config, "logits_scaling", None) or 1.0)


def _on_the_way(values: Tensor) -> CopiedValues:
    """Return a copy of `values` on the CPU, and the event after which it is complete; None if it already is."""
    import torch

    if values.device.type != "cuda":
        return values.cpu(), None
    host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
    host.copy_(values, non_blocking=True)
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(values.device))
    return host, event
