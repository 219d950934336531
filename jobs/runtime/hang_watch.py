"""A watch that ends a worker's process if its work takes too long, so that input that makes it hang is identified.

`faulthandler` waits in a thread of C. A Python thread would wait for the interpreter's lock, which an endless regular
expression or a native library may hold.
"""

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager

STDERR = 2  # the log of a worker: the stacks of all threads are written there first


class HangWatch:
    """Watches one piece of work at a time.

    Args:
        seconds: longest time without progress; None: no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._watches = False

    @contextmanager
    def watching(self) -> Iterator[None]:
        """End the process with status 1 if the block takes longer than `seconds` after its start or last `progress`."""
        self._watches = self._seconds is not None
        self.progress()
        try:
            yield
        finally:
            if self._watches:
                faulthandler.cancel_dump_traceback_later()
            self._watches = False

    def progress(self) -> None:
        """Restart the time, if a block is watched."""
        if self._watches and self._seconds is not None:
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=STDERR)
