"""Likelihoods of answers behind many suffixes of one prompt: the shared part passes once, the suffixes in packed groups."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from actors.vlm import answers as likelihoods
from actors.vlm import families, forward, memory, token_trees
from actors.vlm.answers import AnswerCodes
from actors.vlm.families import Family
from actors.vlm.prefix import encode

# How far log-likelihoods may lie from those of a whole pass before an engine is given up. float32 rounding stays
# below 1e-4; bfloat16 moves them by 0.03 to 0.16 (measured), a wrong mask or position by more than both.
TOLERANCE = {"float32": 1e-3}
ROUNDED_TOLERANCE = 0.5


class SuffixLikelihoods(NamedTuple):
    """Natural logarithms of each suffix's answers, and the tokens that passed for all of them together."""

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
    engine: str,
    budget: int,
) -> SuffixLikelihoods:
    """The likelihood of each suffix's allowed answers, over the full vocabulary.

    Args:
        inputs: what a processor made of one prompt, on the model's device; of its tokens the first `shared` are taken.
        suffixes: tokens behind those, at least one each.
        answers: of each suffix.
        engine: `cascade` or `batched`.
        budget: bytes for what passes at once.
    """
    more = token_trees.shared_length(suffixes)
    # What the processor returned ends in a suffix of its own, which need not be among these.
    prefix = encode(model, family, families.extended(families.cut(inputs, shared), list(suffixes[0][:more])))
    rows, places = token_trees.rows_of([t[more:] for t in suffixes], [a.inner for a in answers])
    by_row: dict[int, list[int]] = {}
    for number, place in enumerate(places):
        by_row.setdefault(place.row, []).append(number)
    widest = max(len(row.tokens) for row in rows)
    limit = memory.tokens_per_pass(model, budget=budget, prefix=prefix.length, width=widest, engine=engine)
    found: dict[int, list[float]] = {}
    for numbers in token_trees.groups(rows, limit):
        some = [rows[n] for n in numbers]
        width = max(len(row.tokens) for row in some)
        members = [(at, m) for at, n in enumerate(numbers) for m in by_row[n]]
        asked = [
            likelihoods.AnswerNodes(
                answers[m], at * width + places[m].last, tuple(at * width + node for node in places[m].inner)
            )
            for at, m in members
        ]
        read = [node for one in asked for node in (one.last, *one.inner)]
        hidden = forward.hidden_states(model, family, prefix, some, engine=engine, read=read)
        values = likelihoods.log_likelihoods(model, hidden.flatten(0, 1), asked)
        found |= {m: logprobs for (_, m), logprobs in zip(members, values, strict=True)}
    tokens = shared + more + sum(len(row.tokens) for row in rows)
    return SuffixLikelihoods([found[m] for m in range(len(suffixes))], tokens)


def tolerance(model: Any) -> float:
    """How far two engines' log-likelihoods may lie apart in this model's dtype."""
    return TOLERANCE.get(str(model.dtype).removeprefix("torch."), ROUNDED_TOLERANCE)
