"""One process per table at a time: a lock on the table's folder `_run`, or on S3 a lease (`jobs.store.lease`).

A lock ends with the process, however that ends; a lease some minutes later, if the process was on another machine.
"""

import contextlib
import fcntl
import os
from pathlib import Path

from jobs.errors import InputError, RunError
from jobs.store import locations
from jobs.store.lease import Lease
from jobs.store.run_files import FOLDER, IDENTITY, run_uri

_leases: dict[str, Lease] = {}  # uri of a table -> its lease
_held: dict[str, int] = {}  # path of a table -> descriptor of its folder; a process may open its own table again


def acquire(out: str) -> bool:
    """Lock the existing table at `out`; True if this call took the lock, False if there is none or this process has it.

    Raises:
        InputError: another process has it.
    """
    if locations.is_s3(out):
        return _acquire_lease(out)
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


def _acquire_lease(out: str) -> bool:
    if out in _leases or not locations.exists(run_uri(out, IDENTITY)):
        return False
    with locations.named_errors(out):
        _leases[out] = Lease(out)
    return True


def check_held() -> None:
    """Check that no other process took over a table that this process writes.

    Raises:
        RunError: one did, after this process was suspended, or its lease could not be renewed.
    """
    for out, lease in _leases.items():
        if lease.is_lost:
            raise RunError(
                f"out={out}: another process took over this table, after this one did not renew its lease in time; "
                "nothing more is written. Wait until the other process ends, then run the same command again"
            )


def release_all() -> None:
    """Release what this process has, when a run fails: its traceback would keep the run, and so the lock, alive."""
    for out in [*_leases, *_held]:
        release(out)


def release(out: str) -> None:
    """Release the lock or the lease, if this process has it."""
    if (lease := _leases.pop(out, None)) is not None:
        with contextlib.suppress(Exception):  # at the end of the interpreter nothing may be sent; the lease expires
            lease.release()
    if (folder := _held.pop(out, None)) is not None:
        os.close(folder)
