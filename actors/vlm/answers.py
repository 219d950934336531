"""Allowed answers as tokens, and their likelihoods from the hidden states after a prompt.

Two rules. `code`: every answer is one token, and is as likely as that token. `sequence`: an answer is several
tokens and the end of the model's turn, and is as likely as all of them in a row; answers that begin alike share
what is computed (a trie). Likelihoods are over the full vocabulary in both, so that what the answers did not get
is known. The sum of log-likelihoods is taken, not their mean: a mean favours long answers whose later tokens can
be guessed from the earlier ones.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

Rule = Literal["code", "sequence"]
LOGITS_BYTES = 256 << 20  # of a chunk of logits, which are float32 and a vocabulary wide


class AnswerCodes(NamedTuple):
    """Allowed answers as a model writes them.

    Attributes:
        rule: `code` or `sequence`.
        bridge: white space that every answer begins with and that is put before them as part of the prompt.
        sequences: token ids of each answer; with the end of the turn under `sequence`.
    """

    rule: Rule
    bridge: tuple[int, ...]
    sequences: tuple[tuple[int, ...], ...]

    @property
    def inner(self) -> list[tuple[int, ...]]:
        """The beginnings of answers after which a further token is asked for, each once."""
        return list(dict.fromkeys(s[:cut] for s in self.sequences for cut in range(1, len(s))))


class AnswerNodes(NamedTuple):
    """The nodes at which one request's likelihoods are read: after the prompt, and after each inner beginning."""

    answers: AnswerCodes
    last: int
    inner: tuple[int, ...]


def log_likelihoods(model: Any, hidden: Any, asked: Sequence[AnswerNodes]) -> list[list[float]]:
    """Natural logarithm of each answer's probability, for each of `asked`.

    Args:
        hidden: [nodes, hidden] last hidden states; `asked` names its rows.
    """
    pairs: list[tuple[int, int]] = []  # (node, token) whose log-probability is needed
    spans: list[list[list[int]]] = []  # request, answer -> places in `pairs`
    index: dict[tuple[int, int], int] = {}
    for one in asked:
        node_after = {(): one.last} | dict(zip(one.answers.inner, one.inner, strict=True))
        found = []
        for sequence in one.answers.sequences:
            steps = []
            for cut, token in enumerate(sequence):
                key = (node_after[sequence[:cut]], token)
                if key not in index:
                    index[key] = len(pairs)
                    pairs.append(key)
                steps.append(index[key])
            found.append(steps)
        spans.append(found)
    values = _log_probabilities(model, hidden, pairs)
    return [[sum(values[place] for place in steps) for steps in found] for found in spans]


def _log_probabilities(model: Any, hidden: Any, pairs: Sequence[tuple[int, int]]) -> list[float]:
    """Of `token` after `node`, for each pair; over the full vocabulary, in float32, a chunk of nodes at a time."""
    import torch

    nodes = sorted({node for node, _ in pairs})
    row = {node: place for place, node in enumerate(nodes)}
    config = model.config.get_text_config()
    chunk = max(1, LOGITS_BYTES // (4 * config.vocab_size))
    rows = torch.tensor([row[node] for node, _ in pairs], device=hidden.device)
    tokens = torch.tensor([token for _, token in pairs], device=hidden.device)
    found = torch.empty(len(pairs), dtype=torch.float64)
    head, cap = model.get_output_embeddings(), getattr(config, "final_logit_softcapping", None)
    with torch.inference_mode():
        states = hidden[torch.tensor(nodes, device=hidden.device)]
        for begin in range(0, len(nodes), chunk):
            logits = head(states[begin : begin + chunk]).float()
            if cap:
                logits = (logits / cap).tanh() * cap
            mine = ((rows >= begin) & (rows < begin + chunk)).nonzero().flatten().to(logits.device)
            here, wanted = (t.to(logits.device)[mine] for t in (rows - begin, tokens))
            found[mine.cpu()] = (logits[here, wanted] - logits.logsumexp(-1)[here]).double().cpu()
    values: list[float] = found.tolist()
    return values
