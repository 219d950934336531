"""Run a pipeline: a list of jobs, one after another, with one Ray.

    remine run pipeline=century profile=debug|full out=R pipeline.inputs.corpus='s3://b/wit/*.tsv.gz' \\
        pipeline.inputs.terms=terms.csv pipeline.inputs.pictures=DIR

A pipeline (`conf/pipeline/`) lists the jobs and connects the output of one to the input of the next; a profile
(`conf/profile/`) changes keys of single jobs. A step may be repeated over lists, such as models and conditions. To
continue an interrupted pipeline, run the same command again: steps that are complete do nothing.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar

from jobs.errors import InputError, NotAnsweredError
from jobs.runtime.command_line import cli, job_names
from jobs.runtime.configuration.key_types import MISSING, conf_group
from jobs.runtime.configuration.key_values import literal
from jobs.runtime.configuration.resources import RayConfig, Resources
from jobs.runtime.outcomes import Plan
from jobs.runtime.pipeline import pipeline_plan, pipelines
from jobs.runtime.pipeline.pipelines import PipelineConfig, ProfileConfig, Step
from jobs.runtime.planning.spending import check_budget, left_of
from jobs.runtime.process import console
from jobs.runtime.process.console import say
from jobs.store import table_plan


@dataclass
class RunConfig:
    """Keys of `run`."""

    SHORT = "pipeline.inputs"  # a pipeline's inputs may be written as keys of `run`
    out: str = MISSING  # the folder below which each step writes its table
    pipeline: PipelineConfig = conf_group("century", PipelineConfig)  # the list of jobs
    profile: ProfileConfig = conf_group("full", ProfileConfig)  # debug: small models of random weights
    resources: Resources = conf_group("laptop", Resources)  # what each stage may use
    # end the run, which the same command continues, at an amount of money (200) or a time (12h, 90min); null: no limit
    budget: str | None = None
    exclusions: str | None = None  # file of pictures that no step may use (jobs.runtime.selection.exclusions)
    limit: int | None = None  # a trial run: the steps that read your files read only their first rows; null: all
    # print the steps as commands, what each would read, write and spend, and the sums, and stop; calibrate: first do
    # some units of each step whose inputs exist
    plan: bool | str = False
    resume: bool = True  # rarely: continue existing tables; false refuses them
    overwrite: bool = False  # delete existing tables first
    timings: bool = False  # print where the seconds of each step went (-v)
    log: str = "text"  # rarely: format of what is printed: text, or json for one JSON object per line
    ray: RayConfig = field(default_factory=RayConfig)  # rarely: how Ray is reached or started
    calibrates: ClassVar[bool] = True

    @staticmethod
    def prepare(composed: dict[str, Any]) -> dict[str, Any]:
        """Return `composed` with its repeated steps written out; `config.load` calls it."""
        return pipelines.expand(composed)


@dataclass(frozen=True)
class StepResult:
    """A completed step: its job, the job's return value, its wall-clock seconds, and its values if it is repeated.

    The value is None for a step that waits for people.
    """

    job: str
    returned: Any
    seconds: float
    label: str


def execute(cfg: RunConfig) -> list[StepResult] | Plan:
    """Run the steps in order, or return their plan with plan=true.

    Every step's keys and the files of the user are checked before the first one starts.

    Raises:
        InputError: a step names an unknown job or keys that its job does not have, or two steps have one `out`.
    """
    steps = cfg.pipeline.steps
    table_plan.check_limit(cfg.limit)
    check_budget(cfg.budget, has_prices=cfg.resources.prices is not None)
    prepared = [(step.job, _overrides(cfg, step)) for step in _with_limit(cfg)]
    allowed = [name for name in job_names.JOBS if name not in ("run", "demo")]
    if unknown := [name for name, _ in prepared if name not in allowed]:
        raise InputError(f"no such job {unknown[0]}; must be one of {', '.join(allowed)}", key="pipeline")
    if unknown := [name for name in cfg.profile.set if name not in allowed]:
        raise InputError(f"no such job {unknown[0]}; must be one of {', '.join(allowed)}", key="profile")
    loaded = [pipeline_plan.load(step, overrides) for step, (_, overrides) in zip(steps, prepared, strict=True)]
    pipelines.check_outputs(steps, loaded)
    problems = pipeline_plan.problems(cfg.pipeline, loaded, [overrides for _, overrides in prepared])
    if cfg.plan:
        commands_of_steps = pipeline_plan.commands(steps, loaded, cfg.resources)
        plans = pipeline_plan.plan_steps(steps, loaded, cfg.plan)
        return pipeline_plan.whole(commands_of_steps, plans, problems)
    if (problem := next(problems, None)) is not None:
        raise problem
    results, budget = [], cfg.budget
    waiting = {step.job for step in steps if step.waits}
    for number, (step, config_of_step, (_, overrides)) in enumerate(zip(steps, loaded, prepared, strict=True), 1):
        label = pipelines.label(step)
        say(f"[{number}/{len(loaded)}] {label}")
        if budget is not None and hasattr(config_of_step, "budget"):
            config_of_step.budget = budget
        begun = time.monotonic()
        with console.fields(step=f"{number}/{len(loaded)} {label}"):
            returned = _run(step, config_of_step, overrides)
        if budget is not None and isinstance(returned, Mapping):
            budget = left_of(budget, returned, time.monotonic() - begun)
        results.append(StepResult(step.job, returned, time.monotonic() - begun, label))
    say(f"run: pipeline {cfg.pipeline.name}, profile {cfg.profile.name}")
    width = max((len(result.label) for result in results), default=0)
    for result in results:
        waits = "  waits for people: run the same command again" * (result.returned is None and result.job in waiting)
        say(f"  {result.label:{width}} {result.seconds:8.1f} s{waits}")
    return results


def _run(step: Step, config_of_step: Any, overrides: Sequence[str]) -> object:
    """Run a step and return what its job returns; None if it may wait for people, who have not answered yet."""
    try:
        with pipelines.inputs_named(step):
            return cli.execute_loaded(step.job, config_of_step, overrides)
    except NotAnsweredError as error:
        if not step.waits:
            raise
        say(f"{step.job}: waits for people: {error}")
        return None


def _with_limit(cfg: RunConfig) -> Sequence[Step]:
    """Return the steps; with `limit=`, the steps that read the pipeline's inputs get it too."""
    steps = cfg.pipeline.steps
    if cfg.limit is None:
        return steps
    takes_limit = {name for name in {step.job for step in steps} & set(job_names.JOBS) if "limit" in _key_names(name)}
    first = pipelines.first_steps(steps, takes_limit)
    return [replace(step, set={"limit": cfg.limit, **step.set}) if step in first else step for step in steps]


def _key_names(job: str) -> set[str]:
    return {key.name for key in fields(cli.job(job).schema)}


def _overrides(cfg: RunConfig, step: Step) -> list[str]:
    """Return the overrides with which a step runs."""
    schema = _key_names(step.job) if step.job in job_names.JOBS else set()
    common = {"budget": cfg.budget, "resume": cfg.resume, "overwrite": cfg.overwrite, "timings": cfg.timings}
    keys: dict[str, Any] = {k: v for k, v in common.items() if k in schema}
    if "resources" in schema and "resources" not in step.set:
        keys |= pipelines.leaves({"resources": asdict(cfg.resources)})
    if "ray" in schema:
        keys |= {f"ray.{k}": getattr(cfg.ray, k) for k in ("address", "num_cpus", "verbose")}
    keys |= step.set
    if "exclusions" in schema and cfg.exclusions is not None and step.set.get("exclusions") is None:
        keys["exclusions"] = cfg.exclusions
    return [f"{key}={literal(value)}" for key, value in keys.items()]


JOB = cli.Job("run", RunConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("run"))
