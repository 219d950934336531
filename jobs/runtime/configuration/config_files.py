"""Files of `conf/`, and users' files that are used in their place (`rubric=my_rubric.yaml`)."""

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import yaml
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from actors import ROOT
from actors.errors import first_line
from actors.ids import content_id
from jobs.errors import InputError
from jobs.runtime.configuration.config_errors import describe
from jobs.store.files import locations
from jobs.store.files.local_files import path_hint

CONF = ROOT / "conf"
# Hydra reads this line in files, but not in stored configurations: their keys belong to the package, not to the group.
_PACKAGE = re.compile(r"(?:\ufeff?#.*\n)*\ufeff?# @package (\S+)")
T = TypeVar("T")
_user_files: dict[str, str] = {}  # name of an option that a user's file became -> path of the file


def read_named(key: str, name: str, parse: Callable[[Any], T], *, folder: str, noun: str) -> T:
    """Parse the file `name` of a folder of conf/, or the file at a path that ends with .yaml; return the result.

    Args:
        key: the key whose value is `name`, for the message.
        noun: what the file contains.

    Raises:
        InputError: no such file, or `parse` raised an error.
    """
    files = ", ".join(sorted(file.stem for file in (CONF / folder).glob("*.yaml")))
    path = locations.absolute(name) if name.endswith(".yaml") else str(CONF / folder / f"{name}.yaml")
    if not name.endswith(".yaml") and not Path(path).exists():
        raise InputError(f"{key}={name}: no such table of {noun}; must be one of {files}, or your own .yaml file")
    try:
        with locations.named_errors(path):
            content = yaml.safe_load(locations.read_bytes(path))
        return parse(content)
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{key}={name}: not a table of {noun} ({first_line(error)}); must be one of {files}, or a file like those "
            f"of conf/{folder}"
        ) from error


@functools.cache
def groups(job: str) -> Mapping[str, str]:
    """Return the keys of `job` that choose a file of conf/, with the file that they choose by default."""
    file = OmegaConf.to_container(OmegaConf.load(CONF / f"{job}.yaml"))
    assert isinstance(file, dict)
    chosen: dict[str, Any] = {}
    for entry in file["defaults"]:
        chosen |= entry if isinstance(entry, dict) else {}
    return {str(key): "null" if value is None else str(value) for key, value in chosen.items()}


def chosen_options(job: str, overrides: Sequence[str]) -> dict[str, str]:
    """Return the option, or the path of the user's file, that overrides or defaults choose in each group of `job`."""
    chosen = dict(groups(job))
    for override in overrides:
        key, _, value = override.partition("=")
        if key in chosen:
            chosen[key] = value.strip("'\"")
    return chosen


def options(group: str, schema: type | None) -> tuple[str, ...]:
    """Return the files of `group`; unless `schema` is None, only those whose keys it has."""
    files = sorted((CONF / group).glob("*.yaml"))
    if schema is None:
        return tuple(path.stem for path in files)
    allowed = {"defaults", *(field.name for field in fields(schema))}
    return tuple(path.stem for path in files if allowed >= _keys(path, group))


def _keys(path: Path, group: str) -> set[str]:
    """Return the keys of `group` that a file of conf/ has."""
    mapping = _mapping(path.as_posix(), path.read_bytes())
    if _PACKAGE.match(path.read_text("utf-8")):  # the file also has keys of other groups
        mapping = mapping.get(group, {})
    return set(map(str, mapping))


def register_user_files(job: str, overrides: list[str]) -> list[str]:
    """Return `overrides` with each `group=FILE.yaml` replaced by an option of the group with the file's contents.

    Raises:
        InputError: a file cannot be read, or is not a mapping in YAML.
    """
    job_groups = groups(job)
    return [_register(override, job_groups) for override in overrides]


def file_of(option: str) -> str:
    """Return the path of the user's file that became `option`; `option` itself if it is a file of conf/."""
    return _user_files.get(option, option)


def describe_yaml_error(error: yaml.YAMLError, file: str) -> str:
    """Return the file, the line and the problem of a file that is not YAML."""
    mark = getattr(error, "problem_mark", None)
    line = f", line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or str(error)
    if "cannot start any token" in problem:
        problem += "; indent with spaces, not tabs, and quote a value that begins with @ or `"
    return f"{file}{line}: not YAML ({problem})"


def _register(override: str, job_groups: Mapping[str, str]) -> str:
    group, _, value = override.partition("=")
    path = value.strip("'\"")
    if group not in job_groups or not path.endswith(".yaml"):
        return override
    if not locations.is_s3(path) and not Path(path).expanduser().exists():
        raise InputError(f"{group}={path}: does not exist{path_hint(locations.absolute(path))}")
    try:
        with locations.named_errors(path):
            text = locations.read_bytes(locations.absolute(path))
        node = _mapping(path, text)
    except InputError as error:
        raise InputError(f"{group}={error}") from error
    option = f"user_{content_id(path, text.decode('utf-8', 'replace'))}"
    package = _PACKAGE.match(text.decode("utf-8", "replace"))
    ConfigStore.instance().store(group=group, name=option, node=node, package=package[1] if package else None)
    _user_files[option] = path
    return f"{group}={option}"


def _mapping(file: str, text: bytes) -> DictConfig:
    try:
        content = OmegaConf.create(text.decode("utf-8-sig"))
    except yaml.YAMLError as error:
        raise InputError(describe_yaml_error(error, file)) from error
    except (UnicodeDecodeError, OmegaConfBaseException) as error:
        raise InputError(f"{file}: not a configuration ({describe(error)}); it must be a mapping of keys") from error
    if not isinstance(content, DictConfig):
        raise InputError(f"{file}: not a configuration; it must be a mapping of keys")
    return content
