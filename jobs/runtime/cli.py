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
from jobs.runtime import completion, config, console, dtypes, extras, help_text, signals, timings
from jobs.runtime.arguments import to_overrides
from jobs.runtime.console import say
from jobs.runtime.key_types import UNKNOWN, type_of
from jobs.store import faults, lock

JOBS_FOLDER = Path(__file__).resolve().parents[1]
LIBRARIES = {"__init__", "__main__", "tables", "errors"}  # files in jobs/ that are not commands
JOBS = tuple(sorted(path.stem for path in JOBS_FOLDER.glob("*.py") if path.stem not in LIBRARIES))

FORMS = """
A key is written key=value, --key value or --key=value; a list as key=[a,b] or --key a b; a Boolean may stand alone
(--overwrite). --cfg prints the configuration that the other arguments give, and stops. -v is timings=true."""


@dataclass(frozen=True)
class Job:
    """A job: the dataclass of its configuration, and the function that runs it.

    Attributes:
        positional: the keys of arguments that are values alone, in their order; the last may be a list, which takes the
            rest. Only for jobs on whole tables, such as `ls R`, whose arguments need no name.
    """

    name: str
    schema: type
    execute: Callable[[Any], object]
    positional: tuple[str, ...] = ()


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
    return execute_loaded(name, config.load(name, job(name).schema, overrides))


def execute_loaded(name: str, cfg: Any) -> object:
    """Run a job in this process with its configuration, which `config.load` returned; raises its errors."""
    console.use_format(getattr(cfg, "log", "text"))
    dtypes.resolve(cfg)
    timings.DRIVER.mark("imports and configuration")
    try:
        with console.fields(job=name):
            return job(name).execute(cfg)
    except BaseException:
        lock.release_all()  # now, and not at the end of the process, when the demo's store has ended
        raise


def main(name: str, arguments: list[str] | None = None) -> int:
    """Run a job from the command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    signals.listen()
    try:
        with console.fields(job=name):
            return _exit_code(name, arguments)
    finally:
        console.use_text()  # the next job of this process may have another format


def _exit_code(name: str, arguments: list[str]) -> int:
    """Run a job and print its error, if any, as one line."""
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
        say(FORMS)
    elif "--version" in arguments:
        say(version())
    elif "--cfg" in arguments:
        overrides = _overrides(name, [argument for argument in arguments if argument != "--cfg"])
        say(config.as_yaml(name, job(name).schema, overrides))
    else:
        execute(name, _overrides(name, arguments))


def _overrides(name: str, arguments: list[str]) -> list[str]:
    loaded = job(name)
    if "-v" in arguments and type_of(loaded.schema, "timings") is UNKNOWN:
        raise InputError(f"{name}: -v: only for jobs that use Ray; omit it")
    arguments = ["timings=true" if argument == "-v" else argument for argument in arguments]
    return to_overrides(name, loaded.schema, arguments, positional=loaded.positional)


def version() -> str:
    """The versions of remine and of Python."""
    return f"remine {metadata.version('remine')}, Python {platform.python_version()}"


def jobs(arguments: list[str]) -> int:
    """`remine` and `python -m jobs`: list the jobs, or run the one that is named. Returns the exit code."""
    if arguments[:1] == ["--complete"]:
        say("\n".join(candidates(arguments[1:])))
        return 0
    if arguments and not arguments[0].startswith("-"):
        name, *rest = arguments
        if name == "completion":
            return _print_completion(rest)
        if name in JOBS:
            return main(name, rest)
        near = difflib.get_close_matches(name, JOBS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        say(f"error: {name}: no such job{hint}; allowed: {', '.join(JOBS)}", err=True)
        return InputError.exit_code
    if arguments and arguments[0] == "--version":
        say(version())
        return 0
    say("remine JOB key=value …, or python -m jobs.JOB key=value …   (--help: its keys; --cfg: its configuration)\n")
    width = max(map(len, JOBS))
    for name in JOBS:
        say(f"  {name:{width}}  {summary(name)}")
    say("\nremine completion bash|zsh|fish prints a script that completes jobs, keys and values.")
    return 0


def run() -> int:
    """The command `remine`; returns its exit code."""
    return jobs(sys.argv[1:])


def candidates(words: list[str]) -> list[str]:
    """Return how the last of the words after `remine` may be completed."""
    *before, word = words or [""]
    if not before:
        return [name for name in (*JOBS, "completion") if name.startswith(word)]
    if before[0] == "completion":
        return [shell for shell in completion.SHELLS if shell.startswith(word)]
    return completion.of_job(before[0], job(before[0]).schema, before[1:], word) if before[0] in JOBS else []


def _print_completion(arguments: list[str]) -> int:
    if len(arguments) != 1 or arguments[0] not in completion.SHELLS:
        say(f"error: completion: name one shell of {', '.join(completion.SHELLS)}", err=True)
        return InputError.exit_code
    say(completion.SHELLS[arguments[0]])
    return 0
