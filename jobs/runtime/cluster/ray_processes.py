"""The end of a local Ray's processes together with the command, however that ends.

Ray's agents notice that the raylet has ended, but then try for 60 s to report it to a server that has also ended.
"""

import subprocess
import sys
from collections.abc import Iterable

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
