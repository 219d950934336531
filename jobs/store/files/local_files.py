"""Local files: listings in a stable order, atomic writes, and hints for messages about a path that does not exist."""

import contextlib
import difflib
import errno
import fcntl
import glob
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from jobs.store.files.objects import Object

_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EBADF, errno.ELOOP)  # errors of a dangling link, or one to itself


def find(pattern: str, *, strict: bool) -> Iterator[Object]:
    """Yield the files of `pattern`, which is a file, a folder (all files below it) or a glob, sorted by name.

    Links to files are followed, but links to folders are not; pipes and dangling links are left out.

    Args:
        strict: refuse files that cannot be read and names that are not UTF-8. Otherwise they are listed too, with
            bytes that are not UTF-8 written as `\\udcXX`.

    Raises:
        FileNotFoundError: there is nothing of this name.
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
    """Create a file unless it exists, in which case return False. Readers never see it half-written."""
    with _unfinished(target) as (path, file):
        file.writelines(data)
        _flush(file)
        try:
            os.link(path, target)  # fails if the target exists
        except FileExistsError:
            return False
    return True


def publish(source: Path, target: Path) -> None:
    """Copy the finished file `source` to `target` in one step: a copy next to the target, then a rename."""
    with _unfinished(target) as (path, file):
        shutil.copyfile(source, path)  # within the kernel where it can
        _flush(file)
        path.replace(target)


def _flush(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())  # after a power cut the name must not lead to an empty file


@contextlib.contextmanager
def _unfinished(target: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield an empty file next to `target` that the block links or renames; a file that it leaves there is removed.

    The process keeps the file locked (flock). If the process is killed, the file remains without a lock, and the next
    process that writes `target` reuses it: repeated commands leave no files behind.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    path, descriptor = _lock_next_to(target)
    with os.fdopen(descriptor, "wb") as file:
        try:
            yield path, file
        finally:
            if _has_name(descriptor, path):  # after a rename, another process's file may have the name
                path.unlink()


def _lock_next_to(target: Path) -> tuple[Path, int]:
    """Return the path and the descriptor of an empty file next to `target` that no other process or thread uses."""
    number = 0
    while True:
        path = target.parent / f".{target.name}.{number}.tmp"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except PermissionError:
            if not path.exists():
                raise
            number += 1  # another user's file
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            number += 1
        except OSError:  # a file system without locks
            os.close(descriptor)
            path.unlink(missing_ok=True)
            path = target.parent / f".{target.name}.{secrets.token_hex(8)}.tmp"
            return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        else:
            if _has_name(descriptor, path):
                if os.fstat(descriptor).st_nlink == 1:
                    os.ftruncate(descriptor, 0)
                    return path, descriptor
                path.unlink()  # `create` was killed after it had linked the file to its target
            os.close(descriptor)


def _has_name(descriptor: int, path: Path) -> bool:
    """Return whether the open file is the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _below(folder: str) -> Iterator[str]:
    """Yield the paths of everything below `folder` except folders, sorted by their printable names."""
    try:
        with os.scandir(folder or "/") as entries:
            # A folder sorts with its slash, so that the files below it are in order with the files next to it.
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
    """Return `path` with bytes that are not UTF-8 written as `\\udcXX`."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return path.encode("utf-8", "backslashreplace").decode()
    return path


def _object(path: str, *, strict: bool) -> Object | None:
    """Return the file at `path`; None for a folder, a pipe or a dangling link."""
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


_NAMES_SHOWN = 6
_PICTURES = (".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".gif")
_PATH_LIST = re.compile(r"(^|/)\[[^\[\]]*\]$")  # a list given where a path is expected; few globs look like this

_WINDOWS = re.compile(r"(?:^|/)[A-Za-z]:[^/]*$")  # C:\\photos, of which a shell without quotes makes C:photos
_ROWS = (".csv", ".tsv", ".jsonl", ".xlsx")
# Endings of files -> what reads them.
_READERS = {
    (".html", ".htm"): "a page: open it in a browser",
    _ROWS: "rows: remine items reads pictures from them, import_ratings people's answers, report input=FILE ratings",
    _PICTURES: "a picture: name its folder",
    (".yaml", ".yml"): "a file of keys",
}

_QUOTED_LIST = re.compile(r"""(^|/)(["'])\[.*\]\2$""")


def path_hint(path: str) -> str:
    """Return `; did you mean …?`, or `; FOLDER has …` for a local path or glob without a match; empty for s3://.

    For a list, `[a,b]`, return that one path is needed.
    """
    if _QUOTED_LIST.search(path):
        return "; the value has quotes inside: write one pair of quotes, around key=[…]"
    if path.count("“") or path.count("”"):
        return "; typographic quotes are part of the name: use ' or \", or none"
    if any(mark in path and Path(path.partition(mark)[0]).exists() for mark in ",;"):
        return "; several paths are written as a list, key=[a,b], where the key takes a list"
    if _WINDOWS.search(path):
        return "; a path of Windows: in WSL, C:\\photos is /mnt/c/photos"
    if _PATH_LIST.search(path):
        return (
            "; not a list, but one path is needed: name one table, folder or file, or a glob of files, without brackets"
        )
    return "" if "://" in path else _local_hint(Path(path))


def _local_hint(wanted: Path) -> str:
    if wanted.is_file():
        return next((f"; {reader}" for ends, reader in _READERS.items() if wanted.suffix.lower() in ends), "")
    if wanted.is_dir():
        return f"; {_of_folder(wanted)}"
    folder = wanted.parent
    while not folder.is_dir() and folder != folder.parent:
        wanted, folder = folder, folder.parent
    try:
        names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError:
        return ""
    if near := difflib.get_close_matches(wanted.name, names, n=1, cutoff=0.75):
        return f"; did you mean {folder / near[0]}?"
    return f"; {folder} has {_listed(names)}" if names else f"; {folder} is empty"


def _of_folder(folder: Path) -> str:
    """Return what is in a folder without a table."""
    names = sorted(entry.name for entry in folder.iterdir())
    if any(name.lower().endswith(_PICTURES) for name in names):
        return f"the folder has pictures, of which remine fetch source=folder source.path={folder} makes a table"
    if "index.html" in names:
        return f"a page: open {folder / 'index.html'} in a browser"
    return f"the folder has only {_listed(names)}" if names else "the folder is empty"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    return f"{', '.join(names[:_NAMES_SHOWN])}{more}"
