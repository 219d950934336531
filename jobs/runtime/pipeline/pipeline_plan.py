"""What a run would do, before it starts: its steps as commands, their plans with sums, and what is wrong with them.

A step that reads the table of an earlier step can be planned only once that table is complete, because its units and
rows are unknown before.
"""

import functools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from actors.quantities import quantity
from jobs.errors import InputError, NotAnsweredError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config, config_files
from jobs.runtime.configuration.key_values import literal
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.outcomes import Manifest, Plan, PlannedTable
from jobs.runtime.pipeline import pipelines
from jobs.runtime.pipeline.pipelines import PipelineConfig, Step
from jobs.runtime.planning import estimates
from jobs.runtime.planning.estimates import PlanSums
from jobs.runtime.process import console
from jobs.store.files import locations


@dataclass(frozen=True)
class StepPlan:
    """The plan of a step.

    Attributes:
        tables: the tables that it would write.
        unknown: why there is no plan; empty if there is one.
        refusal: the error with which the step would end the run.
    """

    label: str
    tables: Sequence[PlannedTable] = ()
    unknown: str = ""
    refusal: InputError | None = None

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing left to do."""
        return not self.unknown and all(table.amounts.done == table.amounts.units for table in self.tables)


def load(step: Step, overrides: Sequence[str]) -> Any:
    """Return the configuration of a step; errors about a value of the pipeline's inputs have the input's name."""
    try:
        with pipelines.inputs_named(step):
            return config.load(step.job, cli.job(step.job).schema, overrides)
    except InputError as error:
        error.job = "run" if error.key in step.inputs.values() else error.job
        raise


def plan_steps(steps: Sequence[Step], loaded: Sequence[Any], plan: bool | str) -> list[StepPlan]:
    """Plan each step whose inputs exist; with plan=calibrate some units of each are done.

    Args:
        loaded: the configurations of the steps.
    """
    plans: list[StepPlan] = []
    complete: dict[str, tuple[int, bool]] = {}  # out -> the step that writes it, and whether it has
    for number, (step, cfg) in enumerate(zip(steps, loaded, strict=True), 1):
        awaited = sorted({writer for out, (writer, is_done) in complete.items() if not is_done and _reads(step, out)})
        planned = _plan(step, cfg, plan, awaited)
        plans.append(planned)
        if out := step.set.get("out"):
            is_there = not awaited and not hasattr(cfg, "plan") and locations.has_files(str(out))
            complete[str(out)] = number, planned.is_complete if planned.tables else is_there
    return plans


def _plan(step: Step, cfg: Any, plan: bool | str, awaited: Sequence[int]) -> StepPlan:
    label = pipelines.label(step)
    if awaited:
        return StepPlan(label, unknown=f"reads what step {', '.join(map(str, awaited))} has not written yet")
    if not hasattr(cfg, "plan"):
        return StepPlan(label, unknown=f"{step.job} has no plan")
    value = plan if getattr(cfg, "calibrates", False) else bool(plan)
    try:
        with console.muted(), pipelines.inputs_named(step):
            planned = cli.execute_loaded(
                step.job, replace(cfg, plan=value), [f"{key}={text}" for key, text in step.set.items()]
            )
    except InputError as error:
        is_refused = error.key != "plan" and not (step.waits and isinstance(error, NotAnsweredError))
        return StepPlan(label, unknown=str(error), refusal=error if is_refused else None)
    tables = planned.planned if isinstance(planned, Plan | Manifest) else ()
    return StepPlan(label, tables) if tables else StepPlan(label, unknown=f"{step.job} printed no amounts")


def _reads(step: Step, out: str) -> bool:
    """Return whether a key of the step has the table at `out`, or one below it, as its value; globs count too."""
    folders = out.rstrip("/").split("/")
    paths = (text.split("/") for key, value in step.set.items() if key != "out" for text in _texts(value))
    return any(len(path) >= len(folders) and all(map(_matches, folders, path)) for path in paths)


def _matches(folder: str, pattern: str) -> bool:
    return folder == pattern or fnmatchcase(folder, pattern)


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in a key's value, including those in lists and mappings."""
    if isinstance(value, Mapping | list | tuple):
        for entry in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(entry)
    else:
        yield str(value)


def whole(commands_of_steps: Iterable[str], plans: Sequence[StepPlan], problems: Iterable[InputError]) -> Plan:
    """Return the plan of a pipeline, which is refused for its problems, or else for those of its steps."""
    refusals = list(problems) or [plan.refusal for plan in plans if plan.refusal is not None]
    others = (f"the run would also be refused: {error}" for error in refusals[1:])
    return Plan([*commands_of_steps, *lines(plans), *others], refusal=next(iter(refusals), None))


