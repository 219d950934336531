"""Rows of one object: by row group, by position and by key, and damage in them."""

import contextlib
import fcntl
import pickle
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import RunError
from jobs.store import object_rows
from jobs.store.files.objects import Object
from jobs.store.files.spool import MachineCopy
from jobs.store.object_rows import (
    OBJECT,
    ROW,
    RowLookup,
    SharedLookup,
    distinct_values,
    first_values,
    read_rows,
    read_unit,
    row_groups,
)
from jobs.store.reading import open_table
from tests.factories import DIM, embedding_rows, write_units
from tests.jobs.store.small_runs import open_below

KEYS = ["a", "b", "a", "c", "b", "d", "e"]


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Seven rows in row groups of two."""
    path = str(tmp_path / "u.parquet")
    rows = pa.table({"n": range(7), "key": KEYS, "text": [f"text {n}" for n in range(7)]})
    options: dict[str, Any] = {"row_group_size": 2, "compression": "none", "write_page_checksum": True}
    pq.write_table(rows.replace_schema_metadata({"remine.table": "x"}), path, use_dictionary=False, **options)
    return path


@pytest.mark.parametrize(("limit", "sizes"), [(None, [2, 2, 2, 1]), (1, [1]), (2, [2]), (3, [2, 1]), (9, [2, 2, 2, 1])])
def test_no_row_group_after_a_limit_is_read(uri: str, limit: int | None, sizes: list[int]) -> None:
    groups = list(row_groups(uri, limit, ["n"], ()))
    assert [rows.num_rows for rows in groups] == sizes
    assert pa.concat_tables(groups).to_pydict() == {"n": list(range(sum(sizes)))}


def test_columns_and_dictionaries_are_those_that_are_asked_for(uri: str) -> None:
    (rows,) = row_groups(uri, 1, None, ["key"])
    assert rows.column_names == ["n", "key", "text"]
    assert [pa.types.is_dictionary(field.type) for field in rows.schema] == [False, True, False]
    whole = read_unit(uri, columns=["text", "key"], dictionaries=["text"])
    assert set(whole.column_names) == {"text", "key"}
    assert pa.types.is_dictionary(whole.schema.field("text").type)
    assert not pa.types.is_dictionary(whole.schema.field("key").type)
    assert (whole.schema.metadata, read_rows(uri, ["n"], 0, 1).schema.metadata) == (None, None)
    assert not any(pa.types.is_dictionary(field.type) for field in read_unit(uri).schema)


def test_rows_of_a_range_have_their_columns_in_the_order_that_is_asked_for(uri: str) -> None:
    for first, last in ((0, 7), (1, 2), (1, 5), (2, 4), (6, 9), (3, 3), (8, 9)):
        rows = read_rows(uri, ["text", "n"], first, last)
        assert rows.column_names == ["text", "n"]
        assert rows["n"].to_pylist() == list(range(7))[first:last]


def test_distinct_values_are_counted_and_the_first_of_them_keep_all_their_rows(uri: str) -> None:
    assert distinct_values(uri, "key") == 5
    rows = read_unit(uri)
    assert first_values(rows, "key", 2)["n"].to_pylist() == [0, 1, 2, 4]
    assert first_values(rows, "key", None) is rows
    assert first_values(rows, "key", 9).num_rows == 7


def test_rows_are_found_by_their_key_in_the_order_of_the_table(uri: str) -> None:
    lookup = RowLookup([uri, uri], key="key", columns=["key", "n"])
    rows = lookup.rows(pa.array(["d", "a", "a", "absent"]))
    assert rows.to_pydict() == {"key": ["a", "a", "d"] * 2, "n": [0, 2, 5] * 2}
    assert [rows.num_rows for rows in lookup.matching(pa.array(["d"]))] == [0, 1, 0, 1]
    assert pa.concat_tables(lookup.matching(None))["n"].to_pylist() == [*range(7)] * 2
    keys = RowLookup([uri], key="key", columns=[]).rows(pa.array(["b"]))
    assert keys.to_pydict() == {"key": ["b", "b"]}
    assert lookup.rows(pa.array(["absent"])).to_pydict() == {"key": [], "n": []}


@pytest.mark.parametrize(
    "read",
    [
        lambda uri: read_unit(uri, columns=["key", "text"]),
        lambda uri: list(row_groups(uri, None, ["key", "text"], ())),
        lambda uri: read_rows(uri, ["text"], 0, 7),
        lambda uri: RowLookup([uri], key="key", columns=["text"]).rows(pa.array(["a"])),
    ],
)
def test_a_changed_byte_of_a_page_or_of_a_column_name_is_damage(uri: str, read: Callable[[str], object]) -> None:
    data = bytearray(Path(uri).read_bytes())
    data[data.index(b"\x06\0\0\0text 2") + 4] ^= 1  # not in the statistics
    Path(uri).write_bytes(data)
    with pytest.raises(RunError, match=r"u\.parquet: damaged, its rows cannot be read .*repair=true"):
        read(uri)
    Path(uri).write_bytes(data.replace(b"text", b"tent"))  # among them the column's name, which has no checksum
    with pytest.raises(RunError, match=r"u\.parquet: damaged, its rows cannot be read .*text.*repair=true"):
        read(uri)


def vectors_table(out: Path) -> list[dict]:
    draw = np.random.default_rng(0)
    rows = embedding_rows([f"n{number % 40}" for number in range(60)], "text", draw.normal(size=(60, DIM)))
    rows[7] = {**rows[7], "embedding": None, "status": "error"}
    for number, row in enumerate(rows):  # the key of this test is `kind`: several rows have one
        row["kind"], row["item_id"] = row["item_id"], str(number)
    write_units(out, "embeddings", [rows[:25], [], rows[25:]])
    return rows


def lookups(out: Path) -> tuple[SharedLookup, RowLookup]:
    objects = [footer.object for footer in open_table(str(out)).footers]
    columns = ["item_id", "embedding", "status"]
    return (
        SharedLookup(objects, key="kind", columns=columns),
        RowLookup([source.uri for source in objects], key="kind", columns=columns),
    )


@pytest.mark.parametrize("batch", [4, 1000])
def test_rows_are_those_of_a_filter(
    tmp_path: Path, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(object_rows, "BATCH_ROWS", batch)
    rows = vectors_table(tmp_path / "table")
    shared, reading = lookups(tmp_path / "table")
    for wanted in (["n3", "n30", "n3", "nobody", None], [], [f"n{number}" for number in range(40)], ["n7"]):
        results = shared.rows(pa.array(wanted, pa.string()))
        expected = [row for row in rows if row["kind"] in set(wanted)]
        assert results["item_id"].to_pylist() == [row["item_id"] for row in expected]
        assert results["status"].to_pylist() == [row["status"] for row in expected]
        for vector, row in zip(results["embedding"].to_pylist(), expected, strict=True):
            assert vector == (None if row["embedding"] is None else list(row["embedding"]))
        if None not in wanted:
            assert results.equals(reading.rows(pa.array(wanted, pa.string())).replace_schema_metadata(None))


def test_places_are_rows_of_objects_with_several_row_groups(tmp_path: Path, temporary_folder: Path) -> None:
    vectors_table(tmp_path / "table")
    files = sorted((tmp_path / "table").glob("*.parquet"))
    for file in files:
        pq.write_table(pq.read_table(file), file, row_group_size=4)
    objects = [Object(str(file), file.stat().st_size, "") for file in files]
    rows = SharedLookup(objects, key="kind", columns=["item_id"], places=True).rows(pa.array(["n3", "n30"]))
    places = zip(rows["item_id"].to_pylist(), rows[OBJECT].to_pylist(), rows[ROW].to_pylist(), strict=True)
    assert list(places) == [("3", 0, 3), ("30", 2, 5), ("43", 2, 18)]  # the second object is empty


def test_keys_with_equal_hashes_are_distinguished(
    tmp_path: Path, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        object_rows, "hash_texts", lambda keys: np.array([len(str(key)) for key in pa.array(keys).to_pylist()], "u8")
    )
    rows = vectors_table(tmp_path / "table")
    shared, _ = lookups(tmp_path / "table")
    results = shared.rows(pa.array(["n12", "n5"]))
    assert results["item_id"].to_pylist() == [row["item_id"] for row in rows if row["kind"] in ("n12", "n5")]


def test_the_table_is_read_once_and_the_copy_removed(tmp_path: Path, temporary_folder: Path) -> None:
    vectors_table(tmp_path / "table")
    first, _ = lookups(tmp_path / "table")
    second = pickle.loads(pickle.dumps(first))
    ids = pa.array(["n1"])
    assert first.rows(ids).equals(second.rows(ids))
    size = sum(footer.object.size for footer in open_table(str(tmp_path / "table")).footers)
    assert (first.bytes_read, second.bytes_read) == (size, 0)
    for file in (tmp_path / "table").glob("*.parquet"):
        file.unlink()
    assert first.rows(pa.array(["n2"])).num_rows == 2  # from the copy
    del first
    assert len(list(temporary_folder.iterdir())) == 1
    del second
    assert list(temporary_folder.iterdir()) == []


def test_a_copy_of_a_killed_process_is_filled_again(temporary_folder: Path) -> None:
    call = "MachineCopy('x', lambda folder: (folder / 'half').touch() or os.kill(os.getpid(), 9))"
    code = f"import os, tempfile; tempfile.tempdir = {str(temporary_folder)!r}; "
    code += f"from jobs.store.files.spool import MachineCopy; {call}"
    assert subprocess.run([sys.executable, "-c", code], cwd=Path.cwd(), check=False).returncode == -9
    (left,) = temporary_folder.iterdir()
    assert {file.name for file in left.iterdir()} == {".lock", "half"}
    copy = MachineCopy("x", lambda place: (place / "whole").touch())
    assert copy.filled
    assert {"whole", "complete"} <= {file.name for file in copy.path.iterdir()}
    copy.close()
    assert list(temporary_folder.iterdir()) == []


def test_a_failed_copy_is_not_used(temporary_folder: Path) -> None:
    def fail(_: Path) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        MachineCopy("x", fail)
    assert open_below(temporary_folder) == []
    other = MachineCopy("x", lambda place: (place / "whole").touch())
    assert other.filled
    other.close()
    assert open_below(temporary_folder) == []


@pytest.fixture
def during_lock(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Return a function that has another process act just before this one has its first lock."""

    def act(action: Callable[[], object]) -> None:
        actions, flock = [action], fcntl.flock

        def waiting(lock: int, variant: int) -> None:
            if actions:
                actions.pop()()
            flock(lock, variant)

        monkeypatch.setattr(fcntl, "flock", waiting)

    return act


