"""Reads that a store refused for a moment."""

import io
from typing import Any

import pytest

from jobs.store.files import s3
from jobs.store.files.repeating import ATTEMPTS, RepeatedReads, repeated

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


def test_other_errors_are_not_repeated(waits: list[str]) -> None:
    store = Store(1, OSError("no such key"))
    with pytest.raises(OSError, match="no such key"):
        repeated("s3://b/k", store.read)
    assert (store.reads, waits) == (1, [])


def test_a_stream_repeats_each_read() -> None:
    store: Any = Store(2)
    reader = RepeatedReads("s3://b/k", store)
    buffer = bytearray(3)
    assert (reader.readable(), reader.readinto(buffer), bytes(buffer)) == (True, 3, b"row")
    assert io.BufferedReader(reader, 8).read(4) == b"rows"
    short = bytearray(b"......")
    assert (reader.readinto(short), bytes(short)) == (4, b"rows..")
