"""Files that are written in one step, and what processes that were killed while they wrote have left."""

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jobs.store.files import local_files
from jobs.store.files.local_files import path_hint

LEFT = ".table.0.tmp"  # of a process that was killed


def published(target: Path, data: bytes) -> bool:
    source = target.parent.parent / "source"
    source.write_bytes(data)
    local_files.publish(source, target)
    return True


def created(target: Path, data: bytes) -> bool:
    return local_files.create(target, [data])


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out" / "table"


def names(target: Path) -> list[str]:
    return sorted(path.name for path in target.parent.iterdir())


@pytest.mark.parametrize("write", [published, created])
def test_what_a_killed_process_left_is_used_and_removed(target: Path, write: Callable[[Path, bytes], bool]) -> None:
    (target.parent / LEFT).write_bytes(b"longer than the content")
    assert write(target, b"content")
    assert names(target) == ["table"]
    assert target.read_bytes() == b"content"


@pytest.mark.parametrize("write", [published, created])
def test_the_content_is_on_the_disk_before_it_has_its_name(
    target: Path, write: Callable[[Path, bytes], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[tuple[bytes, bool]] = []
    monkeypatch.setattr(os, "fsync", lambda _: flushed.append(((target.parent / LEFT).read_bytes(), target.exists())))
    assert write(target, b"content")
    assert flushed == [(b"content", False)]


@pytest.mark.parametrize("write", [published, created])
def test_a_file_that_another_process_writes_is_left_alone(target: Path, write: Callable[[Path, bytes], bool]) -> None:
    with (target.parent / LEFT).open("wb") as others:
        fcntl.flock(others, fcntl.LOCK_EX)
        others.write(b"half")
        others.flush()
        assert write(target, b"content")
        assert names(target) == [LEFT, "table"]
        assert (target.parent / LEFT).read_bytes() == b"half"


@pytest.mark.parametrize(("write", "content"), [(published, b"new"), (created, b"old")])
def test_a_creation_that_was_killed_after_its_link(
    target: Path, write: Callable[[Path, bytes], bool], content: bytes
) -> None:
    target.write_bytes(b"old")
    (target.parent / LEFT).hardlink_to(target)
    with target.open("rb") as reader:
        assert write(target, b"new") == (write is published)
        assert reader.read() == b"old"  # a reader never sees it cut off
    assert names(target) == ["table"]
    assert target.read_bytes() == content


@pytest.mark.parametrize("write", [published, created])
def test_a_file_system_without_locks(
    target: Path, write: Callable[[Path, bytes], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert write(target, b"content")
    assert names(target) == ["table"]
    assert target.read_bytes() == b"content"


def test_nothing_is_left_of_a_file_that_cannot_be_written(target: Path) -> None:
    def full() -> Iterator[bytes]:
        yield b"a piece"
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        local_files.create(target, full())
    with pytest.raises(FileNotFoundError):
        local_files.publish(target.parent / "absent", target)
    assert names(target) == []


def test_files_that_cannot_be_used_are_refused_or_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jpg").write_bytes(b"abc")
    (tmp_path / "dangling.jpg").symlink_to(tmp_path / "nowhere")
    strange = tmp_path / os.fsdecode(b"caf\xe9.jpg")
    strange.write_bytes(b"")
    for pattern in (str(tmp_path), f"{tmp_path}/*.jpg"):
        files = list(local_files.find(pattern, strict=False))
        assert [(file.uri, file.size) for file in files] == [
            (f"{tmp_path}/a.jpg", 3),
            (f"{tmp_path}/caf\\udce9.jpg", 0),
        ]
        with pytest.raises(OSError, match=r"/caf\\udce9\.jpg has a name that is not UTF-8$"):
            list(local_files.find(pattern, strict=True))
    strange.unlink()
    monkeypatch.setattr(os, "access", lambda path, mode: not path.endswith("a.jpg") or mode != os.R_OK)
    with pytest.raises(PermissionError, match=f"^{tmp_path}/a.jpg is not readable$"):
        list(local_files.find(str(tmp_path), strict=True))
    assert len(list(local_files.find(str(tmp_path), strict=False))) == 1


@pytest.mark.parametrize(
    ("names", "path", "expected"),
    [
        (["ratings", "images"], "rating", "did you mean {place}/ratings?"),
        (["ratings", "images"], "rating/deeper", "did you mean {place}/ratings?"),
        (["b", "a", ".hidden"], "x", "{place} has a, b"),
        ([*"gfedcba"], "x", "{place} has a, b, c, d, e, f and 1 more"),
        ([*"fedcba"], "x", "{place} has a, b, c, d, e, f"),
        ([], "x/y", "{place} is empty"),
        (["a"], "a", "the folder is empty"),
    ],
)
def test_a_similar_name_or_the_first_names_there(tmp_path: Path, names: list[str], path: str, expected: str) -> None:
    for name in names:
        (tmp_path / name).mkdir()
    assert path_hint(f"{tmp_path}/{path}") == f"; {expected.format(place=tmp_path)}"


@pytest.mark.parametrize("path", ["R/[a,b]", "[R/e]", "[a]", "s3://bucket/[R/e,R/f]"])
def test_a_list_is_not_a_path(path: str) -> None:
    assert "not a list, but one path is needed" in path_hint(path)


def test_places_on_s3_are_not_listed() -> None:
    assert path_hint("s3://bucket/x") == ""