def lines(plans: Sequence[StepPlan]) -> Iterator[str]:
    """Yield lines about what each step would read, write and spend, and about the sums."""
    sums, unknown = PlanSums(), dict[str, str]()
    for number, plan in enumerate(plans, 1):
        head = f"  [{number}/{len(plans)}] {plan.label}"
        if plan.unknown:
            yield f"{head}: not planned: {plan.unknown}"
            unknown[f"{number} {plan.label}"] = "no plan"
        for table in plan.tables:
            amounts = table.amounts
            yield f"{head}: {_amounts(amounts.units, amounts.rows, amounts.bytes, amounts.done)}; writes {table.out}"
            for line in estimates.lines(table.estimated) if table.estimated else ():
                yield f"      {line}"
            if not sums.add(table):
                unknown[f"{number} {plan.label}"] = "no pace"
    yield f"total: {_amounts(sums.units, sums.rows, sums.bytes, sums.done)}"
    yield from (f"  {line}" for line in sums.lines())
    if unknown:
        listed = "; ".join(f"{label} ({why})" for label, why in unknown.items())
        yield f"  not in these sums: {listed}"


def _amounts(units: int, rows: int, size: int, done: int) -> str:
    all_rows = f"{quantity(rows, 'row')}, " if rows else ""
    return f"{quantity(units, 'unit')}, {all_rows}{size / 1e6:,.1f} MB, {done:,} units done, {units - done:,} left"


def problems(
    pipeline: PipelineConfig, loaded: Sequence[Any], overrides: Sequence[Sequence[str]]
) -> Iterator[InputError]:
    """Yield an error for each wrong value, with the key that the user typed.

    Args:
        loaded, overrides: the configurations of the steps, and what they were loaded from.
    """
    try:
        pipelines.check_files(pipeline)
    except InputError as error:
        yield error
        return  # the steps that read the file would say the same
    for number, (step, config_of_step, of_step) in enumerate(zip(pipeline.steps, loaded, overrides, strict=True)):
        try:
            with pipelines.inputs_named(step):
                cli.check_loaded(step.job, config_of_step, of_step)
                if check_writers := cli.job(step.job).check_writers:
                    earlier = (other for other in pipeline.steps[:number] if "out" in other.set)
                    check_writers(config_of_step, {other.job for other in earlier if _reads(step, other.set["out"])})
                _check_attributes(step, config_of_step, pipeline.steps, loaded)
        except InputError as error:
            yield error


def _check_attributes(step: Step, config_of_step: Any, steps: Sequence[Step], loaded: Sequence[Any]) -> None:
    """Check the attributes that a step reads, if all its items come from files of the user."""
    if (check := cli.job(step.job).check_attributes) is None:
        return
    attributes = {}
    for other, writer in zip(steps, loaded, strict=True):
        if of_items := cli.job(other.job).attributes:
            with pipelines.inputs_named(other):
                attributes[locations.join(locations.absolute(writer.out), "items")] = of_items(writer)
    read = [attributes.get(locations.absolute(uri)) for uri in config_of_step.items]
    if read and None not in read:
        check(config_of_step, {name for names in read for name in names or ()})


def commands(steps: Sequence[Step], loaded: Sequence[Any], resources: Resources) -> Iterator[str]:
    """Yield the steps, whose configurations are `loaded`, as commands that can be run one by one."""
    for step, config_of_step in zip(steps, loaded, strict=True):
        changed = _run_keys(resources, step, config_of_step)
        keys = [f"{key}={_as_typed(value)}" for key, value in (step.set | changed).items()]
        yield f"remine {step.job} {shlex.join(keys)}"


def _run_keys(resources: Resources, step: Step, config_of_step: Any) -> dict[str, Any]:
    """Return the keys of a step that the run's keys change; `resources=NAME` if a file of conf/ has these resources."""
    step_overrides = [f"{key}={literal(value)}" for key, value in step.set.items()]
    without_run = pipelines.leaves(asdict(config.load(step.job, cli.job(step.job).schema, step_overrides)))
    with_run = pipelines.leaves(asdict(config_of_step))
    changed = {key: value for key, value in with_run.items() if value != without_run[key]}
    if any(key.startswith("resources.") for key in changed) and (name := _resources_name(resources)):
        changed = {key: value for key, value in changed.items() if not key.startswith("resources.")}
        return changed | {"resources": name}
    return changed


def _resources_name(resources: Resources) -> str | None:
    """Return the name of the file of conf/resources with these resources; None if there is none."""
    return next((name for name, of_file in _named_resources().items() if of_file == resources), None)


@functools.cache
def _named_resources() -> dict[str, Resources]:
    """Return the resources of each file of conf/resources, by its name."""
    return {
        name: config.built(Resources, config.compose("run", cli.job("run").schema, [f"resources={name}"])["resources"])
        for name in config_files.options("resources", None)
    }


def _as_typed(value: Any) -> str:
    """Return `value` as a user types it: texts without quotes."""
    if isinstance(value, list):
        return f"[{','.join(_as_typed(entry) for entry in value)}]"
    return value if isinstance(value, str) else literal(value)
