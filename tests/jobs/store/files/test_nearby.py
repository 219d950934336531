"""Hints in messages about a path that does not exist."""

from pathlib import Path

import pytest

from jobs.store.files.nearby import hint


@pytest.mark.parametrize(
    ("names", "path", "expected"),
    [
        (["ratings", "images"], "rating", "did you mean {place}/ratings?"),
        (["ratings", "images"], "rating/deeper", "did you mean {place}/ratings?"),
        (["b", "a", ".hidden"], "x", "{place} has a, b"),
        ([*"gfedcba"], "x", "{place} has a, b, c, d, e, f and 1 more"),
        ([*"fedcba"], "x", "{place} has a, b, c, d, e, f"),
        ([], "x/y", "{place} is empty"),
        (["a"], "a", "the folder has no files that fit"),
    ],
)
def test_a_similar_name_or_the_first_names_there(tmp_path: Path, names: list[str], path: str, expected: str) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    assert hint(f"{tmp_path}/{path}") == f"; {expected.format(place=tmp_path)}"


@pytest.mark.parametrize("path", ["R/[a,b]", "[R/e]", "[a]", "s3://bucket/[R/e,R/f]"])
def test_a_list_is_not_a_path(path: str) -> None:
    assert "not a list, but one path is needed" in hint(path)


def test_places_on_s3_are_not_listed() -> None:
    assert hint("s3://bucket/x") == ""
