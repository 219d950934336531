"""Duplicate keys of one table: equal hashes are not enough, and parts of the hashes find the same."""

from typing import Any

import numpy as np
import pytest

from jobs.store import keys
from jobs.store.keys import duplicate_keys
from tests.factories import TableInMemory, rating

KEY = ("item_id", "rater")


def source(*rows: tuple[str, str]) -> Any:
    return TableInMemory("ratings", [rating(item, rater, "q", "1") for item, rater in rows])


def test_keys_are_counted_if_they_occur_more_than_once() -> None:
    rows = [("a", "m"), ("b", "m"), ("a", "n"), ("a", "m"), ("c", "m"), ("b", "m"), ("a", "m")]
    assert duplicate_keys(source(*rows), KEY) == {("a", "m"): 3, ("b", "m"): 2}
    assert duplicate_keys(source(*rows[:3]), KEY) == {}
    assert duplicate_keys(source(), KEY) == {}


def test_different_keys_with_one_hash_are_no_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "key_hashes", lambda batch, key: np.zeros(batch.num_rows, np.uint64))
    assert duplicate_keys(source(("a", "m"), ("b", "m"), ("a", "n")), KEY) == {}
    assert duplicate_keys(source(("a", "m"), ("b", "m"), ("a", "m")), KEY) == {("a", "m"): 2}


@pytest.mark.parametrize("at_a_time", [1, 3, 100])
def test_parts_of_the_hashes_have_the_same_duplicates(at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "HASHES_PER_PART", at_a_time)
    rows = [(f"i{n % 7}", f"r{n % 3}") for n in range(30)]
    assert duplicate_keys(source(*rows), KEY) == {row: rows.count(row) for row in rows if rows.count(row) > 1}
