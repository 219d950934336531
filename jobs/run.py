"""Run a pipeline: a list of jobs, one after another, with one Ray.

    python -m jobs.run pipeline=century profile=debug|full out=R pipeline.inputs.corpus='s3://b/wit/*.tsv.gz' \\
        pipeline.inputs.terms=terms.csv pipeline.inputs.pictures=DIR

A pipeline (`conf/pipeline/`) names the jobs and how one's output is the next one's input; a profile
(`conf/profile/`) changes keys of single jobs. A step that is done is found done: the same command goes on
where it was interrupted.
"""

import shlex
import sys
import time
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from omegaconf import MISSING

from jobs.errors import InputError
from jobs.runtime import cli, config
from jobs.runtime.config import RayConfig
from jobs.runtime.console import say
from jobs.runtime.resources import Resources


@dataclass
class Step:
    """One job and its keys."""

    job: str = MISSING
    set: dict[str, Any] = field(default_factory=dict)


@dataclass
class PipelineConfig:
    """What comes in, and the steps; `inputs` are the pipeline's own keys."""

    name: str = MISSING
    inputs: dict[str, Any] = field(default_factory=dict)  # what comes in
    steps: list[Step] = field(default_factory=list)  # its jobs and their keys


@dataclass
class ProfileConfig:
    """Keys to change, by job."""

    name: str = MISSING
    set: dict[str, dict[str, Any]] = field(default_factory=dict)  # job -> its keys


@dataclass
class RunConfig:
    """Keys of `run`."""

    out: str = MISSING  # the folder below which each step writes its table
    pipeline: PipelineConfig = field(default_factory=PipelineConfig)  # the list of jobs
    profile: ProfileConfig = field(default_factory=ProfileConfig)  # debug: small models of random weights
    resources: Resources = field(default_factory=Resources)  # what each stage may use
    plan: bool = False  # say which commands the steps are, and stop
    resume: bool = True  # go on with tables that are there; false refuses them
    overwrite: bool = False  # delete the tables that are there first
    ray: RayConfig = field(default_factory=RayConfig)


@dataclass(frozen=True)
class StepResult:
    """A step that ran: its job, what it returned, and its wall-clock seconds."""

    job: str
    returned: Any
    seconds: float


def execute(cfg: RunConfig) -> list[StepResult]:
    """Run the steps in order; every step's keys are checked before the first one starts.

    Raises:
        InputError: a step names no job, or keys that its job does not have.
    """
    prepared = [(step.job, _overrides(cfg, step)) for step in cfg.pipeline.steps]
    if unknown := [name for name, _ in prepared if name not in cli.JOBS or name in ("run", "demo")]:
        raise InputError(f"pipeline {cfg.pipeline.name}: no job {unknown[0]}; there are {', '.join(cli.JOBS)}")
    if strangers := [name for name in cfg.profile.set if name not in cli.JOBS]:
        raise InputError(f"profile {cfg.profile.name}: no job {strangers[0]}; there are {', '.join(cli.JOBS)}")
    for name, overrides in prepared:
        config.load(name, cli.job(name).schema, overrides)
    if cfg.plan:
        _show(cfg)
        return []
    results = []
    for number, (name, overrides) in enumerate(prepared, 1):
        say(f"[{number}/{len(prepared)}] {name}")
        begun = time.monotonic()
        returned = cli.execute(name, overrides)
        results.append(StepResult(name, returned, time.monotonic() - begun))
    say(f"run: pipeline {cfg.pipeline.name}, profile {cfg.profile.name}")
    for result in results:
        say(f"  {result.job:8} {result.seconds:8.1f} s")
    return results


def _own(cfg: RunConfig, step: Step) -> dict[str, Any]:
    """The step's keys, those that the profile changes changed."""
    return {**step.set, **cfg.profile.set.get(step.job, {})}


def _show(cfg: RunConfig) -> None:
    """The steps as commands of their own, to be read or run one by one."""
    for step in cfg.pipeline.steps:
        keys = [f"{key}={_typed(value)}" for key, value in (_own(cfg, step) | _of_the_run(cfg, step)).items()]
        say(f"python -m jobs.{step.job} {shlex.join(keys)}")


def _of_the_run(cfg: RunConfig, step: Step) -> dict[str, Any]:
    """What the whole run changes of a step's keys: resources, by their name if they have one, and so on."""
    schema = cli.job(step.job).schema
    own = [f"{key}={_literal(value)}" for key, value in _own(cfg, step).items()]
    alone = _leaves(asdict(config.load(step.job, schema, own)))
    given = _leaves(asdict(config.load(step.job, schema, _overrides(cfg, step))))
    changed = {key: value for key, value in given.items() if value != alone[key]}
    if any(key.startswith("resources.") for key in changed):
        for name in sorted(path.stem for path in (config.CONF / "resources").glob("*.yaml")):
            if config.load(step.job, schema, [*own, f"resources={name}"]).resources == cfg.resources:
                changed = {key: value for key, value in changed.items() if not key.startswith("resources.")}
                return changed | {"resources": name}
    return changed


def _typed(value: Any) -> str:
    """`value` as a person types it."""
    if isinstance(value, list):
        return f"[{','.join(_typed(entry) for entry in value)}]"
    return value if isinstance(value, str) else _literal(value)


def _overrides(cfg: RunConfig, step: Step) -> list[str]:
    keys = _own(cfg, step)
    schema = {f.name for f in fields(cli.job(step.job).schema)} if step.job in cli.JOBS else set()
    common = {"resume": cfg.resume, "overwrite": cfg.overwrite}
    keys |= {k: v for k, v in common.items() if k in schema}
    if "resources" in schema:
        keys |= _leaves({"resources": asdict(cfg.resources)})
    if "ray" in schema:
        keys |= {f"ray.{k}": getattr(cfg.ray, k) for k in ("address", "num_cpus", "verbose")}
    return [f"{key}={_literal(value)}" for key, value in keys.items()]


def _leaves(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a nested dict under their dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        flat |= _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat


def _literal(value: Any) -> str:
    """`value` in Hydra's override grammar."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(_literal(v) for v in value)}]"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return config.quoted(value)
    raise InputError(f"{value!r}: a step's key takes text, a number, true or false, null or a list")


JOB = cli.Job("run", RunConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("run"))
