"""The labels that items are rated against, and the number of ratings that result."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.items import QUESTIONS, TARGETS
from actors.rubrics.rubric import Rubric
from actors.untrusted import text_lines
from jobs.errors import InputError
from jobs.runtime.configuration.config_files import CONF
from jobs.store.files import locations
from jobs.store.files.local_files import path_hint
from jobs.store.reading import TableSource

LISTS = CONF / "target_lists"


class RatingCounts(NamedTuple):
    """Numbers of ratings.

    Attributes:
        rows_out: the number per item, in the form of `jobs.runtime.stage_contract.Stage.rows_out`.
        total: the number for all items; None if it is unknown before they are read.
    """

    rows_out: int | Callable[[pa.Table], list[int]]
    total: int | None


def read_targets(setting: Any) -> tuple[str, ...] | None:
    """Return the labels of `targets=`; None if it is not set.

    Args:
        setting: a list of labels, which are taken literally; a file with one label per line, where `#` at the beginning
            of a line or after a space begins a comment; or the name of a file of `conf/target_lists`.

    Raises:
        InputError: there is no such file or list, or it has no labels or a duplicate label.
    """
    if setting is None:
        return None
    if isinstance(setting, list | tuple):
        entries = [str(entry) for entry in setting]
    else:
        entries = [line.partition(" #")[0] for line in _lines(str(setting)) if not line.lstrip().startswith("#")]
    labels = [label for entry in entries if (label := entry.strip())]
    if not labels:
        raise InputError("has no labels", key="targets", value=setting, remedy="name at least one")
    if duplicate := next((label for label in labels if labels.count(label) > 1), None):
        raise InputError(f"duplicate label {duplicate!r}", key="targets", value=setting, remedy="name each label once")
    return tuple(labels)


def _lines(name: str) -> list[str]:
    shipped = LISTS / f"{name}.txt"
    if "/" not in name and shipped.is_file() and not Path(name).is_file():
        return text_lines(shipped.read_text(encoding="utf-8"))
    try:
        (file,) = locations.find(name)[:1]
    except InputError as error:
        lists = ", ".join(sorted(path.stem for path in LISTS.glob("*.txt")))
        if name.endswith(".txt") or "/" in name:
            why = f"does not exist{path_hint(locations.absolute(name))}"
            raise InputError(why, key="targets", value=name) from error
        why = (
            f"no such file, and no such list in conf/target_lists ({lists}); a label is written as a list, "
            f"targets=[{name}]"
        )
        raise InputError(why, key="targets", value=name) from error
    with locations.named_errors(name):
        data = locations.read_bytes(file.uri)
    try:
        return text_lines(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"must be a text file in UTF-8 (byte {error.start})", key="targets", value=name) from error


def count_ratings(
    source: TableSource, rubric: Rubric, targets: tuple[str, ...] | None, *, samples: int = 1
) -> RatingCounts:
    """Count the ratings of the pictures or items of `source`: questions x samples x labels.

    Args:
        source: table `images` or `items`.
        rubric: the questions.
        targets: labels for items without their own; the rubric's if None.
        samples: ratings per item, label and question.

    Raises:
        InputError: the rubric asks about labels, neither `targets` nor the rubric has any, and an item lacks its own.
    """
    if rubric.asks_own_questions:
        return RatingCounts(partial(questions_per_item, samples=samples), None)
    per_item = len(rubric.questions) * samples
    if not rubric.asks_targets:
        return RatingCounts(per_item, source.rows * per_item)
    once = sum(not question.targets for question in rubric.questions) * samples
    labels = targets or rubric.targets
    asker = f"rubric {rubric.name!r} asks about targets"
    return count_labels(source, labels, per_label=per_item - once, once=once, asker=asker)


def count_labels(
    source: TableSource, labels: Sequence[str], *, per_label: int, asker: str, once: int = 0
) -> RatingCounts:
    """Count the ratings of pictures or items against labels: `per_label` for each of an item's own labels or `labels`.

    Args:
        source: table `images`, `embeddings` or `items`.
        labels: labels for items without their own.
        asker: what needs labels, for the message.
        once: ratings of each item that do not depend on a label.

    Raises:
        InputError: there are no `labels`, and an item lacks its own.
    """
    if source.name != "items":
        if not labels:
            raise InputError(asker, key="targets", value="null", remedy="set targets=")
        per_item = once + per_label * len(labels)
        return RatingCounts(per_item, source.rows * per_item)
    total = without_targets = 0
    for batch in source.batches([TARGETS]):
        counts = ratings_per_item(batch, per_label=per_label, once=once, labels=len(labels))
        total, without_targets = total + sum(counts), without_targets + counts.count(once)
    if without_targets:
        raise InputError(f"{without_targets} items have no targets", key="targets", value="null", remedy="set targets=")
    return RatingCounts(partial(ratings_per_item, per_label=per_label, once=once, labels=len(labels)), total)


def questions_per_item(rows: pa.Table, *, samples: int) -> list[int]:
    """Return the number of ratings of each item with its own questions; an item without any counts as if it had one."""
    return [samples * max(1, len(questions or ())) for questions in rows[QUESTIONS].to_pylist()]


def own_labels(source: TableSource) -> Iterator[str]:
    """Yield the labels of the items of `source`, with repetitions; nothing for another table."""
    if source.name == "items":
        for batch in source.batches([TARGETS]):
            yield from pc.list_flatten(batch[TARGETS]).to_pylist()


def ratings_per_item(rows: pa.Table, *, per_label: int, once: int, labels: int) -> list[int]:
    """Return the number of ratings of each item: `once`, plus `per_label` for each of its own labels or of `labels`."""
    return [once + per_label * (len(targets) if targets else labels) for targets in rows[TARGETS].to_pylist()]
