"""A compact list equals the list that it was made from; a set of hashes finds the index of names."""

import random

import pytest

from jobs.store.files.objects import CHUNK, CompactList, HashSet, Object
from jobs.store.files.threads import in_threads
from tests.cases import check_cases

SIZES = (0, 1, CHUNK, CHUNK + 1, 5 * CHUNK - 1)


def test_a_compact_list_equals_its_values() -> None:
    def check(size: int) -> None:
        things = [Object(f"/corpus/{n:05}", n, f"{n:x}") for n in range(size)]
        packed = CompactList(iter(things))
        assert (len(packed), bool(packed), list(packed)) == (size, bool(size), things)
        assert packed == things
        assert packed != [*things, things]
        assert packed == CompactList(things)
        order = random.Random(1).sample(range(-size, size), 2 * size)
        assert [packed[n] for n in order] == [things[n] for n in order]
        assert packed[1:70:3] == things[1:70:3]
        assert packed[:1] == things[:1]
        with pytest.raises(IndexError):
            packed[size]

    check_cases(check, SIZES)


def test_what_is_much_alike_takes_little() -> None:
    packed = CompactList(
        Object(f"s3://bucket/a/long/prefix/{n:032x}.parquet", 10**6 + n, f"{n:032x}") for n in range(1000)
    )
    assert sum(map(len, packed._chunks)) < 20 * len(packed)


def test_a_hash_set_finds_names() -> None:
    def check(size: int) -> None:
        names = [(f"unit {n}", n) for n in range(size)]
        random.Random(2).shuffle(names)
        marks = HashSet(iter(names))
        assert [marks.index(name) for name in names] == list(range(size))
        assert ("unit", -1) not in marks
        assert marks.distinct
        assert marks.same_as(HashSet(names))
        assert size < 2 or not marks.same_as(HashSet(reversed(names)))
        assert not HashSet([*names, "twice", "twice"]).distinct

    check_cases(check, SIZES)


def test_threads_keep_the_order_and_read_no_further_than_asked() -> None:
    taken = []

    def things() -> object:
        for n in range(10 * CHUNK):
            taken.append(n)
            yield n

    results = in_threads(str, things(), 4)  # type: ignore[arg-type]
    assert [next(results) for _ in range(CHUNK + 1)] == [str(n) for n in range(CHUNK + 1)]
    results.close()  # type: ignore[attr-defined]
    assert len(taken) == 2 * CHUNK
