"""Local files: listings in a stable order, and atomic writes."""

import errno
import glob
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from jobs.store.objects import Object

_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)  # errors of a dangling link, or one to itself


def find(pattern: str, *, strict: bool) -> Iterator[Object]:
    """The files that `pattern` names: a file, a folder (all files below it), or a glob; sorted by name.

    Links to files are followed, links to folders are not; pipes and dangling links are left out.

    Args:
        strict: refuse files that cannot be read and names that are not UTF-8. Otherwise they are listed too, with
            bytes that are not UTF-8 written as `\\udcXX`.

    Raises:
        FileNotFoundError: nothing has this name.
        OSError: with `strict`, a file that cannot be used.
    """
    path = Path(pattern)
    if path.is_file():
        names: Iterable[str] = [pattern]
    elif path.is_dir():
        names = _below(pattern.rstrip("/"))
    elif glob.has_magic(pattern):
        names = sorted(glob.glob(pattern, recursive=True), key=_printable)
    else:
        raise FileNotFoundError(pattern)
    for name in names:
        if (file := _object(name, strict=strict)) is not None:
            yield file


def create(target: Path, data: Iterable[bytes]) -> bool:
    """Create a file unless it exists; False if it does. Readers never see it half-written."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=".", suffix=".tmp", delete=False) as temporary:
        temporary.writelines(data)
        temporary.flush()
        os.fsync(temporary.fileno())  # after a power cut the name must not lead to an empty file
    try:
        os.link(temporary.name, target)  # fails if the target exists
    except FileExistsError:
        return False
    finally:
        Path(temporary.name).unlink()
    return True


def publish(source: Path, target: Path) -> None:
    """Copy the finished file `source` to `target` in one step: a copy next to the target, then a rename."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{os.getpid()}.tmp"
    try:
        with source.open("rb") as reader, temporary.open("wb") as writer:
            while chunk := reader.read(1 << 20):
                writer.write(chunk)
            writer.flush()
            os.fsync(writer.fileno())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


def _below(folder: str) -> Iterator[str]:
    """The paths of everything below `folder` except folders, sorted by their printable names."""
    try:
        with os.scandir(folder or "/") as entries:
            # A folder sorts with its slash, so that the files below it come in order with the files next to it.
            names = [f"{e.name}/" if e.is_dir(follow_symlinks=False) else e.name for e in entries]
    except PermissionError:
        return
    for name in sorted(names, key=_printable):
        path = f"{folder}/{name}"
        if name.endswith("/"):
            yield from _below(path[:-1])
        else:
            yield path


def _printable(path: str) -> str:
    """`path` with bytes that are not UTF-8 written as `\\udcXX`."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode("utf-8", "backslashreplace").decode()
    return path


def _object(path: str, *, strict: bool) -> Object | None:
    """The file at `path`; None for a folder, a pipe or a dangling link."""
    try:
        info = os.stat(path)  # noqa: PTH116 (Path objects of ten thousand names would stay in memory)
    except OSError as error:
        if error.errno in _NO_FILE:
            return None
        raise
    if not stat.S_ISREG(info.st_mode):
        return None
    name = _printable(path)
    if strict and not os.access(path, os.R_OK):
        raise PermissionError(f"{name} is not readable")
    if strict and name != path:
        raise OSError(f"{name} has a name that is not UTF-8")
    return Object(name, info.st_size, f"{info.st_size:x}-{info.st_mtime_ns:x}")
