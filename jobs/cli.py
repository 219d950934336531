"""What `python -m jobs.<name>` does around a job: arguments, exit codes, one sentence for what went wrong.

Exit codes: 0 done; 1 the run failed or does not balance; 2 the input or configuration is wrong and nothing
was written; 130 interrupted (what is done stays done).
"""

import importlib
import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jobs import config
from jobs.errors import InputError, RunError

JOBS = (
    "demo",
    "mine",
    "curate",
    "fetch",
    "embed",
    "kb",
    "prompts",
    "captions",
    "retrieve",
    "link",
    "choose",
    "tric",
    "judge",
    "loglik",
    "probe",
    "generate",
    "think",
    "parse",
    "ratings",
    "annotate",
    "figures",
    "score",
    "report",
    "verify",
    "run",
)


@dataclass(frozen=True)
class Job:
    """A job: its configuration's dataclass and what it does with it."""

    name: str
    schema: type
    execute: Callable[[Any], object]


def job(name: str) -> Job:
    """The job of module `jobs.<name>`."""
    found: Job = importlib.import_module(f"jobs.{name}").JOB
    return found


def summary(name: str) -> str:
    """The first line of the module's docstring."""
    return (importlib.import_module(f"jobs.{name}").__doc__ or "").strip().splitlines()[0]


def execute(name: str, overrides: list[str]) -> object:
    """Run a job in this process with `key=value` overrides; errors are raised."""
    found = job(name)
    return found.execute(config.load(name, found.schema, overrides))


def main(name: str, arguments: list[str] | None = None) -> int:
    """Run a job from the command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    try:
        if {"-h", "--help"} & set(arguments):
            return _help(name)
        if "--cfg" in arguments:
            rest = [a for a in arguments if a != "--cfg"]
            say(config.shown(name, job(name).schema, rest))
            return 0
        if dashed := [a for a in arguments if a.startswith("-")]:
            raise InputError(f"{name}: {dashed[0]} is not key=value (options are --help and --cfg)")
        execute(name, arguments)
    except (InputError, RunError) as error:
        say(f"error: {error}", err=True)
        return error.exit_code
    except KeyboardInterrupt:
        say("interrupted; what is done stays done, the same command goes on from there", err=True)
        return 130
    return 0


def _help(name: str) -> int:
    found = job(name)
    say((importlib.import_module(f"jobs.{name}").__doc__ or "").strip())
    say("\nKeys and their defaults (??? is required):\n")
    say(config.shown(name, found.schema, []))
    return 0


def say(text: str, *, err: bool = False) -> None:
    """Write a line for the person at the terminal."""
    stream = sys.stderr if err else sys.stdout
    stream.write(text.rstrip("\n") + "\n")
    stream.flush()
