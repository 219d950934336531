"""Counts of a stage's work, which the runner takes after each batch and stores with the unit."""

from collections import Counter
from collections.abc import Sequence


class TallyingStage:
    """Base class of stages that count what they do, as `group/key` -> n."""

    def __init__(self) -> None:
        self._tally: Counter[str] = Counter()

    def take_tally(self) -> dict[str, int]:
        """Return the counts since the last call: rows by model facts (`RaterFacts.tally`), pictures, milliseconds, …"""
        tally, self._tally = dict(self._tally), Counter()
        return tally

    def _count_pictures(self, pictures: int, tokens: int | None) -> None:
        """Count the pictures shown and their tokens; nothing if `tokens` is unknown."""
        if pictures and tokens is not None:
            self._tally["pictures/shown"] += pictures
            self._tally["pictures/tokens"] += tokens

    def _count_prompt(self, *, truncated: Sequence[str] | None, empty_context: str | None, moves_system: bool) -> None:
        """Count a prompt that deviates from the prompt's file or its condition.

        Args:
            truncated: the context fields that were cut.
            empty_context: why the item has no text of its condition.
            moves_system: whether the system's text is in the user's turn (`actors.vlm.chat_format`).
        """
        if truncated:
            self._tally["truncated/items"] += 1
            self._tally.update(f"truncated field/{field}" for field in truncated)
        if empty_context:
            self._tally[f"empty context/{empty_context}"] += 1
        if moves_system:
            self._tally["system text/in the user's turn"] += 1
