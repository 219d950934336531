"""The texts of a role, each once, in units."""

from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.judging.own_questions import set_id_of
from jobs.questioning.texts import TEXTS, read_units
from jobs.store.reading import open_table
from tests.factories import write_units


def test_each_text_of_the_role_is_in_one_unit(tmp_path: Path) -> None:
    rows: list[list[tuple[str, str | None]]] = [
        [("prompt", "a"), ("caption", "x"), ("prompt", "b"), ("prompt", " "), ("prompt", None)],
        [("prompt", " a "), ("prompt", "c"), ("prompt", "d d"), ("prompt", "d\n d"), ("prompt", "e")],
    ]
    units = [[{"text_id": f"{n}{role}{text}", "role": role, "text": text} for role, text in of_unit]
             for n, of_unit in enumerate(rows)]  # fmt: skip
    source = open_table(write_units(tmp_path / "texts", "texts", units))

    def texts(size: int, role: str = "prompt") -> list[list[str]]:
        read = read_units(source, role=role, unit_rows=size)
        assert [unit.rows for unit in read] == [len(unit.extra[TEXTS]) for unit in read]
        assert all(set_id == set_id_of(text) for unit in read for set_id, text in unit.extra[TEXTS])
        assert len({unit.name for unit in read}) == len(read)
        return [[text for _, text in unit.extra[TEXTS]] for unit in read]

    assert texts(2) == [["a", "b"], ["c", "d d"], ["e"]]
    assert texts(5) == [["a", "b", "c", "d d", "e"]]
    assert texts(9) == [["a", "b", "c", "d d", "e"]]
    assert texts(1, "caption") == [["x"]]
    with pytest.raises(InputError, match="role=title: no text"):
        texts(2, "title")
