"""Pieces of a user's turn: texts, and the positions of an item's pictures among them.

In the order of a prompt's parts, `picture` is the position of an item's only picture, `pictures` that of all its
pictures, and `picture1`, `picture2`, … those of its first, second, … picture. Items with another number of pictures are
skipped (`actors.items.skip_reason`).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from actors.rubrics import checks

PICTURE, PICTURES = "picture", "pictures"  # the only picture of an item; all of them
_NUMBERED = re.compile(r"picture([1-9][0-9]?)")
_ALLOWED = f"`{PICTURE}`, `{PICTURES}`, or `picture1` to `pictureN`"

Piece = str | int | None  # a text; the number of a picture, from 1; None: all pictures


def is_picture(entry: str) -> bool:
    """Return whether an entry of an order of parts is a position of pictures."""
    return entry in (PICTURE, PICTURES) or _NUMBERED.fullmatch(entry) is not None


def place(entry: str) -> int | None:
    """Return the piece for an entry that `is_picture` accepts."""
    match = _NUMBERED.fullmatch(entry)
    return int(match[1]) if match else None


def picture_count(order: Sequence[str]) -> int | None:
    """Return how many pictures an item must have for this order of parts; 0: none is shown; None: one or more."""
    places = [entry for entry in order if is_picture(entry)]
    return None if PICTURES in places else len(places)


def check_order(parts: Iterable[str], order: Sequence[str], *, where: str) -> None:
    """Check an order of parts and positions of pictures.

    Args:
        parts: names of the parts.
        where: the place in the file, for messages.

    Raises:
        ValueError: an entry is not allowed; the message has the entry and what is allowed.
    """
    names = list(parts)
    if clash := [name for name in names if is_picture(name)]:
        raise ValueError(f"{where}: a part is named {clash[0]!r}, which means a picture; use another name")
    if unknown := [entry for entry in order if not is_picture(str(entry)) and entry not in names]:
        raise ValueError(f"{where}: unknown part {unknown[0]!r}; must be one of {', '.join(names)}, and {_ALLOWED}")
    checks.check_unique(order, where=where, kind="entry")
    places = [entry for entry in order if is_picture(entry)]
    numbers = sorted(int(match[1]) for entry in places if (match := _NUMBERED.fullmatch(entry)))
    if (numbers and numbers != list(range(1, len(places) + 1))) or (not numbers and len(places) > 1):
        raise ValueError(f"{where}: the pictures {', '.join(places)} do not fit together; use one of {_ALLOWED}")


def in_order(pieces: Sequence[Piece], pictures: Sequence[Any]) -> list[Any]:
    """Return the pictures in the order in which the turn shows them.

    Args:
        pictures: the item's pictures, in its order.
    """
    shown: list[Any] = []
    for piece in pieces:
        if not isinstance(piece, str):
            shown += pictures if piece is None else [pictures[piece - 1]]
    return shown


def content(pieces: Sequence[Piece], pictures: Sequence[Any]) -> list[dict[str, Any]]:
    """Return a turn's content in the form that transformers' templates read, with adjacent texts joined.

    There is at least one entry; without pieces its text is empty.
    """
    entries: list[dict[str, Any]] = []
    for piece in pieces:
        if not isinstance(piece, str):
            entries += [{"type": "image", "image": picture} for picture in in_order([piece], pictures)]
        elif piece and entries and entries[-1]["type"] == "text":
            entries[-1]["text"] += piece
        elif piece:
            entries.append({"type": "text", "text": piece})
    return entries or [{"type": "text", "text": ""}]


def messages(content: str | list[dict[str, Any]], system: str = "") -> list[dict[str, Any]]:
    """Return the messages of a user's turn, after a turn of the system if `system` is not empty."""
    user = {"role": "user", "content": content}
    return [{"role": "system", "content": system}, user] if system else [user]
