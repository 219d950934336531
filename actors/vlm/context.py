"""Truncation of an item's context (title, article) to its prompt's token budget."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from actors.errors import SettingError

CUTS = 6  # attempts before all context is left out; tokens of parts need not add up to those of the whole
ANSWER_SHARE = 4  # at most a quarter of a model's positions is reserved for its answer
EMPTY_CONTEXT = ("answer", "skip")  # what to do with an item without context


RequestT = TypeVar("RequestT")


class ContextTokenizer(Protocol):
    """Tokenizes context: `actors.vlm.chat_format.ChatFormat` or `actors.vlm.scoring.ClosedSetScorer`."""

    def as_data(self, text: str) -> str:
        """Return `text` without anything that the model would read as a special token."""

    def token_starts(self, text: str) -> list[int]:
        """Return, for each token of `text` on its own, the index of its first character."""


class CutContext(NamedTuple):
    """A context after truncation: its texts by field, the fields that were cut, and the number of tokens kept."""

    texts: dict[str, str]
    fields: list[str]
    kept: int


def check_options(max_context_tokens: int | None, empty_context: str = EMPTY_CONTEXT[0]) -> None:
    """Check the keys for context.

    Raises:
        ValueError: a value is not allowed; the message has the key, the value and what is allowed.
    """
    if max_context_tokens is not None and max_context_tokens < 1:
        why = "must be at least 1, or null for the model's limit"
        raise SettingError(why, "max_context_tokens", max_context_tokens)
    if empty_context not in EMPTY_CONTEXT:
        raise SettingError(f"must be one of {', '.join(EMPTY_CONTEXT)}", "empty_context", empty_context)


def token_budget(positions: int | None, answer: int) -> int | None:
    """Return how many tokens a prompt may have if up to `answer` tokens follow; None if positions are unlimited."""
    return None if positions is None else positions - min(answer, positions // ANSWER_SHARE)


def is_empty(item: Mapping[str, str | None], fields: Sequence[str]) -> bool:
    """Return whether all context fields of an item are empty; False if there are no fields."""
    return bool(fields) and not any((item.get(field) or "").strip() for field in fields)


def fitted(
    item: Mapping[str, str | None],
    make: Callable[[dict[str, str]], tuple[RequestT, int]],
    *,
    fields: Sequence[str],
    first: Sequence[str],
    limit: int | None,
    by: ContextTokenizer,
) -> tuple[RequestT, list[str] | None]:
    """Build an item's request with its context cut to `limit` tokens, and cut further until the prompt fits.

    Args:
        item: texts by field; a missing field is empty.
        make: returns (request, how many tokens too long it is; 0 or less if it fits) for a context by field.
        fields, first, limit, by: as for `cut`.

    Returns:
        (request, the fields that were cut, or None if the context is whole). A request that does not fit even without
        context is returned too.
    """
    for attempt in range(CUTS + 1):
        context = cut(item, fields=fields, first=first, limit=limit, by=by)
        request, excess = make(context.texts)
        if excess <= 0 or context.kept == 0:
            break
        # A part may show less than what is cut, or nothing of it, so each attempt cuts more.
        limit = max(0, context.kept - excess * 2**attempt) if attempt < CUTS - 1 else 0
    return request, context.fields or None


def cut(
    texts: Mapping[str, str | None],
    *,
    fields: Sequence[str],
    first: Sequence[str],
    limit: int | None,
    by: ContextTokenizer,
) -> CutContext:
    """Cut a context to `limit` tokens, at the ends of its texts.

    Args:
        texts: by field; a missing field is empty.
        fields: the fields that the prompt uses.
        first: fields that are cut first, in this order; the others follow from the last to the first.
        limit: None keeps the whole context.
        by: the model's tokenizer.
    """
    kept = {field: by.as_data(texts.get(field) or "") for field in fields}
    starts = {field: by.token_starts(text) if text else () for field, text in kept.items()}
    total = sum(map(len, starts.values()))
    most = total if limit is None else min(total, limit)
    excess = total - most
    shortened: set[str] = set()
    for field in (*first, *(field for field in reversed(fields) if field not in first)):
        drop = min(excess, len(starts[field]))
        if drop:
            kept[field] = kept[field][: starts[field][-drop]]
            shortened.add(field)
            excess -= drop
    return CutContext(kept, [field for field in fields if field in shortened], most)
