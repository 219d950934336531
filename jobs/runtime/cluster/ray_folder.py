"""The folder in which Ray on this machine keeps its logs, and objects that do not fit into its memory."""

import os
import tempfile

from jobs.errors import InputError
from jobs.store.files import faults

DEFAULT = "/tmp"
LEAST_ROOM = 1 << 20  # bytes that a session of Ray needs for its first logs
REMEDY = "free space there or set RAY_TMPDIR to a folder with more space"
MORE_MEMORY = "or give Ray more memory (resources.object_store_memory_gb)"
# From Ray's OutOfDiskError: objects that do not fit into memory are written only to a disk that is below 95 % full.
OVER_CAPACITY = "the local disk's utilization is over capacity"


def path() -> str:
    """Return the folder that Ray chooses."""
    return os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or DEFAULT


def check() -> None:
    """Check that there is room for the first logs; without room, the start of Ray fails only half a minute later.

    Raises:
        InputError: the disk is full.
    """
    try:
        with tempfile.TemporaryFile(dir=path()) as file:
            file.write(bytes(LEAST_ROOM))
            file.flush()
    except OSError as error:  # Ray, which creates the folder, reports other errors
        if faults.is_full(error):
            raise InputError(describe_full(error)) from error


def describe_full(error: OSError) -> str:
    """Return the message for an error about a full disk that Ray raised on this machine, with place and remedy."""
    return f"RAY_TMPDIR={path()}: {os.strerror(error.errno or 0)} for Ray's logs and objects; {REMEDY}"


def describe_over_capacity() -> str:
    """Return the message for a run that Ray ended with `OVER_CAPACITY`; the disk may be on any machine of a cluster."""
    cause = "more than 95 % of the disk is used, and Ray has no memory left for objects"
    return f"RAY_TMPDIR={path()}: {cause}; {REMEDY}, {MORE_MEMORY}"
