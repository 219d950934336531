"""The command line of every job: arguments, exit codes, and one-line errors.

Exit codes: 0 done; 1 the run failed or does not balance; 2 the input or configuration is wrong, and nothing was
written; 130 interrupted, 143 terminated. Completed units are kept.

These mean the same: `out=R/x`, `--out R/x`, `--out=R/x`. A Boolean may be written without a value (`--overwrite`). A
list may be written as single values (`--ratings R/a R/b`, or `ratings=R/a ratings=R/b`, for `ratings=[R/a,R/b]`), and
`-` may be written for `_`. Some jobs have positional keys, whose values may be written without the key (`ls R`).
"""

import contextlib
import fnmatch
import importlib
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, get_origin

from jobs.errors import InputError, RunError
from jobs.runtime import outcomes
from jobs.runtime.cluster import dtypes
from jobs.runtime.command_line import extras, help_text, job_names
from jobs.runtime.configuration import config, config_files, key_hints
from jobs.runtime.configuration.key_types import UNKNOWN, alternatives, type_of
from jobs.runtime.configuration.key_values import quoted
from jobs.runtime.process import console, signals, timings
from jobs.runtime.process.console import say
from jobs.store.files import faults, locations
from jobs.store.runs import lock

FORMS = """
A key is written key=value, --key value or --key=value; a list key=[a,b] or --key a b; a Boolean also without a value
(--overwrite). --cfg prints the configuration that results from the other arguments, and stops."""

_KEY_VALUE = re.compile(r"[+]*[A-Za-z_][\w.-]*=")
_PLAIN = re.compile(r"[\w./:@*?+-]+")  # an element of a list that needs no quotes


@dataclass(frozen=True)
class Job:
    """A job: the dataclass of its configuration, and the function that runs it.

    Attributes:
        positional: the keys of arguments that are values without a key, in their order; the last may be a list, which
            takes the rest. Only for jobs on whole tables, such as `ls R`, whose arguments need no name.
        pools: the stages in `resources` that the job uses; empty: all, or the job has no stages.
        resumes: whether the same command continues an interrupted run.
        check: raises InputError for a wrong value, without reading tables that another job may yet write. A pipeline
            calls it for all its steps before the first one starts.
        attributes: returns the attributes that the items of its table will have; None if that is unknown.
        check_attributes: raises InputError if a value is not among the attributes of the tables `items`.
        check_writers: raises InputError if a value is wrong for tables of these jobs, which it reads in a pipeline.
    """

    name: str
    schema: type
    execute: Callable[[Any], object]
    positional: tuple[str, ...] = ()
    resumes: bool = True
    pools: tuple[str, ...] = ()
    check: Callable[[Any], object] | None = None
    attributes: Callable[[Any], Collection[str] | None] | None = None
    check_attributes: Callable[[Any, Collection[str]], None] | None = None
    check_writers: Callable[[Any, Collection[str]], None] | None = None


def job(name: str) -> Job:
    """Return the job of this name, which may be a step such as `tric rank`."""
    loaded: Job = importlib.import_module(job_names.module_of(name)).JOB
    return loaded


def execute(name: str, overrides: list[str]) -> object:
    """Run a job in this process with `key=value` overrides; raises its errors."""
    try:
        loaded = config.load(name, job(name).schema, overrides)
    except config.NoSuchKeyError as error:
        if error.name is not None:
            group = config.group_of_short(job(name).schema, overrides)
            command = " ".join([name, *(f"{key}={option}" for key, option in group.items())])
            error.remedy = _of_other_jobs(command, error.name, error.steps)
        raise
    return execute_loaded(name, loaded, overrides)


def _of_other_jobs(command: str, key: str, steps: Sequence[str]) -> str:
    """Return which other jobs have a key that a job does not have, or how to use it in a step of a pipeline.

    Args:
        command: the job, with the pipeline that it runs.
        steps: the jobs of the pipeline that the job runs.
    """
    others = dict.fromkeys(steps or job_names.GROUPS["Your study"].split())
    having = [other for other in others if type_of(job(other).schema, key) is not UNKNOWN]
    if having and steps:
        return f"did you mean {' or '.join(f'+profile.set.{other}.{key}' for other in having)}?"
    explained = f"remine {command} --help explains them"
    return f"{key} is a key of {', '.join(having)}; {explained}" if having else explained


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


def check_loaded(name: str, cfg: Any, overrides: Sequence[str]) -> None:
    """Check a job's configuration, as far as that is possible before its input tables exist.

    Raises:
        InputError: a value is wrong; the message has its key.
    """
    if (check := job(name).check) is None:
        return
    try:
        check(cfg)
    except InputError as error:
        raise _named(error, name, cfg, overrides) from error


def _named(error: BaseException, name: str, cfg: Any, overrides: Sequence[str]) -> BaseException:
    """Return the error with the key that it is about in its message; an error of storage becomes a RunError."""
    if not isinstance(error, InputError | RunError):
        if (problem := faults.problem(error)) is None:
            return error
        error = problem.as_run_error()
    values = asdict(cfg) if is_dataclass(cfg) and not isinstance(cfg, type) else {}
    chosen = config_files.chosen_options(job(name).schema, overrides)
    complete_error(error, values, chosen)
    error.key = error.key and config.short_key(job(name).schema, error.key)
    return error


