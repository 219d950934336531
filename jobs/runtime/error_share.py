"""The limit that stops a run if too many items fail because of the run itself: machines, network, storage or model.

`actors.status` defines which kinds of errors are due to the input, which never stop a run.
"""

from typing import Any

from jobs.errors import RunError
from jobs.store.failures import Failures
from jobs.store.item_errors import ItemErrors

LEAST_ITEMS = 100  # with fewer the share means little, and a single item must not end a small run
LEAST_FAILED = 10
KINDS_NAMED = 3
ANSWER_S = 60.0  # longest wait for the board; without an answer nothing is stopped


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
