"""One process per table at a time, where the file system has locks: a lock on the table's folder `_run`.

The lock ends with the process, however that ends. S3 has no locks: concurrent runs duplicate work and write identical
rows.
"""

import fcntl
import os
from pathlib import Path

from jobs.errors import InputError
from jobs.store import locations
from jobs.store.run_files import FOLDER

_held: dict[str, int] = {}  # path of a table -> descriptor of its folder; a process may open its own table again


def acquire(out: str) -> bool:
    """Lock the existing table at `out`; True if this call took the lock, False if there is none or this process has it.

    Raises:
        InputError: another process has it.
    """
    if locations.is_s3(out):
        return False
    try:
        folder = os.open(Path(out) / FOLDER, os.O_RDONLY)
    except FileNotFoundError:  # the table lost its run files; the run that restores them locks it
        return False
    if out in _held and os.path.samestat(os.fstat(_held[out]), os.fstat(folder)):
        os.close(folder)
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(folder)
        raise InputError(
            f"out={out}: another process is writing this table; wait until it ends or use another out="
        ) from error
    except OSError:  # a file system without locks, such as some network file systems
        os.close(folder)
        return False
    release(out)
    _held[out] = folder
    return True


def release(out: str) -> None:
    """Release the lock, if this process has it."""
    if (folder := _held.pop(out, None)) is not None:
        os.close(folder)
