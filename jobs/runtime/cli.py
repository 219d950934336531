"""The command line of every job: arguments, exit codes, and errors in one line.

Exit codes: 0 done; 1 the run failed or does not balance; 2 the input or configuration is wrong, and nothing was
written; 130 interrupted, 143 terminated. Completed units are kept.
"""

import ast
import difflib
import importlib
import logging
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from jobs.errors import InputError, RunError
from jobs.runtime import config, extras, help_text, signals
from jobs.runtime.console import say
from jobs.store import faults

JOBS_FOLDER = Path(__file__).resolve().parents[1]
LIBRARIES = {"__init__", "__main__", "tables", "errors"}  # files in jobs/ that are not commands
JOBS = tuple(sorted(path.stem for path in JOBS_FOLDER.glob("*.py") if path.stem not in LIBRARIES))


@dataclass(frozen=True)
class Job:
    """A job: the dataclass of its configuration, and the function that runs it."""

    name: str
    schema: type
    execute: Callable[[Any], object]


def job(name: str) -> Job:
    """The job of module `jobs.<name>`."""
    loaded: Job = importlib.import_module(f"jobs.{name}").JOB
    return loaded


def summary(name: str) -> str:
    """The first line of the docstring of module `jobs.<name>`, read without importing the module."""
    tree = ast.parse((JOBS_FOLDER / f"{name}.py").read_text(encoding="utf-8"))
    return (ast.get_docstring(tree) or name).splitlines()[0]


def execute(name: str, overrides: list[str]) -> object:
    """Run a job in this process with `key=value` overrides; raises its errors."""
    loaded = job(name)
    return loaded.execute(config.load(name, loaded.schema, overrides))


def main(name: str, arguments: list[str] | None = None) -> int:
    """Run a job from the command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    signals.listen()
    try:
        _main(name, arguments)
    except (InputError, RunError) as error:
        say(f"error: {error}", err=True)
        return error.exit_code
    except KeyboardInterrupt as error:
        signals.settle()
        say("interrupted: completed units are kept; run the same command again to resume", err=True)
        return signals.exit_code(error)
    except ModuleNotFoundError as error:
        if (hint := extras.hint(error)) is None:
            raise
        say(f"error: {name}: {hint}", err=True)
        return InputError.exit_code
    except Exception as error:
        if (message := faults.sentence(error)) is None:
            raise
        say(f"error: {message}. Completed units are kept; run the same command again to resume.", err=True)
        return RunError.exit_code
    return 0


def _main(name: str, arguments: list[str]) -> None:
    if {"-h", "--help"} & set(arguments):
        say((importlib.import_module(f"jobs.{name}").__doc__ or "").strip())
        say("\n" + help_text.render(name, job(name).schema))
        say("\nkey=value is Hydra's syntax; --cfg key=value … prints the composed configuration.")
    elif "--version" in arguments:
        say(version())
    elif "--cfg" in arguments:
        say(config.as_yaml(name, job(name).schema, [a for a in arguments if a != "--cfg"]))
    elif dashed := [a for a in arguments if a.startswith("-")]:
        raise InputError(f"{name}: {dashed[0]} is not key=value (options are --help, --cfg and --version)")
    else:
        execute(name, arguments)


def version() -> str:
    """The versions of remine and of Python."""
    return f"remine {metadata.version('remine')}, Python {platform.python_version()}"


def jobs(arguments: list[str]) -> int:
    """`python -m jobs`: list the jobs, or run the one that is named. Returns the exit code."""
    if arguments and not arguments[0].startswith("-"):
        name, *rest = arguments
        if name in JOBS:
            return main(name, rest)
        near = difflib.get_close_matches(name, JOBS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        say(f"error: {name}: no such job{hint}; allowed: {', '.join(JOBS)}", err=True)
        return InputError.exit_code
    if arguments and arguments[0] == "--version":
        say(version())
        return 0
    say("python -m jobs.<name> key=value …   (--help: its keys; --cfg: the composed configuration)\n")
    for name in JOBS:
        say(f"  {name:14} {summary(name)}")
    return 0
