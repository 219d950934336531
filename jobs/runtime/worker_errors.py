"""Conversion of workers' errors, which arrive wrapped in Ray's exceptions and traces, to one line."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from actors.errors import ModelError
from jobs.errors import InputError, RunError
from jobs.runtime.attempts import REMEDY
from jobs.runtime.cluster import ray_folder
from jobs.store.files import faults

_ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Invalid|BadZipFile)): (.+)$", re.MULTILINE)
_DEAD_ACTOR = re.compile(r"class_name: MapWorker\(MapBatches\((\w+)\)\)")
WHOLE_SENTENCES = (RunError.__name__, ModelError.__name__)  # errors whose message is complete
_WRAPPERS = ("UserCodeException", "ActorDiedError")


@contextmanager
def as_run_errors() -> Iterator[None]:
    """Convert the errors that Ray raises about a worker to a RunError of one line.

    The messages of a RunError and of a ModelError stay as they are. An error of storage is described by its place,
    cause and remedy, as on the driver.

    Raises:
        RunError: a worker failed.
    """
    try:
        yield
    except (KeyboardInterrupt, InputError, RunError):
        raise
    except Exception as error:
        trace = str(error)
        if (raised := _raised(trace)) and raised[0] in WHOLE_SENTENCES:
            raise RunError(raised[1]) from error
        if isinstance(error, OSError) and faults.is_full(error):  # not a worker's error, which Ray would wrap
            sentence = f"{ray_folder.describe_full(error)}, {ray_folder.MORE_MEMORY}"
            raise RunError(f"{sentence}. {faults.KEPT}") from error
        if ray_folder.OVER_CAPACITY in trace:
            raise RunError(f"{ray_folder.describe_over_capacity()}. {faults.KEPT}") from error
        if raised and (storage := faults.sentence_of_text(raised[1])):
            raise RunError(f"{storage}. {faults.KEPT}") from error
        raise RunError(f"a worker failed: {describe(trace)} (ray.verbose=true shows its trace)") from error


def describe(trace: str) -> str:
    """Return the error that a worker raised, read from the text of Ray's exception."""
    if raised := _raised(trace):
        return f"{raised[0]}: {raised[1]}"
    if dead := _DEAD_ACTOR.search(trace):
        return f"the process of {dead.group(1).replace('_', ' and ')} ended; {REMEDY}"
    return (trace.strip() or "Ray gave no reason").splitlines()[-1]


def _raised(trace: str) -> tuple[str, str] | None:
    """Return the name and the message of the last error in a trace."""
    errors = [(kind, message) for kind, message in _ERROR_LINE.findall(trace) if kind not in _WRAPPERS]
    return errors[-1] if errors else None
