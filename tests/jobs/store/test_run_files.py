"""Files of a run that are damaged are refused by name."""

from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.store import run_files
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
