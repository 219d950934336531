"""Configuration: Hydra composes `conf/`, dataclasses beside their owners say what is allowed.

A job's dataclass extends `Writing`, or `Common` if it works through Ray; its file is `conf/<job>.yaml`. Whatever is
wrong comes back as one sentence that names the key and what is allowed.
"""

import difflib
import math
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import MISSING, DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from actors.errors import first_line
from actors.ids import content_id
from jobs.errors import InputError
from jobs.runtime.resources import Resources, check
from jobs.store import locations

CONF = Path(__file__).resolve().parents[2] / "conf"  # beside `jobs`, in a checkout and when installed


@dataclass
class RayConfig:
    """How Ray is reached or started."""

    address: str | None = None  # null: $RAY_ADDRESS, else a Ray started here
    num_cpus: int | None = None  # logical CPUs of a Ray started here; null: the machine's
    verbose: bool = False  # let Ray's own log lines and progress bars through


@dataclass
class Writing:
    """Keys of every job that writes a table."""

    out: str = MISSING  # the table to be written: a folder or s3://bucket/prefix of its own
    resume: bool = True  # go on with a table that is there; false refuses it
    overwrite: bool = False  # delete the table that is there first
    retry: list[str] = field(default_factory=list)  # statuses whose rows are done again: [error], [blocked,missing]
    plan: bool = False  # say what would be read, written and used, and stop
    exclusions: str | None = None  # file of image_ids or URLs that must not be used, one a line


@dataclass
class Common(Writing):
    """Keys of every job whose work goes through Ray."""

    ray: RayConfig = field(default_factory=RayConfig)
    resources: Resources = field(default_factory=Resources)  # what each stage may use


def load(job: str, schema: type, overrides: list[str]) -> Any:
    """Compose the configuration of `job` with the command line's `key=value` overrides.

    Returns an instance of the dataclass `schema`.

    Raises:
        InputError: an unknown or mistyped key or option, or a required key that is not given.
    """
    found = composed(job, schema, overrides)
    try:
        if missing := sorted(OmegaConf.missing_keys(found)):
            named = ", ".join(f"{key}=" for key in missing)
            raise InputError(f"{job}: required and not given: {named} (--help explains every key)")
        if undefined := next(_not_numbers(OmegaConf.to_container(found, resolve=True), ""), None):
            raise InputError(f"{job}: {undefined}=nan: a number is needed")
        made = OmegaConf.to_object(found)
    except InputError:
        raise
    except OmegaConfBaseException as error:
        raise InputError(f"{job}: {_sentence(error)}") from error
    except ValueError as error:  # of the settings' own checks
        raise InputError(f"{job}: {first_line(error)}") from error
    if (resources := getattr(made, "resources", None)) is not None:
        check(resources)
    return made


def _not_numbers(values: Any, key: str) -> Iterator[str]:
    """The keys below `key` whose value is NaN, which passes every comparison with a limit."""
    if isinstance(values, dict | list):
        entries = values.items() if isinstance(values, dict) else enumerate(values)
        for name, value in entries:
            yield from _not_numbers(value, f"{key}.{name}" if key else str(name))
    elif isinstance(values, float) and math.isnan(values):
        yield key


def shown(job: str, schema: type, overrides: list[str]) -> str:
    """The composed configuration as YAML, required keys as ???."""
    return OmegaConf.to_yaml(composed(job, schema, overrides))


def composed(job: str, schema: type, overrides: list[str]) -> DictConfig:
    """The configuration before what is required is asked for; raises InputError as `load` does."""
    return _compose(job, schema, _from_files(job, _checked(job, schema, overrides)))


def groups(job: str) -> dict[str, str]:
    """The keys of `job` that choose a file of conf/ -> what they choose by default."""
    file = OmegaConf.to_container(OmegaConf.load(CONF / f"{job}.yaml"))
    entries = [entry for entry in file["defaults"] if isinstance(entry, dict)]  # type: ignore[call-overload,index]
    chosen = [(str(key), value) for entry in entries for key, value in entry.items()]
    return {key: "null" if value is None else str(value) for key, value in chosen}


def options(group: str, schema: type | None) -> tuple[str, ...]:
    """The files of `group` whose keys `schema` has; None: of any keys."""
    files = sorted((CONF / group).glob("*.yaml"))
    if schema is None:
        return tuple(path.stem for path in files)
    known = {"defaults", *(f.name for f in fields(schema))}
    return tuple(path.stem for path in files if known >= set(_read(path.as_posix(), path.read_bytes())))


