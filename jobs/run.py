"""Run a pipeline: a list of jobs, one after another, with one Ray.

    remine run pipeline=century profile=debug|full out=R pipeline.inputs.corpus='s3://b/wit/*.tsv.gz' \\
        pipeline.inputs.terms=terms.csv pipeline.inputs.pictures=DIR

A pipeline (`conf/pipeline/`) lists the jobs and connects the output of one to the input of the next; a profile
(`conf/profile/`) changes keys of single jobs. A step may be repeated over lists, such as models and conditions. To
continue an interrupted pipeline, run the same command again: steps that are complete do nothing.
"""

import functools
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, cast

from omegaconf import MISSING, DictConfig, OmegaConf

from jobs.errors import InputError
from jobs.runtime import cli, commands, config, config_files, console, pipeline_plan, pipelines
from jobs.runtime.config import RayConfig
from jobs.runtime.console import say
from jobs.runtime.overrides import literal
from jobs.runtime.pipelines import PipelineConfig, ProfileConfig, Step
from jobs.runtime.resources import Resources
from jobs.store import limits, locations


@dataclass
class RunConfig:
    """Keys of `run`."""

    out: str = MISSING  # the folder below which each step writes its table
    pipeline: PipelineConfig = field(default_factory=PipelineConfig)  # the list of jobs
    profile: ProfileConfig = field(default_factory=ProfileConfig)  # debug: small models of random weights
    resources: Resources = field(default_factory=Resources)  # what each stage may use
    limit: int | None = None  # a trial run: the steps that read your files read only their first rows; null: all
    # print the steps as commands, what each would read, write and spend, and the sums, and stop; calibrate: first do
    # some units of each step whose inputs exist
    plan: bool | str = False
    resume: bool = True  # continue existing tables; false refuses them
    overwrite: bool = False  # delete existing tables first
    timings: bool = False  # print where the seconds of each step went (-v)
    log: str = "text"  # of what is printed: text, or json for a JSON object per line
    ray: RayConfig = field(default_factory=RayConfig)

    @staticmethod
    def prepare(composed: DictConfig) -> DictConfig:
        """Return `composed` with its repeated steps written out; `config.load` calls it."""
        return pipelines.expand(composed)


@dataclass(frozen=True)
class StepResult:
    """A completed step: its job, the job's return value, its wall-clock seconds, and its values if it is repeated."""

    job: str
    returned: Any
    seconds: float
    label: str


def execute(cfg: RunConfig) -> list[StepResult]:
    """Run the steps in order; every step's keys are checked before the first one starts.

    Raises:
        InputError: a step names no job, or keys that its job does not have, or two steps have one `out`.
    """
    steps = cfg.pipeline.steps
    limits.check(cfg.limit)
    prepared = [(step.job, _overrides(cfg, step)) for step in _with_limit(cfg)]
    allowed = [name for name in commands.JOBS if name not in ("run", "demo")]
    if unknown := [name for name, _ in prepared if name not in allowed]:
        raise InputError(f"pipeline={cfg.pipeline.name}: no such job {unknown[0]}; must be one of {', '.join(allowed)}")
    if unknown := [name for name in cfg.profile.set if name not in allowed]:
        raise InputError(f"profile={cfg.profile.name}: no such job {unknown[0]}; must be one of {', '.join(allowed)}")
    loaded = [config.load(name, cli.job(name).schema, overrides) for name, overrides in prepared]
    _check_outputs(steps, loaded)
    if cfg.plan:
        _print_commands(cfg, loaded)
        for line in pipeline_plan.lines(pipeline_plan.plan_steps(steps, loaded, cfg.plan)):
            say(line)
        return []
    results = []
    for number, (step, config_of_step) in enumerate(zip(steps, loaded, strict=True), 1):
        label = pipelines.label(step)
        say(f"[{number}/{len(loaded)}] {label}")
        begun = time.monotonic()
        with console.fields(step=f"{number}/{len(loaded)} {label}"):
            returned = cli.execute_loaded(step.job, config_of_step)
        results.append(StepResult(step.job, returned, time.monotonic() - begun, label))
    say(f"run: pipeline {cfg.pipeline.name}, profile {cfg.profile.name}")
    for result in results:
        say(f"  {result.label:8} {result.seconds:8.1f} s")
    return results


