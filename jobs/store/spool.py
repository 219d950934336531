"""Temporary folders that do not outlive their process, however it ended.

Each holds a lock file that its process keeps locked (flock) for as long as it lives; the kernel lets go of the lock
when it dies. A process that makes its first spool removes those of the same user whose lock is free.
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
    """A folder of this process, `path`, until `cleanup` or the end of a `with` block.

    Raises:
        OSError: there is no place for it.
    """

    def __init__(self, purpose: str = "") -> None:
        """`purpose` becomes part of its name."""
        sweep(tempfile.gettempdir())
        self._folder = tempfile.TemporaryDirectory(prefix=f"{PREFIX}{purpose}-" if purpose else PREFIX)
        self.path = Path(self._folder.name)
        self._lock = _lock(self.path)

    def cleanup(self) -> None:
        """Remove the folder and what is in it."""
        self._folder.cleanup()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self.cleanup()


def _lock(folder: Path) -> int | None:
    """The descriptor that holds the folder's lock; None where the file system has no locks (nobody sweeps it then)."""
    made = folder / f"{LOCK}.new"
    descriptor = os.open(made, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    made.rename(folder / LOCK)  # a lock file that is there is a locked one, or a dead process's
    return descriptor


@cache
def sweep(place: str) -> None:
    """Remove the spools in `place` whose processes are dead; once a process."""
    with contextlib.suppress(OSError):  # a place that must not be listed
        for folder in Path(place).iterdir():
            if folder.name.startswith(PREFIX):
                _remove_if_dead(folder)


def _remove_if_dead(folder: Path) -> None:
    try:
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # gone in the meantime, without a lock, or not ours
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # its process lives
        pass
    finally:
        os.close(descriptor)
