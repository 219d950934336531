"""Files of `conf/`, and users' files that are used in their place (`rubric=my_rubric.yaml`).

The options of a group are the files of a folder of `conf/`, or the entries of one file, by name
(`conf/model.yaml`).
"""

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import yaml

from actors import ROOT
from actors.errors import first_line
from jobs.errors import InputError, shown
from jobs.runtime.configuration.key_types import groups
from jobs.runtime.configuration.key_values import TOO_DEEP, check_depth
from jobs.store.files import locations
from jobs.store.files.local_files import path_hint

CONF = ROOT / "conf"
# In a file's first comments: its keys belong to this package, such as _global_, not to the group.
_PACKAGE = re.compile(r"(?:#.*\n)*# @package (\S+)")
# Words of libyaml's messages -> what to do.
_YAML_REMEDIES = {
    "cannot start any token": "indent with spaces, not tabs, and quote a value that begins with @ or `",
    "mapping values are not allowed": "quote a text with a colon and a space in it, and indent keys of one level alike",
    "expected ',' or ']'": "a [ before this line has no ]",
    "expected ',' or '}'": "a { before this line has no }",
    "unexpected end of stream": "a quote before this line is not closed",
    "expected <block end>": "indent keys of one level alike, and quote a text that begins with a quote or a bracket",
}
_SELF, _DEFAULTS = "_self_", "defaults"
_EXPONENT = re.compile(r"[-+]?(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)[eE][-+]?\d+$")  # PyYAML's need a point and a sign
T = TypeVar("T")
Part = tuple[str, dict[str, Any]]  # the package of a file's keys, and the keys with their values


