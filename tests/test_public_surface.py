"""The public interface equals `public_surface`: jobs, keys with defaults, tables, status words.

A change here is a change for them: make it on purpose, raise the table's version where its columns change, and
update the literals there.
"""

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, get_type_hints

from omegaconf import MISSING as REQUIRED

from actors.status import STATUSES
from jobs.runtime.command_line import cli, commands
from jobs.runtime.configuration.config import Common, Writing
from jobs.runtime.configuration.resources import Resources
from jobs.tables import TABLES
from tests.cases import check_cases
from tests.public_surface import COLUMNS, COMMON, KEYS, RESOURCES, STATUS_WORDS, WRITING


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


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def changes(now: list[str], frozen: list[str]) -> list[str]:
    """Return the added (+) and removed (-) entries, for a message."""
    return [f"+ {x}" for x in now if x not in frozen] + [f"- {x}" for x in frozen if x not in now]


def test_the_jobs() -> None:
    assert changes(list(commands.JOBS), list(KEYS)) == []


def test_the_keys_of_all_jobs_that_write_a_table() -> None:
    assert changes(list(dotted(Writing)), lines(WRITING)) == []


def test_the_keys_of_all_jobs_that_work_through_ray() -> None:
    assert changes(list(dotted(Common)), lines(COMMON)) == []


def test_the_keys_of_a_job() -> None:
    changed = {name: changes(list(dotted(cli.job(name).schema)), lines(KEYS[name])) for name in commands.JOBS}
    assert changed == {name: [] for name in commands.JOBS}


def test_the_keys_of_resources() -> None:
    assert changes(list(dotted(Resources)), lines(RESOURCES)) == []


def test_the_tables() -> None:
    assert changes(list(TABLES), list(COLUMNS)) == []


def test_the_columns_of_a_table() -> None:
    def check(name: str) -> None:
        table = TABLES[name]
        now = [f"key {', '.join(table.key)}; version {table.version}"]
        now += [f"{column}: {kind}" for column, (kind, _) in table.columns.items()]
        assert changes(now, lines(COLUMNS[name])) == []
        assert now == lines(COLUMNS[name]), "the order of the columns"

    check_cases(check, list(TABLES))


def test_the_status_words() -> None:
    assert changes(list(STATUSES), STATUS_WORDS.split()) == []
