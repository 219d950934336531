"""Every stage class in actors/ declares what it takes and returns."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import actors

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
