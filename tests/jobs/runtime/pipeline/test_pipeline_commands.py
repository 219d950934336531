"""Steps of a pipeline as commands: the keys of the step, then what the run changes."""

import shlex
from typing import Any

from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.runtime.configuration.key_values import literal
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.pipeline import pipeline_commands
from jobs.runtime.pipeline.pipelines import Step


def command(job: str, keys: dict[str, Any], *overrides: str) -> str:
    """Return the command of a step with `keys` in a run that adds `overrides`."""
    of_step = [f"{key}={literal(value)}" for key, value in keys.items()]
    loaded = config.load(job, cli.job(job).schema, [*of_step, *overrides])
    (line,) = pipeline_commands.lines([Step(job, keys)], [loaded], getattr(loaded, "resources", Resources()))
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
