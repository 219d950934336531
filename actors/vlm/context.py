"""What is said about an item beside its picture: how much of it a prompt takes, and what if there is none."""

from collections.abc import Callable, Mapping, Sequence

# An encyclopaedia's section is seldom longer than 2,000 tokens, so that a cut stays rare.
MAX_CONTEXT_TOKENS = 8192
# Of the positions a model has, the context may take half: pictures of some models take thousands themselves.
CONTEXT_SHARE = 2
EMPTY_CONTEXT = ("answer", "skip")  # an item about which nothing is said is asked about all the same, or is not


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


def is_empty(item: Mapping[str, str | None], fields: Sequence[str]) -> bool:
    """Whether there are fields to say something in, and nothing is said in any."""
    return bool(fields) and not any((item.get(field) or "").strip() for field in fields)


def cut(
    texts: Mapping[str, str | None],
    *,
    fields: Sequence[str],
    first: Sequence[str],
    limit: int,
    starts: Callable[[str], Sequence[int]],
    as_data: Callable[[str], str],
) -> tuple[dict[str, str], int, int]:
    """Cut a context to `limit` tokens from the ends of its texts.

    Args:
        texts: by field; what is missing is empty.
        fields: what the prompt takes.
        first: the fields that lose their ends first, in this order; the others follow from the last to the first.
        as_data: text -> the same with nothing in it that the model would take for its own signs.
        starts: text of that kind -> for each of its tokens, the character at which it begins.

    Returns:
        (the context by field, tokens before, tokens kept).
    """
    kept = {field: as_data(texts.get(field) or "") for field in fields}
    begins = {field: starts(text) if text else () for field, text in kept.items()}
    total = sum(map(len, begins.values()))
    excess = max(0, total - limit)
    for field in (*first, *(field for field in reversed(fields) if field not in first)):
        drop = min(excess, len(begins[field]))
        if drop:
            kept[field] = kept[field][: begins[field][-drop]]
            excess -= drop
    return kept, total, min(total, limit)
