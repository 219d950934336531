"""Columns of the items that `jobs.judging.items` reads, and the reasons to skip an item without asking the model."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from actors.status import Status, failed_reason
from actors.vlm import context
from actors.vlm.errors import ScoringError

COLUMNS = ("item_id", "pictures", "status")  # pictures: list<large_binary>; status: the pictures' status
RESPONSE_STATUS = "response_status"  # attribute of an item made of a response: how the response ended
PAIR, FIRST, SECOND = "pair", "first", "second"  # attributes of a pair: its id, the ids of its two items; also its kind
PAIR_SET = "pair_set"  # attribute of a pair: hash of the value that its items share, such as the prompt
JUDGED = (Status.OK, Status.TRUNCATED)  # response statuses with a text that can be judged
NO_RESPONSE = "no_response"  # status of an item whose response cannot be judged
_WITHHELD: dict[str, tuple[Status, ScoringError]] = {  # why no model is asked about an item, by its status
    Status.REPORTED: (Status.REPORTED, ScoringError("excluded", "the picture may not be used")),
    NO_RESPONSE: (
        Status.SKIPPED,
        ScoringError(NO_RESPONSE, f"the response was refused or has no text (the item's attribute {RESPONSE_STATUS})"),
    ),
}
EMPTY_CONTEXT = "empty_context"  # attribute of an item without the text of its condition: why it has none
TARGETS = "targets"  # list<string>, the item's labels, which replace the rubric's
QUESTIONS = "questions"  # `actors.schemas.OWN_QUESTIONS`, the item's questions, which replace the rubric's
NO_TARGET = ScoringError("no_target", "neither the item nor targets= names a target")
NO_QUESTIONS = ScoringError("no_questions", "the item has no set of questions, or no valid question in it")


def skip_reason(
    item: Mapping[str, Any], *, pictures: int | None, required_fields: Sequence[str] = ()
) -> tuple[Status, ScoringError] | None:
    """Return the status and the error of an item to skip; None if the model can be asked about it.

    Args:
        item: a row of `jobs.judging.items`.
        pictures: the number of pictures that the prompt shows; 0: none; None: all of them, at least one.
        required_fields: context fields of which at least one must not be empty; empty if context is optional. If it is
            not, an item that lacks the text of its condition is skipped too.
    """
    if reason := _withheld(item["status"]):
        return reason
    shown = item["pictures"] or ()
    if pictures and shown and len(shown) != pictures:
        message = f"the item has {len(shown)} pictures, but the prompt shows {pictures}; change the order of its parts"
        return Status.SKIPPED, ScoringError("picture_count", message)
    if pictures != 0:
        if item["status"] != Status.OK:
            return Status.MISSING_INPUT, ScoringError("no_picture", f"the picture's status is {item['status']}")
        if not shown or any(data is None for data in shown):
            return Status.MISSING_INPUT, ScoringError(
                "no_picture", "the item has no picture, or a picture has no bytes"
            )
    lacks_text = required_fields and item.get(EMPTY_CONTEXT)  # although it may have the name of an entity
    if lacks_text or context.is_empty(item, required_fields):
        message = f"all context fields are empty: {', '.join(required_fields)}"
        if lacks_text:
            message = f"the item has no text of its condition: {item[EMPTY_CONTEXT]}"
        return Status.SKIPPED, ScoringError("empty_context", message)
    return None


def _withheld(status: str) -> tuple[Status, ScoringError] | None:
    reason = failed_reason(status)
    return (Status.ERROR, ScoringError(*reason)) if reason else _WITHHELD.get(status)


def count_pictures(tally: Counter[str], pictures: int, tokens: int | None) -> None:
    """Add the number of pictures shown and of their tokens to a stage's tally; nothing if `tokens` is unknown."""
    if pictures and tokens is not None:
        tally["pictures/shown"] += pictures
        tally["pictures/tokens"] += tokens


def count_prompt(
    tally: Counter[str], item: Mapping[str, Any], *, truncated: Sequence[str] | None, moves_system: bool
) -> None:
    """Count an item in a stage's tally if its prompt deviates from the prompt's file or its condition.

    Args:
        truncated: the context fields that were cut.
        moves_system: whether the system's text is in the user's turn (`actors.vlm.chat`).
    """
    if truncated:
        tally["truncated/items"] += 1
        tally.update(f"truncated field/{field}" for field in truncated)
    if reason := item.get(EMPTY_CONTEXT):
        tally[f"empty context/{reason}"] += 1
    if moves_system:
        tally["system text/in the user's turn"] += 1
