"""A lock that lets only one process write a table: on its folder `_run`, or on S3, where there are no locks, a lease.

A lock ends with its process, however that ends. A lease is an object in `_run/` that its holder renews and that
expires: that of a process on another machine ends some minutes after the process.

It keeps a second submission of the same job from processing, and paying for, all units again. A holder that was
suspended for longer than its lease notices at its next renewal that another process has taken it, and is interrupted;
until then both may write. Units are still written whole.
"""

import _thread
import contextlib
import fcntl
import json
import logging
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actors.untrusted import parse_json
from jobs.errors import InputError, RunError
from jobs.store.files import locations
from jobs.store.run_files import FOLDER, IDENTITY, run_uri

LEASE = "lease.json"

LEASE_S = 180.0  # lifetime without renewal; longer than an object store is ever unreachable between two retries

RENEW_S = 45.0

SETTLE_S = (1.0, 3.0)  # bounds of a random pause: longer than a request takes, and different in each process

log = logging.getLogger(__name__)


class HeldError(InputError):
    """Another process is writing the table."""


@dataclass(frozen=True)
class Holder:
    """The process that writes a table: host, process id, the second since 1970 at which it started."""

    host: str
    pid: int
    started: float

    @staticmethod
    def this_process() -> "Holder":
        """Return this process as a holder."""
        import psutil

        return Holder(socket.gethostname(), os.getpid(), psutil.Process().create_time())

    def has_ended(self) -> bool:
        """Return whether the process is known to have ended, which can be known only of processes on this host."""
        import psutil

        if self.host != socket.gethostname():
            return False
        try:
            return abs(psutil.Process(self.pid).create_time() - self.started) > 1
        except psutil.NoSuchProcess:
            return True


class Lease:
    """The lease on the existing table at `out`, renewed by a thread until `release`.

    Attributes:
        is_lost: whether another process took over the lease; the main thread is then interrupted.

    Raises:
        HeldError: another process holds it.
    """

    def __init__(self, out: str, *, clock: Callable[[], float] = time.time) -> None:
        self._uri, self._out, self._clock = run_uri(out, LEASE), out, clock
        self._holder, self.is_lost = Holder.this_process(), False
        self._acquire()
        self._released, self._writing = threading.Event(), threading.RLock()
        threading.Thread(target=self._renew, daemon=True, name="lease").start()

    def release(self) -> None:
        """Remove the lease, if this process still has it."""
        self._released.set()
        with self._writing:
            if self._is_ours():
                locations.remove([self._uri])

    def _acquire(self) -> None:
        if locations.creates_once(self._out) and locations.create(self._uri, self._content()):
            return
        self._refuse_other()
        locations.replace(self._uri, self._content())
        settle()  # another process may have read the same expired lease: the last writer has it
        self._refuse_other()

    def _refuse_other(self) -> None:
        """Raise HeldError if another process has the lease and it has not expired."""
        other, left = holder_of(self._out, self._clock())
        if other is not None and other != self._holder:
            why = (
                f"process {other.pid} on {other.host} is writing this table; wait until it ends, or {left:.0f} s "
                "after it was killed, or use another out="
            )
            raise HeldError(why, key="out", value=self._out)

    def _content(self) -> bytes:
        return json.dumps({"holder": asdict(self._holder), "until": self._clock() + LEASE_S}).encode()

    def _is_ours(self) -> bool:
        written = _read_lease(self._uri)
        return written is not None and Holder(**written["holder"]) == self._holder

    def _renew(self) -> None:
        while not self._released.wait(RENEW_S):
            with self._writing:
                if self._released.is_set():  # the lease that is gone was not lost
                    return
                try:
                    if not self._is_ours():
                        self.is_lost = True
                        _interrupt_main_thread()
                        return
                    locations.replace(self._uri, self._content())
                except Exception as error:  # the store may answer next time
                    log.warning("out=%s: the lease could not be renewed (%s)", self._out, error)


def holder_of(out: str, now: float) -> tuple[Holder | None, float]:
    """Return the process that holds the lease on the table at `out`, None without one, and the seconds left."""
    written = _read_lease(run_uri(out, LEASE))
    holder = Holder(**written["holder"]) if written is not None else None
    left = written["until"] - now if written is not None else 0.0
    return (holder, left) if holder is not None and left > 0 and not holder.has_ended() else (None, 0.0)


def _interrupt_main_thread() -> None:
    """Interrupt the main thread with a signal that it handles: shells make background jobs ignore Ctrl-C."""
    numbers = (signal.SIGTERM, signal.SIGINT)
    _thread.interrupt_main(next((number for number in numbers if callable(signal.getsignal(number))), signal.SIGINT))


def settle() -> None:
    """Pause, so that processes that wrote the same object at the same time all read what the last of them wrote."""
    time.sleep(random.uniform(*SETTLE_S))


def _read_lease(uri: str) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = parse_json(locations.read_bytes(uri))
        Holder(**content["holder"])
        content["until"] = float(content["until"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):  # removed, or damaged
        return None
    return content


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
        why = "another process is writing this table"
        raise HeldError(why, key="out", value=out, remedy="wait until it ends or use another out=") from error
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
            why = (
                "another process took over this table, after this one did not renew its lease in time; nothing "
                "more is written. Wait until the other process ends, then run the same command again"
            )
            raise RunError(why, key="out", value=out)


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
