"""Likelihoods of answers after many suffixes of one prefix: the prefix passes once, the suffixes in packed groups."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from actors.vlm import answers as likelihoods
from actors.vlm import families, forward, memory, token_trees
from actors.vlm.answers import AnswerCodes
from actors.vlm.families import Family
from actors.vlm.forward import PassKind
from actors.vlm.prefix import encode

# Largest difference from the log-likelihoods of whole forward passes. Rounding stays below 1e-4 in float32 and is 0.03
# to 0.16 in bfloat16 (measured); a wrong mask or position makes a larger difference than either.
TOLERANCE = {"float32": 1e-3}
ROUNDED_TOLERANCE = 0.5


class SuffixLikelihoods(NamedTuple):
    """The result of `log_likelihoods`.

    Attributes:
        logprobs: natural logarithm of the probability of each answer of each suffix.
        tokens: tokens that passed through the model for all suffixes together.
    """

    logprobs: list[list[float]]
    tokens: int


def log_likelihoods(
    model: Any,
    family: Family,
    inputs: Mapping[str, Any],
    suffixes: Sequence[list[int]],
    answers: Sequence[AnswerCodes],
    *,
    shared: int,
    kind: PassKind,
    budget: int,
) -> SuffixLikelihoods:
    """Compute the likelihood of each suffix's allowed answers, over the full vocabulary.

    Args:
        inputs: the processor's output for one prompt, on the model's device; its first `shared` tokens are used.
        suffixes: token ids after the shared ones, at least one each.
        answers: the allowed answers of each suffix.
        kind: the kind of forward passes over suffixes (`actors.vlm.forward`).
        budget: bytes that one forward pass may take.
    """
    more = token_trees.shared_length(suffixes)
    # The processor's output ends in a suffix, which need not be one of these.
    prefix = encode(model, family, families.extended(families.cut(inputs, shared), list(suffixes[0][:more])))
    rows, nodes = token_trees.rows_of([suffix[more:] for suffix in suffixes], [codes.inner for codes in answers])
    by_row: dict[int, list[int]] = {}
    for number, suffix_nodes in enumerate(nodes):
        by_row.setdefault(suffix_nodes.row, []).append(number)
    widest = max(len(row.tokens) for row in rows)
    limit = memory.tokens_per_pass(model, budget=budget, prefix=prefix.length, width=widest, kind=kind)
    logprobs: dict[int, list[float]] = {}
    for row_numbers in token_trees.groups(rows, limit):
        group = [rows[n] for n in row_numbers]
        width = max(len(row.tokens) for row in group)
        members = [(at, number) for at, n in enumerate(row_numbers) for number in by_row[n]]
        answer_nodes = [
            likelihoods.AnswerNodes(
                answers[number],
                at * width + nodes[number].last,
                tuple(at * width + node for node in nodes[number].inner),
            )
            for at, number in members
        ]
        read = [node for nodes in answer_nodes for node in (nodes.last, *nodes.inner)]
        hidden = forward.hidden_states(model, family, prefix, group, kind=kind, read=read)
        values = likelihoods.log_likelihoods(model, hidden.flatten(0, 1), answer_nodes)
        logprobs |= {number: value for (_, number), value in zip(members, values, strict=True)}
    tokens = shared + more + sum(len(row.tokens) for row in rows)
    return SuffixLikelihoods([logprobs[number] for number in range(len(suffixes))], tokens)


def tolerance(model: Any) -> float:
    """Return the largest difference allowed between two engines' log-likelihoods in this model's dtype."""
    return TOLERANCE.get(str(model.dtype).removeprefix("torch."), ROUNDED_TOLERANCE)
