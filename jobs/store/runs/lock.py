"""A lock that lets only one process write a table: on its folder `_run`, or on S3 a lease (`jobs.store.runs.lease`).

A lock ends with its process, however that ends; the lease of a process on another machine ends some minutes later.
"""

import contextlib
import fcntl
import os
import time
from pathlib import Path

from jobs.errors import RunError
from jobs.store.files import locations
from jobs.store.run_files import FOLDER, IDENTITY, run_uri
from jobs.store.runs.lease import HeldError, Lease, holder_of

_leases: dict[str, Lease] = {}  # uri of a table -> its lease
_held: dict[str, int] = {}  # path of a table -> descriptor of its folder; a process may reopen its own table


def acquire(out: str) -> bool:
    """Lock the existing table at `out`; return False if there is no table or this process has locked it already.

    Raises:
        HeldError: another process has it.
    """
    if locations.is_s3(out):
        return _acquire_lease(out)
    try:
        folder = os.open(Path(out) / FOLDER, os.O_RDONLY)
    except FileNotFoundError:  # the table lost its run files; the run that restores them locks the table
        return False
    if out in _held and os.path.samestat(os.fstat(_held[out]), os.fstat(folder)):
        os.close(folder)
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(folder)
        raise HeldError(
            f"out={out}: another process is writing this table; wait until it ends or use another out="
        ) from error
    except OSError:  # a file system without locks, such as some network file systems
        os.close(folder)
        return False
    release(out)
    _held[out] = folder
    return True


def is_held(out: str) -> bool:
    """Return whether a process is writing the table at `out`; takes no lock, so that the place may be read-only."""
    if locations.is_s3(out):
        return holder_of(out, time.time())[0] is not None
    try:
        folder = os.open(Path(out) / FOLDER, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(folder)
    return False


def _acquire_lease(out: str) -> bool:
    if out in _leases or not locations.exists(run_uri(out, IDENTITY)):
        return False
    with locations.named_errors(out):
        _leases[out] = Lease(out)
    return True


def check_held() -> None:
    """Check that no other process has taken over a table that this process writes.

    Raises:
        RunError: one has, after this process was suspended or could not renew its lease.
    """
    for out, lease in _leases.items():
        if lease.is_lost:
            raise RunError(
                f"out={out}: another process took over this table, after this one did not renew its lease in time; "
                "nothing more is written. Wait until the other process ends, then run the same command again"
            )


def release_all() -> None:
    """Release all locks of this process when a run fails: its traceback would keep the run, and so the lock, alive."""
    for out in [*_leases, *_held]:
        release(out)


def release(out: str) -> None:
    """Release the lock or the lease, if this process has it."""
    if (lease := _leases.pop(out, None)) is not None:
        with contextlib.suppress(Exception):  # while the interpreter ends, nothing can be sent; the lease then expires
            lease.release()
    if (folder := _held.pop(out, None)) is not None:
        os.close(folder)
