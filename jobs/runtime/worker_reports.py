"""What a run learns of its workers on the driver: warnings, the share of failed items, and errors that end the run.

Warnings are counted on the progress board and printed once. Ray's own way (`log_to_driver`) would print them once per
process, among Ray's own lines, and the log files of a machine that is withdrawn are lost.

A run stops if too many items fail because of the run itself: machines, network, storage or model. `actors.status`
defines which kinds of errors are due to the input, which never stop a run.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from actors.errors import ModelError
from jobs.errors import InputError, RunError
from jobs.runtime.attempts import REMEDY
from jobs.runtime.cluster import local_ray
from jobs.store.counts import Failures, ItemErrors
from jobs.store.files import faults
from jobs.store.writer import UnitTask

LOGGERS = ("actors", "jobs")
MOST_TEXTS = 100  # different warnings that a board keeps

LEAST_ITEMS = 100  # with fewer the share means little, and a single item must not end a small run
LEAST_FAILED = 10
KINDS_NAMED = 3
ANSWER_S = 60.0  # longest wait for the board; without an answer nothing is stopped
_ERROR_LINE = re.compile(r"^(?:[\w.]+\.)?(\w+(?:Error|Exception|Exit|Invalid|BadZipFile)): (.+)$", re.MULTILINE)
_DEAD_ACTOR = re.compile(r"class_name: MapWorker\(MapBatches\((\w+)\)\)")
WHOLE_SENTENCES = (RunError.__name__, ModelError.__name__)  # errors whose message is complete
_WRAPPERS = ("UserCodeException", "ActorDiedError")
_tasks: list[str] = []  # the tasks of this process's current batch, as JSON


class Collected:
    """The warnings of all workers; part of the `jobs.runtime.board.RunRecords`."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._places: dict[str, dict[str, Any]] = {}

    def warn(self, text: str, place: dict[str, Any]) -> None:
        """Count a warning; `place` is where it was logged (actor, node, units), and the first place is kept."""
        if text in self._counts or len(self._counts) < MOST_TEXTS:
            self._counts[text] += 1
            self._places.setdefault(text, place)

    def warnings(self) -> dict[str, tuple[int, dict[str, Any]]]:
        """Return how often each warning was logged, and where it was first, by warning."""
        return {text: (count, self._places[text]) for text, count in self._counts.items()}


class PrintedWarnings:
    """The warnings that the driver has printed, with the number of their occurrences.

    A board that restarts loses its counts, so that the counts are lower bounds.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def new_lines(self, read: dict[str, tuple[int, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
        """Add a result of `Collected.warnings`; return the lines of new warnings, each with its place."""
        lines = [
            (f"warning of a worker: {text}", place) for text, (_, place) in read.items() if text not in self.counts
        ]
        self.counts |= Counter({text: count for text, (count, _) in read.items()})
        return lines

    def summary(self) -> list[str]:
        """Return a line for each warning that occurred more than once."""
        return [f"{count:,} times: {text}" for text, count in self.counts.most_common() if count > 1]


class _Sender(logging.Handler):
    def __init__(self, board: Any) -> None:
        super().__init__(level=logging.WARNING)
        self._board = board
        self._place = _place()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the board, without waiting."""
        try:
            units = [UnitTask.from_json(task).unit.name for task in _tasks]
            place = {**self._place, "units": units}
            self._board.tell("warn", (record.getMessage().splitlines() or [""])[0], place)
        except Exception:
            self.handleError(record)


def _place() -> dict[str, str]:
    import ray

    if not ray.is_initialized():
        return {}
    context = ray.get_runtime_context()
    return {"actor": context.get_actor_id() or "", "node": ray.util.get_node_ip_address()}


def working_on(tasks: Sequence[str]) -> None:
    """Set the units that this process's warnings are about from now on, as `jobs.store.writer.UnitTask`s in JSON."""
    _tasks[:] = tasks


def send_to(board: Any) -> None:
    """Send the warnings of this process to `board` from now on; a process that is used again has only one sender."""
    working_on([])
    for logger in map(logging.getLogger, LOGGERS):
        for handler in [handler for handler in logger.handlers if isinstance(handler, _Sender)]:
            logger.removeHandler(handler)
        if board is not None:
            logger.addHandler(_Sender(board))


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
            sentence = f"{local_ray.describe_full(error)}, {local_ray.MORE_MEMORY}"
            raise RunError(f"{sentence}. {faults.KEPT}") from error
        if local_ray.OVER_CAPACITY in trace:
            raise RunError(f"{local_ray.describe_over_capacity()}. {faults.KEPT}") from error
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


class ErrorTotals:
    """The errors in the units that a run wrote; kept by the `jobs.runtime.board.Board`."""

    def __init__(self) -> None:
        self._errors = ItemErrors()

    def add_errors(self, more: ItemErrors) -> ItemErrors:
        """Add the errors of a unit and return the sum."""
        self._errors += more
        return self._errors


class ErrorLimit:
    """Records a worker's errors on the board.

    Args:
        board: a `jobs.runtime.board.RunBoard`; None: only units of this process are counted.
        share: the largest allowed share, the key `max_error_share`; None: any.
    """

    def __init__(self, board: Any, share: float | None) -> None:
        self._board, self._share = board, share
        self._totals = ErrorTotals()

    def check(self, unit: ItemErrors) -> None:
        """Count a unit's errors before it is written.

        Raises:
            RunError: the share of items that failed because of the run is larger than allowed.
        """
        if self._share is None or not unit.items:
            return
        total = self._sum(unit.of_unit())
        if total.items < LEAST_ITEMS or total.failed < LEAST_FAILED or total.failed <= self._share * total.items:
            return
        raise RunError(sentence(total, self._share))

    def _sum(self, unit: ItemErrors) -> ItemErrors:
        if self._board is None:
            return self._totals.add_errors(unit)
        import ray

        try:
            total: ItemErrors = self._board.ask("add_errors", unit, timeout=ANSWER_S)
        except (ray.exceptions.RayError, TimeoutError):  # a board that restarts must not end the run
            return ItemErrors()
        return total


def sentence(total: ItemErrors, share: float) -> str:
    """Return why the run stops, and what to do."""
    kinds = sorted(total.of_run.items(), key=lambda entry: (-entry[1].rows, entry[0]))
    example = kinds[0][1]
    why = f": {example.message}" if example.message else ""
    return (
        f"max_error_share={share:g}: {total.failed:,} of {total.items:,} items ({total.failed / total.items:.1%}) "
        f"failed for reasons that are not in the input ({_named(total.of_run)}), for example {example.where}{why}; "
        "what is written is kept; correct the cause and run the same command again, with retry=[error] for failed rows "
        "that are written already, or set a larger max_error_share"
    )


def _named(kinds: Failures) -> str:
    ordered = sorted(kinds.items(), key=lambda entry: (-entry[1].rows, entry[0]))
    named = [f"{failure.rows:,} {name.partition('/')[2] or 'error'}" for name, failure in ordered[:KINDS_NAMED]]
    return ", ".join([*named, *([f"{len(ordered) - KINDS_NAMED} more kinds"] if len(ordered) > KINDS_NAMED else [])])
