"""The folder in which a Ray on this machine keeps its logs, and objects that its memory does not hold."""

import os
import tempfile

from jobs.errors import InputError
from jobs.store import faults

DEFAULT = "/tmp"
LEAST_ROOM = 1 << 20  # bytes that a session of Ray needs for its first logs
REMEDY = "free space there or set RAY_TMPDIR to a folder with more space"
MORE_MEMORY = "or give Ray more memory (resources.object_store_memory_gb)"
# Of Ray's OutOfDiskError: what its memory does not hold is only written to a disk that is less than 95 % full.
OVER_CAPACITY = "the local disk's utilization is over capacity"


def path() -> str:
    """The folder, as Ray chooses it."""
    return os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or DEFAULT


def check() -> None:
    """Check that there is room for the first logs; without it, the start of Ray ends half a minute later.

    Raises:
        InputError: the disk is full.
    """
    try:
        with tempfile.TemporaryFile(dir=path()) as file:
            file.write(bytes(LEAST_ROOM))
            file.flush()
    except OSError as error:  # others are Ray's to report, which creates the folder
        if faults.is_full(error):
            raise InputError(describe_full(error)) from error


def describe_full(error: OSError) -> str:
    """An error about a full disk that Ray raised on this machine, with place and remedy."""
    return f"RAY_TMPDIR={path()}: {os.strerror(error.errno or 0)} for Ray's logs and objects; {REMEDY}"


def describe_over_capacity() -> str:
    """What a run that Ray ended with `OVER_CAPACITY` says; the disk may be that of any machine of a cluster."""
    cause = "more than 95 % of the disk is used, and Ray has no memory left for objects"
    return f"RAY_TMPDIR={path()}: {cause}; {REMEDY}, {MORE_MEMORY}"
