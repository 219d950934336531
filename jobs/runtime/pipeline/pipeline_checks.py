"""What is wrong with the files and values of a pipeline, as far as it is known before its first step runs."""

from collections.abc import Iterator, Sequence
from typing import Any

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.pipeline import pipelines
from jobs.runtime.pipeline.pipelines import PipelineConfig, Step
from jobs.store.files import locations


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
    for step, config_of_step, of_step in zip(pipeline.steps, loaded, overrides, strict=True):
        try:
            with pipelines.inputs_named(step):
                cli.check_loaded(step.job, config_of_step, of_step)
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