def _read(name: str, text: bytes) -> DictConfig:
    """A file of conf/, or one of the user's.

    Raises:
        InputError: it is no YAML, or no mapping of keys.
    """
    try:
        read = OmegaConf.create(text.decode("utf-8-sig"))
    except yaml.YAMLError as error:
        raise InputError(_misspelt(error, name)) from error
    except (UnicodeDecodeError, OmegaConfBaseException) as error:
        raise InputError(f"{name}: not a configuration ({_sentence(error)})") from error
    if not isinstance(read, DictConfig):
        raise InputError(f"{name}: not a configuration: a mapping of keys is needed")
    return read


def _misspelt(error: yaml.YAMLError, name: str) -> str:
    mark = getattr(error, "problem_mark", None)
    place = f", line {mark.line + 1}" if mark else ""
    return f"{name}{place}: not YAML ({getattr(error, 'problem', None) or error})"


def _from_files(job: str, overrides: list[str]) -> list[str]:
    """`overrides`, with group=FILE.yaml made an option of the group by the file's contents."""
    chosen = groups(job)

    def option(override: str) -> str:
        group, _, value = override.partition("=")
        path = value.strip("'\"")
        if group not in chosen or not path.endswith(".yaml"):
            return override
        with locations.named_errors(path):
            text = locations.read_bytes(locations.absolute(path))
        name = f"given_{content_id(path, text.decode('utf-8', 'replace'))}"
        ConfigStore.instance().store(group=group, name=name, node=_read(path, text))
        _given[name] = path
        return f"{group}={name}"

    return [option(override) for override in overrides]


def _compose(job: str, schema: type, overrides: list[str]) -> DictConfig:
    ConfigStore.instance().store(name=f"{job}_schema", node=schema)
    try:
        with initialize_config_dir(str(CONF), version_base="1.3", job_name=job):
            return compose(job, overrides=overrides)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise InputError(f"{job}: {_misspelt(error, mark.name if mark else 'conf')}") from error
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise InputError(f"{job}: {_explain(job, schema, overrides, error)}") from error


_UNKNOWN = object()
_given: dict[str, str] = {}  # option made of a user's file -> that file


def _checked(job: str, schema: type, overrides: list[str]) -> list[str]:
    """`overrides` as Hydra takes them, once each names a key that `schema` has."""
    for override in overrides:
        key, equals, _ = override.partition("=")
        if not equals or not key or key.startswith("~"):
            raise InputError(f"{job}: {override!r} is not key=value")
        if _type_of(schema, key.lstrip("+")) is _UNKNOWN:
            raise InputError(f"{job}: {_unknown_key(job, schema, [], key.lstrip('+'), '')}")
        if get_origin(_type_of(schema, key)) is list and override[len(key) + 1 :][:1] != "[":
            raise InputError(f"{job}: {override}: a list is needed, as in {key}=[a,b]")
        kind = _type_of(schema, key)
        if override == f"{key}=null" and is_dataclass(kind):
            raise InputError(f"{job}: {override}: it cannot be left out")
        if override == f"{key}=" and set(_alternatives(kind)) == {str, type(None)}:
            raise InputError(
                f"{job}: {override}: nothing is given; {override}null says so"
            )  # an unset variable, mostly
    return [_open(schema, _quoted(o, _type_of(schema, o.partition("=")[0].lstrip("+")))) for o in overrides]


def _open(schema: type, override: str) -> str:
    """`override` as Hydra takes it where a dict's keys are the user's to name (names of columns, of ensembles)."""
    path = override.partition("=")[0].lstrip("+").split(".")
    for depth in range(1, len(path) + 1):
        kind = _type_of(schema, ".".join(path[:depth]))
        is_group = (CONF / path[0]).is_dir()  # whose files say which keys there are
        if get_origin(kind) is dict and (Any not in get_args(kind) or not is_group):
            return f"++{override.lstrip('+')}"
    return override


def _type_of(schema: Any, key: str) -> Any:
    """The annotated type of the dotted `key`; Any inside a dict; _UNKNOWN if there is no such key."""
    for name in key.split("."):
        inner = next((t for t in _alternatives(schema) if is_dataclass(t)), None)
        if inner is None:
            return Any if schema is Any or get_origin(schema) is dict else _UNKNOWN
        hints = get_type_hints(inner)
        if name not in hints:
            return _UNKNOWN
        schema = hints[name]
    return schema


