"""The questions that people are asked about each item separately, the same as those of `judge questions=`."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jobs.errors import InputError
from jobs.judging.model_config import OwnQuestionsConfig
from jobs.judging.own_questions import candidate_sets, is_asked
from jobs.runtime.process.console import say
from jobs.store.reading import open_table


@dataclass(frozen=True)
class OwnSet:
    """The questions about one item: the id of their set, and (question_id, text) of each valid one."""

    set_id: str
    questions: tuple[tuple[str, str], ...]


def read_own_sets(
    cfg: OwnQuestionsConfig, items: Sequence[Mapping[str, Any]], texts: Mapping[str, Mapping[str, Any]]
) -> dict[str, OwnSet]:
    """Return the questions about each item, by item_id; print how many items without questions are left out.

    Args:
        items: rows of `items`.
        texts: role and text of each text, by text_id.

    Raises:
        InputError: there is no table of questions, or no item has questions.
    """
    assert cfg.questions is not None
    names = {item["item_id"]: candidate_sets(_value(item, texts, cfg.questions_by)) for item in items}
    wanted = {name for of_item in names.values() for name in of_item}
    sets: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for batch in open_table(cfg.questions, "questions").batches(["set_id", "question_id", "text", "valid"]):
        for row in batch.to_pylist():
            if row["set_id"] in wanted and is_asked(row):
                sets[row["set_id"]].append((row["question_id"], row["text"]))
    own_sets = {
        item: OwnSet(name, tuple(sets[name]))
        for item, of_item in names.items()
        if (name := next((name for name in of_item if name in sets), None))
    }
    if not own_sets:
        raise InputError(
            f"questions={cfg.questions}: none of the {len(items):,} items has a set of questions; the set_id of a set "
            f"must be the {cfg.questions_by!r} of an item (questions_by=), or the id that `questions` gives this text"
        )
    if left_out := len(items) - len(own_sets):
        say(f"  {left_out:,} of {len(items):,} items have no questions and are left out")
    return own_sets


def _value(item: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]], by: str) -> str:
    """Return the attribute `by` of an item, else its texts with that role, as for the context fields of prompts."""
    if value := dict(item["attributes"] or ()).get(by):
        return str(value)
    return "\n\n".join(texts[name]["text"] or "" for name in item["text_ids"] or () if texts[name]["role"] == by)
