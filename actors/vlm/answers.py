"""Allowed answers as tokens, and their likelihoods from the hidden states after a prompt.

There are two rules. `code`: each answer is one token, whose probability it has. `sequence`: an answer is several tokens
followed by the end of the model's turn, and its probability is their product; answers with the same beginning share
its computation. Both rules use the full vocabulary, so that the probability outside the answers is known. The
log-likelihoods of an answer's tokens are summed, not averaged: a mean favours long answers whose later tokens follow
from the first ones.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Rule = Literal["code", "sequence"]
LOGITS_BYTES = 256 << 20  # of one chunk of logits [nodes, vocabulary], float32


class AnswerCodes(NamedTuple):
    """Allowed answers as a model writes them.

    Attributes:
        rule: `code` or `sequence`.
        bridge: tokens of the white space that all answers begin with; they are scored as part of the prompt.
        sequences: token ids of each answer; with the end of the turn under `sequence`.
    """

    rule: Rule
    bridge: tuple[int, ...]
    sequences: tuple[tuple[int, ...], ...]

    @property
    def inner(self) -> list[tuple[int, ...]]:
        """The distinct beginnings of answers after which another token follows."""
        return list(dict.fromkeys(s[:cut] for s in self.sequences for cut in range(1, len(s))))


class AnswerNodes(NamedTuple):
    """The nodes whose hidden states give a request's likelihoods: the prompt's last token and the inner beginnings."""

    answers: AnswerCodes
    last: int
    inner: tuple[int, ...]


def log_likelihoods(model: Any, hidden: Any, requests: Sequence[AnswerNodes]) -> list[list[float]]:
    """Return the natural logarithm of each answer's probability, for each request.

    Args:
        hidden: [nodes, hidden] last hidden states, which the requests index.
    """
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
    values = _log_probabilities(model, hidden, pairs)
    return [[sum(values[i] for i in steps) for steps in request_steps] for request_steps in answer_steps]


def _log_probabilities(model: Any, hidden: Any, pairs: Sequence[tuple[int, int]]) -> list[float]:
    """Return the log-probability of each `token` after `node`, over the full vocabulary, in float32."""
    import torch

    nodes = sorted({node for node, _ in pairs})
    row = {node: place for place, node in enumerate(nodes)}
    config = model.config.get_text_config()
    chunk = max(1, LOGITS_BYTES // (4 * config.vocab_size))
    rows = torch.tensor([row[node] for node, _ in pairs], device=hidden.device)
    tokens = torch.tensor([token for _, token in pairs], device=hidden.device)
    logprobs = torch.empty(len(pairs), dtype=torch.float64)
    head, cap = model.get_output_embeddings(), getattr(config, "final_logit_softcapping", None)
    with torch.inference_mode():
        states = hidden[torch.tensor(nodes, device=hidden.device)]
        for begin in range(0, len(nodes), chunk):
            logits = head(states[begin : begin + chunk]).float()
            if cap:
                logits = (logits / cap).tanh() * cap
            in_chunk = ((rows >= begin) & (rows < begin + chunk)).nonzero().flatten().to(logits.device)
            chunk_rows, chunk_tokens = (t.to(logits.device)[in_chunk] for t in (rows - begin, tokens))
            values = logits[chunk_rows, chunk_tokens] - logits.logsumexp(-1)[chunk_rows]
            logprobs[in_chunk.cpu()] = values.double().cpu()
    result: list[float] = logprobs.tolist()
    return result
