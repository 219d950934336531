"""What a stage of `jobs.runtime.stages.stream` declares, and the check of batches against it."""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from jobs.errors import RunError


class StageActor(Protocol):
    """A class in `actors/` that maps one Arrow table to another.

    `INPUTS` names the columns that it needs; further columns are allowed. `OUTPUTS` names all columns that it returns,
    in any order. Either may be a property where it depends on the actor's settings.
    """

    @property
    def INPUTS(self) -> pa.Schema: ...  # noqa: N802

    @property
    def OUTPUTS(self) -> pa.Schema: ...  # noqa: N802

    def __call__(self, batch: pa.Table, /) -> pa.Table: ...


def check_inputs(stage: str, batch: pa.Schema, expected: pa.Schema) -> None:
    """Check that a batch has the columns of `expected`, each of its type; other columns are allowed.

    Raises:
        RunError: names the stage and each missing or mistyped column.
    """
    _refuse(stage, "input", list(_mismatches(batch, expected)), expected)


def check_outputs(stage: str, batch: pa.Schema, expected: pa.Schema) -> None:
    """Check that a batch has the columns of `expected`, each of its type, and no others.

    Raises:
        RunError: names the stage and each missing, mistyped or undeclared column.
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
