"""An item as the stages that ask a model get it (`jobs.judging.items`), and why a model is not asked about some."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from actors.status import Status
from actors.vlm import context
from actors.vlm.errors import ScoringError

COLUMNS = ("item_id", "pictures", "status")  # pictures: list<large_binary>; status: of the pictures
TARGETS = "targets"  # list<string>, an item's own, in place of the rubric's


def withheld(
    item: Mapping[str, Any], *, pictures: int | None, said_in: Sequence[str] = ()
) -> tuple[Status, ScoringError] | None:
    """Why a model is not asked about `item`; None if it is.

    Args:
        pictures: how many a prompt shows at the most; 0 if the item is asked about without, None for any number.
        said_in: context fields of which one at least must say something; none: an item may be without context.
    """
    if item["status"] == Status.REPORTED:
        return Status.REPORTED, ScoringError("excluded", "the picture may not be used")
    shown = item["pictures"] or ()
    if pictures and len(shown) > pictures:
        message = f"the item has {len(shown)} pictures; it is asked about {pictures}"
        return Status.SKIPPED, ScoringError("several_pictures", message)
    if pictures != 0:
        if item["status"] != Status.OK:
            return Status.MISSING_INPUT, ScoringError("no_picture", f"the picture's status is {item['status']}")
        if not shown or any(data is None for data in shown):
            return Status.MISSING_INPUT, ScoringError("no_picture", "there is no picture, or one without bytes")
    if context.is_empty(item, said_in):
        return Status.SKIPPED, ScoringError("empty_context", f"nothing is said of it in {', '.join(said_in)}")
    return None


def count_pictures(tally: Counter[str], pictures: int, tokens: int | None) -> None:
    """Add pictures that a model was shown, and their tokens where they can be told, to a stage's tally."""
    if pictures and tokens is not None:
        tally["pictures/shown"] += pictures
        tally["pictures/tokens"] += tokens
