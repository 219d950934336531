"""Columns of the items that `jobs.judging.items` reads, and the reasons to skip an item without asking the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.errors import SettingError
from actors.rubrics.rubric_questions import ANY, Question
from actors.status import Status, failed_reason
from actors.vlm import context
from actors.vlm.errors import ScoringError

if TYPE_CHECKING:
    from actors.rubrics.rubric import Rubric

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


def default_targets(rubric: Rubric, targets: Sequence[str] | None) -> tuple[str, ...]:
    """Return the labels for items without their own: `targets` if set, else the rubric's.

    A rubric that asks about no target has a single empty label. If the result is empty, items without their own labels
    get no rows.

    Raises:
        ValueError: `targets` are given for a rubric that asks about no target.
    """
    if targets and not rubric.asks_targets:
        raise SettingError(f"rubric {rubric.name!r} asks about no target; omit targets=", "targets", ",".join(targets))
    return tuple(targets or rubric.targets) if rubric.asks_targets else ("",)


def asked_pairs(rubric: Rubric, item: Mapping[str, Any], targets: Sequence[str]) -> tuple[tuple[str, Question], ...]:
    """Return the pairs of target and question that an item is asked about: first the questions without a target, then
    the others, with targets in the outer loop.

    If the rubric asks items their own questions, each pair has the id of the item's set and one of its questions.
    """
    if not rubric.asks_own_questions:
        once = tuple(("", question) for question in rubric.questions if not question.targets)
        about = tuple((target, question) for target in targets for question in rubric.questions if question.targets)
        return once + about
    shared = rubric.question(ANY)
    return tuple(
        (question["set_id"], replace(shared, name=question["question_id"], text=question["text"]))
        for question in item.get(QUESTIONS) or ()
    )


def item_targets(rubric: Rubric, item: Mapping[str, Any]) -> list[str]:
    """Return the labels of the item itself; empty if it has none or the rubric asks about no target."""
    return list(item.get(TARGETS) or ()) if rubric.asks_targets else []
