"""Temporary folders that are removed even if their process was killed.

Each has a lock file, which its process keeps locked (flock) while it lives; the kernel releases the lock when the
process ends. When a process creates its first spool, it removes those of the same user whose lock is free.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

PREFIX = "remine-"
LOCK = ".lock"


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
        self._folder.cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.cleanup()


def _lock(folder: Path) -> int | None:
    """The descriptor that holds the folder's lock; None on a file system without locks, where nobody sweeps it."""
    unlocked = folder / f"{LOCK}.new"
    descriptor = os.open(unlocked, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    unlocked.rename(folder / LOCK)  # so that a file LOCK without a lock belongs to a dead process
    return descriptor


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
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # removed in the meantime, without a lock, or of another user
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # its process is alive
        pass
    finally:
        os.close(descriptor)
