"""The public interface equals the recorded one: jobs, keys with types and defaults, tables, status words.

`pytest tests/test_public_surface.py --update` records it anew: do that on purpose, read the difference, and raise a
table's version where its columns change.
"""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from actors.status import STATUSES
from jobs.runtime.command_line import cli, job_names
from jobs.runtime.configuration.config import Common, Writing
from jobs.runtime.configuration.key_types import MISSING as REQUIRED
from jobs.runtime.configuration.resources import Resources
from jobs.tables import TABLES

RECORDED = Path(__file__).with_name("public_surface.txt")


def dotted(schema: type, prefix: str = "", defaults: Any = None) -> Iterator[str]:
    """`key: type = default` of each key; `resources` and the keys of `Writing` and `Common` are listed once.

    Args:
        defaults: an instance of `schema`, where a job has other defaults than the class; None: those of the class.
    """
    hints = get_type_hints(schema)
    base = next((names for names in (Common, Writing) if names in schema.__mro__[1:]), None)
    common = {field.name for field in fields(base)} if base else set()
    if base:
        yield base.__name__.lower()
    for field in fields(schema):
        kind: Any = hints[field.name]
        name = f"{prefix}{field.name}"
        if field.name in common:
            continue
        default = default_of(field) if defaults is None else getattr(defaults, field.name)
        if kind is Resources:
            yield f"{name}: resources"
        elif is_dataclass(kind):
            yield from dotted(kind, f"{name}.", None if default == REQUIRED else default)  # type: ignore[arg-type]
        else:
            type_name = kind.__name__ if isinstance(kind, type) and "[" not in str(kind) else kind
            yield f"{name}: {type_name}" + ("" if default == REQUIRED else f" = {default!r}")


def default_of(field: Field[Any]) -> Any:
    """Return the default of a key; `REQUIRED` without one."""
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return REQUIRED if default is MISSING else default


def sections() -> Iterator[tuple[str, list[str]]]:
    """Yield the title and the lines of each part of the public interface."""
    yield "keys of all jobs that write a table", list(dotted(Writing))
    yield "keys of all jobs that use Ray", list(dotted(Common))
    yield "keys of resources", list(dotted(Resources))
    for name in job_names.JOBS:
        yield f"job {name}", list(dotted(cli.job(name).schema))
    for name, table in TABLES.items():
        columns = [f"{column}: {kind}" for column, (kind, _) in table.columns.items()]
        yield f"table {name}, version {table.version}, key {', '.join(table.key)}", columns
    yield "status words", list(STATUSES)


def test_the_public_interface_is_the_recorded_one(request: pytest.FixtureRequest) -> None:
    now = "\n".join("\n".join((f"[{title}]", *lines, "")) for title, lines in sections())
    if request.config.option.update:
        RECORDED.write_text(now, encoding="utf-8")
    assert now.splitlines() == RECORDED.read_text("utf-8").splitlines()
