"""Special tokens of a tokenizer in texts that are data, such as an article, a label or a caption: they become text."""

import re
from collections.abc import Iterable
from typing import Any


def special_tokens(tokenizer: Any) -> set[str]:
    """Return the special tokens of a tokenizer of transformers or open_clip; `</s>` ends a text of SigLIP."""
    tokenizer = getattr(tokenizer, "tokenizer", tokenizer)  # that of transformers within open_clip's
    if not hasattr(tokenizer, "all_special_tokens"):  # open_clip's own
        return {tokenizer.decoder[number] for number in getattr(tokenizer, "all_special_ids", ())}
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    return {*tokenizer.all_special_tokens, *(str(token) for token in added if token.special)}


class DataTexts:
    """Converter of texts in which special tokens are ordinary text.

    Args:
        tokens: the special tokens; those of one character are left out.
        ignore_case: whether the tokenizer recognises them in any case.
    """

    def __init__(self, tokens: Iterable[str], *, ignore_case: bool = False) -> None:
        # Longest first, so that a shorter token inside a longer one does not match before it.
        longest = sorted({token for token in tokens if len(token) > 1}, key=lambda token: (-len(token), token))
        flags = re.IGNORECASE if ignore_case else 0
        self.special = re.compile("|".join(map(re.escape, longest)) or r"(?!)", flags)

    def __call__(self, text: str) -> str:
        """Return `text` with a space inside each special token."""
        return self.special.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
