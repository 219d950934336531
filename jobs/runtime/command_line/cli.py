"""The command line of every job: arguments, exit codes, and one-line errors.

Exit codes: 0 done; 1 the run failed or does not balance; 2 the input or configuration is wrong, and nothing was
written; 130 interrupted, 143 terminated. Completed units are kept.
"""

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from itertools import pairwise
from typing import Any

from jobs.errors import InputError, RunError
from jobs.runtime import outcomes
from jobs.runtime.cluster import dtypes
from jobs.runtime.command_line import commands, extras, help_text
from jobs.runtime.command_line.arguments import to_overrides
from jobs.runtime.configuration import config, config_files, error_keys
from jobs.runtime.configuration.key_types import UNKNOWN, type_of
from jobs.runtime.process import console, signals, timings
from jobs.runtime.process.console import say
from jobs.store.files import faults
from jobs.store.runs import lock

FORMS = """
A key is written key=value, --key value or --key=value; a list key=[a,b] or --key a b; a Boolean also without a value
(--overwrite). --cfg prints the configuration that results from the other arguments, and stops."""


@dataclass(frozen=True)
class Job:
    """A job: the dataclass of its configuration, and the function that runs it.

    Attributes:
        positional: the keys of arguments that are values without a key, in their order; the last may be a list, which
            takes the rest. Only for jobs on whole tables, such as `ls R`, whose arguments need no name.
        pools: the stages in `resources` that the job uses; empty: all, or the job has no stages.
        resumes: whether the same command continues an interrupted run.
    """

    name: str
    schema: type
    execute: Callable[[Any], object]
    positional: tuple[str, ...] = ()
    resumes: bool = True
    pools: tuple[str, ...] = ()


def job(name: str) -> Job:
    """Return the job of module `jobs.<name>`."""
    loaded: Job = importlib.import_module(f"jobs.{name}").JOB
    return loaded


def execute(name: str, overrides: list[str]) -> object:
    """Run a job in this process with `key=value` overrides; raises its errors."""
    return execute_loaded(name, config.load(name, job(name).schema, overrides), overrides)


def execute_loaded(name: str, cfg: Any, overrides: Sequence[str]) -> object:
    """Run a job in this process with its configuration, which `config.load` returned, and print what it returns.

    Raises its errors.

    Args:
        overrides: the overrides of the configuration, so that messages can name the file that they choose of a group.
    """
    console.use_format(getattr(cfg, "log", "text"))
    dtypes.resolve(cfg)
    timings.DRIVER.mark("imports and configuration")
    try:
        with console.fields(job=name):
            result = job(name).execute(cfg)
            outcomes.show(result)
            outcomes.check_outcome(result)
            if getattr(cfg, "timings", False):
                for line in timings.DRIVER.take_lines():
                    say(f"  {line}")
            return result
    except BaseException as error:
        named = _named(error, name, cfg, overrides)
        try:
            if isinstance(error, KeyboardInterrupt):  # losing a lease interrupts the main thread
                lock.check_held()
        finally:
            lock.release_all()  # now rather than at the end of the process, when the demo's store has ended
        if named is not error:
            raise named from error
        raise


def _named(error: BaseException, name: str, cfg: Any, overrides: Sequence[str]) -> BaseException:
    """Return the error with the key that it is about in its message; an error of storage becomes a RunError."""
    if not isinstance(error, InputError | RunError):
        if (problem := faults.problem(error)) is None:
            return error
        error = problem.as_run_error()
    values = asdict(cfg) if is_dataclass(cfg) and not isinstance(cfg, type) else {}
    chosen = config_files.chosen_options(job(name).schema, overrides)
    error_keys.complete(error, values, chosen)
    return error


def main(name: str, arguments: list[str] | None = None) -> int:
    """Run a job from the command line and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    console.show_log_records()
    signals.listen()
    if _asks_for_json(arguments):  # before the configuration is read, which may fail
        console.use_format("json")
    try:
        with console.fields(job=name):
            return _exit_code(name, arguments)
    finally:
        console.use_text()  # the next job of this process may have another format


def _asks_for_json(arguments: Sequence[str]) -> bool:
    is_asked = {"log=json", "--log=json"} & set(arguments) or ("--log", "json") in pairwise(arguments)
    return bool(is_asked) and not {"-h", "--help", "--version", "--cfg"} & set(arguments)


def _exit_code(name: str, arguments: list[str]) -> int:
    """Run a job and print its error, if any, as one line."""
    try:
        _main(name, arguments)
    except (InputError, RunError) as error:
        say(f"error: {error.sentence if error.job == name else error}", err=True)
        return error.exit_code
    except KeyboardInterrupt as error:
        signals.settle()
        kept = ": completed units are kept; run the same command again to resume" if job(name).resumes else ""
        say(f"interrupted{kept}", err=True)
        return signals.exit_code(error)
    except ModuleNotFoundError as error:
        if (hint := extras.hint(error)) is None:
            raise
        say(f"error: {name}: {hint}", err=True)
        return InputError.exit_code
    except Exception as error:
        if (problem := faults.problem(error)) is None:
            raise
        say(f"error: {problem.as_run_error()}", err=True)
        return RunError.exit_code
    return 0


def _main(name: str, arguments: list[str]) -> None:
    if {"-h", "--help"} & set(arguments):
        say((importlib.import_module(f"jobs.{name}").__doc__ or "").strip())
        say("\n" + help_text.render(name, job(name).schema, pools=job(name).pools))
        say(FORMS + " -v is timings=true." * has_timings(job(name).schema))
    elif "--version" in arguments:
        say(commands.version())
    elif "--cfg" in arguments:
        overrides = _overrides(name, [argument for argument in arguments if argument != "--cfg"])
        say(config.as_yaml(name, job(name).schema, overrides))
    else:
        execute(name, _overrides(name, arguments))


def has_timings(schema: type) -> bool:
    """Return whether a job with these keys can print where its seconds went, as the jobs that use Ray can."""
    return type_of(schema, "timings") is not UNKNOWN


def _overrides(name: str, arguments: list[str]) -> list[str]:
    loaded = job(name)
    if "-v" in arguments and not has_timings(loaded.schema):
        raise InputError("-v: only for jobs that use Ray; omit it", job=name)
    arguments = ["timings=true" if argument == "-v" else argument for argument in arguments]
    return to_overrides(name, loaded.schema, arguments, positional=loaded.positional)
