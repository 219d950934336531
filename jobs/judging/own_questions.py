"""Questions of the items themselves, from the table `questions=`: each item is asked the questions of its set.

A context field, `questions_by=`, identifies an item's set: its value is the set_id, or a text whose hash is the set_id
(`set_id_of`), as in the sets that `jobs.questions` writes about prompts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from actors.items import QUESTIONS
from actors.rubrics.rubric import Rubric
from actors.schemas import OWN_QUESTIONS
from jobs.errors import InputError
from jobs.judging.items import ItemTables, Reader
from jobs.judging.joined_rows import matching_rows
from jobs.judging.model_config import OwnQuestionsConfig
from jobs.store.files.objects import Object
from jobs.store.writer import UnitTask


def set_id_of(text: str) -> str:
    """Return the set_id of the questions about a text, such as a prompt; white space is ignored."""
    return content_id("questions", " ".join(text.split()))


def check(cfg: OwnQuestionsConfig, rubric: Rubric) -> None:
    """Check that `questions=` and the rubric fit together.

    Raises:
        InputError: the rubric asks each item its own questions and there is no table of them, or the reverse.
    """
    if rubric.asks_own_questions and not cfg.questions:
        why = f"rubric {rubric.name!r} asks each item its own questions"
        raise InputError(why, key="questions", value="null", remedy="set questions= to their table (remine questions)")
    if cfg.questions and not rubric.asks_own_questions:
        raise InputError(f"rubric {rubric.name!r} has its own questions; omit it, or set rubric=dsg", key="questions")


def check_tables(cfg: OwnQuestionsConfig, sources: ItemTables) -> None:
    """Check that the items can have sets of questions.

    Raises:
        InputError: the input is a table of images.
    """
    if cfg.questions and sources.items.name != "items":
        why = f"a table of images, which lack the field {cfg.questions_by!r} that identifies their questions"
        raise InputError(why, key="input", value=sources.items.uri, remedy="set input= to a table of items")


@dataclass(frozen=True)
class OwnQuestionsReader:
    """Reads the items of a unit with their questions; is pickled and sent to the workers.

    Attributes:
        reader: reads the items; its fields include `by`, and its joined tables include `questions`.
        by: the context field that identifies an item's set.
    """

    reader: Reader
    by: str

    def without_copies(self) -> "OwnQuestionsReader":
        """Return a reader of a few items (`Reader.without_copies`)."""
        return replace(self, reader=self.reader.without_copies())

    def __call__(self, task: UnitTask) -> pa.Table:
        """Return the items as `reader` does, with the column `questions` (`actors.schemas.OWN_QUESTIONS`)."""
        rows = self.reader(task)
        joined = dict(zip(self.reader.joined_tables, task.unit.inputs[1:], strict=True))
        values = [value or "" for value in rows[self.by].to_pylist()]
        candidates = [candidate_sets(value) for value in values]
        names = {name for names in candidates for name in names}
        sets = _sets(joined[QUESTIONS], names, copies=self.reader.copies)
        questions = [next((sets[name] for name in names if name in sets), []) for names in candidates]
        return rows.append_column(QUESTIONS, pa.array(questions, OWN_QUESTIONS))


def _sets(source: Object, names: set[str], *, copies: bool) -> dict[str, list[dict[str, Any]]]:
    """Return the valid questions of each set, by set_id, in the order of the table."""
    sets: dict[str, list[dict[str, Any]]] = {}
    for rows in matching_rows(source, "set_id", names, ["question_id", "text", "valid"], copies=copies):
        for row in rows.to_pylist():
            if is_asked(row):
                sets.setdefault(row["set_id"], []).append(
                    {name: row[name] for name in ("set_id", "question_id", "text")}
                )
    return sets


def candidate_sets(value: str) -> tuple[str, ...]:
    """Return the set_ids that an item's value of `questions_by` may mean: the value itself, or the hash of a text."""
    return (value, set_id_of(value)) if value else ()


def is_asked(row: Mapping[str, Any]) -> bool:
    """Return whether a row of table `questions` is asked: a valid question with a text."""
    return row["valid"] is not False and bool(row["text"])


def joined_fields(fields: Sequence[str], cfg: OwnQuestionsConfig) -> tuple[str, ...]:
    """Return the context fields to read: those of the prompt, and the field that identifies an item's set."""
    return tuple(dict.fromkeys([*fields, *([cfg.questions_by] if cfg.questions else [])]))
