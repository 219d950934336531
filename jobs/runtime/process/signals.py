"""Ctrl-C and SIGTERM: both end a run cleanly and print one line; later signals do not interrupt the cleanup."""

import signal
import threading
from types import FrameType


class Terminated(KeyboardInterrupt):
    """This process received SIGTERM, from a scheduler or `kill`."""


_received: list[int] = []  # SIGTERMs; Ray's core turns any error that a handler raises into a plain KeyboardInterrupt


def listen() -> None:
    """Make SIGTERM raise `Terminated` in the main thread, as Ctrl-C raises KeyboardInterrupt.

    Call it again after Ray starts: Ray installs its own handler, and its core then ends the process with a native
    stack trace and status -6.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: int, _frame: FrameType | None) -> None:
    _received.append(number)
    raise Terminated


def settle() -> None:
    """Ignore both signals from now on, so that a second Ctrl-C does not interrupt the end of Ray's processes."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def exit_code(error: KeyboardInterrupt) -> int:
    """Return 128 plus the signal's number, as shells do: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (signal.SIGTERM if _received or isinstance(error, Terminated) else signal.SIGINT)
