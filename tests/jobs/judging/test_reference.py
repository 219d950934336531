"""Reference ratings for the settings of `loglik`."""

from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.judging.reference import read_reference
from tests.factories import rating, write_table


def test_the_mean_of_the_scores_there_are(tmp_path: Path) -> None:
    write_table(tmp_path / "people", "ratings", [
        rating("i", "anna", "q", "4"),
        rating("i", "bo", "q", "1"),
        rating("i", "cy", "q", None),
        rating("i", "dora", "q", "yes"),
        rating("j", "anna", "q", "5", status="truncated"),
        rating("k", "anna", "q", "3", target="Peru"),
    ])  # fmt: skip
    assert read_reference(f"{tmp_path}/people") == {("i", ""): 2.5, ("k", "Peru"): 3.0}
    assert read_reference(None) == {}


def test_ratings_without_a_score_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "people", "ratings", [rating("i", "anna", "q", "yes")])
    with pytest.raises(InputError, match=r"reference=.*: none of its ratings has a score"):
        read_reference(f"{tmp_path}/people")
