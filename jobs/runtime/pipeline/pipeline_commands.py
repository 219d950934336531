"""The steps of a pipeline as commands that can be run one by one."""

import functools
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config, config_files
from jobs.runtime.configuration.key_values import literal
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.pipeline import pipelines
from jobs.runtime.pipeline.pipelines import Step


def lines(steps: Sequence[Step], loaded: Sequence[Any], resources: Resources) -> Iterator[str]:
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
