"""The tables of a run that is purged, and their lists of exclusions."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.purging.tables import check_list
from jobs.runtime.selection.exclusions import KEPT, Exclusions


def test_a_list_must_have_every_picture_that_a_table_excludes(tmp_path: Path) -> None:
    for name, kept in {"images": "x\ny\n", "ratings": "x\n"}.items():
        (tmp_path / name / "_run").mkdir(parents=True)
        (tmp_path / name / "_run" / KEPT).write_text(kept)
    tables: list[Any] = [SimpleNamespace(uri=str(tmp_path / name)) for name in ("images", "ratings", "without list")]

    def listed(*names: str) -> Exclusions:
        return Exclusions(names, tuple(frozenset({name}) for name in names))

    check_list(tables, listed("x", "y", "new"))
    with pytest.raises(InputError, match=r"(?s)exclusions=.*images.*\(1 marks"):
        check_list(tables, listed("x", "new"))
    with pytest.raises(InputError, match=r"\(2 marks"):
        check_list(tables, listed("new"))