@functools.cache
def _loader() -> Any:
    """Return a class that reads YAML with libyaml if it is there, refuses duplicate keys and reads no dates."""
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Any:
            names = [name.value for name, _ in node.value if isinstance(name, yaml.ScalarNode)]
            if twice := next((name for name in names if names.count(name) > 1), None):
                place = node.start_mark
                raise yaml.constructor.ConstructorError(None, None, f"found duplicate key {twice}", place)
            return super().construct_mapping(node, deep=deep)

    Loader.yaml_implicit_resolvers = {
        letter: [(tag, regexp) for tag, regexp in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for letter, resolvers in base.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", _EXPONENT, list("-+0123456789."))
    return Loader


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
        raise InputError(
            f"no such table of {noun}; must be one of {files}, or your own .yaml file", key=key, value=name
        )
    try:
        with locations.named_errors(path):
            content = yaml.safe_load(locations.read_bytes(path))
        return parse(content)
    except (yaml.YAMLError, AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise InputError(
            f"not a table of {noun} ({first_line(error)}); must be one of {files}, or a file like those of "
            f"conf/{folder}",
            key=key,
            value=name,
        ) from error


def chosen_options(schema: type, overrides: Sequence[str]) -> dict[str, str | None]:
    """Return the option, or the path of the user's file, that overrides or defaults choose in each group of a job."""
    chosen = dict(groups(schema))
    for override in overrides:
        key, _, value = override.partition("=")
        if key in chosen:
            chosen[key] = None if value == "null" else value.strip("'\"")
    return chosen


def options(group: str, schema: type | None) -> tuple[str, ...]:
    """Return the files of `group`; unless `schema` is None, only those whose keys it has."""
    names = sorted([*(path.stem for path in (CONF / group).glob("*.yaml")), *_table(group)])
    if schema is None:
        return tuple(names)
    allowed = {field.name for field in fields(schema)}
    return tuple(name for name in names if allowed >= _keys_of_group(name, group))


def _keys_of_group(option: str, group: str) -> set[str]:
    """Return the keys of `group` that an option has; its file may also have keys of other groups."""
    return {str(key) for key in own_keys(group, option) if key != _DEFAULTS}


def _table(group: str) -> dict[str, dict[str, Any]]:
    """Return the options of a group that is one file, such as `conf/model.yaml`, with their names; else nothing."""
    file = CONF / f"{group}.yaml"
    entries = _file_part(file, group)[1] if file.is_file() else {}
    return {name: {"name": name, **keys} for name, keys in entries.items()}


def own_keys(group: str, option: str) -> dict[str, Any]:
    """Return the keys that an option of conf/ sets in its group, without those of files that it names."""
    package, mapping = _own_part(option, group)
    return mapping if package == group else mapping.get(group, {})


KINDS = ("rubric", "pipeline", "profile", "resources", "model", "embedder")  # of which users write files


def kinds_of(file: str) -> list[str]:
    """Return the groups with which a user's YAML file shares keys; empty if it cannot be read, or there is none."""
    try:
        package, mapping = _parsed(file, Path(file).expanduser().read_bytes(), "", checks_defaults=False)
    except (InputError, OSError):
        return []
    if package == "_global_":
        return [group for group in KINDS if group in mapping]
    keys = {str(key) for key in mapping} - {_DEFAULTS, "name"}
    allowed = {group: {key for name in options(group, None) for key in own_keys(group, name)} for group in KINDS}
    return [group for group in KINDS if keys & allowed[group]]


def read_option(group: str, option: str) -> tuple[Part, ...]:
    """Return the content of `option`, a file of conf/ or the path of a user's file, and of those that it names.

    Of parts with the same key, the last one counts.

    Raises:
        InputError: the user's file cannot be read, or is not a mapping in YAML.
        FileNotFoundError: conf/ has no such file.
    """
    if not option.endswith(".yaml"):
        if option not in options(group, None):
            raise FileNotFoundError(option)
        return _expanded(group, _own_part(option, group))
    if not locations.is_s3(option) and not Path(option).expanduser().exists():
        raise InputError(f"does not exist{path_hint(locations.absolute(option))}", key=group, value=option)
    try:
        with locations.named_errors(option):
            text = locations.read_bytes(locations.absolute(option))
        return _expanded(group, _parsed(option, text, group))
    except InputError as error:
        raise InputError(f"{group}={error}") from error


def text_of(group: str, option: str) -> str:
    """Return the text of an option's file, which may be the path of a user's; InputError if it cannot be read."""
    path = CONF / (f"{group}.yaml" if option in _table(group) else f"{group}/{option}.yaml")
    uri = locations.absolute(option) if option.endswith(".yaml") else str(path)
    with locations.named_errors(option):
        return locations.read_bytes(uri).decode("utf-8-sig", "replace")


def _own_part(option: str, group: str) -> Part:
    """Return the package and the keys of an option of conf/."""
    if (keys := _table(group).get(option)) is not None:
        return group, keys
    return _file_part(CONF / group / f"{option}.yaml", group)


@functools.cache
def _file_part(path: Path, group: str) -> Part:
    """Return the content of a file of conf/; cached, since a pipeline composes many configurations."""
    return _parsed(path.as_posix(), path.read_bytes(), group)


def _expanded(group: str, part: Part) -> tuple[Part, ...]:
    """Return a file's part after, or among, those of the files of its group that its `defaults` name."""
    package, mapping = part
    named = mapping.get(_DEFAULTS, [_SELF])
    file_part = (package, {key: value for key, value in mapping.items() if key != _DEFAULTS})
    parts: list[Part] = [] if _SELF in named else [file_part]
    for name in named:
        parts += [file_part] if name == _SELF else read_option(group, name)
    return tuple(parts)


def _parsed(file: str, content: bytes, group: str, *, checks_defaults: bool = True) -> Part:
    """Return the package and the keys of the content of a file."""
    try:
        text = content.decode("utf-8-sig")
        mapping = yaml.load(text, Loader=_loader())
        check_depth([mapping])
        if "${" in text:
            check_interpolations(mapping)
    except yaml.YAMLError as error:
        raise InputError(describe_yaml_error(error, file)) from error
    except RecursionError as error:
        raise InputError(f"{file}: {TOO_DEEP}") from error
    except ValueError as error:
        raise InputError(f"{file}: not a configuration ({first_line(error)}); it must be a mapping of keys") from error
    if not isinstance(mapping, dict) and mapping is not None:
        raise InputError(f"{file}: not a configuration; it must be a mapping of keys")
    named = (mapping or {}).get(_DEFAULTS, [])
    are_options = isinstance(named, list) and all(name == _SELF or name in options(group, None) for name in named)
    if checks_defaults and not are_options:
        files = ", ".join((_SELF, *options(group, None)))
        raise InputError(f"{file}: {_DEFAULTS}={shown(named):.200}: must be a list of {files}")
    package = _PACKAGE.match(text)
    return package[1] if package else group, mapping or {}


def check_interpolations(values: Any) -> None:
    """Raise ValueError if a `${` does not begin a reference to a key or a resolver."""
    from omegaconf import OmegaConf  # here, because few configurations have one
    from omegaconf.errors import OmegaConfBaseException

    try:
        OmegaConf.create(values)
    except OmegaConfBaseException as error:
        raise ValueError(first_line(error)) from error


def describe_yaml_error(error: yaml.YAMLError, file: str) -> str:
    """Return the file, the line and the problem of a file that is not YAML."""
    mark = getattr(error, "problem_mark", None)
    line = f", line {mark.line + 1}" if mark else ""
    problem = getattr(error, "problem", None) or str(error)
    problem += next((f"; {remedy}" for words, remedy in _YAML_REMEDIES.items() if words in problem), "")
    return f"{file}{line}: not YAML ({problem})"
