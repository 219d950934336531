"""The contract of stages in `jobs.runtime.stages`: what a stage declares, and a check of batches against it.

Between the stages, rows have columns in addition to their own, which the sink removes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Protocol

import pyarrow as pa

from jobs.errors import RunError
from jobs.store.writer import UnitTask

ITEM = "item_id"  # column of the rows of stages whose number of rows varies, see `Stage.rows_out`
TASK = "_task"  # the unit and what to do with it, as JSON
EXPECTED_ROWS = "_expected_rows"  # rows of the whole unit when it is written
EXCLUDED = "_excluded"  # JSON of the matches of the unit's rows with the list of exclusions
BEGUN = "_begun"  # Unix time at which the unit was read
UNIT_COLUMNS = (TASK, EXPECTED_ROWS, EXCLUDED, BEGUN)  # the same in all rows of a unit, and kept through all stages
TALLY = "_tally"  # counts of actors, as "group/key" -> n; stored in the unit's footer


class StageActor(Protocol):
    """A class in `actors/` that maps one Arrow table to another.

    `INPUTS` has the columns that it needs; other columns are allowed. `OUTPUTS` has all columns that it returns, in any
    order. Either may be a property if it depends on the actor's settings.

    Two methods are optional. `take_tally()` returns the counts since its last call, `group/key` -> n, which the unit's
    footer stores. `report_tokens(callback)` makes the actor call `callback` with the number of tokens that it has
    written, to show progress within a batch.
    """

    @property
    def INPUTS(self) -> pa.Schema: ...  # noqa: N802

    @property
    def OUTPUTS(self) -> pa.Schema: ...  # noqa: N802

    def __call__(self, batch: pa.Table, /) -> pa.Table: ...


@dataclass(frozen=True)
class Stage:
    """A pool of actors, each built as `actor(**kwargs)`.

    Attributes:
        pool: the key under `resources` that sets the pool's size and resources.
        actor: a `StageActor`, or for `stages.process` a class whose instances are called with a task, its writer and
            a reporter.
        kwargs: arguments of its constructor.
        rows_out: the number of rows that it returns per row, or a function from its input to the number for each row.
            Only the last stage may return a number other than one. A function may use only columns that earlier stages
            pass on unchanged, because it is also called with the rows that were read. None: any number of rows from one
            up; input and output then have the column `ITEM`, and an item's rows are consecutive, in the input's order.
        batches: a call of the actor has this many times the pool's `batch_size` rows: an actor that copies the next
            batch while it computes one, or that makes batches itself, waits at the end of each call.
    """

    pool: str
    actor: type
    kwargs: dict[str, Any]
    rows_out: int | Callable[[pa.Table], list[int]] | None = 1
    batches: int = 1

    @property
    def name(self) -> str:
        """The name of the actor's class, used in messages and for Ray's operators."""
        return self.actor.__name__

    def row_counts(self, batch: pa.Table) -> list[int]:
        """Return the number of rows that the actor must return for each row of `batch`; the minimum if it varies."""
        if callable(self.rows_out):
            return self.rows_out(batch)
        return [1 if self.rows_out is None else self.rows_out] * batch.num_rows

    def returned_counts(self, batch: pa.Table, output: pa.Table) -> list[int]:
        """Return the number of rows that `output` has for each row of `batch`.

        Raises:
            RunError: the number of rows is not as declared, or the rows are not in the order of their items.
        """
        counts = self.row_counts(batch)
        if self.rows_out is None:
            runs = [(item, len(list(rows))) for item, rows in groupby(output[ITEM].to_pylist())]
            if [item for item, _ in runs] != batch[ITEM].to_pylist():
                raise RunError(f"stage {self.name}: returned rows that are not those of its {batch.num_rows} items")
            counts = [count for _, count in runs]
        if output.num_rows != sum(counts):
            expected = f"{counts[0]} per row" if len(set(counts)) == 1 else f"{sum(counts)}"
            raise RunError(
                f"stage {self.name}: returned {output.num_rows} rows for {batch.num_rows}, expected {expected}"
            )
        return counts


@dataclass(frozen=True)
class Read:
    """The reader of a unit's rows.

    Attributes:
        rows: returns the input table of the first stage.
        item: the column that identifies a row, so that a retry can redo single rows.
        output_item: the column of the output that holds the same ids.
        excluded: uri of the list of exclusions that `jobs.runtime.selection.exclusions.keep` stored; None
        without a list.
    """

    rows: Callable[[UnitTask], pa.Table]
    item: str
    output_item: str
    excluded: str | None = None


def check_inputs(stage: str, batch: pa.Schema, expected: pa.Schema) -> None:
    """Check that a batch has the columns of `expected`, each of its type; other columns are allowed.

    Raises:
        RunError: a column is missing or mistyped; names the stage and each such column.
    """
    _refuse(stage, "input", list(_mismatches(batch, expected)), expected)


def check_outputs(stage: str, batch: pa.Schema, expected: pa.Schema) -> None:
    """Check that a batch has the columns of `expected`, each of its type, and no others.

    Raises:
        RunError: a column is missing, mistyped or undeclared; names the stage and each such column.
    """
    undeclared = [f"column {name} is not declared" for name in batch.names if name not in expected.names]
    _refuse(stage, "output", [*_mismatches(batch, expected), *undeclared], expected)


def _mismatches(batch: pa.Schema, expected: pa.Schema) -> Iterator[str]:
    types = {field.name: field.type for field in batch}
    for field in expected:
        if field.name not in types:
            yield f"column {field.name} is missing, expected {field.type}"
        elif types[field.name] != field.type:
            yield f"column {field.name} is {types[field.name]}, expected {field.type}"


def _refuse(stage: str, side: str, faults: list[str], expected: pa.Schema) -> None:
    if faults:
        raise RunError(f"stage {stage}, {side}: {'; '.join(faults)} (declared columns: {', '.join(expected.names)})")


def spread_tallies(batch: pa.Table, counts: Sequence[int], tally: Mapping[str, int]) -> pa.Array:
    """Return column TALLY: tallies of earlier stages stay with their rows; the first row gets those of this stage.

    Tallies of an item without rows are kept by the next item that has some, or by the last row.
    """
    tallies: list[list[tuple[str, int]]] = [[] for _ in range(sum(counts))]
    row = 0
    earlier = batch[TALLY].to_pylist() if TALLY in batch.column_names else [None] * batch.num_rows
    for entries, count in zip(earlier, counts, strict=True):
        if entries and tallies:
            tallies[min(row, len(tallies) - 1)] += entries
        row += count
    if tallies:
        tallies[0] += tally.items()
    return pa.array([entries or None for entries in tallies], pa.map_(pa.string(), pa.int64()))


def sum_tallies(rows: pa.Table) -> dict[str, dict[str, int]]:
    """Return the sums of column TALLY by group and key."""
    sums: dict[str, dict[str, int]] = {}
    for entries in rows[TALLY].drop_null().to_pylist() if TALLY in rows.column_names else ():
        for name, n in entries:
            group, _, key = name.partition("/")
            tally = sums.setdefault(group, {})
            tally[key] = tally.get(key, 0) + n
    return sums
