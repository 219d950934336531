"""Labels that items are judged against: those that `targets=` names, and those that items bring."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from actors.items import TARGETS
from actors.vlm.rubric import Rubric
from jobs.errors import InputError
from jobs.runtime.config_files import CONF
from jobs.store import locations
from jobs.store.reading import TableSource

LISTS = CONF / "target_lists"


class RatingCounts(NamedTuple):
    """How many ratings items become: of each (for `flow.Stage`), and of all."""

    rows_out: int | Callable[[pa.Table], list[int]]
    asked: int


def read_targets(given: Any) -> tuple[str, ...] | None:
    """The labels that `targets=` names: a list, a file with one a line (`#` begins a comment), or a list of
    `conf/target_lists`; None if nothing is given.

    Raises:
        InputError: no such file or list, or one that is empty or names a label twice.
    """
    if given is None:
        return None
    lines = [str(entry) for entry in given] if isinstance(given, list | tuple) else _lines(str(given))
    named = [text for line in lines if (text := line.partition(" #")[0].strip()) and not text.startswith("#")]
    if not named:
        raise InputError(f"targets={given}: no label in it")
    if twice := next((label for label in named if named.count(label) > 1), None):
        raise InputError(f"targets={given}: duplicate label {twice!r}; name each label once")
    return tuple(named)


def _lines(given: str) -> list[str]:
    kept = LISTS / f"{given}.txt"
    if "/" not in given and kept.is_file() and not Path(given).is_file():
        return kept.read_text(encoding="utf-8").splitlines()
    try:
        (file,) = locations.find(given)[:1]
    except InputError as error:
        known = ", ".join(sorted(path.stem for path in LISTS.glob("*.txt")))
        raise InputError(f"targets={given}: no such file, and no such list of conf/target_lists ({known})") from error
    with locations.named_errors(given):
        data = locations.read_bytes(file.uri)
    try:
        return data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"targets={given}: not a text file in UTF-8") from error


def ratings_of(source: TableSource, rubric: Rubric, given: tuple[str, ...] | None, *, samples: int = 1) -> RatingCounts:
    """Ratings of the pictures or items of `source`: questions x samples x labels, an item's own labels before `given`.

    Raises:
        InputError: a rubric asks about labels, none are given, and not every item has its own.
    """
    labels, each = given or rubric.targets, len(rubric.questions) * samples
    if not rubric.asks_targets:
        return RatingCounts(each, source.rows * each)
    if source.name != "items":
        if not labels:
            raise InputError(f"rubric {rubric.name!r} asks about targets and none are given; give targets=")
        return RatingCounts(each * len(labels), source.rows * each * len(labels))
    asked = bare = 0
    for batch in source.batches([TARGETS]):
        counts = rows_of_items(batch, each=each, targets=len(labels))
        asked, bare = asked + sum(counts), bare + counts.count(0)
    if bare:
        raise InputError(f"{bare} items have no targets of their own and none are given; give targets=")
    return RatingCounts(partial(rows_of_items, each=each, targets=len(labels)), asked)


def rows_of_items(rows: pa.Table, *, each: int, targets: int) -> list[int]:
    """How many ratings each item becomes: `each` a label, of which it has its own or, without any, `targets`."""
    return [each * (len(own) if own else targets) for own in rows[TARGETS].to_pylist()]