def test_a_copy_that_is_removed_in_the_meantime_is_filled_once(temporary_folder: Path, during_lock: Any) -> None:
    filled: list[Path] = []

    def fill(place: Path) -> None:
        (place / "whole").touch()
        filled.append(place)

    during_lock(lambda: shutil.rmtree(next(temporary_folder.iterdir())))
    copy = MachineCopy("x", fill)
    assert (filled, copy.filled) == ([copy.path], True)
    assert {"whole", "complete"} <= {file.name for file in copy.path.iterdir()}
    assert len(open_below(temporary_folder)) == 1
    copy.close()
    assert list(temporary_folder.iterdir()) == open_below(temporary_folder) == []


def test_a_copy_that_another_process_fills_in_the_meantime_is_used(temporary_folder: Path, during_lock: Any) -> None:
    def fill() -> None:
        (place,) = temporary_folder.iterdir()
        (place / "complete").touch()

    during_lock(fill)
    copy = MachineCopy("x", lambda _: pytest.fail("filled twice"))
    assert not copy.filled
    copy.close()


def test_a_copy_that_another_process_replaces_in_the_meantime_is_locked(
    temporary_folder: Path, during_lock: Any
) -> None:
    """The lock is on the new folder: nobody else may remove it."""

    def replace() -> None:
        (place,) = temporary_folder.iterdir()
        shutil.rmtree(place)
        place.mkdir()
        (place / ".lock").touch()
        (place / "complete").touch()

    during_lock(replace)
    copy = MachineCopy("x", lambda _: pytest.fail("filled twice"))
    with (copy.path / ".lock").open() as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    copy.close()