def main(name: str, arguments: list[str] | None = None) -> int:
    """Run a job, or the step of a command that `arguments` begin with, and return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        name, arguments = job_names.with_step(name, arguments)
    except InputError as error:
        say(f"error: {error}", err=True)
        return error.exit_code
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
        error.remedy = error.remedy or _of_joined_keys(name, arguments, str(error))
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


def _of_joined_keys(name: str, arguments: Sequence[str], message: str) -> str | None:
    """Return how to write an argument with two keys, such as 'by=region limit=10', if the message is about it."""
    for argument in arguments:
        value = argument.partition("=")[2]
        words = [word for word in value.split()[1:] if _KEY_VALUE.match(word)]
        if not words or value not in message:
            continue
        schema = job(name).schema
        keys = [
            config.key_of(word) for word in config.with_full_keys(name, schema, [*arguments, *words])[-len(words) :]
        ]
        if all(type_of(schema, key) is not UNKNOWN for key in keys):
            return f"write each key as a word, without quotes around both: {argument}"
    return None


def _main(name: str, arguments: list[str]) -> None:
    if {"-h", "--help"} & set(arguments) or arguments == ["help"]:
        config.with_full_keys(name, job(name).schema, arguments)  # refuses a file that does not exist
        say((importlib.import_module(job_names.module_of(name)).__doc__ or "").strip())
        if job_names.steps_of(name):
            say("\n" + "\n".join(job_names.step_lines(name)))
        say("\n" + help_text.render(name, job(name).schema, pools=job(name).pools))
        say("\n".join(help_text.short_keys(job(name).schema, arguments)))
        say(FORMS + " -v is timings=true." * has_timings(job(name).schema))
    elif "--version" in arguments:
        say(extras.version())
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


def complete_error(error: InputError | RunError, values: Mapping[str, Any], chosen: Mapping[str, str | None]) -> None:
    """Add to an error the key that names its place, if it has none, and the value of its key.

    Of several keys, the one with the longest value counts: a table rather than the folder that it is in.

    Args:
        values: the configuration of the job, nested.
        chosen: group of options -> the option, or the path of the user's file.
    """
    if error.value is not None or (error.key is None and error.place is None):
        return
    if error.key is not None and error.key in chosen:
        error.value = chosen[error.key]
        return
    place = error.place or ""
    leaves = ((key, value) for key, value in _leaves(values) if error.key in (None, key) and isinstance(value, str))
    names = sorted(leaves, key=lambda entry: -len(entry[1]))
    if exact := next((key for key, value in names if place in _forms(value)), None):
        error.key, error.value, error.place = exact, place, None
    elif around := next((entry for entry in names if place and _holds(entry[1], place)), None):
        error.key, error.value = around
    elif error.key is not None:
        value: Any = values
        for name in error.key.split("."):
            value = value.get(name, {}) if isinstance(value, Mapping) else {}
        error.value = "null" if value is None else None if isinstance(value, Mapping) else value


def _holds(value: str, place: str) -> bool:
    """Return whether `value` is a folder, a table or a pattern that `place` belongs to."""
    return any(place.startswith(f"{form.rstrip('/')}/") or fnmatch.fnmatchcase(place, form) for form in _forms(value))


def _leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the single values of a configuration with their dotted keys; each element of a list has the list's."""
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else ((key, inner) for inner in value):
            yield from _leaves(inner, f"{key}.{name}" if isinstance(value, dict) and key else str(name))
    else:
        yield key, value


def _forms(value: str) -> Iterator[str]:
    """Yield a value as a place may be written: as it was typed, and as an absolute path."""
    if "/" in value or ":" in value:
        yield value
    if value.strip() and "\n" not in value:
        with contextlib.suppress(InputError):  # not a path
            yield locations.absolute(value)


