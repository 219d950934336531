"""Answers of a store that are short or changed: whole reads, readers, copies and repairs (`tests.fault_proxy`)."""

import errno
import gzip
import hashlib
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from actors import full_reads
from actors.full_reads import ATTEMPTS, ShortReadError, read_full
from actors.stored_pictures import _read
from jobs import copy
from jobs.corpora.delimited import read_dialect, refuse, rows, text_batches
from jobs.runtime.command_line import cli
from jobs.store.files import locations, read_ahead, s3, whole
from jobs.store.files.whole import REPEATED_READS, repeated
from tests.factories import record, write_records
from tests.fault_proxy import Fault, FaultProxy, Request, through

KINDS = ("short answer", "flipped answer", "cut answer")
DATA = {"small": b'{"a": 1}', "empty": b"", "one": random.Random(1).randbytes(700_000),
        "parts": random.Random(2).randbytes(21 << 20), "text.csv": b"a,b\n" + b"1,2\n" * 400_000}  # fmt: skip


@pytest.fixture(scope="module")
def proxy(s3: str) -> Iterator[FaultProxy]:
    with FaultProxy(os.environ["AWS_ENDPOINT_URL"]) as proxy, through(proxy):
        yield proxy


@pytest.fixture(scope="module")
def place(proxy: FaultProxy, s3: str) -> str:
    for name, data in DATA.items():
        locations.replace(f"{s3}/whole/{name}", data)
    return f"{s3}/whole"


def gets(share: float, seed: int = 5) -> Callable[[Request], bool]:
    """Some of the requests for the content of objects."""
    draw = random.Random(seed)
    return lambda request: request.method == "GET" and not request.is_listing and draw.random() < share


def streamed(uri: str) -> bytes:
    with locations.opened(uri) as stream:
        return b"".join(iter(lambda: stream.read(100_000), b""))


def saved(uri: str) -> bytes:
    with locations.local_copy(uri) as path:
        return path.read_bytes()


def picture(uri: str) -> bytes:
    fs, path = locations.filesystem(uri)
    return _read(fs, path, 1 << 30)


def ahead(uri: str) -> bytes:
    with read_ahead.opened(uri) as stream:
        data: bytes = stream.read()
    return data


@pytest.mark.parametrize("kind", KINDS)
def test_whole_reads_return_what_is_stored_or_raise(proxy: FaultProxy, place: str, kind: str) -> None:
    with proxy.between(Fault(kind, gets(0.3))):
        for name, data in DATA.items():
            uri = f"{place}/{name}"
            assert locations.read_bytes(uri) == data, name
            assert saved(uri) == data, name
            if name != "parts":  # which have no MD5 sum
                assert picture(uri) == data, name
            for read in (streamed, ahead):
                try:
                    is_unchecked = kind == "flipped answer" and (read is ahead or name == "parts")  # no MD5 sum
                    assert read(uri) == data or is_unchecked, (read, name)
                except OSError as error:
                    assert "run the same command again" in str(error)  # noqa: PT017 (only flipped bytes of a stream)
                    assert kind == "flipped answer"
    assert proxy.affected[kind] > 0


def test_user_files_are_read_and_decompressed(place: str) -> None:
    table = DATA["text.csv"]
    locations.replace(f"{place}/t.csv.gz", gzip.compress(table))
    assert streamed(f"{place}/t.csv.gz") == table
    for name in ("text.csv", "t.csv.gz"):
        uri = f"{place}/{name}"
        dialect = read_dialect(uri)
        assert sum(batch.num_rows for batch in text_batches(uri, dialect)) == 400_000
        assert sum(1 for _ in rows(uri, dialect, reject=refuse)) == 400_000


def test_a_store_that_never_sends_the_same_bytes_is_refused(proxy: FaultProxy, place: str) -> None:
    with proxy.between(Fault("flipped answer", gets(1.0))), pytest.raises(OSError, match="each read returned other"):
        locations.read_bytes(f"{place}/one")
    with proxy.between(Fault("short answer", gets(1.0))), pytest.raises(OSError, match="each read returned other"):
        locations.read_bytes(f"{place}/one")


