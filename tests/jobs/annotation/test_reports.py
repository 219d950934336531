"""Reported pictures on a list of exclusions."""

from pathlib import Path

import pytest

from jobs.annotation.reports import add_to_list
from jobs.errors import InputError


@pytest.mark.parametrize("before", [None, "", "old # why", "old # why\n", "\ufeffold # why\n"])
def test_reports_are_added_once_and_other_lines_stay(tmp_path: Path, before: str | None) -> None:
    path = tmp_path / "list.txt"
    if before is not None:
        path.write_text(before, encoding="utf-8")
    reports = {"q": 2, "once": 1, "p": 3, "old": 5}
    new = {"p": 3, "q": 2} if before else {"old": 5, "p": 3, "q": 2}
    assert add_to_list(str(path), reports, least=2) == (len(new), 3)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines == [*(["old # why"] if before else []), *(f"{name} # reported by {n}" for name, n in new.items())]
    assert add_to_list(str(path), reports, least=2) == (0, 3)
    assert path.read_text(encoding="utf-8").splitlines() == lines


def test_a_list_that_is_not_a_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_bytes(b"ab\xff")
    with pytest.raises(InputError, match=r"not a list of exclusions \(byte 2 is not UTF-8\)"):
        add_to_list(f"{tmp_path}/list.txt", {"p": 1}, least=1)
