"""Errors of workers, which arrive wrapped in Ray's exceptions and traces, as one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from jobs.errors import InputError, RunError
from jobs.runtime.attempts import REMEDY
from jobs.store import faults

_ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Invalid|BadZipFile)): (.+)$", re.MULTILINE)
_DEAD_ACTOR = re.compile(r"class_name: MapWorker\(MapBatches\((\w+)\)\)")
_WRAPPERS = ("UserCodeException", "ActorDiedError")


@contextmanager
def as_run_errors() -> Iterator[None]:
    """Convert the errors that Ray raises about a worker to a RunError of one line.

    Raises:
        RunError: a worker failed.
    """
    try:
        yield
    except (KeyboardInterrupt, InputError, RunError):
        raise
    except Exception as error:
        raise RunError(f"a worker failed: {describe(str(error))} (ray.verbose=true shows its trace)") from error


def describe(trace: str) -> str:
    """The error that a worker raised, read from the text of Ray's exception."""
    errors = [(kind, message) for kind, message in _ERROR_LINE.findall(trace) if kind not in _WRAPPERS]
    if errors:
        kind, message = errors[-1]
        return faults.sentence_of_text(message) or f"{kind}: {message}"
    if dead := _DEAD_ACTOR.search(trace):
        return f"the process of {dead.group(1).replace('_', ' and ')} ended; {REMEDY}"
    return (trace.strip() or "Ray gave no reason").splitlines()[-1]