def test_an_etag_need_not_be_an_md5_sum(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encrypted objects have such ETags."""
    monkeypatch.setattr(whole, "etag_in", lambda file: "0" * 32)
    monkeypatch.setattr(full_reads, "etag_in", lambda file: "0" * 32)
    assert picture(f"{place}/one") == DATA["one"]
    monkeypatch.setattr(whole, "etag_of", lambda uri: "0" * 32)
    assert locations.read_bytes(f"{place}/one") == streamed(f"{place}/one") == DATA["one"]


class Half:
    """A file whose reads fill only half of the memory, `times` times."""

    def __init__(self, data: bytes, times: int) -> None:
        self.data, self.times, self.at = data, times, 0

    def seek(self, at: int) -> None:
        self.at = at

    def readinto(self, buffer: bytearray) -> int:
        data = self.data[self.at : self.at + len(buffer)]
        filled = len(data)
        if self.times:
            self.times, filled = self.times - 1, len(data) // 2
        buffer[:filled] = data[:filled]
        return len(data)


def test_memory_that_nobody_filled_is_noticed() -> None:
    for size in (1, 2, 15, 16, 17, 1000):
        data = random.Random(size).randbytes(size + 3)
        for first in (0, 3):
            assert read_full(Half(data, ATTEMPTS - 1), size, first) == data[first : first + size]
        with pytest.raises(ShortReadError, match="sent fewer"):
            read_full(Half(data, 1 << 30), size)
        with pytest.raises(ShortReadError, match=f"{size + 3:,} of {size + 4:,} bytes"):
            read_full(Half(data, 0), size + 4)
    assert read_full(Half(b"", 0), 0) == b""


def sums(place: str) -> dict[str, str]:
    return {
        file.uri.removeprefix(place): hashlib.md5(locations.read_bytes(file.uri)).hexdigest()
        for file in locations.listing(place)
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_is_whole(proxy: FaultProxy, s3: str, tmp_path: Path, kind: str) -> None:
    source = f"{s3}/whole-table/{kind[:5].strip()}"
    write_records(f"{source}/records", [[record(f"{unit}{row}") for row in range(40)] for unit in range(3)])
    locations.replace(f"{source}/page.html", DATA["parts"])
    expected = sums(source)
    for out in (f"{tmp_path}/copy", f"{source}-copy"):
        with proxy.between(Fault(kind, gets(0.2))):
            assert cli.main("copy", [source, out]) == 0
        assert sums(out) == expected
        assert proxy.affected[kind] > 0


@pytest.mark.parametrize("kind", ["short answer", "flipped answer"])
def test_a_repair_through_a_bad_connection_moves_nothing_sound(
    proxy: FaultProxy, s3: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = f"{s3}/whole-repair/{kind[:5].strip()}"
    write_records(table, [[record(f"{unit}{row}") for row in range(40)] for unit in range(4)], rejected=1)
    before = sums(table)
    for seed in range(2):
        for keys in ([table], [table, "repair=true"]):
            with proxy.between(Fault(kind, gets(0.15, seed))):
                code = cli.main("verify", keys)
            assert sums(table) == before, (seed, keys, capsys.readouterr())
            assert code == 0, (seed, keys, capsys.readouterr())
    locations.replace(f"{table}/unit2.parquet", locations.read_bytes(f"{table}/unit2.parquet")[:-100])
    with proxy.between(Fault(kind, gets(0.15, 9))):
        assert cli.main("verify", [table, "repair=true"]) == 0
    moved = {f"/_run/damaged.{name}" for name in ("unit2.parquet", "_rejects.unit2.0.parquet")}
    assert set(sums(table)) - set(before) == moved
    assert set(before) - set(sums(table)) == {"/unit2.parquet", "/_rejects/unit2.0.parquet"}
    write_records(table, [[record(f"{unit}{row}") for row in range(40)] for unit in range(4)], rejected=1)
    assert cli.main("verify", [table]) == 0
    assert cli.main("rm", [table, "interrupted=true"]) == 0
    assert set(sums(table)) == set(before)


def test_a_listing_that_is_old_does_not_decide_what_a_copy_has(s3: str, tmp_path: Path) -> None:
    source, out = f"{s3}/whole-old/x", f"{tmp_path}/out"
    locations.replace(f"{source}/a.txt", b"old")
    plan = copy.plan_copy(source, out)
    locations.replace(f"{source}/a.txt", b"longer than before")
    assert copy.copy_files(plan).bytes == len(b"longer than before")
    assert (tmp_path / "out" / "a.txt").read_bytes() == b"longer than before"


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
    store = Store(REPEATED_READS - 1)
    assert repeated("s3://b/k", store.read) == b"rows"
    assert (store.reads, waits) == (REPEATED_READS, ["s3://b/k"] * (REPEATED_READS - 1))


def test_the_last_refusal_is_the_error(waits: list[str]) -> None:
    store = Store(REPEATED_READS)
    with pytest.raises(OSError, match="SlowDown"):
        repeated("s3://b/k", store.read)
    assert (store.reads, len(waits)) == (REPEATED_READS, REPEATED_READS - 1)


def test_damage_is_read_again_on_s3_and_other_errors_are_not(waits: list[str]) -> None:
    """The bytes may have been changed on the way."""
    damage, denied = OSError("Unexpected end of stream"), PermissionError(errno.EACCES, "no")
    for uri, error, reads in (("s3://b/k", damage, REPEATED_READS), ("/k", damage, 1), ("s3://b/k", denied, 1)):
        store = Store(REPEATED_READS, error)
        with pytest.raises(OSError, match=r"Unexpected|no"):
            repeated(uri, store.read, also_damage=True)
        assert (store.reads, waits) == (reads, [])
    assert repeated("s3://b/k", Store(REPEATED_READS - 1, damage).read, also_damage=True) == b"rows"
    store = Store(1, damage)  # of a read that checks nothing
    with pytest.raises(OSError, match="Unexpected"):
        repeated("s3://b/k", store.read)
