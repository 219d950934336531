"""The index of a table replaces reading its footers, as long as it describes the objects that are there."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.store import footers, unit_index
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.footers import Footer, data_objects
from jobs.store.reading import open_table
from jobs.store.unit_index import indexed_footers, read_index
from tests.jobs.store.small_runs import ALL_ROWS, FILES, begin, complete, contents, plan, unit, write


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The objects whose footers were read, by name, as they are."""
    names: list[str] = []
    read_footers = footers.read_footers

    def noted(objects: Iterator[Object], *, remote: bool) -> Iterator[Footer | None]:
        for source in objects:
            names.append(source.uri.rsplit("/", 1)[-1].removesuffix(".parquet"))
            yield from read_footers([source], remote=remote)

    monkeypatch.setattr(unit_index, "read_footers", noted)
    return names


def derived(out: str) -> None:
    complete(plan(out, units=[unit(name, derived=True) for name in FILES], derived=True))


def test_a_complete_table_is_opened_without_reading_footers(anywhere: str, read: list[str]) -> None:
    derived(anywhere)
    read.clear()
    source = open_table(anywhere)
    assert (contents(anywhere), read) == (ALL_ROWS, [])
    plain = open_table(anywhere, indexed=False)
    for footer, other in zip(source.footers, plain.footers, strict=True):
        assert (footer.object, footer.rows, footer.unit) == (other.object, other.rows, other.unit)
        assert footer.counts == other.counts
        assert footer.schema.equals(other.schema, check_metadata=True)
        assert footer.record is not None
        assert other.record is not None
        assert footer.record.items() >= other.record.items()
    assert (source.identity, source.metadata, source.whole()) == (plain.identity, plain.metadata, plain.whole())
    assert begin(plan(anywhere, units=[unit(name, derived=True) for name in FILES], derived=True)).todo == []
    assert read == []


def test_only_objects_that_changed_since_are_read(anywhere: str, read: list[str]) -> None:
    derived(anywhere)
    read.clear()
    units = [unit(name, etag="2" if name == "a" else "1", derived=True) for name in FILES]
    again = begin(plan(anywhere, units=units, derived=True))
    assert [task.unit.name for task in again.todo] == ["a"]
    write(again, again.todo[0])
    assert (contents(anywhere), read) == (ALL_ROWS, ["a"])
    again.finish()
    read.clear()
    generations = [record["generation"] for footer in open_table(anywhere).footers if (record := footer.record)]
    assert (generations, read) == ([1, 0, 0], [])


def test_an_index_that_is_gone_or_damaged_is_not_used_and_is_written_again(out: str, read: list[str]) -> None:
    derived(out)
    path = Path(out, "_run", "units.jsonl")
    good = path.read_bytes()
    head, *lines = good.splitlines(keepends=True)
    entry = json.loads(head)
    wrong = {
        "empty": b"",
        "cut off": good[:-9],
        "a line less": head + b"".join(lines[:-1]),
        "a line more": good + lines[0],
        "another order": head + b"".join(reversed(lines)),
        "a changed digit": good.replace(b'"rows": 2', b'"rows": 3', 1),
        "another schema": json.dumps(entry | {"schemas": entry["schemas"] * 2}).encode() + b"\n" + b"".join(lines),
        "no JSON": b"{" + good,
        "of an earlier version": b"3\n" + b"".join(lines),
    }
    for name, content in wrong.items():
        path.write_bytes(content)
        read.clear()
        assert (contents(out), sorted(read)) == (ALL_ROWS, list(FILES)), name
        derived(out)
        assert path.read_bytes() == good, name
    path.unlink()
    read.clear()
    assert (contents(out), sorted(read)) == (ALL_ROWS, list(FILES))


def test_an_index_of_other_objects_is_not_used(out: str, tmp_path: Path, read: list[str]) -> None:
    """Such as that of an earlier state of the table, or objects that were copied by another program."""
    derived(out)
    for name in FILES[:2]:
        os.utime(Path(out, f"{name}.parquet"), ns=(1, 1))
    read.clear()
    assert (contents(out), read) == (ALL_ROWS, ["a", "b"])
    Path(out, "c.parquet").unlink()
    listed = locations.listing(out)
    footers = list(indexed_footers(out, data_objects(out, listed), listed))
    assert [footer and footer.unit.name for footer in footers] == ["a", "b"]


def within_s3(source: str, target: str) -> None:
    """Copy on the server, as a sync of two buckets does: the bytes keep their ETag, the times are new."""
    for file in locations.listing(source):
        (filesystem, path), (_, other) = locations.filesystem(file.uri), locations.filesystem(target)
        filesystem.copy_file(path, other + file.uri.removeprefix(source))


def test_a_copied_table_is_read_as_it_is(out: str, s3: str, tmp_path: Path, read: list[str]) -> None:
    """With an index that is older than the last unit, whose object is of another generation."""
    derived(out)
    index = Path(out, "_run", "units.jsonl").read_bytes()
    units = [unit(name, etag="2" if name == "a" else "1", derived=True) for name in FILES]
    complete(plan(out, units=units, derived=True))
    Path(out, "_run", "units.jsonl").write_bytes(index)
    bucket, local = f"{s3}/{tmp_path.name}", f"{tmp_path}/copy"
    derived(f"{bucket}/whole")
    subprocess.run(["cp", "-r", out, local], check=True)  # new times
    subprocess.run(["cp", "-a", out, f"{local}-a"], check=True)  # the same, as of rsync -a
    locations.publish_folder(Path(out), f"{bucket}/stale")
    within_s3(f"{bucket}/stale", f"{bucket}/stale2")
    within_s3(f"{bucket}/whole", f"{bucket}/whole2")
    everything = list(FILES)
    places = {local: everything, f"{local}-a": ["a"], f"{bucket}/stale": everything, f"{bucket}/stale2": everything}
    for place, footers_read in places.items():
        read.clear()
        generations = {f.unit.name: record["generation"] for f in open_table(place).footers if (record := f.record)}
        assert (generations, sorted(read)) == ({"a": 1, "b": 0, "c": 0}, footers_read), place
        assert contents(place) == ALL_ROWS, place
        assert begin(plan(place, units=units, derived=True)).todo == [], place
    read.clear()
    assert (contents(f"{bucket}/whole2"), read) == (ALL_ROWS, [])


def test_objects_are_found_in_any_order_and_only_once_each(out: str, read: list[str]) -> None:
    derived(out)
    read.clear()
    listed = locations.listing(out)
    objects = list(data_objects(out, listed))
    for order in (objects, objects[::-1], objects[1:], [*objects[2:], *objects[:1]]):
        footers = list(indexed_footers(out, order, listed))
        assert [footer and footer.object for footer in footers] == order
    assert read == []
    assert [footer.unit.name for footer in read_index(out)] == list(FILES)
