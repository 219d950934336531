"""What `python -m jobs.<name>` does around a job: arguments, exit codes, one sentence for what went wrong.

Exit codes: 0 done; 1 the run failed or does not balance; 2 the input or configuration is wrong and nothing
was written; 130 interrupted, 143 terminated (what is done stays done).
"""

import difflib
import errno
import importlib
import logging
import os
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from jobs import config, explain, interrupts
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
    "verdicts",
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


# What a disk or a quota does in the middle of a run: nobody's bug, and told in a sentence.
STORAGE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


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
    interrupts.listen()
    try:
        _main(name, arguments)
    except (InputError, RunError) as error:
        say(f"error: {error}", err=True)
        return error.exit_code
    except OSError as error:
        if error.errno not in STORAGE:
            raise
        place = f" ({error.filename})" if error.filename else ""
        say(f"error: {os.strerror(error.errno)}{place}; what is done stays done, the same command goes on", err=True)
        return RunError.exit_code
    except KeyboardInterrupt as error:
        interrupts.settle()
        say("interrupted; what is done stays done, the same command goes on from there", err=True)
        return interrupts.exit_code(error)
    return 0


def _main(name: str, arguments: list[str]) -> None:
    if {"-h", "--help"} & set(arguments):
        say((importlib.import_module(f"jobs.{name}").__doc__ or "").strip())
        say("\n" + explain.told(name, job(name).schema))
        say("\nkey=value as in Hydra; --cfg key=value … shows the whole configuration that they make.")
    elif "--version" in arguments:
        say(version())
    elif "--cfg" in arguments:
        say(config.shown(name, job(name).schema, [a for a in arguments if a != "--cfg"]))
    elif dashed := [a for a in arguments if a.startswith("-")]:
        raise InputError(f"{name}: {dashed[0]} is not key=value (options are --help, --cfg and --version)")
    else:
        execute(name, arguments)


def version() -> str:
    """The release, and the Python that runs it."""
    return f"remine {metadata.version('remine')}, Python {platform.python_version()}"


def jobs(arguments: list[str]) -> int:
    """`python -m jobs`: what jobs there are, or the one that is named."""
    if arguments and not arguments[0].startswith("-"):
        name, *rest = arguments
        if name in JOBS:
            return main(name, rest)
        near = difflib.get_close_matches(name, JOBS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        say(f"error: {name}: no such job{hint}; there are {', '.join(JOBS)}", err=True)
        return InputError.exit_code
    if arguments and arguments[0] == "--version":
        say(version())
        return 0
    say("python -m jobs.<name> key=value …   (--help: its keys; --cfg: the composed configuration)\n")
    for name in JOBS:
        say(f"  {name:8} {summary(name)}")
    return 0


def say(text: str, *, err: bool = False) -> None:
    """Write a line for the person at the terminal."""
    stream = sys.stderr if err else sys.stdout
    line = text.rstrip("\n") + "\n"
    try:
        try:
            stream.write(line)
        except UnicodeEncodeError:  # a terminal that has no letters for a title must not end a run
            stream.write(line.encode(stream.encoding, "replace").decode(stream.encoding))
        stream.flush()
    except BrokenPipeError:  # whoever read along (head, less) has gone; the run has not
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
