"""Plans of steps: what they say about tables, which steps wait for others, and the steps as commands."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.configuration.key_values import literal
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.outcomes import Plan
from jobs.runtime.pipeline import pipeline_plan
from jobs.runtime.pipeline.pipeline_plan import StepPlan, lines, plan_steps
from jobs.runtime.pipeline.pipelines import Step
from jobs.runtime.planning.summary import PlannedTable
from jobs.runtime.process.console import say


def table(*, units: int, done: int, **amounts: int) -> PlannedTable:
    counted: Any = SimpleNamespace(units=units, done=done, **{"rows": 0, "bytes": 0} | amounts)
    return PlannedTable("R/t", counted, None)


def test_a_step_is_complete_if_all_units_of_its_tables_are_done() -> None:
    cases = {
        "all": [table(units=2, done=2), table(units=0, done=0)],
        "some": [table(units=2, done=2), table(units=2, done=1)],
    }
    assert {case: StepPlan("judge", tables).is_complete for case, tables in cases.items()} == {
        "all": True,
        "some": False,
    }


def test_a_step_without_a_plan_is_not_complete() -> None:
    """It has no tables, of which all units would be done."""
    assert not StepPlan("judge", unknown="reads what step 1 has not written yet").is_complete
    assert StepPlan("judge").is_complete


@pytest.fixture
def awaited(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, ...]]:
    """The steps that each step waits for, by the step's job, which says what its plan is."""
    waits: dict[str, tuple[int, ...]] = {}
    tables = {"done": (table(units=1, done=1),), "begun": (table(units=2, done=1),)}

    def planned(step: Step, cfg: Any, plan: bool | str, numbers: list[int]) -> StepPlan:
        waits[step.job] = tuple(numbers)
        return StepPlan(step.job, () if numbers else tables.get(step.job, ()))

    monkeypatch.setattr(pipeline_plan, "_plan", planned)
    return waits


def waiting(awaited: dict[str, tuple[int, ...]], *steps: Step, cfg: object = None) -> dict[str, tuple[int, ...]]:
    plan_steps(steps, [cfg] * len(steps), plan=True)
    return awaited


def test_a_step_waits_for_each_step_whose_table_is_not_complete(awaited: dict[str, tuple[int, ...]]) -> None:
    steps = [
        Step("begun", {"out": "R/b"}),
        Step("done", {"out": "R/a"}),
        Step("nowhere", {"out": "R/c"}),
        Step("reads one", {"input": "R/b", "out": "R/d"}),
        Step("reads none", {"input": "R/a"}),
        Step("reads all", {"input": ["R/c", "R/d"], "also": {"x": "R/b", "y": "R/a"}}),
        Step("writes below", {"out": "R/b/parts"}),
        Step("eighth", {"out": "R/e"}),
        Step("reads first and eighth", {"input": ["R/e", "R/b"]}),
    ]
    assert waiting(awaited, *steps) == {
        "begun": (),
        "done": (),
        "nowhere": (),
        "reads one": (1,),
        "reads none": (),
        "reads all": (1, 3, 4),
        "writes below": (),
        "eighth": (),
        "reads first and eighth": (1, 8),
    }


