"""What a run learns of its workers on the driver: warnings, the share of failed items, and errors that end the run.

Warnings are counted on the progress board and printed once. Ray's own way (`log_to_driver`) would print them once per
process, among Ray's own lines, and the log files of a machine that is withdrawn are lost.

A run stops if too many items fail because of the run itself: machines, network, storage or model. `actors.status`
defines which kinds of errors are due to the input, which never stop a run.
"""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from actors.errors import ModelError, first_line
from jobs.errors import InputError, RunError
from jobs.runtime.board import DRIVER_ANSWER_S, RunBoard, part_of
from jobs.runtime.cluster import local_ray
from jobs.store.counts import Failures, ItemErrors
from jobs.store.files import faults
from jobs.store.writer import UnitTask

LOGGERS = ("actors", "jobs")
MOST_TEXTS = 100  # different warnings that a board keeps

LEAST_ITEMS = 100  # with fewer the share means little, and a single item must not end a small run
LEAST_FAILED = 10
KINDS_NAMED = 3
REMEDY = "there is too little memory, or the data crash a native library"  # for processes that end
TRACE = "its trace is in Ray's logs"
_tasks: list[str] = []  # the tasks of this process's current batch, as JSON


class WarningCounts:
    """The warnings of all workers; part of the run's board."""

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
        """Add a result of `WarningCounts.warnings`; return the lines of new warnings, each with its place."""
        lines = [
            (f"warning of a worker: {text}", place) for text, (_, place) in read.items() if text not in self.counts
        ]
        self.counts |= Counter({text: count for text, (count, _) in read.items()})
        return lines

    def summary(self) -> list[str]:
        """Return a line for each warning that occurred more than once."""
        return [f"{count:,} times: {text}" for text, count in self.counts.most_common() if count > 1]


class _Sender(logging.Handler):
    def __init__(self, board: RunBoard) -> None:
        super().__init__(level=logging.WARNING)
        self._warnings = board.part(WarningCounts)
        self._place = _place()

    def emit(self, record: logging.LogRecord) -> None:
        """Send a record to the board, without waiting."""
        try:
            units = [UnitTask.from_json(task).unit.name for task in _tasks]
            place = {**self._place, "units": units}
            self._warnings.tell(WarningCounts.warn, (record.getMessage().splitlines() or [""])[0], place)
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


def send_to(board: RunBoard | None) -> None:
    """Send the warnings of this process to `board` from now on; a process that is used again has only one sender."""
    working_on([])
    for logger in map(logging.getLogger, LOGGERS):
        for handler in [handler for handler in logger.handlers if isinstance(handler, _Sender)]:
            logger.removeHandler(handler)
        if board is not None:
            logger.addHandler(_Sender(board))


class WorkerErrors:
    """The errors that workers raised and that end the run; part of the run's board."""

    def __init__(self) -> None:
        self._last: RunError | None = None

    def add(self, error: RunError) -> None:
        """Record the error of a worker, before the worker raises it."""
        self._last = error

    def last(self) -> RunError | None:
        """Return the error that was recorded last."""
        return self._last


@contextmanager
def reported_errors(board: RunBoard | None) -> Iterator[None]:
    """Report an error that a worker raises to the board: Ray hands on no more than its text to the driver."""
    try:
        yield
    except Exception as error:
        part_of(board, WorkerErrors).ask(None, WorkerErrors.add, run_error(error))
        raise


def run_error(error: Exception) -> RunError:
    """Return the error with which a run ends because a worker raised `error`.

    A RunError stays as it is, and so does the message of a ModelError. An error of storage is described by its place,
    cause and remedy, as on the driver.
    """
    if isinstance(error, RunError):
        return error
    if isinstance(error, ModelError):
        return RunError(error.why, place=error.place)
    if faults.is_of_store(error) and (problem := faults.problem(error)):
        return problem.as_run_error()
    return RunError(f"a worker failed: {type(error).__name__}: {first_line(error)}", remedy=TRACE)


@contextmanager
def as_run_errors(board: RunBoard | None) -> Iterator[None]:
    """Convert the errors that Ray raises on the driver to a RunError of one line.

    Args:
        board: has the errors of workers; None: they are raised here as they are, without Ray.

    Raises:
        RunError: a worker failed, or Ray.
    """
    try:
        yield
    except (InputError, RunError):
        raise
    except Exception as error:
        converted = run_error(error) if board is None else _of_ray(error, board)
        from jobs.runtime.cluster import ray_session  # here, because a worker does not need the configuration

        if converted.remedy == TRACE and (folder := ray_session.log_folder()):
            converted.remedy = f"{TRACE}, {folder}"
        raise converted from error


def _of_ray(error: Exception, board: RunBoard) -> RunError:
    """Return the error of the worker that made Ray raise `error`, or what Ray says of a process or itself."""
    from ray import exceptions

    in_constructor = isinstance(error, exceptions.RayActorError) and error.actor_init_failed
    if isinstance(error, exceptions.UserCodeException) or in_constructor:
        reported = board.part(WorkerErrors, timeout=DRIVER_ANSWER_S).ask(None, WorkerErrors.last)
        if reported is not None:
            return reported
    return of_ray(error)


def of_ray(error: Exception) -> RunError:
    """Return what an error of Ray on the driver says of a process or of Ray itself."""
    from ray import exceptions

    cause = getattr(error, "cause", None) or error
    if isinstance(cause, exceptions.OutOfDiskError):
        return RunError(f"{local_ray.describe_over_capacity()}. {faults.KEPT}")
    if faults.is_full(error):  # of Ray on the driver
        assert isinstance(error, OSError)
        return RunError(f"{local_ray.describe_full(error)}, {local_ray.MORE_MEMORY}. {faults.KEPT}")
    lost = exceptions.RayActorError | exceptions.WorkerCrashedError | exceptions.OutOfMemoryError
    if isinstance(cause, lost):
        return RunError(f"a process of the run ended: {REMEDY}", remedy=TRACE)
    return RunError(f"a worker failed: {type(cause).__name__}: {first_line(cause)}", remedy=TRACE)


class ErrorTotals:
    """The errors in the units that a run wrote; part of the run's board."""

    def __init__(self) -> None:
        self._errors = ItemErrors()

    def add_errors(self, more: ItemErrors) -> ItemErrors:
        """Add the errors of a unit and return the sum."""
        self._errors += more
        return self._errors


class ErrorLimit:
    """Records a worker's errors on the board.

    Args:
        board: the run's board; None: only units of this process are counted.
        share: the largest allowed share, the key `max_error_share`; None: any.
    """

    def __init__(self, board: RunBoard | None, share: float | None) -> None:
        self._totals, self._share = part_of(board, ErrorTotals), share

    def check(self, unit: ItemErrors) -> None:
        """Count a unit's errors before it is written.

        Raises:
            RunError: the share of items that failed because of the run is larger than allowed.
        """
        if self._share is None or not unit.items:
            return
        total = self._totals.ask(ItemErrors(), ErrorTotals.add_errors, unit.of_unit())
        if total.items < LEAST_ITEMS or total.failed < LEAST_FAILED or total.failed <= self._share * total.items:
            return
        raise RunError(sentence(total, self._share))


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