def to_overrides(job: str, schema: type, arguments: Sequence[str], *, positional: Sequence[str] = ()) -> list[str]:
    """Return the arguments as `key=value`, in their order; a list that is given as single values becomes one override.

    Args:
        positional: the keys of values that are written without a key, in their order, except for keys that are also
            given by name; a list takes all of these values, or leaves the last one to the key after it.

    Raises:
        InputError: an option without a value, a value that belongs to no key, or a list given in both forms.
    """
    short = config.short_names(job, schema, arguments)
    arguments = config.with_full_keys(job, schema, arguments)
    named = {_named_key(schema, argument) for argument in arguments}
    alone = [key for key in positional if key not in named or _is_list(schema, key)]
    pairs = list(_pairs(job, schema, list(arguments), alone, keys=(named, short)))
    values: dict[str, list[str]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    overrides = []
    for key, value in pairs:
        if len(set(values[key])) > 1 and (several := key_hints.list_of(schema, key)):
            remedy = f"use {several}=[{','.join(values[key])}]"
            raise InputError("given twice", key=key, value=value, job=job, remedy=remedy)
        whole = [_is_whole(text) for text in values[key]]
        single = len(whole) == 1 and not _is_list(schema, key)
        if not _takes_several(schema, key) or single or all(whole):  # the last of several whole lists counts
            overrides.append(f"{key}={value}")
        elif any(whole):
            why = f"given both as a list and as single values; write one list, as in {key}=[a,b] or --{key} a b"
            raise InputError(why, job=job, key=key, value=value)
        elif all(not override.startswith(f"{key}=") for override in overrides):
            overrides.append(f"{key}=[{','.join(map(_element, values[key]))}]")
    return overrides


def _pairs(
    job: str,
    schema: type,
    arguments: list[str],
    positional: list[str],
    *,
    keys: tuple[Collection[str], Collection[str]],
) -> Iterator[tuple[str, str]]:
    """Yield each key with one of its values; removes the arguments, and the positional keys that have a value.

    Args:
        keys: the keys that are set, and those that `SHORT` of the schema names.
    """
    before = ""  # the last key=value
    while arguments:
        argument = arguments.pop(0)
        if not argument.startswith("--"):
            if _KEY_VALUE.match(argument) is None:
                is_switch = bool in alternatives(type_of(schema, argument)) and not Path(argument).exists()
                if positional and not argument.startswith("-") and not is_switch:
                    if len(positional) > 1 and _is_list(schema, positional[0]) and not _has_value(arguments):
                        positional.pop(0)
                    key = positional[0] if _is_list(schema, positional[0]) else positional.pop(0)
                    before = f"{key}={argument}"
                    yield key, argument
                    continue
                named, short = keys
                remedy = key_hints.of_word(
                    schema, argument, before=before, following=arguments, named=named, short=short
                )
                raise InputError(f"{argument!r} is not key=value", remedy=remedy, job=job)
            key, _, value = argument.partition("=")
            before = argument
            yield _key(schema, key), value
            continue
        name, equals, value = argument.removeprefix("--").partition("=")
        key = _key(schema, name)
        if type_of(schema, key) is UNKNOWN:
            key = f"--{name}"  # the configuration refuses the key as it was typed, and suggests similar ones
        if equals:
            yield key, value
        elif bool in alternatives(type_of(schema, key)):
            yield key, arguments.pop(0) if arguments[:1] in (["true"], ["false"]) else "true"
        else:
            is_unknown = type_of(schema, key) is UNKNOWN
            values = _take_values(
                schema, arguments, at_most=None if _takes_several(schema, key) else 1, is_unknown=is_unknown
            )
            if not values and is_unknown:
                values = [""]
            if not values:
                raise InputError(f"--{name}: a value is missing; use --{name} VALUE or {key}=VALUE", job=job)
            before = f"{key}={values[-1]}"
            yield from ((key, value) for value in values)


def _has_value(arguments: Sequence[str]) -> bool:
    """Return whether a value without a key follows; the value after an option belongs to the option."""
    return any(
        not argument.startswith("-") and _KEY_VALUE.match(argument) is None and not before.startswith("--")
        for before, argument in zip(["", *arguments], arguments, strict=False)
    )


def _take_values(schema: type, arguments: list[str], *, at_most: int | None, is_unknown: bool) -> list[str]:
    """Remove the values of an option from the beginning of `arguments`, up to the next option or key; return them.

    Args:
        is_unknown: the job does not have the option, of which the first value may be the next key.
    """
    values: list[str] = []
    while arguments and len(values) != at_most:
        following = arguments[0]
        if following.startswith("-") and not _is_number(following):
            break
        key = following.partition("=")[0].lstrip("+")
        if (values or is_unknown) and _KEY_VALUE.match(following) and type_of(schema, key) is not UNKNOWN:
            break
        values.append(arguments.pop(0))
    return values


def _key(schema: type, name: str) -> str:
    """Return the key that an option names."""
    underscored = name.replace("-", "_")
    return underscored if type_of(schema, name) is UNKNOWN and type_of(schema, underscored) is not UNKNOWN else name


def _named_key(schema: type, argument: str) -> str:
    """Return the key of key=value, --key=value or --key; empty for a value that stands alone."""
    name, equals, _ = argument.removeprefix("--").partition("=")
    return _key(schema, name) if equals or argument.startswith("--") else ""


def _is_list(schema: type, key: str) -> bool:
    return any(get_origin(kind) is list for kind in alternatives(type_of(schema, key.lstrip("+"))))


def _takes_several(schema: type, key: str) -> bool:
    """Return whether the key is a list, or may be one."""
    return _is_list(schema, key) or type_of(schema, key.lstrip("+")) is Any


def _is_whole(value: str) -> bool:
    """Return whether `value` is a whole list, null, or a text that will become a list (an interpolation)."""
    return value[:1] == "[" or value == "null" or value.startswith("${")


def _element(value: str) -> str:
    return value if _PLAIN.fullmatch(value) else quoted(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
