"""Objects of S3 that are read ahead: the bytes of the file, few requests, nothing that nobody wants."""

import io
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.full_reads import ShortReadError
from jobs.store.files import locations, read_ahead
from jobs.store.files.read_ahead import AHEAD, ReadAhead
from jobs.store.files.threads import HELD_PER_THREAD, ahead
from tests.forwarding import counted_s3

DATA = np.random.default_rng(7).integers(0, 256, 100_000, dtype=np.uint8).tobytes()


class File:
    """A file in memory that remembers what was asked of it."""

    def __init__(self, data: bytes = DATA, answer: Callable[[int], None] = lambda _: None) -> None:
        self.data, self.answer = data, answer
        self.asked: list[tuple[int, int]] = []

    def size(self) -> int:
        return len(self.data)

    def read_at(self, size: int, at: int) -> bytes:
        self.asked.append((at, size))
        self.answer(at)
        data = self.data[at : at + size]
        if len(data) < size:
            raise ShortReadError(f"changed while it was read: {len(data)} of {size} bytes")
        return data


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "BLOCK", 1000)
    monkeypatch.setattr(read_ahead, "AS_ASKED", 200)
    monkeypatch.setattr(read_ahead, "BEHIND", 300)


def reader(file: Any, end: int | None = None) -> ReadAhead:
    return ReadAhead("s3://b/file", file.size(), file.read_at, end=end)


@pytest.mark.parametrize("end", [None, 0, 5_500, 10**9])
def test_reads_and_seeks_are_those_of_a_file(end: int | None) -> None:
    draw, expected, read = random.Random(3), io.BytesIO(DATA), reader(File(), end)
    for _ in range(2_000):
        kind, size = draw.random(), draw.choice([0, 1, 7, 150, 999, 1000, 1001, 5_000])
        if kind < 0.03:
            offset, whence = draw.choice([(draw.randrange(len(DATA) + 50), 0), (-size, 2), (0, 1), (size, 1)])
            assert read.seek(offset, whence) == expected.seek(offset, whence)
        elif kind < 0.3:
            buffer, other = bytearray(size), bytearray(size)
            assert read.readinto(buffer) == expected.readinto(other)
            assert buffer == other
        elif kind < 0.305:
            assert read.read() == expected.read()
        else:
            assert read.read(size) == expected.read(size)
        assert read.tell() == expected.tell()
    read.close()


def test_a_look_at_the_beginning_asks_for_no_more() -> None:
    file = File()
    read = reader(file)
    read.read(4)
    read.seek(0)
    read.read(150)
    read.close()
    assert file.asked == [(0, 4), (0, 150)]


def test_the_next_blocks_arrive_while_one_is_read() -> None:
    arrived = threading.Semaphore(0)
    file = File(answer=lambda _: arrived.release())
    read = reader(file)
    assert read.read(200) == DATA[:200]
    assert read.read(10) == DATA[200:210]
    for _ in range(2 + AHEAD):  # the direct read, the block that is read, and those ahead of it
        assert arrived.acquire(timeout=30)
    assert sorted(file.asked) == [(0, 200), (200, 1000), (1200, 1000), (2200, 1000)]
    read.close()


def test_little_is_read_behind_the_end_that_the_caller_names() -> None:
    file = File()
    read = reader(file, end=3_000)
    while read.tell() < 3_500:
        read.read(100)
    read.close()
    assert sorted(file.asked)[-3:] == [(2_200, 800), (3_000, 300), (3_300, 300)]


def test_a_seek_into_what_arrived_asks_for_nothing_again() -> None:
    file = File()
    read = reader(file)
    read.read(200)
    for at in (1_000, 300, 1_800, 2_100):
        read.read(10)
        read.seek(at)
        assert read.read(20) == DATA[at : at + 20]
    read.close()
    assert sorted(file.asked) == [(0, 200), *((200 + 1000 * n, 1000) for n in range(len(file.asked) - 1))]


def test_an_error_is_raised_by_the_read_that_reaches_it_and_the_next_asks_again() -> None:
    failures = {1_200}

    def answer(at: int) -> None:
        if at in failures:
            failures.remove(at)
            raise OSError("busy")

    read = reader(File(answer=answer))
    assert read.read(200) == DATA[:200]
    assert read.read(1_000) == DATA[200:1_200]
    with pytest.raises(OSError, match="busy"):
        read.read(100)
    assert read.tell() == 1_200
    assert read.read(2_000) == DATA[1_200:3_200]
    read.close()


def test_a_file_that_became_shorter_is_an_error() -> None:
    file = File()
    read = reader(file)
    file.data = DATA[:1_500]
    with pytest.raises(OSError, match="changed while it was read"):
        read.read(3_000)
    read.close()


def test_an_object_of_s3_and_a_local_file(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "BLOCK", 20_000)
    local, remote = str(tmp_path / "file"), f"{s3}/read-ahead/file"
    for uri in (local, remote):
        locations.create(uri, DATA)
        with read_ahead.opened(uri) as file:
            assert b"".join(iter(lambda: file.read(100), b"")) == DATA
    with counted_s3() as front, read_ahead.opened(remote) as file:
        for _ in range(len(DATA) // 100):
            file.readinto(bytearray(100))
        assert front.requests["GET"] == 2 + 5  # of the caller's size, then blocks


THREADS = 3


def test_later_values_are_read_while_the_first_is() -> None:
    together = threading.Barrier(THREADS, timeout=60)

    def read(value: int) -> int:
        together.wait()  # broken, which raises, unless three are read at a time
        return value * 10

    read_values = ahead(read, range(9), threads=THREADS, weight=lambda _: 1, most=100)
    assert list(read_values) == [value * 10 for value in range(9)]


def test_results_that_wait_are_bounded_by_their_weights() -> None:
    lock, begun, taken, largest = threading.Lock(), 0, 0, 0

    def read(value: int) -> int:
        nonlocal begun, largest
        with lock:
            begun += 1
            largest = max(largest, begun - taken)
        return value

    for value in ahead(read, range(40), threads=8, weight=lambda value: 30 if value == 20 else 5, most=20):
        assert value == taken
        with lock:
            taken += 1
    assert taken == 40
    assert largest <= 5  # four of weight 5, and the one that was handed over before it was counted


def test_an_error_is_raised_in_order_and_ends_the_reading() -> None:
    asked: list[int] = []

    def values() -> Iterator[int]:
        for value in range(1000):
            asked.append(value)
            yield value

    def read(value: int) -> int:
        if value == 2:
            raise ValueError("damaged")
        return value

    results = ahead(read, values(), threads=THREADS, weight=lambda _: 1, most=100)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="damaged"):
        next(results)
    assert len(asked) < 20


def test_a_slow_value_keeps_no_thread_from_those_after_it() -> None:
    count = 100
    begun = [threading.Event() for _ in range(count)]

    def read(value: int) -> int:
        begun[value].set()
        if value % (2 * HELD_PER_THREAD * THREADS) == 0 and (last := value + HELD_PER_THREAD * THREADS - 1) < count:
            assert begun[last].wait(timeout=60)
        return value

    assert list(ahead(read, range(count), threads=THREADS, weight=lambda _: 0, most=0)) == list(range(count))
