"""Files of a run that are damaged are refused by name."""

from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.store import run_files
from jobs.store.files.objects import Object
from jobs.store.units import Unit
from tests.cases import check_cases


def test_json_of_another_form_is_damage(tmp_path: Path) -> None:
    cases = [
        ("{", "m.json: damaged .*not JSON"),
        ("[" * 100_000, "m.json: damaged .*not JSON"),
        ("[]", "m.json: damaged .*unexpected keys or types"),
        ('{"a": 1, "b": "x"}', "m.json: damaged .*unexpected keys or types"),
    ]

    def check(text: str, message: str) -> None:
        path = tmp_path / "m.json"
        path.write_text('{"a": 1, "b": 2}')
        assert run_files.read_json(str(path), dict[str, int]) == {"a": 1, "b": 2}
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            run_files.read_json(str(path), dict[str, int])

    check_cases(check, cases)


def test_a_unit_of_another_form_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "inputs.jsonl"
    whole = Unit("a", (Object("u", 1, "e"),), rows=2).to_json()
    source = whole["inputs"][0]
    changes: list[dict[str, Any]] = [
        {"name": 1},
        {"inputs": {}},
        {"inputs": [source | {"size": "1"}]},
        {"inputs": [{"uri": "u", "size": 1}]},
        {"rows": "2"},
        {"rows": True},
        {"piece": None},
        {"extra": []},
    ]

    def check(change: dict[str, Any]) -> None:
        lines = run_files.to_lines([whole, {**whole, **change}], lambda value: value)
        path.write_bytes(b"".join(lines))
        with pytest.raises(InputError, match="line 3 has unexpected keys or types"):
            list(run_files.read_inputs(str(path)))

    check_cases(check, changes)


def test_a_list_with_more_or_fewer_units_than_it_says_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "inputs.jsonl"
    lines = list(run_files.to_lines([Unit(name, ()) for name in "abc"], Unit.to_json))
    path.write_bytes(b"".join(lines))
    assert [unit.name for unit in run_files.read_inputs(str(path))] == ["a", "b", "c"]
    for some, number in ((lines[:3], 2), ([*lines, lines[1]], 4)):
        path.write_bytes(b"".join(some))
        with pytest.raises(InputError, match=f"{number} units, the first line says 3"):
            list(run_files.read_inputs(str(path)))