def test_processes_that_start_together_copy_once(temporary_folder: Path) -> None:
    code = f"""
import sys, tempfile, time
tempfile.tempdir = {str(temporary_folder)!r}
from jobs.store.files.spool import MachineCopy
print("ready", flush=True)
sys.stdin.readline()
copy = MachineCopy("x", lambda place: time.sleep(0.3) or (place / "whole").touch())
print(copy.filled, (copy.path / "whole").exists(), flush=True)
sys.stdin.readline()
"""
    workers = [
        subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1, text=True, cwd=Path.cwd()) for _ in range(3)
    ]
    try:
        assert {worker.stdout.readline().strip() for worker in workers if worker.stdout} == {"ready"}
        answers = []
        for _ in range(2):  # all have the copy before the first one leaves it
            for worker in workers:
                assert worker.stdin
                worker.stdin.write("\n")
                worker.stdin.flush()
            answers.append([worker.stdout.readline().split() for worker in workers if worker.stdout])
        for worker in workers:
            worker.wait()
    finally:
        for worker in workers:
            worker.kill()
    assert sorted(answers[0]) == [["False", "True"], ["False", "True"], ["True", "True"]]
    assert list(temporary_folder.iterdir()) == []


@pytest.mark.timeout(60)
def test_processes_that_find_the_folder_empty_at_once_wait_for_no_user(
    temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that has seen the folder incomplete must not wait until those that use it end."""
    together = threading.Barrier(2)
    lock = fcntl.flock

    def locked(descriptor: int, operation: int) -> None:
        lock(descriptor, operation)
        if operation == fcntl.LOCK_SH:
            with contextlib.suppress(threading.BrokenBarrierError):
                together.wait(0.3)

    monkeypatch.setattr(fcntl, "flock", locked)
    copies: list[MachineCopy] = []
    threads = [
        threading.Thread(target=lambda: copies.append(MachineCopy("x", lambda _: None)), daemon=True) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(copy.filled for copy in copies) == [False, True]
    for copy in copies:
        copy.close()
    assert list(temporary_folder.iterdir()) == []


def test_a_full_folder_is_named(tmp_path: Path, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jobs.errors import RunError

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    vectors_table(tmp_path / "table")
    shared, _ = lookups(tmp_path / "table")
    monkeypatch.setattr(np, "save", full)
    with pytest.raises(RunError, match=r"TMPDIR=.*full"):
        shared.rows(pa.array(["n1"]))