def test_a_job_without_a_plan_has_written_what_exists_unless_it_waits(
    awaited: dict[str, tuple[int, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that exists is of the earlier tables if one of these is not complete now."""
    for name in ("early", "late"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.parquet").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.csv").touch()
    steps = [
        Step("early", {"out": f"{tmp_path}/early"}),
        Step("of early", {"input": f"{tmp_path}/early"}),
        Step("begun", {"out": f"{tmp_path}/begun"}),
        Step("late", {"input": f"{tmp_path}/begun", "out": f"{tmp_path}/late"}),
        Step("of late", {"input": f"{tmp_path}/late"}),
        Step("empty", {"out": f"{tmp_path}/empty"}),
        Step("of empty", {"input": f"{tmp_path}/empty"}),
        Step("file", {"out": f"{tmp_path}/file.csv"}),
        Step("of file", {"input": f"{tmp_path}/file.csv"}),
    ]
    assert {job: numbers for job, numbers in waiting(awaited, *steps).items() if numbers} == {
        "late": (3,),
        "of late": (4,),
        "of empty": (6,),
    }
    monkeypatch.setattr(pipeline_plan.locations, "has_files", lambda uri: uri == "s3://b/t")
    steps += [Step("s3", {"out": "s3://b/t"}), Step("of s3", {"input": "s3://b/t"})]
    steps += [Step("no s3", {"out": "s3://b/u"}), Step("of no s3", {"input": "s3://b/u"})]
    waits = waiting(awaited, *steps)
    assert (waits["of s3"], waits["of no s3"]) == ((), (12,))
    # A plan that failed says nothing about the table that exists.
    assert waiting(awaited, *steps[:2], cfg=Keys())["of early"] == (1,)


@dataclass
class Keys:
    """The keys of a job without stages."""

    plan: bool | str = False


@dataclass
class StageKeys(Keys):
    """The keys of a job with stages."""

    calibrates: ClassVar[bool] = True


def test_a_job_without_stages_is_planned_rather_than_calibrated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[tuple[str, bool | str, list[str]]] = []

    def execute(job: str, cfg: Keys, overrides: list[str]) -> Plan:
        calls.append((job, cfg.plan, overrides))
        say("printed by the job")
        if job == "refused":
            raise InputError("refused: out=R/t: exists")
        return Plan(["a line"], [table(units=3, done=1)] if job != "silent" else [])

    monkeypatch.setattr(cli, "execute_loaded", execute)
    steps = [Step("mine", {"limit": 3}), Step("curate"), Step("refused"), Step("silent"), Step("report")]
    loaded = [StageKeys(), Keys(), Keys(), Keys(), object()]
    plans = plan_steps(steps, loaded, "calibrate")
    assert calls == [("mine", "calibrate", ["limit=3"]), ("curate", True, []), ("refused", True, []),
                     ("silent", True, [])]  # fmt: skip
    assert [(len(plan.tables), plan.unknown) for plan in plans] == [
        (1, ""),
        (1, ""),
        (0, "refused: out=R/t: exists"),
        (0, "silent printed no amounts"),
        (0, "report has no plan"),
    ]
    assert capsys.readouterr().out == ""


def test_amounts_are_those_of_each_table_and_of_all() -> None:
    plans = [
        StepPlan("mine", [table(units=3, done=1, rows=1200, bytes=2_500_000)]),
        StepPlan("report", unknown="report has no plan"),
        StepPlan("curate", [table(units=2, done=2, bytes=500_000)]),
    ]
    printed = list(lines(plans))
    assert printed[:4] == [
        "  [1/3] mine: 3 units, 1,200 rows, 2.5 MB, 1 units done, 2 left; writes R/t",
        "  [2/3] report: not planned: report has no plan",
        "  [3/3] curate: 2 units, 0.5 MB, 2 units done, 0 left; writes R/t",
        "total: 5 units, 1,200 rows, 3.0 MB, 3 units done, 2 left",
    ]
    assert printed[-1] == "  not in these sums: 2 report (no plan)"
    assert not any("not in these sums" in line for line in lines([plans[0]]))


def command(job: str, keys: dict[str, Any], *overrides: str) -> str:
    """Return the command of a step with `keys` in a run that adds `overrides`."""
    of_step = [f"{key}={literal(value)}" for key, value in keys.items()]
    loaded = config.load(job, cli.job(job).schema, [*of_step, *overrides])
    (line,) = pipeline_plan.commands([Step(job, keys)], [loaded], getattr(loaded, "resources", Resources()))
    return line


def test_the_keys_of_a_step_come_first_in_their_order() -> None:
    line = command("curate", {"out": "R/o", "input": "R/i"}, "exclusions=gone.txt", "overwrite=true")
    assert line == "remine curate out=R/o input=R/i overwrite=true exclusions=gone.txt"
    assert command("curate", {"input": "R/i", "out": "R/o"}, "overwrite=false") == "remine curate input=R/i out=R/o"


def test_a_key_of_the_step_that_the_run_changes_has_the_value_of_the_run() -> None:
    line = command("curate", {"resume": True, "input": "i", "out": "o"}, "resume=false")
    assert line == "remine curate resume=false input=i out=o"


def test_resources_of_a_file_are_named_behind_the_other_keys() -> None:
    keys = {"input": "i", "out": "o"}
    named = command("embed", keys, "resources=gpu-node", "overwrite=true")
    assert named == "remine embed input=i out=o overwrite=true resources=gpu-node"
    single = command("embed", keys, "resources.embed.actors=3", "overwrite=true")
    assert single == "remine embed input=i out=o overwrite=true resources.embed.actors=3"
    assert command("embed", keys, "resources=laptop") == "remine embed input=i out=o"  # the default


def test_texts_are_typed_without_quotes_of_their_own() -> None:
    line = command("curate", {"input": "a b.tsv", "out": "it's", "retry": ["error", "blocked"]})
    assert shlex.split(line) == ["remine", "curate", "input=a b.tsv", "out=it's", "retry=[error,blocked]"]
    assert command("embed", {"input": "i", "out": "o", "limit": None}) == "remine embed input=i out=o limit=null"
