"""Ctrl-C and SIGTERM: both end a run in order, with one line, and nothing that comes after disturbs its end."""

import signal
import threading
from types import FrameType


class Terminated(KeyboardInterrupt):
    """A scheduler, or `kill`, asked this process to end."""


_received: list[int] = []  # SIGTERMs: Ray's core turns whatever a handler raises into a plain KeyboardInterrupt


def listen() -> None:
    """Let SIGTERM raise `Terminated` in the main thread, as Ctrl-C raises KeyboardInterrupt.

    To be called again once Ray runs: it takes SIGTERM for itself, and its core then ends the process with a native
    stack trace and status -6.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: int, _frame: FrameType | None) -> None:
    _received.append(number)
    raise Terminated


def settle() -> None:
    """Ignore both from now on: a second Ctrl-C would cut off what ends Ray's processes, and leave some behind."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def exit_code(error: KeyboardInterrupt) -> int:
    """128 and the signal's number, as shells have it: 130 after Ctrl-C, 143 after SIGTERM."""
    return 128 + (signal.SIGTERM if _received or isinstance(error, Terminated) else signal.SIGINT)
