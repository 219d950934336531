"""Every stage class in actors/ declares what it takes and returns."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa

import actors
from actors import schemas
from actors.status import Status

MODULES = sorted(path.stem for path in Path(actors.__path__[0]).glob("*.py") if path.stem != "__init__")


def stage_classes() -> Iterator[type]:
    """Yield the classes of modules directly in actors/ that are called with a batch."""
    for name in MODULES:
        module = importlib.import_module(f"actors.{name}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            call = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
            if kind.__module__ == module.__name__ and call and "batch" in inspect.signature(call).parameters:
                yield kind


def test_every_stage_declares_its_inputs_and_outputs() -> None:
    kinds = list(stage_classes())
    assert {"RubricPreparer", "RubricRater", "Embedder", "FolderFetcher"} <= {kind.__name__ for kind in kinds}
    undeclared = [
        f"{kind.__module__}.{kind.__name__}.{name}"
        for kind in kinds
        for name in ("INPUTS", "OUTPUTS")
        if not isinstance(getattr(kind, name, None), pa.Schema | property)
    ]
    assert undeclared == []


def test_how_the_work_on_a_row_ended_is_passed_on() -> None:
    columns = schemas.failed(schemas.RatingRow, Status.SKIPPED, ("no_target", "no label"))
    assert columns == {"status": "skipped", "error_kind": "no_target", "error_message": "no label"}
    assert schemas.ended(schemas.ResponseRow, {**columns, "item_id": "a"}) == columns


def test_columns_follow_from_the_types_of_rows() -> None:
    class Row(schemas.Ended, total=False):
        name: Annotated[str, "the name"]
        sizes: list[list[int]] | None
        seed: Annotated[int, pa.int64(), "the seed"]
        data: bytes | None
        is_kept: bool

    columns = schemas.columns_of(Row, end_before="data")
    assert list(columns) == ["name", "sizes", "seed", "status", "error_kind", "error_message", "data", "is_kept"]
    assert columns["name"] == (pa.string(), "the name")
    assert columns["seed"] == (pa.int64(), "the seed")
    assert columns["sizes"] == (pa.list_(pa.list_(pa.int32())), "")
    assert [kind for kind, _ in list(columns.values())[-2:]] == [pa.large_binary(), pa.bool_()]
    assert schemas.schema_of(Row).names[-3:] == ["status", "error_kind", "error_message"]
