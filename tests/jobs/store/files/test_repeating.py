"""Reads that a store refused for a moment."""

import errno

import pytest

from jobs.store.files import s3
from jobs.store.files.repeating import ATTEMPTS, repeated

BUSY = OSError("When reading: Failed to flush response stream (SlowDown)")


class Store:
    """Refuses the first `refusals` reads."""

    def __init__(self, refusals: int, error: OSError = BUSY) -> None:
        self.refusals, self.error, self.reads = refusals, error, 0

    def read(self, size: int = 9) -> bytes:
        self.reads += 1
        if self.reads <= self.refusals:
            raise self.error
        return b"rows"[:size]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The places that were waited for."""
    waited: list[str] = []
    monkeypatch.setattr(s3, "wait_for", waited.append)
    return waited


def test_a_read_is_repeated_until_the_store_answers(waits: list[str]) -> None:
    store = Store(ATTEMPTS - 1)
    assert repeated("s3://b/k", store.read) == b"rows"
    assert (store.reads, waits) == (ATTEMPTS, ["s3://b/k"] * (ATTEMPTS - 1))


def test_the_last_refusal_is_the_error(waits: list[str]) -> None:
    store = Store(ATTEMPTS)
    with pytest.raises(OSError, match="SlowDown"):
        repeated("s3://b/k", store.read)
    assert (store.reads, len(waits)) == (ATTEMPTS, ATTEMPTS - 1)


def test_damage_is_read_again_on_s3_and_other_errors_are_not(waits: list[str]) -> None:
    """The bytes may have been changed on the way."""
    damage, denied = OSError("Unexpected end of stream"), PermissionError(errno.EACCES, "no")
    for uri, error, reads in (("s3://b/k", damage, ATTEMPTS), ("/k", damage, 1), ("s3://b/k", denied, 1)):
        store = Store(ATTEMPTS, error)
        with pytest.raises(OSError, match=r"Unexpected|no"):
            repeated(uri, store.read, also_damage=True)
        assert (store.reads, waits) == (reads, [])
    assert repeated("s3://b/k", Store(ATTEMPTS - 1, damage).read, also_damage=True) == b"rows"
    store = Store(1, damage)  # of a read that checks nothing
    with pytest.raises(OSError, match="Unexpected"):
        repeated("s3://b/k", store.read)
