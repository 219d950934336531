"""One process a table at a time, where the file system can say so: a lock on its folder `_run`.

The lock ends with the process, however that ends. S3 has none: two runs there do the same units twice, each object is
written whole, and the rows are the same.
"""

import fcntl
import os
from pathlib import Path

from jobs.errors import InputError
from jobs.store import locations

_held: dict[str, int] = {}  # a table's place -> the descriptor of its folder; a process may open its own table again


def hold(out: str) -> bool:
    """Lock the table at the local place `out`, which is there; whether it was free and is ours only now.

    Raises:
        InputError: another process has it.
    """
    if locations.is_s3(out):
        return False
    folder = os.open(Path(out) / "_run", os.O_RDONLY)
    if out in _held and os.path.samestat(os.fstat(_held[out]), os.fstat(folder)):
        os.close(folder)
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(folder)
        raise InputError(
            f"{out}: another process is writing this table; wait for its end or use another out="
        ) from error
    except OSError:  # a file system that knows no locks, as some in a network
        os.close(folder)
        return False
    release(out)
    _held[out] = folder
    return True


def release(out: str) -> None:
    """Give the lock back, if this process has it."""
    if (folder := _held.pop(out, None)) is not None:
        os.close(folder)