def _alternatives(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in (Union, types.UnionType):
        yield from get_args(kind)
    else:
        yield kind


def _quoted(override: str, kind: Any) -> str:
    """`override`, its value quoted where Hydra's grammar would not take it as it stands (a path with a comma, say)."""
    key, _, value = override.partition("=")
    alternatives = set(_alternatives(kind))
    if value[:1] in ("'", '"') and _parses(override):
        return override
    if str in alternatives:
        return override if value == "null" and type(None) in alternatives else f"{key}={quoted(value)}"
    if get_origin(kind) is list and value[:1] == "[" and value[-1:] == "]" and not _parses(override):
        return f"{key}=[{','.join(quoted(part.strip()) for part in value[1:-1].split(','))}]"
    if not _parses(override) or re.search(r"^[^\[{(]*,", value):
        return f"{key}={quoted(value)}"
    return override


def _parses(override: str) -> bool:
    try:
        OverridesParser.create().parse_override(override)
    except HydraException:
        return False
    return True


def quoted(value: str) -> str:
    """`value` in quotes; backslashes count as such only before a quote."""
    escaped = re.sub(r"(\\*)('|$)", lambda m: m.group(1) * 2 + ("\\'" if m.group(2) else ""), value)
    return f"'{escaped}'"


def _explain(job: str, schema: type, overrides: list[str], error: Exception) -> str:
    causes = [error, error.__cause__, error.__context__]
    text = "\n".join(str(c) for c in causes if c)
    if found := re.search(r"Could not find '([^']+)'.*?Available options in '([^']+)':\s*(.*)", text, re.S):
        group, option = found.group(2), found.group(1).rsplit("/", 1)[-1]
        inner = next((t for t in _alternatives(_type_of(schema, group)) if is_dataclass(t)), None)
        there = options(group, inner if isinstance(inner, type) else None)
        near = difflib.get_close_matches(option, there, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        return f"{group}={option}: no such option{hint}; there are {', '.join(there)}"
    if found := re.search(r"In '([^'/]+)/([^']+)': ConfigKeyError", text):
        option = _given.get(found.group(2), found.group(2))
        return f"{found.group(1)}={option} has keys that {job} does not know: it is for another job"
    if found := re.search(r"Could not override '([^']+)'", text):
        return _unknown_key(job, schema, overrides, found.group(1), text)
    return _sentence(error)


def _unknown_key(job: str, schema: type, overrides: list[str], key: str, text: str) -> str:
    value = next((o.partition("=")[2] for o in overrides if o.partition("=")[0] == key), "")
    if found := re.search(r"(Value .*? could not be converted to \w+|Cannot convert .*|Invalid value .*)", text):
        return f"{key}={value}: {found.group(1)}"
    without = [o for o in overrides if o.partition("=")[0] != key]
    try:
        node: Any = _compose(job, schema, without)
    except InputError:
        return f"{key}: no such key"
    path = key.split(".")
    for depth, name in enumerate(path):
        if not isinstance(node, DictConfig) or name not in node:
            allowed = list(map(str, node)) if isinstance(node, DictConfig) else []
            near = difflib.get_close_matches(name, allowed, n=1)
            hint = f" (did you mean {'.'.join([*path[:depth], near[0]])}?)" if near else ""
            where = f" in {'.'.join(path[:depth])}" if depth else ""
            return f"{key}: no such key{hint}; allowed{where}: {', '.join(sorted(allowed)) or 'nothing below it'}"
        node = node[name] if not OmegaConf.is_missing(node, name) else None
    return f"{key}={value}: {text.splitlines()[0]}"


def _sentence(error: BaseException) -> str:
    cause = error.__cause__ or error
    if found := re.search(r"Missing mandatory value: (\S+)", str(cause)):
        return f"required and not given: {found.group(1)}="
    key = getattr(cause, "full_key", None) or getattr(error, "full_key", None)
    return f"{key}: {first_line(cause)}" if key else first_line(cause)


def plain(config: Any) -> dict[str, Any]:
    """A dataclass configuration as JSON values, for the manifest."""
    container = OmegaConf.to_container(OmegaConf.structured(config), resolve=True)
    assert isinstance(container, dict)
    return {str(k): v for k, v in container.items() if not isinstance(v, DictConfig | ListConfig)}