def _with_limit(cfg: RunConfig) -> Sequence[Step]:
    """The steps; with `limit=` those that read the pipeline's inputs have it too."""
    steps = cfg.pipeline.steps
    if cfg.limit is None:
        return steps
    takes_limit = {name for name in {step.job for step in steps} & set(commands.JOBS) if "limit" in _key_names(name)}
    first = pipelines.first_steps(steps, takes_limit)
    return [replace(step, set={"limit": cfg.limit, **step.set}) if step in first else step for step in steps]


def _key_names(job: str) -> set[str]:
    return {key.name for key in fields(cli.job(job).schema)}


def _check_outputs(steps: Sequence[Step], loaded: Sequence[Any]) -> None:
    """Check that no two steps write one table.

    Raises:
        InputError: two steps have the same `out`.
    """
    writers: dict[str, str] = {}
    for number, (step, config_of_step) in enumerate(zip(steps, loaded, strict=True), 1):
        if (out := getattr(config_of_step, "out", None)) is None:
            continue
        place, writer = locations.absolute(out), f"step {number} ({pipelines.label(step)})"
        if place in writers:
            raise InputError(
                f"out={out}: written by {writers[place]} and {writer}; give each step its own out, a repeated step "
                "with all its variables, as in out: ${out}/ratings/${each.model}"
            )
        writers[place] = writer


def _print_commands(cfg: RunConfig, loaded: list[Any]) -> None:
    """Print the steps, whose configurations are `loaded`, as commands that can be run one by one."""
    for step, config_of_step in zip(cfg.pipeline.steps, loaded, strict=True):
        changed = _run_keys(cfg, step, config_of_step)
        keys = [f"{key}={_as_typed(value)}" for key, value in (step.set | changed).items()]
        say(f"python -m jobs.{step.job} {shlex.join(keys)}")


def _run_keys(cfg: RunConfig, step: Step, config_of_step: Any) -> dict[str, Any]:
    """The keys of a step that the keys of the run change; `resources=NAME` if a file of conf/ has these resources."""
    step_overrides = [f"{key}={literal(value)}" for key, value in step.set.items()]
    without_run = pipelines.leaves(asdict(config.load(step.job, cli.job(step.job).schema, step_overrides)))
    with_run = pipelines.leaves(asdict(config_of_step))
    changed = {key: value for key, value in with_run.items() if value != without_run[key]}
    if any(key.startswith("resources.") for key in changed) and (name := _resources_name(cfg.resources)):
        changed = {key: value for key, value in changed.items() if not key.startswith("resources.")}
        return changed | {"resources": name}
    return changed


def _resources_name(resources: Resources) -> str | None:
    """The file of conf/resources that has these resources; None: no file has."""
    return next((name for name, of_file in _named_resources().items() if of_file == resources), None)


@functools.cache
def _named_resources() -> dict[str, Resources]:
    """The resources of each file of conf/resources, by its name."""
    composed = {
        name: config.compose("run", RunConfig, [f"resources={name}"])
        for name in config_files.options("resources", None)
    }
    return {name: cast(Resources, OmegaConf.to_object(files.resources)) for name, files in composed.items()}


def _as_typed(value: Any) -> str:
    """`value` as a user types it: texts without quotes."""
    if isinstance(value, list):
        return f"[{','.join(_as_typed(entry) for entry in value)}]"
    return value if isinstance(value, str) else literal(value)


def _overrides(cfg: RunConfig, step: Step) -> list[str]:
    """The overrides with which a step runs."""
    schema = _key_names(step.job) if step.job in commands.JOBS else set()
    common = {"resume": cfg.resume, "overwrite": cfg.overwrite, "timings": cfg.timings}
    keys = {k: v for k, v in common.items() if k in schema} | step.set
    if "resources" in schema:
        keys |= pipelines.leaves({"resources": asdict(cfg.resources)})
    if "ray" in schema:
        keys |= {f"ray.{k}": getattr(cfg.ray, k) for k in ("address", "num_cpus", "verbose")}
    return [f"{key}={literal(value)}" for key, value in keys.items()]


JOB = cli.Job("run", RunConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("run"))
