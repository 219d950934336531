"""Every key of every job is part of the identity of the job's table, unless the key itself says that it is not."""

import ast
from dataclasses import field, fields, make_dataclass
from pathlib import Path

import pytest

import jobs
from actors.settings import Location, RuntimeOnly
from jobs.runtime.command_line import cli, job_names
from jobs.runtime.configuration.config import Writing
from jobs.store.identity import identifying_keys, identity_of

WRITERS = [name for name in job_names.JOBS if issubclass(cli.job(name).schema, Writing)]
# Modules that make a table's plan themselves: they put the identity together from `identity_of`, or write rows at once,
# with the hash of all rows in the identity.
PLANNERS = {
    "annotate.py", "import_ratings.py", "items_from/items_output.py", "runtime/job_tables.py",
    "viewer/corrections.py",
}  # fmt: skip


@pytest.mark.parametrize("job", WRITERS)
def test_a_new_key_of_any_job_is_part_of_the_identity(job: str) -> None:
    schema = cli.job(job).schema
    added = make_dataclass("Added", [("new_key", int, field(default=7))], bases=(schema,), kw_only=True)
    assert set(identifying_keys(added)) == {*identifying_keys(schema), "new_key"}


@pytest.mark.parametrize("job", WRITERS)
def test_keys_of_how_a_job_runs_are_not_part_of_the_identity(job: str) -> None:
    schema = cli.job(job).schema
    of_running = {"out", "resume", "overwrite", "retry", "plan", "exclusions", "timings", "log", "ray", "resources"}
    keys = {key.name for key in fields(schema)}
    assert not of_running & set(identifying_keys(schema))
    assert of_running & keys >= {"out", "resume", "overwrite", "retry", "plan"}


def test_only_one_function_makes_plans_from_keys() -> None:
    root = Path(jobs.__file__).parent
    planners = set()
    for path in root.rglob("*.py"):
        calls = (node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
        if any(isinstance(function, ast.Name) and function.id == "TablePlan" for function in calls):
            planners.add(path.relative_to(root).as_posix())
    assert planners == PLANNERS


def test_an_entry_replaces_its_key_and_stands_for_others() -> None:
    inner = make_dataclass("Inner", [("path", Location[str], "p"), ("kinds", tuple[str, ...], ("a", "b"))])
    keys = make_dataclass(
        "Keys",
        [
            ("k", int, 3),
            ("threads", RuntimeOnly[int], 2),
            ("table", str, "R"),
            ("inner", inner, field(default_factory=inner)),
        ],
    )()
    assert identity_of(keys) == {"k": 3, "table": "R", "inner": {"kinds": ["a", "b"]}}
    entries = {"table": "hash", "more": 1}
    assert identity_of(keys, entries, instead_of=["inner"]) == {"k": 3, "table": "hash", "more": 1}
    with pytest.raises(ValueError, match="Keys has no keys other"):
        identity_of(keys, instead_of=["other"])
