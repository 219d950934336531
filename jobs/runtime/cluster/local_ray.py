"""The Ray of this machine: its processes, which end with the command, and the folder of its logs and objects.

Its processes are ended however the command ends: Ray's agents notice that the raylet has ended, but then try for 60 s
to report it to a server that has also ended. The folder has Ray's logs, and objects that do not fit into its memory.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable

from jobs.errors import InputError
from jobs.store.files import faults

DEFAULT = "/tmp"
LEAST_ROOM = 1 << 20  # bytes that a session of Ray needs for its first logs
REMEDY = "free space there or set RAY_TMPDIR to a folder with more space"
MORE_MEMORY = "or give Ray more memory (resources.object_store_memory_gb)"
# Runs in a separate process, without imports that take time; its input ends when the command does.
_WATCH = """
import os, signal, sys, time

def started(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if state == "Z" else fields[18]  # another process may have the number later

watched = {int(pid): started(pid) for pid in sys.argv[2:]}
alive = lambda: [pid for pid, when in watched.items() if when is not None and started(pid) == when]
sys.stdin.buffer.read()
end = time.monotonic() + float(sys.argv[1])
while alive() and time.monotonic() < end:
    time.sleep(0.1)
for pid in alive():
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass
"""
WAIT_S = 10.0  # time for processes to end by themselves
_watches: list[subprocess.Popen[bytes]] = []  # their input is open as long as they are referred to


def end_with_command(pids: Iterable[int], *, wait_s: float = WAIT_S) -> None:
    """Kill processes that are still alive `wait_s` seconds after this process has ended; on Linux only."""
    if sys.platform != "linux":
        return
    watch = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _WATCH, f"{wait_s:g}", *map(str, pids)],
        stdin=subprocess.PIPE,  # closed by the end of this process
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a signal to the command's group must not reach it
    )
    _watches.append(watch)


def ray_folder() -> str:
    """Return the folder that Ray chooses."""
    return os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or DEFAULT


def check_ray_folder() -> None:
    """Check that there is room for the first logs; without room, the start of Ray fails only half a minute later.

    Raises:
        InputError: the disk is full.
    """
    try:
        with tempfile.TemporaryFile(dir=ray_folder()) as file:
            file.write(bytes(LEAST_ROOM))
            file.flush()
    except OSError as error:  # Ray, which creates the folder, reports other errors
        if faults.is_full(error):
            raise InputError(describe_full(error)) from error


def describe_full(error: OSError) -> str:
    """Return the message for an error about a full disk that Ray raised on this machine, with place and remedy."""
    return f"RAY_TMPDIR={ray_folder()}: {os.strerror(error.errno or 0)} for Ray's logs and objects; {REMEDY}"


def describe_over_capacity() -> str:
    """Return the message for a run that Ray ended with OutOfDiskError; the disk may be on any machine of a cluster.

    Objects that do not fit into memory are written only to a disk that is below 95 % full.
    """
    cause = "more than 95 % of the disk is used, and Ray has no memory left for objects"
    return f"RAY_TMPDIR={ray_folder()}: {cause}; {REMEDY}, {MORE_MEMORY}"
