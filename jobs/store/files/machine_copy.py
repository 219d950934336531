"""Temporary folders shared by the processes of a machine: the first one to need a folder fills it, the last removes it.

Each has a lock file. A process that uses the folder holds a shared lock on it (flock), and the process that fills it
holds an exclusive lock; the kernel releases the lock of a process that ends. The last user removes the folder or, if
that process was killed, the next process that creates a temporary folder does (`jobs.store.files.spool.sweep`).
"""

import fcntl
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from jobs.store.files.spool import LOCK, PREFIX, sweep

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
