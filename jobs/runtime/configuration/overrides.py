"""`key=value` of the command line, checked against a job's dataclass and written in Hydra's override grammar.

Hydra's grammar gives commas, braces and other characters a meaning. Here values are literal: a path with a comma is a
text, and a list is written `[a,b]`.
"""

import functools
import re
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_origin

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError

from jobs.errors import InputError
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.configuration.key_types import UNKNOWN, alternatives, is_required, type_of

# infinity and not a number as YAML files write them, as a whole value or element; Hydra's grammar has no dot there
_REFERENCE = re.compile(r"\$\{([^${}:]+)(:?)[^{}]*\}")  # to a key, or to a resolver with its arguments
_YAML_NUMBER = re.compile(r"(?<![^\s\[,:])([-+]?)\.(inf|nan)(?![^\s\],}])", re.IGNORECASE)


class UnknownKeyError(ValueError):
    """`key=value` for a `key` that the configuration does not have."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key}: no such key")
        self.key = key


def check(job: str, schema: type, overrides: list[str]) -> None:
    """Check that each override is `key=value`, with a value that the key's type allows.

    A key that does not exist is left to Hydra, whose error names it.

    Raises:
        InputError: names the override and what is allowed.
    """
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key or key.startswith("~"):
            raise InputError(f"{job}: {override!r} is not key=value")
        kind = type_of(schema, key)
        if get_origin(kind) is list and value[:1] != "[":
            raise InputError(f"{job}: {override}: expected a list, as in {key}=[a,b]")
        if is_dataclass(kind) and not (CONF / key).is_dir() and value[:1] != "{" and value != "null":
            raise InputError(f"{job}: {override}: holds several keys; set one of {_keys_below(key, kind)}")
        if value == "null" and is_dataclass(kind):
            raise InputError(f"{job}: {override}: this key cannot be null")
        if not value and set(alternatives(kind)) == {str, type(None)}:  # usually an unset variable of the shell
            raise InputError(f"{job}: {override}: empty value; for no value, use {key}=null")
        if not value and kind is str and is_required(schema, key):
            raise InputError(f"{job}: {override}: empty value; the key is required")


def key_of(override: str) -> str:
    """Return the dotted key of `override`; it may be an unknown option with dashes, which `arguments` passes on."""
    return override.partition("=")[0].lstrip("+").removeprefix("--")


def as_typed(override: str) -> str:
    """Return `override` as it was typed, for a message: an option without a value, such as --verbose, has no `=`."""
    return override.removesuffix("=") if override.startswith("--") else override


def with_unknown_key(schema: type, overrides: list[str]) -> str | None:
    """Return the first of `overrides` whose key `schema` does not have."""
    return next((override for override in overrides if type_of(schema, key_of(override)) is UNKNOWN), None)


def to_hydra(schema: type, override: str) -> str:
    """Return `override` in Hydra's grammar, with the same meaning."""
    key, equals, value = override.partition("=")
    kind = type_of(schema, key.lstrip("+"))
    if kind is Any or float in {kind, *alternatives(kind), *get_args(kind)}:
        value = _YAML_NUMBER.sub(r"\1\2", value)
    return _addable(schema, _quote_if_needed(f"{key}{equals}{value}", kind))


def chooses_file(override: str) -> bool:
    """Return whether `override` chooses a file of conf/, as `rubric=century_labels` does."""
    return (CONF / override.partition("=")[0]).is_dir()


def apply(composed: DictConfig, override: str) -> None:
    """Set a key of `composed` to the value of `override`, which is in Hydra's grammar.

    Raises:
        UnknownKeyError: `composed` does not have the key.
        OmegaConfBaseException: a value of the wrong type.
    """
    parsed = _parse(override)
    key = parsed.key_or_group
    try:
        value = _as_text(composed, parsed.value())
        OmegaConf.update(composed, key, value, merge=True, force_add=parsed.is_force_add())
    except (ConfigAttributeError, ConfigKeyError) as error:
        raise UnknownKeyError(key) from error


def _as_text(composed: DictConfig, value: Any) -> Any:
    """Return `value`, a text in which `${` does not begin a reference to a key or resolver as the text that it is."""
    if not isinstance(value, str) or "${" not in value or _REFERENCE.fullmatch(value):
        return value
    references = _REFERENCE.findall(value)
    if len(references) == value.count("${") and all(_exists(composed, *reference) for reference in references):
        return value
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)


def _exists(composed: DictConfig, name: str, of_resolver: str) -> bool:
    if of_resolver:
        return OmegaConf.has_resolver(name)
    node: Any = OmegaConf.to_container(composed)
    for part in name.split("."):
        if not isinstance(node, dict) or part not in node:
            return False
        node = node[part]
    return True


def _keys_below(key: str, kind: Any) -> str:
    return ", ".join(f"{key}.{field.name}=" for field in fields(kind))


def quoted(value: str) -> str:
    """Return `value` in single quotes; a backslash escapes only before a quote."""
    escaped = re.sub(r"(\\*)('|$)", lambda m: m.group(1) * 2 + ("\\'" if m.group(2) else ""), value)
    return f"'{escaped}'"


def literal(value: Any) -> str:
    """Return a value of a configuration file as the value of an override.

    Raises:
        InputError: a value that no key can have, such as a mapping.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(literal(element) for element in value)}]"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    raise InputError(f"{value!r}: expected text, a number, true, false, null or a list")


def _addable(schema: type, override: str) -> str:
    """Return `override` with `++`, which lets it add a key, if it is below a dict whose keys users name (columns)."""
    path = override.partition("=")[0].lstrip("+").split(".")
    for depth in range(1, len(path) + 1):
        kind = type_of(schema, ".".join(path[:depth]))
        is_group = (CONF / path[0]).is_dir()  # its files define the keys
        is_free = kind is Any and depth < len(path) and not is_group  # a name, a list or a mapping, as columns.texts
        if is_free or (get_origin(kind) is dict and (Any not in get_args(kind) or not is_group)):
            return f"++{override.lstrip('+')}"
    return override


def _quote_if_needed(override: str, kind: Any) -> str:
    key, _, value = override.partition("=")
    kinds = set(alternatives(kind))
    if value[:1] in ("'", '"') and _parses(override):
        return override
    if {bool, str} <= kinds and value.lower() in ("true", "false"):
        return override
    if str in kinds:
        return override if value == "null" and type(None) in kinds else f"{key}={quoted(value)}"
    if get_origin(kind) is list and value[:1] == "[" and value[-1:] == "]" and not _parses(override):
        return f"{key}=[{','.join(quoted(element.strip()) for element in value[1:-1].split(','))}]"
    if not _parses(override) or re.search(r"^[^\[{(]*,", value):
        return f"{key}={quoted(value)}"
    return override


def _parses(override: str) -> bool:
    """Return whether `override` is a single value in Hydra's grammar, which also allows several values (sweeps)."""
    try:
        return not _parse(override).is_sweep_override()
    except HydraException:
        return False


@functools.lru_cache(maxsize=4096)
def _parse(override: str) -> Override:
    """Parse with Hydra's grammar; cached, since this takes milliseconds and a pipeline's steps share most overrides."""
    return OverridesParser.create().parse_override(override)
