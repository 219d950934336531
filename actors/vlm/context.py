"""What is said about an item beside its picture: how much of it a prompt takes, and what if there is none."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from actors.vlm.errors import ScoringError

# An encyclopaedia's section is seldom longer than 2,000 tokens, so that a cut stays rare.
MAX_CONTEXT_TOKENS = 8192
# Of the positions a model has, the context may take half: pictures of some models take thousands themselves.
CONTEXT_SHARE = 2
CUTS = 3  # a context that is still too long after these is given up: its tokens do not add up
ANSWER_SHARE = 4  # of the positions a model has, what is kept for its answer takes a quarter at the most
EMPTY_CONTEXT = ("answer", "skip")  # an item about which nothing is said is asked about all the same, or is not


Made = TypeVar("Made")


class Tokenized(Protocol):
    """What cuts texts for a model: `actors.vlm.chat_format.ChatFormat`, `actors.vlm.scoring.ClosedSetScorer`."""

    def as_data(self, text: str) -> str:
        """`text` with nothing in it that the model would take for its own signs."""

    def token_starts(self, text: str) -> list[int]:
        """For each token of `text` on its own, the character at which it begins."""


def check_options(max_context_tokens: int, empty_context: str = EMPTY_CONTEXT[0]) -> None:
    """Refuse a limit below one token and an unknown word.

    Raises:
        ValueError: naming the key, the value and what is allowed.
    """
    if max_context_tokens < 1:
        raise ValueError(f"max_context_tokens={max_context_tokens}: at least 1")
    if empty_context not in EMPTY_CONTEXT:
        raise ValueError(f"empty_context={empty_context}: one of {', '.join(EMPTY_CONTEXT)}")


def limit(max_context_tokens: int, positions: int | None) -> int:
    """Tokens of context that a model with so many positions (None: without limit) is given at the most."""
    return min(max_context_tokens, positions // CONTEXT_SHARE) if positions else max_context_tokens


def token_budget(positions: int | None, answer: int) -> int | None:
    """Tokens that a prompt may have of so many positions (None: without limit) before an answer of `answer` tokens."""
    return None if positions is None else positions - min(answer, positions // ANSWER_SHARE)


def is_empty(item: Mapping[str, str | None], fields: Sequence[str]) -> bool:
    """Whether there are fields to say something in, and nothing is said in any."""
    return bool(fields) and not any((item.get(field) or "").strip() for field in fields)


def fitted(
    item: Mapping[str, str | None],
    make: Callable[[dict[str, str]], tuple[Made, int]],
    *,
    fields: Sequence[str],
    first: Sequence[str],
    limit: int,
    by: Tokenized,
) -> tuple[Made, ScoringError | None]:
    """What `make` makes of an item's context, which is cut to `limit` tokens, and further until the whole fits.

    Args:
        item: texts by field; what is missing is empty.
        make: context by field -> what is asked, and how many tokens too long it is (0 or less: it fits).
        fields, first: as `cut` takes them.

    Returns:
        (what was made, how the context was cut; None if it is whole). What does not fit without any context is made
        all the same.
    """
    for _ in range(CUTS):
        said, given, kept = cut(item, fields=fields, first=first, limit=limit, by=by)
        made, over = make(said)
        if over <= 0 or kept == 0:
            break
        limit = max(0, kept - over)
    return made, ScoringError("context_cut", f"{kept} of {given} tokens of context kept") if kept < given else None


def cut(
    texts: Mapping[str, str | None], *, fields: Sequence[str], first: Sequence[str], limit: int, by: Tokenized
) -> tuple[dict[str, str], int, int]:
    """Cut a context to `limit` tokens from the ends of its texts.

    Args:
        texts: by field; what is missing is empty.
        fields: what the prompt takes.
        first: the fields that lose their ends first, in this order; the others follow from the last to the first.
        by: whose tokens and signs they are.

    Returns:
        (the context by field, tokens before, tokens kept).
    """
    kept = {field: by.as_data(texts.get(field) or "") for field in fields}
    begins = {field: by.token_starts(text) if text else () for field, text in kept.items()}
    total = sum(map(len, begins.values()))
    excess = max(0, total - limit)
    for field in (*first, *(field for field in reversed(fields) if field not in first)):
        drop = min(excess, len(begins[field]))
        if drop:
            kept[field] = kept[field][: begins[field][-drop]]
            excess -= drop
    return kept, total, min(total, limit)
