"""Temporary folders that are removed even if their process is killed.

Each has a lock file, which its process keeps locked (flock) while it runs; the kernel releases the lock when the
process ends. When a process creates its first spool, it removes the spools of the same user that are not locked.

A copy that the processes of a machine share is a folder, too: the first one to need it fills it, the last removes it.
A process that uses the folder holds a shared lock on its lock file, and the process that fills it an exclusive lock. If
the last user was killed, the next process that creates a temporary folder removes the copy.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
PREFIX = "remine-"
LOCK = ".lock"
UNLOCKED = f"{LOCK}.new"  # the name of the file before it is locked
YOUNG_S = 60.0  # a younger folder without a lock may still get one


class Spool:
    """A temporary folder, `path`, which exists until `cleanup` or the end of a `with` block.

    Args:
        purpose: part of the folder's name.

    Raises:
        OSError: the folder cannot be created.
    """

    def __init__(self, purpose: str = "") -> None:
        sweep(tempfile.gettempdir())
        self._folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{purpose}-" if purpose else PREFIX)
        self.path = Path(self._folder.name)
        self._lock = _lock(self.path)

    def cleanup(self) -> None:
        """Remove the folder and its content."""
        _remove_content(self.path)
        self._folder.cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.add_place(error)
        self.cleanup()

    def add_place(self, error: BaseException | None) -> None:
        """Add this folder to an error about a full disk without a place, which only files in this folder cause.

        A driver does not know the folder of a worker, whose `TMPDIR` may differ.
        """
        if isinstance(error, OSError) and error.errno in FULL_DISK and not error.filename:
            error.filename = str(self.path)


def _lock(folder: Path) -> int | None:
    """Return the descriptor that holds the folder's lock; None on a file system without locks, where nobody sweeps."""
    unlocked = folder / UNLOCKED
    descriptor = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    unlocked.rename(folder / LOCK)  # so that an unlocked file LOCK belongs to a dead process
    return descriptor


def _remove_content(folder: Path) -> None:
    """Remove everything but the lock file, which must be last: nobody sweeps a folder that has files but no lock."""
    with contextlib.suppress(FileNotFoundError):
        for path in folder.iterdir():
            if path.name == LOCK:
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


@cache
def sweep(parent: str) -> None:
    """Remove the spools in the folder `parent` whose processes are dead; once per process."""
    with contextlib.suppress(OSError):  # this user cannot list the folder
        for folder in Path(parent).iterdir():
            if folder.name.startswith(PREFIX):
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        if not (folder / LOCK).exists():
            _remove_if_begun(folder)
            return
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # removed in the meantime, without a lock, or of another user
        return
    _remove_if_free(folder, descriptor)


def _remove_if_begun(folder: Path) -> None:
    """Remove a folder whose process was killed before locking it."""
    names = [path.name for path in folder.iterdir()]
    if time.time() - folder.stat().st_mtime < YOUNG_S:
        return
    if not names:
        folder.rmdir()
    elif names == [UNLOCKED]:
        _remove_if_free(folder, os.open(folder / UNLOCKED, os.O_RDWR | os.O_NOFOLLOW))


def _remove_if_free(folder: Path, descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove_content(folder)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # its process is alive, or the file system has no locks
        pass
    finally:
        os.close(descriptor)


COMPLETE = "complete"  # a file that exists once the folder is filled
RETRY_S = 0.01


class MachineCopy:
    """A folder, `path`, that `fill` fills unless another process of this machine and user has filled it.

    Args:
        name: a hash of what the folder holds; part of the folder's name.
        fill: writes the files into the folder.

    Attributes:
        filled: whether this process filled it.
    """

    def __init__(self, name: str, fill: Callable[[Path], None]) -> None:
        sweep(tempfile.gettempdir())
        self.path = Path(tempfile.gettempdir()) / f"{PREFIX}copy-{name}-{os.getuid()}"
        self.filled = False
        while (lock := self._try(fill)) is None:
            time.sleep(RETRY_S)  # two processes that saw no complete folder hindered each other
        self._release = weakref.finalize(self, _release, self.path, lock)

    def close(self) -> None:
        """Stop using the folder, and remove it if nobody else uses it."""
        self._release()

    def _try(self, fill: Callable[[Path], None]) -> int | None:
        """Return the descriptor of a shared lock on the filled folder; None if it is not filled or was removed."""
        self.path.mkdir(mode=0o700, exist_ok=True)
        try:
            lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:  # its last user has just removed the folder
            return None
        try:
            if _is_exclusive(lock) and not (self.path / COMPLETE).exists() and _is_current(lock, self.path):
                fill(self.path)
                (self.path / COMPLETE).touch()
                self.filled = True
            # Waits for the process that fills the folder, and never for an exclusive lock: users keep the folder for
            # long.
            fcntl.flock(lock, fcntl.LOCK_SH)
            if (self.path / COMPLETE).exists() and _is_current(lock, self.path):
                return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)
        return None


def _is_exclusive(lock: int) -> bool:
    """Lock exclusively unless another process has a lock; return whether this succeeded."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_current(lock: int, folder: Path) -> bool:
    """Return whether the folder still has the lock file that is open as `lock`."""
    try:
        return os.path.samestat(os.fstat(lock), (folder / LOCK).stat())
    except FileNotFoundError:
        return False


def _release(folder: Path, lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # other processes use it
        pass
    finally:
        os.close(lock)
