"""The questions that people are asked about an item: which set, which questions, what is left out."""

from pathlib import Path
from typing import Any

import pytest

from jobs.annotation.own_questions import OwnSet, read_own_sets
from jobs.errors import InputError
from jobs.judging.model_config import OwnQuestionsConfig
from jobs.judging.own_questions import set_id_of
from tests.factories import write_units


def question(set_id: str, question_id: str, **columns: Any) -> dict[str, Any]:
    return {"set_id": set_id, "question_id": question_id, "text": f"{question_id}?", "valid": True, **columns}


def item(name: str, prompt: str | None = None, *texts: str) -> dict[str, Any]:
    return {"item_id": name, "attributes": [("prompt", prompt)] if prompt else None, "text_ids": list(texts) or None}


def own_sets(folder: Path, items: list[dict[str, Any]], *units: list[dict[str, Any]]) -> dict[str, OwnSet]:
    cfg = OwnQuestionsConfig(questions=write_units(folder / "questions", "questions", units))
    texts = {name: {"role": role, "text": text} for name, role, text in (
        ("t", "prompt", "one"), ("u", "prompt", None), ("v", "prompt", "two"), ("n", "note", "three"))}  # fmt: skip
    return read_own_sets(cfg, items, texts)


def test_the_set_is_named_by_the_item_or_by_its_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    joined = "one\n\n\n\ntwo"
    units = [
        [question("s", "2"), question("s", "1"), question("s", "3", valid=False), question("s", "4", text="")],
        [question(set_id_of("s"), "9"), question(set_id_of(joined), "5", valid=None), question("s", "0")],
        [question("unasked", "1", valid=False), question("one", "7")],
    ]
    items = [item("a", "s", "n"), item("b", None, "t", "n", "u", "v"), item("c", None, "n"), item("d", "unasked"),
             item("e", "one", "v"), item("f")]  # fmt: skip
    sets = own_sets(tmp_path, items, *units)
    assert sets == {
        "a": OwnSet("s", (("2", "2?"), ("1", "1?"), ("0", "0?"))),
        "b": OwnSet(set_id_of(joined), (("5", "5?"),)),
        "e": OwnSet("one", (("7", "7?"),)),
    }
    assert "  3 of 6 items have no questions and are left out\n" in capsys.readouterr().out


def test_nothing_is_printed_if_all_items_have_questions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(own_sets(tmp_path, [item("a", "s")], [question("s", "1")])) == {"a"}
    assert capsys.readouterr().out == ""
    with pytest.raises(InputError, match=r"questions=.*: none of the 1 items .*'prompt' of an item \(questions_by=\)"):
        own_sets(tmp_path / "none", [item("a", "t")], [question("s", "1")])
